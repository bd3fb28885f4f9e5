package route

import (
	"context"
	"strings"

	"perigee"
)

// replaying returns the router of a call: r, or for a replay that names its upstream one that has
// only that, whatever the rules say.
func (r *Router) replaying(origin *perigee.Origin) (*Router, error) {
	name := origin.Replay.Upstream
	if name == "" {
		return r, nil
	}
	target, err := r.target(name)
	if err != nil {
		return nil, err
	}
	opts := r.opts
	opts.Targets, opts.Rules = []Target{target}, nil
	return &Router{opts: opts, patterns: r.patterns}, nil
}

// target returns the upstream of a name. An unknown name is of ClassInvalid, and the error lists
// the names that there are.
func (r *Router) target(name string) (Target, error) {
	var names []string
	for _, t := range r.opts.Targets {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Target{}, perigee.Errorf(perigee.ClassInvalid, "there is no upstream %q", perigee.Clip(name, maxNamed)).
		WithHint("the upstreams are %s", strings.Join(names, ", "))
}

// SendRaw has the upstream that the replay names send a recorded request.
func (r *Router) SendRaw(ctx context.Context, req *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	target, err := r.target(req.Replay.Upstream)
	if err != nil {
		return err
	}
	return perigee.Passthrough{Upstream: target.Upstream}.SendRaw(ctx, req, answer)
}

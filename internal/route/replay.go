package route

import (
	"context"
	"strings"

	"perigee"
)

// replaying returns the router for a call: r, or, for a replay that names its upstream, a router
// with only that upstream and no rules.
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
	return &Router{opts: opts, patterns: r.patterns, upstreams: r.upstreams}, nil
}

// target returns the upstream of a name. For an unknown name the error is of ClassInvalid and lists
// the known names.
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

// SendRaw sends a recorded request through the upstream that the replay names.
func (r *Router) SendRaw(ctx context.Context, req *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	target, err := r.target(req.Replay.Upstream)
	if err != nil {
		return err
	}
	return perigee.Passthrough{Upstream: target.Upstream}.SendRaw(ctx, req, answer)
}

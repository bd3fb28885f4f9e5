package route

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"perigee"
)

// limited returns the router for a call: r, or, for a replay that names its upstream and for a request
// that is pinned to one, a router with only that upstream and the rules that choose a model for it.
// Both have the same lists of models.
func (r *Router) limited(origin *perigee.Origin, pinned string) (*Router, error) {
	name := cmp.Or(origin.Replay.Upstream, pinned)
	if name == "" {
		return r, nil
	}
	target, err := r.target(name)
	if err != nil {
		if name == pinned {
			err = lost(pinned)
		}
		return nil, err
	}
	opts := r.opts
	opts.Targets, opts.Rules = []Target{target}, nil
	for _, rule := range r.opts.Rules {
		if rule.Model != "" && (len(rule.To) == 0 || slices.Contains(rule.To, name)) {
			rule.To = []string{name}
			opts.Rules = append(opts.Rules, rule)
		}
	}
	return &Router{opts: opts, patterns: r.patterns, upstreams: r.upstreams, models: r.models}, nil
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

// lost returns the error about a conversation at an upstream that is not configured any more.
func lost(upstream string) error {
	return &perigee.Error{Class: perigee.ClassInvalid,
		Message: "the response is stored at the upstream " + perigee.Clip(upstream, maxNamed) + ", which is not configured any more",
		Hint:    "send the whole input instead",
		Cause:   &perigee.Fault{Param: "previous_response_id", Code: "previous_response_not_found"}}
}

// resolvePinned is resolveListed for a request that may be pinned to an upstream. A model of another
// upstream is an error: that one does not have the conversation.
func (r *Router) resolvePinned(ctx context.Context, req *perigee.Request) (resolution, error) {
	found, err := r.resolveListed(ctx, req.Model, of(req))
	if err != nil || req.Pinned == "" {
		return found, err
	}
	elsewhere := ""
	switch {
	case found.upstream != "" && found.upstream != req.Pinned:
		elsewhere = "the model is named at " + found.upstream
	case r.models.last(req.Pinned).lacks(found.model) && r.models.has(found.model):
		elsewhere = "only another one lists the model " + perigee.Clip(found.model, maxNamed)
	default:
		return found, nil
	}
	return found, &perigee.Error{Class: perigee.ClassInvalid,
		Message: "the response is stored at the upstream " + perigee.Clip(req.Pinned, maxNamed) + ", and " + elsewhere,
		Hint:    "send the whole input, or name a model of that upstream",
		Cause:   &perigee.Fault{Param: "previous_response_id", Code: "previous_response_not_found"}}
}

// Forwards reports whether the upstream that would be asked first gets the client's own bytes.
func (r *Router) Forwards(ctx context.Context, req *perigee.Request) bool {
	r, err := r.limited(&req.Origin, req.Pinned)
	if err != nil {
		return false
	}
	found, err := r.resolvePinned(ctx, req)
	if err != nil {
		return false
	}
	r.order(ctx, &found)
	return len(found.targets) > 0 && perigee.Passthrough{Upstream: found.targets[0].Upstream}.Forwards(req.WithModel(found.model))
}

// CallResponse sends a request about a stored response to the upstream that stores it. The error is
// of ClassNotFound if there is no such upstream any more.
func (r *Router) CallResponse(ctx context.Context, req *perigee.ResponseCall, answer func(perigee.RawAnswer) error) error {
	target, err := r.target(req.Upstream)
	if err != nil {
		e := *perigee.AsError(err)
		e.Class = perigee.ClassNotFound
		return &e
	}
	return perigee.Passthrough{Upstream: target.Upstream}.CallResponse(ctx, req, answer)
}

// SendRaw sends a recorded request through the upstream that the replay names.
func (r *Router) SendRaw(ctx context.Context, req *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	target, err := r.target(req.Replay.Upstream)
	if err != nil {
		return err
	}
	return perigee.Passthrough{Upstream: target.Upstream}.SendRaw(ctx, req, answer)
}

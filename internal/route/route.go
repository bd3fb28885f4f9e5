// Package route decides who answers: it turns the model that a client names into upstreams to ask, in
// order, and moves on to the next one when the first cannot serve, as long as nothing has been answered
// yet. It is an Upstream around others.
//
// It does not look into requests or answers, and it knows upstreams only by name and ability.
package route

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/names"
)

// A Target is an upstream with the name that the configuration gave it.
type Target struct {
	Name     string
	Upstream perigee.Upstream
}

// A Rule sends the models whose names match to certain upstreams, in order.
type Rule struct {
	Match string
	To    []string
}

// Options say where what goes.
type Options struct {
	Targets []Target // in the default order
	Default string   // the model for requests that name none
	Aliases map[string]string
	Rules   []Rule // the first that matches wins; when none does, all targets are tried in order
	Logger  *slog.Logger
	Now     func() time.Time
}

// A Router is an Upstream that asks others.
type Router struct {
	opts   Options
	models modelCache
}

// New returns a router. The names in rules must be names of targets.
func New(opts Options) (*Router, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	known := map[string]bool{}
	for _, t := range opts.Targets {
		known[t.Name] = true
	}
	for _, rule := range opts.Rules {
		for _, name := range rule.To {
			if !known[name] {
				return nil, fmt.Errorf("route for %s names unknown upstream %s", rule.Match, name)
			}
		}
	}
	return &Router{opts: opts}, nil
}

// Stream asks the upstreams for the model, one after the other, until one answers.
func (r *Router) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		model, targets, err := r.resolve(req.Model)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		req := req.WithModel(model)
		var failed failures
		for i, target := range targets {
			a := attempt{target: target.Name, model: model, yield: yield}
			err := a.run(target.Upstream.Stream(ctx, req))
			if err == nil {
				return
			}
			failed = append(failed, failure{target.Name, err})
			if a.answering || !movesOn(err) || i == len(targets)-1 {
				break
			}
			r.opts.Logger.Warn("trying the next upstream", "call", req.ID, "model", model, "upstream", target.Name,
				"class", perigee.AsError(err).Class, "error", err)
		}
		yield(perigee.Event{}, r.verdict(ctx, req.Model, failed))
	}
}

// An attempt is one upstream's try at a call. What it says before its first content is held back, because
// it would be wrong if another upstream answered in the end.
type attempt struct {
	target    string
	model     string
	held      []perigee.Event
	answering bool // something has reached the caller
	yield     func(perigee.Event, error) bool
}

// run passes the stream on. It returns the stream's error; nil also when the caller went away.
func (a *attempt) run(stream iter.Seq2[perigee.Event, error]) error {
	for ev, err := range stream {
		switch {
		case err != nil:
			return err
		case a.answering:
			if !a.yield(ev, nil) {
				return nil
			}
		case ev.Kind == perigee.EventStart || ev.Kind == perigee.EventNote:
			a.held = append(a.held, ev)
		default:
			a.answering = true
			if !a.release() || !a.yield(ev, nil) {
				return nil
			}
		}
	}
	if !a.answering {
		a.answering = true
		a.release()
	}
	return nil
}

// release hands out what was held back, with a start event that names who answers.
func (a *attempt) release() bool {
	start := perigee.Event{Kind: perigee.EventStart}
	for _, ev := range a.held {
		if ev.Kind == perigee.EventStart {
			start = ev
		}
	}
	start.Upstream = a.target
	if start.Model == "" {
		start.Model = a.model
	}
	if !a.yield(start, nil) {
		return false
	}
	for _, ev := range a.held {
		if ev.Kind != perigee.EventStart && !a.yield(ev, nil) {
			return false
		}
	}
	return true
}

// CountTokens asks the first upstream of the model that can count.
func (r *Router) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	return first(ctx, r, req.Model, "count tokens", func(c perigee.TokenCounter, model string) (*perigee.TokenCount, error) {
		return c.CountTokens(ctx, req.WithModel(model))
	})
}

// Embed asks the first upstream of the model that can embed.
func (r *Router) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	return first(ctx, r, req.Model, "embed", func(e perigee.Embedder, model string) (*perigee.Embeddings, error) {
		return e.Embed(ctx, req.WithModel(model))
	})
}

// first asks the upstreams of a model that have the ability A until one of them answers.
func first[A, R any](ctx context.Context, r *Router, asked, what string, ask func(A, string) (R, error)) (R, error) {
	var none R
	model, targets, err := r.resolve(asked)
	if err != nil {
		return none, err
	}
	var failed failures
	for _, target := range targets {
		able, ok := target.Upstream.(A)
		if !ok {
			continue
		}
		result, err := ask(able, model)
		if err == nil {
			return result, nil
		}
		failed = append(failed, failure{target.Name, err})
		if !movesOn(err) {
			break
		}
	}
	if len(failed) == 0 {
		return none, perigee.Errorf(perigee.ClassUnimplemented, "no upstream for %s can %s", model, what)
	}
	return none, r.verdict(ctx, model, failed)
}

// resolve turns what the client asked for into a model and the upstreams to ask for it.
func (r *Router) resolve(asked string) (string, []Target, error) {
	model := asked
	if model == "" {
		model = r.opts.Default
	}
	if model == "" {
		return "", nil, perigee.Errorf(perigee.ClassInvalid, "the request names no model").
			WithNext("name one, or set models.default in the configuration")
	}
	for range len(r.opts.Aliases) {
		target, ok := r.opts.Aliases[model]
		if !ok {
			break
		}
		model = target
	}
	for _, rule := range r.opts.Rules {
		if names.Match(rule.Match, model) {
			return model, r.named(rule.To), nil
		}
	}
	return model, r.opts.Targets, nil
}

func (r *Router) named(list []string) []Target {
	var targets []Target
	for _, name := range list {
		for _, t := range r.opts.Targets {
			if t.Name == name {
				targets = append(targets, t)
			}
		}
	}
	return targets
}

// movesOn says whether another upstream may do better: not when the request itself is at fault, nor when
// the client does not want an answer any more.
func movesOn(err error) bool {
	switch perigee.AsError(err).Class {
	case perigee.ClassInvalid, perigee.ClassCanceled, perigee.ClassInternal:
		return false
	}
	return true
}

type failure struct {
	upstream string
	err      error
}

type failures []failure

// verdict is the error to report when nobody answered: the first that says more than "I have not got this
// model", since that one can pass; and when nobody has the model, which ones there are.
func (r *Router) verdict(ctx context.Context, model string, failed failures) error {
	for _, f := range failed {
		if e := perigee.AsError(f.err); e.Class != perigee.ClassNotFound {
			return f.err
		}
	}
	if len(failed) == 0 {
		return perigee.Errorf(perigee.ClassUnavailable, "no upstream is configured for %s", model)
	}
	var asked []string
	for _, f := range failed {
		asked = append(asked, f.upstream)
	}
	known := r.known(ctx)
	if slices.Contains(known, model) {
		return failed[0].err // the model is there: something else about the request was not found
	}
	e := perigee.Errorf(perigee.ClassNotFound, "no model %q at %s", shorten(model), strings.Join(asked, ", "))
	e.Upstream, e.Model = failed[0].upstream, model
	if provider, ok := errors.AsType[*perigee.Error](failed[0].err); ok {
		e.Cause, e.Details = provider, provider.Details
	}
	if near := names.Nearest(model, known, 3); len(near) > 0 {
		return e.WithNext("the nearest names are %s", strings.Join(near, ", "))
	}
	return e.WithNext("perigee models lists what there is")
}

func shorten(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

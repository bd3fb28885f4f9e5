// Package route decides who answers: it turns the model that a client names into upstreams to ask, in
// order, and moves on to the next one when the first cannot serve, as long as nothing has been answered
// yet. It is an Upstream around others.
//
// Of a request it changes the model, and how much to think where the model's name says so; it does not look into
// answers, and it knows upstreams only by name and ability.
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

// Stream asks the upstreams for the model, one after the other, until one answers. When none of them has it, what
// took its place is asked.
func (r *Router) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		found, err := r.resolve(req.Model)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		req, note, err := found.request(req)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		model := found.model
		failed, done := r.try(ctx, req, found.targets, note, yield)
		if done {
			return
		}
		if nobodyHasIt(failed) {
			for next := range r.replacements(ctx, found.model) {
				note := perigee.Note{Action: perigee.NoteMapped, Subject: "model " + found.model + " to " + next}
				if req.Object([]perigee.Note{note}) != nil {
					break // not found is the truth
				}
				again, done := r.try(ctx, req.WithModel(next), r.targets(next), &note, yield)
				if done {
					return
				}
				if !nobodyHasIt(again) {
					failed, model = again, next
					break
				}
			}
		}
		if failed.confess(yield) {
			yield(perigee.Event{}, r.verdict(ctx, model, failed))
		}
	}
}

// try asks the targets in order. It is done when one has answered, be it only in part; otherwise it says how they
// failed.
func (r *Router) try(ctx context.Context, req *perigee.Request, targets []Target, note *perigee.Note, yield func(perigee.Event, error) bool) (failed failures, done bool) {
	for i, target := range targets {
		a, err := r.ask(ctx, req, target, note, failed.spent(), yield)
		if a.wentAstray(ctx, err) {
			r.step(req, a, err, "nothing of it has been passed on, so it can be asked for again")
			failed = append(failed, a.failure(err))
			a, err = r.ask(ctx, req, target, note, failed.spent(), yield)
		}
		if err == nil {
			return nil, true
		}
		if a.answering {
			yield(perigee.Event{}, err)
			return nil, true
		}
		failed = append(failed, a.failure(err))
		if !movesOn(err) || i == len(targets)-1 {
			break
		}
		r.step(req, a, err, fmt.Sprintf("upstream %d of %d for %s", i+1, len(targets), req.Model))
		r.opts.Logger.Warn("trying the next upstream", "call", req.ID, "model", req.Model, "upstream", target.Name,
			"class", perigee.AsError(err).Class, "error", err)
	}
	return failed, false
}

// CountTokens asks the first upstream of the model that can count, or of what took its place.
func (r *Router) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	ask := func(c perigee.TokenCounter, model string) (*perigee.TokenCount, error) {
		return c.CountTokens(ctx, req.WithModel(model))
	}
	found, err := r.resolve(req.Model)
	if err != nil {
		return nil, err
	}
	count, err := first(ctx, r, found, "count tokens", ask)
	if err == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
		return count, err
	}
	for next := range r.replacements(ctx, found.model) {
		if count, err := first(ctx, r, resolved{model: next, targets: r.targets(next)}, "count tokens", ask); err == nil {
			return count, nil
		}
	}
	return nil, err
}

// Embed asks the first upstream of the model that can embed. Nothing takes a model's place here: vectors of two models
// cannot be compared.
func (r *Router) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	found, err := r.resolve(req.Model)
	if err != nil {
		return nil, err
	}
	return first(ctx, r, found, "embed", func(e perigee.Embedder, model string) (*perigee.Embeddings, error) {
		return e.Embed(ctx, req.WithModel(model))
	})
}

// first asks the upstreams of a model that have the ability A until one of them answers.
func first[A, R any](ctx context.Context, r *Router, found resolved, what string, ask func(A, string) (R, error)) (R, error) {
	var none R
	var failed failures
	for _, target := range found.targets {
		able, ok := target.Upstream.(A)
		if !ok {
			continue
		}
		result, err := ask(able, found.model)
		if err == nil {
			return result, nil
		}
		failed = append(failed, failure{upstream: target.Name, err: err})
		if !movesOn(err) {
			break
		}
	}
	if len(failed) == 0 {
		return none, perigee.Errorf(perigee.ClassUnimplemented, "no upstream for %s can %s", found.model, what)
	}
	return none, r.verdict(ctx, found.model, failed)
}

// targets are the upstreams to ask for a model, in order.
func (r *Router) targets(model string) []Target {
	for _, rule := range r.opts.Rules {
		if names.Match(rule.Match, model) {
			return r.named(rule.To)
		}
	}
	return r.opts.Targets
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

// nobodyHasIt says whether all that is wrong is that something was not found.
func nobodyHasIt(failed failures) bool {
	return len(failed) > 0 && !slices.ContainsFunc(failed, func(f failure) bool {
		return perigee.AsError(f.err).Class != perigee.ClassNotFound
	})
}

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
	e := perigee.Errorf(perigee.ClassNotFound, "no model %q at %s", perigee.Clip(model, 100), strings.Join(asked, ", "))
	e.Upstream, e.Model = failed[0].upstream, model
	if provider, ok := errors.AsType[*perigee.Error](failed[0].err); ok {
		e.Cause, e.Details = provider, provider.Details
	}
	if near := names.Nearest(model, known, 3); len(near) > 0 {
		return e.WithNext("the nearest names are %s", strings.Join(near, ", "))
	}
	if len(known) > 0 {
		return e.WithNext("there are %s; perigee models lists all", strings.Join(known[:min(3, len(known))], ", "))
	}
	return e.WithNext("perigee models lists what there is")
}

// Package route decides who answers: it turns the model that a client names into upstreams to ask, in
// order, and moves on to the next one when the first cannot serve, as long as nothing has been answered
// yet. It is an Upstream around others.
//
// Of a request it changes the model, and how much to think where the model's name says so; it does not look into
// answers, and it knows upstreams only by name and ability.
package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
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
		req, err := found.request(req)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		model := found.model
		failed, done := r.try(ctx, req, found.targets, nil, yield)
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
		yield(perigee.Event{}, r.verdict(ctx, model, failed))
	}
}

// try asks the targets in order. It is done when one has answered, be it only in part; otherwise it says how they
// failed.
func (r *Router) try(ctx context.Context, req *perigee.Request, targets []Target, note *perigee.Note, yield func(perigee.Event, error) bool) (failed failures, done bool) {
	for i, target := range targets {
		a, err := r.ask(ctx, req, target, note, yield)
		if a.brokeOff(ctx, err) {
			r.step(req, a, err, "answers in one piece can be asked for again")
			a, err = r.ask(ctx, req, target, note, yield)
		}
		if err == nil {
			return nil, true
		}
		if a.answering {
			yield(perigee.Event{}, err)
			return nil, true
		}
		failed = append(failed, failure{target.Name, err})
		if !movesOn(err) || i == len(targets)-1 {
			break
		}
		r.step(req, a, err, fmt.Sprintf("upstream %d of %d for %s", i+1, len(targets), req.Model))
		r.opts.Logger.Warn("trying the next upstream", "call", req.ID, "model", req.Model, "upstream", target.Name,
			"class", perigee.AsError(err).Class, "error", err)
	}
	return failed, false
}

// ask lets one upstream try.
func (r *Router) ask(ctx context.Context, req *perigee.Request, target Target, note *perigee.Note, yield func(perigee.Event, error) bool) (*attempt, error) {
	a := &attempt{target: target.Name, model: req.Model, whole: !req.Stream, began: r.opts.Now(), yield: yield}
	if note != nil {
		a.held = append(a.held, perigee.Event{Kind: perigee.EventNote, Note: note})
	}
	return a, a.run(target.Upstream.Stream(ctx, req))
}

// step keeps for the record that an upstream was asked in vain.
func (r *Router) step(req *perigee.Request, a *attempt, err error, why string) {
	e := perigee.AsError(err)
	req.Steps.Add(perigee.Step{Upstream: a.target, Account: e.Account, Why: why, Class: e.Class, Error: e.Message, Took: r.opts.Now().Sub(a.began)})
}

// An attempt is one upstream's try at a call. What it says before its first content is held back, because it would be wrong if
// another upstream answered in the end; and where the caller wants the answer in one piece, all of it is.
type attempt struct {
	target    string
	model     string
	whole     bool
	began     time.Time
	held      []perigee.Event
	content   bool // something of an answer has come
	answering bool // something has reached the caller
	yield     func(perigee.Event, error) bool
}

// brokeOff says whether the connection was cut halfway through an answer of which the caller has seen nothing yet. That says
// nothing about the next one.
func (a *attempt) brokeOff(ctx context.Context, err error) bool {
	if err == nil || !a.whole || ctx.Err() != nil || perigee.AsError(err).Class != perigee.ClassUnavailable {
		return false
	}
	broken, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.ErrUnexpectedEOF) || ok && a.content && broken.Op == "read"
}

// run passes the stream on. It returns the stream's error; nil also when the caller went away.
func (a *attempt) run(stream iter.Seq2[perigee.Event, error]) error {
	for ev, err := range stream {
		if err != nil {
			return err
		}
		about := ev.Kind == perigee.EventStart || ev.Kind == perigee.EventNote
		a.content = a.content || !about
		switch {
		case a.answering:
			if !a.yield(ev, nil) {
				return nil
			}
		case about || a.whole:
			ev.Frame = bytes.Clone(ev.Frame) // good until the next event only
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
		failed = append(failed, failure{target.Name, err})
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

type failure struct {
	upstream string
	err      error
}

type failures []failure

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

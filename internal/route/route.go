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
	"maps"
	"slices"
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
	// Fallback is the model that answers for names that no upstream has; empty: none does.
	Fallback string
	Aliases  map[string]string // by name or pattern
	Rules    []Rule            // the first that matches wins; when none does, all targets are tried in order
	Logger   *slog.Logger
	Now      func() time.Time
}

// A Router is an Upstream that asks others.
type Router struct {
	opts     Options
	patterns []string // the aliases that are patterns, in the order in which they are tried
	models   modelCache
	absents  absentMemory
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
	patterns := slices.DeleteFunc(slices.Collect(maps.Keys(opts.Aliases)), func(name string) bool { return !names.IsPattern(name) })
	slices.SortFunc(patterns, names.BySpecificity)
	return &Router{opts: opts, patterns: patterns}, nil
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
		if req.Retries == nil {
			req.Retries = new(perigee.RetryBudget) // req is a copy since found.request
		}
		failed := r.remembered(found, req)
		if failed != nil && r.replace(ctx, req, &found, &failed, yield) {
			return
		}
		if nobodyHasIt(failed) || failed == nil {
			r.absents.forget(found.model)
			var done bool
			failed, done = r.try(ctx, req, found.targets, nil, note, yield)
			if done || nobodyHasIt(failed) && r.replace(ctx, req, &found, &failed, yield) {
				return
			}
		}
		yield(perigee.Event{}, failed.charge(r.verdict(ctx, found, &req.Origin, failed)))
	}
}

// replace asks the models that take the place of one that no upstream has, and says whether the call is over. Otherwise failed and
// found are about the last that was asked, if an upstream has it.
func (r *Router) replace(ctx context.Context, req *perigee.Request, found *resolved, failed *failures, yield func(perigee.Event, error) bool) (over bool) {
	for next := range r.replacements(ctx, *found, &req.Origin) {
		note := perigee.Note{Action: perigee.NoteMapped, Subject: "model " + found.model + " to " + next.model}
		if req.Object([]perigee.Note{note}) != nil {
			return false // not found is the truth
		}
		replaced, err := next.replace(req)
		if err != nil {
			yield(perigee.Event{}, err)
			return true
		}
		again, done := r.try(ctx, replaced, next.targets, *failed, &note, yield)
		if done {
			r.absents.add(found.model, r.opts.Now())
			return true
		}
		if !nobodyHasIt(again) {
			*failed, found.model = again, next.model
			return false
		}
	}
	return false
}

// try asks the targets in order, after others have failed before. It is done when one has answered, be it only in part; otherwise
// it says how they failed.
func (r *Router) try(ctx context.Context, req *perigee.Request, targets []Target, before failures, note *perigee.Note, yield func(perigee.Event, error) bool) (failed failures, done bool) {
	before.tell(req.Steps)
	for i, target := range targets {
		a, err := r.ask(ctx, req, target, note, failed.spent(), yield)
		if a.wentAstray(ctx, err) && req.Retries.Take() {
			failed = append(failed, r.ended(req, a, err, "nothing of it has been passed on, so it can be asked for again"))
			failed.tell(req.Steps)
			a, err = r.ask(ctx, req, target, note, failed.spent(), yield)
		}
		if err == nil || a.answering {
			if len(before)+len(failed) > 0 {
				failures{r.ended(req, a, err, place(i, len(targets), req.Model))}.tell(req.Steps)
			}
			if err != nil {
				yield(perigee.Event{}, err)
			}
			return nil, true
		}
		failed = append(failed, r.ended(req, a, err, place(i, len(targets), req.Model)))
		last := !movesOn(err) || i == len(targets)-1 || ctx.Err() != nil ||
			errors.Is(err, perigee.ErrNoAnswer) && !req.Retries.Take() // another upstream would generate it once more
		if !last || len(before)+len(failed) > 1 { // the only one is what the call says itself
			failed.tell(req.Steps)
		}
		if last {
			break
		}
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
	absent := r.remembered(found, req)
	if absent == nil {
		absent, _ = r.absent(ctx, found)
	}
	if absent != nil {
		err = r.verdict(ctx, found, &req.Origin, absent) // some upstreams would count without looking at the model
	} else {
		count, failed := first(ctx, r, &req.Origin, found, "count tokens", ask)
		if failed == nil || perigee.AsError(failed).Class != perigee.ClassNotFound {
			return count, failed
		}
		err = failed
	}
	for next := range r.replacements(ctx, found, &req.Origin) {
		if count, err := first(ctx, r, &req.Origin, next, "count tokens", ask); err == nil {
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
	found.embeds = true
	return first(ctx, r, &req.Origin, found, "embed", func(e perigee.Embedder, model string) (*perigee.Embeddings, error) {
		return e.Embed(ctx, req.WithModel(model))
	})
}

// first asks the upstreams of a model that have the ability A until one of them answers.
func first[A, R any](ctx context.Context, r *Router, origin *perigee.Origin, found resolved, what string, ask func(A, string) (R, error)) (R, error) {
	var none R
	var failed failures
	for i, target := range found.targets {
		able, ok := target.Upstream.(A)
		if !ok {
			continue
		}
		failed.tell(origin.Steps)
		began, steps := r.opts.Now(), origin.Steps.Len()
		result, err := ask(able, found.model)
		if err == nil && len(failed) == 0 {
			return result, nil
		}
		f := failure{upstream: target.Name, err: err, why: place(i, len(found.targets), found.model), took: r.opts.Now().Sub(began)}
		f.told = origin.Steps.Len() > steps
		if err != nil {
			f.usage = perigee.AsError(err).Usage
		}
		if failed = append(failed, f); len(failed) > 1 {
			failed.tell(origin.Steps)
		}
		if err == nil {
			return result, nil
		}
		if !movesOn(err) {
			break
		}
	}
	if len(failed) == 0 {
		return none, perigee.Errorf(perigee.ClassUnimplemented, "no upstream for %s can %s", found.model, what)
	}
	return none, failed.charge(r.verdict(ctx, found, origin, failed))
}

// place is why an upstream is asked: where it stands among those for the model.
func place(i, of int, model string) string {
	return fmt.Sprintf("upstream %d of %d for %s", i+1, of, perigee.Clip(model, maxNamed))
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
// the client does not want an answer any more, nor when perigee has no memory for it.
func movesOn(err error) bool {
	if errors.Is(err, perigee.ErrNoMemory) {
		return false
	}
	switch perigee.AsError(err).Class {
	case perigee.ClassInvalid, perigee.ClassCanceled, perigee.ClassInternal:
		return false
	}
	return true
}

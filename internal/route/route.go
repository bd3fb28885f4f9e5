package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"perigee"
	"perigee/internal/lib/match"
)

// A Target is an upstream with the name that the configuration gave it.
type Target struct {
	Name     string
	Upstream perigee.Upstream
}

// Options are the upstreams and the rules by which models are routed to them.
type Options struct {
	Targets []Target // in the default order
	Default string   // the model for requests that do not name one
	// Fallback is the model that answers for names that no upstream has; empty if there is none.
	Fallback string
	Aliases  map[string]string // by name or pattern
	Rules    []Rule            // the first match applies; without one, all targets do
	// Offered are patterns for the models that an upstream offers, by its name. An upstream that has
	// none offers all of its models.
	Offered map[string][]string
	// Own are the names of upstreams that have models of their own, which are not in the table of
	// models.
	Own    map[string]bool
	Base   context.Context // requests for lists of models end with it; nil means context.Background
	Logger *slog.Logger
	Now    func() time.Time
}

// A Router is an Upstream that routes calls to other upstreams.
type Router struct {
	opts      Options
	patterns  []string // the aliases that are patterns, in the order in which they are tried
	upstreams []string // the names of all upstreams, longer ones first
	models    *modelCache
	absents   absentMemory
}

// New returns a router. The names in rules must be names of targets.
func New(opts Options) (*Router, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Base == nil {
		opts.Base = context.Background()
	}
	known := map[string]bool{}
	var names []string
	for _, t := range opts.Targets {
		known[t.Name] = true
		names = append(names, t.Name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, rule := range opts.Rules {
		for _, name := range rule.To {
			if !known[name] {
				return nil, fmt.Errorf("route for %s names unknown upstream %s", rule.Match, name)
			}
		}
	}
	patterns := slices.DeleteFunc(slices.Collect(maps.Keys(opts.Aliases)), func(name string) bool { return !match.IsPattern(name) })
	slices.SortFunc(patterns, match.BySpecificity)
	return &Router{opts: opts, patterns: patterns, upstreams: names, models: new(modelCache)}, nil
}

// Stream asks the upstreams for the model, one after the other, until one answers. When none of
// them has the model, its replacements are tried.
func (r *Router) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		r, err := r.limited(&req.Origin, req.Pinned)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		found, err := r.resolvePinned(ctx, req)
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
			req.Retries = new(perigee.RetryBudget) // req is a copy made by found.request
		}
		c := call{router: r, req: req, note: note, yield: yield}
		r.order(ctx, &found)
		failed := r.recentlyMissing(found, req)
		if failed != nil && c.replace(ctx, &found, &failed) {
			return
		}
		if allMissing(failed) || failed == nil {
			r.absents.forget(found.key())
			var done bool
			if failed, done = c.try(ctx, found.targets, nil); done {
				return
			}
			if r.markMissing(ctx, found, failed); allMissing(failed) && c.replace(ctx, &found, &failed) {
				return
			}
		}
		yield(perigee.Event{}, failed.charge(r.failure(ctx, found, &req.Origin, failed)))
	}
}

// A call is a request for one model while its upstreams are tried.
type call struct {
	router *Router
	req    *perigee.Request
	note   *perigee.Note // the note for the client about the model; may be nil
	yield  func(perigee.Event, error) bool
}

// replace tries the replacements of a model that no upstream has, and reports whether the call is
// over. Otherwise failed and found are about the last replacement that an upstream has, if any.
func (c *call) replace(ctx context.Context, found *resolution, failed *failures) (over bool) {
	r := c.router
	for next := range r.replacements(ctx, *found, &c.req.Origin) {
		note := &perigee.Note{Action: perigee.NoteMapped, Subject: "model " + found.model + " to " + next.model}
		same := next.thinksByDefault() && !next.fallback // it is the model of the name
		if !same && c.req.RefuseIfStrict([]perigee.Note{*note}) != nil {
			return false // the model really was not found
		}
		replaced, added, err := next.request(c.req)
		if err != nil {
			c.yield(perigee.Event{}, err)
			return true
		}
		if same {
			note = added
		}
		again, done := (&call{r, replaced, note, c.yield}).try(ctx, next.targets, *failed)
		if done {
			r.absents.add(found.key(), r.opts.Now())
			return true
		}
		if !allMissing(again) {
			*failed, found.model = again, next.model
			return false
		}
	}
	return false
}

// try asks the targets in order; before are earlier failures of the call. done is true if one has
// answered, even in part; otherwise try returns the failures.
func (c *call) try(ctx context.Context, targets []Target, before failures) (failed failures, done bool) {
	r, req := c.router, c.req
	before.recordAttempts(req.Log)
	for i, target := range targets {
		a, err := c.ask(ctx, target, failed.spent())
		if a.retryable(ctx, err) && req.Retries.Take() {
			failed = append(failed, a.ended(err, "retried: nothing was passed on yet"))
			failed.recordAttempts(req.Log)
			a, err = c.ask(ctx, target, failed.spent())
		}
		if err == nil || a.answering {
			if len(before)+len(failed) > 0 {
				failures{a.ended(err, place(i, len(targets), req.Model))}.recordAttempts(req.Log)
			}
			if err != nil {
				c.yield(perigee.Event{}, err)
			}
			return nil, true
		}
		failed = append(failed, a.ended(err, place(i, len(targets), req.Model)))
		last := !canFailOver(err) || i == len(targets)-1 || ctx.Err() != nil ||
			errors.Is(err, perigee.ErrNoAnswer) && !req.Retries.Take() // of another answer
		// A single attempt is already described by the fields of the call.
		if !last || len(before)+len(failed) > 1 {
			failed.recordAttempts(req.Log)
		}
		if last {
			break
		}
		r.opts.Logger.Warn("trying the next upstream", "call", req.ID, "model", req.Model, "upstream", target.Name,
			"class", perigee.AsError(err).Class, "error", err)
	}
	return failed, false
}

// CountTokens asks the first upstream of the model, or of a replacement, that can count.
func (r *Router) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	r, err := r.limited(&req.Origin, req.Pinned)
	if err != nil {
		return nil, err
	}
	q := query[perigee.TokenCounter, *perigee.TokenCount]{router: r, origin: &req.Origin, what: "count tokens",
		ask: func(c perigee.TokenCounter, target Target, model string) (*perigee.TokenCount, error) {
			ready, err := target.request(req.WithModel(model))
			if err != nil {
				return nil, err
			}
			return c.CountTokens(ctx, ready)
		}}
	found, err := r.resolvePinned(ctx, req)
	if err != nil {
		return nil, err
	}
	r.order(ctx, &found)
	absent := r.recentlyMissing(found, req)
	if absent == nil {
		absent, _ = r.absent(ctx, found)
	}
	if absent != nil {
		// Some upstreams count without checking the model.
		err = r.failure(ctx, found, &req.Origin, absent)
	} else {
		count, failed := q.first(ctx, found)
		if failed == nil || perigee.AsError(failed).Class != perigee.ClassNotFound {
			return count, failed
		}
		err = failed
	}
	for next := range r.replacements(ctx, found, &req.Origin) {
		if count, err := q.first(ctx, next); err == nil {
			return count, nil
		}
	}
	return nil, err
}

// Embed asks the first upstream of the model that can embed. There are no replacements: vectors of
// two models cannot be compared.
func (r *Router) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	r, err := r.limited(&req.Origin, "")
	if err != nil {
		return nil, err
	}
	found, err := r.resolve(req.Model, ofEmbedding(&req.Origin))
	if err != nil {
		return nil, err
	}
	found.embeds = true
	r.order(ctx, &found)
	q := query[perigee.Embedder, *perigee.Embeddings]{router: r, origin: &req.Origin, what: "embed",
		ask: func(e perigee.Embedder, _ Target, model string) (*perigee.Embeddings, error) {
			return e.Embed(ctx, req.WithModel(model))
		}}
	return q.first(ctx, found)
}

// A query is a request that an upstream with the ability A answers with one R.
type query[A, R any] struct {
	router *Router
	origin *perigee.Origin
	what   string // the operation, for error messages
	ask    func(able A, target Target, model string) (R, error)
}

// first asks the upstreams of a model that have the ability until one of them answers. An error about
// the request ends the search, and is the result: unlike the errors before it, it is not temporary.
func (q query[A, R]) first(ctx context.Context, found resolution) (R, error) {
	r, origin := q.router, q.origin
	var none R
	var failed failures
	for i, target := range found.targets {
		able, ok := target.Upstream.(A)
		if !ok {
			continue
		}
		failed.recordAttempts(origin.Log)
		began, steps := r.opts.Now(), len(origin.Log.Attempts())
		origin.Log.BeginAttempt()
		result, err := q.ask(able, target, found.model)
		origin.Log.EndAttempt(err == nil)
		if err == nil && len(failed) == 0 {
			return result, nil
		}
		f := failure{upstream: target.Name, err: err, why: place(i, len(found.targets), found.model), took: r.opts.Now().Sub(began)}
		f.recorded = len(origin.Log.Attempts()) > steps
		if err != nil {
			f.usage = perigee.AsError(err).Usage
		}
		if failed = append(failed, f); len(failed) > 1 {
			failed.recordAttempts(origin.Log)
		}
		if err == nil {
			return result, nil
		}
		if perigee.AsError(err).Class == perigee.ClassInvalid {
			return none, failed.charge(err)
		}
		if !canFailOver(err) {
			break
		}
	}
	if len(failed) == 0 {
		return none, perigee.Errorf(perigee.ClassUnimplemented, "no upstream for %s can %s", found.model, q.what)
	}
	return none, failed.charge(r.failure(ctx, found, origin, failed))
}

// place returns the reason why an upstream is asked: its position among the upstreams of the model.
func place(i, of int, model string) string {
	return fmt.Sprintf("upstream %d of %d for %s", i+1, of, perigee.Clip(model, maxNamed))
}

// named returns the targets with these names, in the order of the names.
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

// canFailOver reports whether another upstream may answer: not if the error is about the request,
// the client has canceled, or limits.memory is used up.
func canFailOver(err error) bool {
	if errors.Is(err, perigee.ErrNoMemory) {
		return false
	}
	switch perigee.AsError(err).Class {
	case perigee.ClassInvalid, perigee.ClassCanceled, perigee.ClassInternal:
		return false
	}
	return true
}

package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/match"
)

// Bounds of an error message: of a model's name, and of the messages of the upstreams after the
// first.
const (
	maxNamed = 100
	maxWords = 200
	maxRest  = 3 // upstreams after the first
)

// A failure is a failed attempt. Its error is nil for the attempt that answered, which is kept for
// the record.
type failure struct {
	upstream string
	err      error
	account  string        // the account that had begun to answer; empty if there is none
	usage    perigee.Usage // of the attempt
	unread   bool          // the request itself could not be decoded

	why      string // why the upstream was asked
	took     time.Duration
	recorded bool // the attempt is in the record already
}

type failures []failure

// spent returns the usage of all failures.
func (list failures) spent() (total perigee.Usage) {
	for _, f := range list {
		total = total.Plus(f.usage)
	}
	return total
}

// recordAttempts adds the failures to the record of the call, except for failures that the upstream
// has recorded itself.
func (list failures) recordAttempts(log *perigee.CallLog) {
	for i := range list {
		f := &list[i]
		if f.recorded {
			continue
		}
		f.recorded = true
		step := perigee.Attempt{Upstream: f.upstream, Why: f.why, Took: f.took}
		if e := perigee.AsError(f.err); e != nil {
			step.Account, step.Class, step.Error = e.Account, e.Class, e.Message
		}
		log.AddAttempt(step)
	}
}

// charge returns the error that a call ends with, with the usage of its attempts and the last
// account that had begun to answer.
func (list failures) charge(err error) error {
	e := *perigee.AsError(err)
	e.Cause, e.Usage = err, list.spent()
	for _, f := range list {
		e.Account = cmp.Or(f.account, e.Account)
	}
	return &e
}

// failure returns the error of a call that no upstream answered: the first error that is not about
// a missing model, because it may be temporary, with a summary of the rest. If no upstream has the
// model, the error lists the models that exist.
func (r *Router) failure(ctx context.Context, found resolution, origin *perigee.Origin, failed failures) error {
	if len(failed) == 0 {
		return perigee.Errorf(perigee.ClassUnavailable, "no upstream is configured for %s", found.model)
	}
	last := failed[len(failed)-1]
	if e := *perigee.AsError(last.err); e.Class == perigee.ClassCanceled { // whatever was tried before
		e.Cause, e.Upstream = last.err, last.upstream
		return &e
	}
	if able := slices.DeleteFunc(slices.Clone(failed), isUnable); allMissing(able) {
		failed = able // the rest cannot answer such requests for any model
	}
	if trouble := slices.DeleteFunc(slices.Clone(failed), isMissing); len(trouble) > 0 {
		if slices.ContainsFunc(trouble, func(f failure) bool { return !f.unread }) {
			return trouble.combined()
		}
		// It may be the model that is wrong, and not the request, which another upstream could read.
		return failed.combined()
	}
	var asked []string
	for _, f := range failed {
		asked = append(asked, f.upstream)
	}
	for _, t := range found.unasked {
		asked = append(asked, t.Name)
	}
	if len(found.unasked) > 0 { // then there is no rule, and the order is the configuration's
		place := func(name string) int {
			return slices.IndexFunc(r.opts.Targets, func(t Target) bool { return t.Name == name })
		}
		slices.SortFunc(asked, func(a, b string) int { return place(a) - place(b) })
	}
	known := r.known(ctx, found.upstream)
	if slices.Contains(known, found.model) {
		return failed[0].err // the model exists: something else in the request was not found
	}
	for _, t := range found.unasked {
		if r.listing(t, found.model) == hanging {
			name := perigee.Clip(found.model, maxNamed)
			e := perigee.Errorf(perigee.ClassUnavailable, "upstream %s does not answer, and may have the model %q; no other upstream has it", t.Name, name)
			e.Upstream, e.Model = t.Name, found.model
			return e.WithHint("try again, or ask for %s/%s, which waits for it", t.Name, name)
		}
	}
	e := perigee.Errorf(perigee.ClassNotFound, "no model %q%s at %s", perigee.Clip(found.model, maxNamed), found.origin(), strings.Join(asked, ", "))
	if without := slices.DeleteFunc(asked, func(name string) bool { return r.offers(name, found.model) }); len(without) > 0 {
		e.Message += fmt.Sprintf(": models of %s in the configuration leaves it out", strings.Join(without, " and of "))
	}
	e.Upstream, e.Model = failed[0].upstream, found.model
	if provider, ok := errors.AsType[*perigee.Error](failed[0].err); ok {
		e.Cause, e.Details = provider, provider.Details
		if len(failed)+len(found.unasked) == 1 {
			e.Raw = provider.Raw
		}
	}
	known = slices.DeleteFunc(known, func(name string) bool {
		return !slices.ContainsFunc(r.names(name), origin.Allows) || found.embeds && !strings.Contains(name, "embed")
	})
	return e.WithHint("%s", strings.Join(append(failed.hints(), r.advice(found, known)), "; "))
}

// hints returns what the providers that lack a model advise, such as a command that downloads it.
func (list failures) hints() (hints []string) {
	for _, f := range list {
		if e := perigee.AsError(f.err); e.Status == http.StatusNotFound && e.Hint != "" && !slices.Contains(hints, e.Hint) {
			hints = append(hints, e.Hint)
		}
	}
	return hints
}

// advice returns a hint with a model to use instead of one that no upstream has. Some clients send
// a name of their own instead of the configured one; only an alias helps there.
func (r *Router) advice(found resolution, known []string) string {
	near, nearest := match.Nearest(found.model, known, 3), ""
	parts := []string{"perigee models lists the available models"}
	switch {
	case len(near) > 0:
		nearest = near[0]
		parts[0] = "the nearest names are " + strings.Join(near, ", ")
	case len(known) > 0:
		parts[0] = "available models include " + strings.Join(known[:min(3, len(known))], ", ") + "; perigee models lists all"
	}
	usual := r.opts.Default
	if !slices.Contains(known, usual) || found.asked == "" {
		usual = ""
	}
	if usual != "" && !slices.Contains(near, usual) {
		parts = append(parts, "the default is "+usual)
	}
	if found.aliased || found.asked == "" || nearest != "" && match.SameNumbers(nearest, found.model) {
		return strings.Join(parts, "; ") // a typing error, in the configuration or in the client
	}
	if instead := cmp.Or(nearest, usual); instead != "" {
		parts = append(parts, fmt.Sprintf("if the client chose this name itself, add %s: %s to models.aliases in perigee's configuration",
			perigee.Clip(found.model, maxNamed), instead))
	} else if found.upstream == "" {
		parts = append(parts, "if the client chose this name itself, set models.aliases or models.fallback in perigee's configuration")
	}
	return strings.Join(parts, "; ")
}

// isMissing reports whether a failure is only that the upstream did not find something.
func isMissing(f failure) bool {
	return !f.unread && perigee.AsError(f.err).Class == perigee.ClassNotFound
}

// isUnable reports whether a failure is that the upstream does not answer requests of that sort.
func isUnable(f failure) bool { return perigee.AsError(f.err).Class == perigee.ClassUnimplemented }

// allMissing reports whether isMissing is true for all failures.
func allMissing(failed failures) bool {
	return len(failed) > 0 && !slices.ContainsFunc(failed, func(f failure) bool { return !isMissing(f) })
}

// markMissing replaces the errors of upstreams that did not ask their provider because no account
// is usable, if their lists of models do not have this one: waiting for an account would not help.
// Errors about names in the table of models stay, because providers do not list all their models.
func (r *Router) markMissing(ctx context.Context, found resolution, failed failures) {
	if _, ok := models.Lookup(found.model); ok {
		return
	}
	for i, f := range failed {
		if !errors.Is(f.err, perigee.ErrNotAsked) {
			continue
		}
		for _, target := range r.named([]string{f.upstream}) {
			if r.listOf(ctx, target, modelsWait).lacks(found.model) {
				failed[i].err = perigee.Errorf(perigee.ClassNotFound, "no model %q", found.model)
			}
		}
	}
}

// soonest returns the error with the earliest retry: the first error, or, if that is a limit, the
// limit that ends first.
func (list failures) soonest() error {
	soonest := list[0].err
	for _, f := range list {
		if first, e := perigee.AsError(soonest), perigee.AsError(f.err); isLimit(first) && isLimit(e) && e.Retry < first.Retry {
			soonest = f.err
		}
	}
	return soonest
}

// isLimit reports whether an error is about a limit that ends at a known time.
func isLimit(e *perigee.Error) bool {
	return (e.Class == perigee.ClassExhausted || e.Class == perigee.ClassRateLimited) && e.Retry > 0
}

// combined returns the error of soonest with the messages of all upstreams, in their order.
func (list failures) combined() error {
	first := list[0]
	var rest []failure // each upstream once, with its last message
	for _, f := range list[1:] {
		rest = slices.DeleteFunc(rest, func(o failure) bool { return o.upstream == f.upstream })
		if f.upstream != first.upstream {
			rest = append(rest, f)
		}
	}
	if len(rest) == 0 {
		return first.err
	}
	said, soonest := perigee.AsError(first.err), list.soonest()
	e := *perigee.AsError(soonest)
	e.Cause, e.Message, e.Public = soonest, said.Message, said.Public
	if !strings.HasPrefix(e.Message, "upstream "+first.upstream) {
		e.Message = first.upstream + ": " + e.Message
	}
	var after strings.Builder
	for _, f := range rest[:min(len(rest), maxRest)] {
		fmt.Fprintf(&after, "; then %s: %s", f.upstream, f.message())
	}
	if more := len(rest) - maxRest; more > 0 {
		fmt.Fprintf(&after, "; and %d more", more)
	}
	e.Message = strings.TrimRight(e.Message, ".") + after.String()
	if e.Public != "" {
		e.Public = strings.TrimRight(e.Public, ".") + after.String()
	}
	return &e
}

// message returns the message of an upstream for clients, without its name.
func (f failure) message() string {
	e := perigee.AsError(f.err)
	text := e.Message
	if e.Public != "" {
		text = e.Public
	}
	text = strings.TrimPrefix(text, "upstream "+f.upstream)
	return perigee.Clip(strings.TrimRight(strings.TrimLeft(text, ": "), "."), maxWords)
}

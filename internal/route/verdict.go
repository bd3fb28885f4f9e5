package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/names"
)

// How much is repeated in an error: a name that a client or the configuration chose, and what each upstream after the first
// said.
const (
	maxNamed  = 100
	maxWords  = 200
	maxOthers = 3 // upstreams after the first
)

// A failure is an attempt that came to nothing; for the record also the one that was answered in the end, without an error.
type failure struct {
	upstream string
	err      error
	account  string        // that had begun to answer; empty: none
	usage    perigee.Usage // what that cost all the same

	why  string // it was asked
	took time.Duration
	told bool // it is on record
}

type failures []failure

// spent is what all of them cost.
func (list failures) spent() (total perigee.Usage) {
	for _, f := range list {
		total = total.Plus(f.usage)
	}
	return total
}

// tell keeps them for the record, but for those who are there already because the upstream has said more itself.
func (list failures) tell(steps *perigee.Steps) {
	for i := range list {
		f := &list[i]
		if f.told {
			continue
		}
		f.told = true
		step := perigee.Step{Upstream: f.upstream, Why: f.why, Took: f.took}
		if e := perigee.AsError(f.err); e != nil {
			step.Account, step.Class, step.Error = e.Account, e.Class, e.Message
		}
		steps.Add(step)
	}
}

// charge returns the error that a call ends with, with what its attempts have cost and the last account that had begun to answer.
func (list failures) charge(err error) error {
	e := *perigee.AsError(err)
	e.Cause, e.Usage = err, list.spent()
	for _, f := range list {
		e.Account = cmp.Or(f.account, e.Account)
	}
	return &e
}

// verdict is the error to report when nobody answered: the first that says more than "I have not got this
// model", since that one can pass, with a word of the others; and when nobody has the model, which ones there are.
func (r *Router) verdict(ctx context.Context, found resolved, origin *perigee.Origin, failed failures) error {
	if len(failed) == 0 {
		return perigee.Errorf(perigee.ClassUnavailable, "no upstream is configured for %s", found.model)
	}
	if trouble := slices.DeleteFunc(slices.Clone(failed), isMissing); len(trouble) > 0 {
		return trouble.together()
	}
	var asked []string
	for _, f := range failed {
		asked = append(asked, f.upstream)
	}
	known := r.known(ctx)
	if slices.Contains(known, found.model) {
		return failed[0].err // the model is there: something else about the request was not found
	}
	e := perigee.Errorf(perigee.ClassNotFound, "no model %q%s at %s", perigee.Clip(found.model, maxNamed), found.origin(), strings.Join(asked, ", "))
	e.Upstream, e.Model = failed[0].upstream, found.model
	if provider, ok := errors.AsType[*perigee.Error](failed[0].err); ok {
		e.Cause, e.Details = provider, provider.Details
	}
	known = slices.DeleteFunc(known, func(name string) bool {
		return !origin.Allows(name) && !origin.Allows(r.Model(name)) || found.embeds && !strings.Contains(name, "embed")
	})
	return e.WithNext("%s", r.advice(found, known))
}

// advice says which model to ask for instead of one that no upstream has. Some clients do not send the name that they were
// given but one of their own choice; only an alias helps there.
func (r *Router) advice(found resolved, known []string) string {
	near, nearest := names.Nearest(found.model, known, 3), ""
	parts := []string{"perigee models lists what there is"}
	switch {
	case len(near) > 0:
		nearest = near[0]
		parts[0] = "the nearest names are " + strings.Join(near, ", ")
	case len(known) > 0:
		parts[0] = "there are " + strings.Join(known[:min(3, len(known))], ", ") + "; perigee models lists all"
	}
	usual := r.opts.Default
	if !slices.Contains(known, usual) || found.asked == "" {
		usual = ""
	}
	if usual != "" && !slices.Contains(near, usual) {
		parts = append(parts, "the default is "+usual)
	}
	if found.aliased || found.asked == "" || nearest != "" && names.SameNumbers(nearest, found.model) {
		return strings.Join(parts, "; ") // a typing error, in the configuration or in the client
	}
	if instead := cmp.Or(nearest, usual); instead != "" {
		parts = append(parts, fmt.Sprintf("if the client chose this name itself, add %s: %s to models.aliases in perigee's configuration",
			perigee.Clip(found.model, maxNamed), instead))
	} else {
		parts = append(parts, "if the client chose this name itself, set models.aliases or models.fallback in perigee's configuration")
	}
	return strings.Join(parts, "; ")
}

// isMissing says whether all that is wrong is that something was not found.
func isMissing(f failure) bool { return perigee.AsError(f.err).Class == perigee.ClassNotFound }

// nobodyHasIt says whether that is so for all of them.
func nobodyHasIt(failed failures) bool {
	return len(failed) > 0 && !slices.ContainsFunc(failed, func(f failure) bool { return !isMissing(f) })
}

// together is the first error, and in a few words what the other upstreams said after it.
func (list failures) together() error {
	first := list[0]
	var others []failure // each upstream once, with what it said last
	for _, f := range list[1:] {
		others = slices.DeleteFunc(others, func(o failure) bool { return o.upstream == f.upstream })
		if f.upstream != first.upstream {
			others = append(others, f)
		}
	}
	if len(others) == 0 {
		return first.err
	}
	e := *perigee.AsError(first.err)
	e.Cause = first.err
	if !strings.HasPrefix(e.Message, "upstream "+first.upstream) {
		e.Message = first.upstream + ": " + e.Message
	}
	var after strings.Builder
	for _, f := range others[:min(len(others), maxOthers)] {
		fmt.Fprintf(&after, "; then %s: %s", f.upstream, f.words())
	}
	if more := len(others) - maxOthers; more > 0 {
		fmt.Fprintf(&after, "; and %d more", more)
	}
	e.Message = strings.TrimRight(e.Message, ".") + after.String()
	if e.Ours != "" {
		e.Ours = strings.TrimRight(e.Ours, ".") + after.String()
	}
	return &e
}

// words are what an upstream said, for clients, without its name.
func (f failure) words() string {
	e := perigee.AsError(f.err)
	text := e.Message
	if e.Ours != "" {
		text = e.Ours
	}
	text = strings.TrimPrefix(text, "upstream "+f.upstream)
	return perigee.Clip(strings.TrimRight(strings.TrimLeft(text, ": "), "."), maxWords)
}

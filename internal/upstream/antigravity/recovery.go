package antigravity

import (
	"maps"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/providererr"
)

// A recovery repairs requests that the provider refuses. Each call is repaired once; tools with
// schemas that the provider refuses may be left out one by one, up to maxDropped.
type recovery struct {
	call     *call
	prompt   *perigee.Prompt
	options  adapt.AntigravityOptions
	repaired bool
	dropped  []*perigee.Function // tools that are left out
	guesses  []*perigee.Function // tools that were left out as a guess, one at a time
	guessed  bool                // the last of dropped is a guess
}

// repairs maps each kind of refusal to its repair.
var repairs = map[providererr.Kind]adapt.Repair{
	providererr.KindToolPairing:      adapt.RepairPairing,
	providererr.KindThinkingOrder:    adapt.RepairThinkingOrder,
	providererr.KindBadSignature:     adapt.RepairSignatures,
	providererr.KindThinkingDisabled: adapt.RepairThinkingOff,
	providererr.KindThinkingBudget:   adapt.RepairThinkingOff,
	providererr.KindSchemaKeyword:    adapt.RepairSchemas,
}

// maxDropped is the maximum number of tools of a call that are left out.
const maxDropped = 3

// repair changes the options so that the request may be accepted, and reports whether it found a
// way.
func (r *recovery) repair(v *providererr.Diagnosis) bool {
	if !r.call.upstream.opts.SessionRecovery || r.call.req.Strict {
		return false // a strict request gets the error of the provider
	}
	repair, known := repairs[v.Kind]
	switch {
	case !known:
		return false
	case !r.repaired:
		r.repaired = true
		r.options.Repair = repair
		return true
	case v.Kind == providererr.KindSchemaKeyword && len(r.dropped) < maxDropped:
		return r.leaveOut(v)
	}
	return false
}

// goFurther extends a repair that changed nothing, because the first attempt had done the same: it
// leaves out the refused tool, or all thinking.
func (r *recovery) goFurther(v *providererr.Diagnosis) bool {
	const all = adapt.RepairSignatures | adapt.RepairThinkingOff
	switch {
	case v.Kind == providererr.KindSchemaKeyword:
		return len(r.dropped) < maxDropped && r.leaveOut(v)
	case r.options.Repair&all == all:
		return false
	}
	r.options.Repair |= all
	return true
}

// leaveOut finds the tool that the provider refuses and leaves it out. A wrong guess is put back
// before the next one.
func (r *recovery) leaveOut(v *providererr.Diagnosis) bool {
	bad, guessed := r.culprit(v)
	if bad == nil {
		return false
	}
	without := maps.Clone(r.options.WithoutTools)
	if without == nil {
		without = map[string]bool{}
	}
	if guessed {
		if r.guessed {
			last := r.dropped[len(r.dropped)-1]
			r.dropped = r.dropped[:len(r.dropped)-1]
			delete(without, last.Name)
		}
		r.guesses = append(r.guesses, bad)
	}
	r.guessed = guessed
	r.dropped = append(r.dropped, bad)
	without[bad.Name] = true
	r.options.WithoutTools = without
	return true
}

// confirm leaves the tools out of later calls, now that the provider has answered without them.
func (r *recovery) confirm() {
	for _, f := range r.dropped {
		r.call.upstream.opts.Logger.Warn("tool left out: the provider cannot read its schema", "upstream", r.call.upstream.opts.Name, "tool", f.Name)
		r.call.upstream.quarantine.add(f, r.call.spec.Family, r.call.req.Client.Key)
	}
}

package antigravity

import (
	"maps"

	"perigee"
	"perigee/internal/prepare"
	"perigee/internal/verdict"
)

// A recovery mends what the provider refuses. Each call is mended once; only the search for tools whose schemas the
// provider cannot read may take a few attempts more, because it knows each time what is wrong.
type recovery struct {
	call    *call
	prompt  *perigee.Prompt
	options prepare.AntigravityOptions
	mended  bool
	dropped []*perigee.Function // tools that are left out
	guesses []*perigee.Function // those that were left out on suspicion, one after the other; the last one may still be
	guessed bool                // the last one is
}

// repairs is what each refusal can be answered with.
var repairs = map[verdict.Kind]prepare.Repair{
	verdict.KindToolPairing:      prepare.RepairPairing,
	verdict.KindThinkingOrder:    prepare.RepairThinkingOrder,
	verdict.KindBadSignature:     prepare.RepairSignatures,
	verdict.KindThinkingDisabled: prepare.RepairThinkingOff,
	verdict.KindThinkingBudget:   prepare.RepairThinkingOff,
	verdict.KindSchemaKeyword:    prepare.RepairSchemas,
}

// maxDropped is how many tools a call may do without.
const maxDropped = 3

// mend changes the options so that the request may be accepted, and says whether it found a way.
func (r *recovery) mend(v *verdict.Verdict) bool {
	if !r.call.upstream.opts.SessionRecovery || r.call.req.Strict {
		return false // who wants nothing changed wants to know what the provider said
	}
	repair, known := repairs[v.Kind]
	switch {
	case !known:
		return false
	case !r.mended:
		r.mended = true
		r.options.Repair = repair
		return true
	case v.Kind == verdict.KindSchemaKeyword && len(r.dropped) < maxDropped:
		return r.leaveOut(v)
	}
	return false
}

// goFurther adds to a repair that changed nothing: preparing had done the same already. What is left to try then is to
// do without the tool that is refused, or without thinking.
func (r *recovery) goFurther(v *verdict.Verdict) bool {
	const all = prepare.RepairSignatures | prepare.RepairThinkingOff
	switch {
	case v.Kind == verdict.KindSchemaKeyword:
		return len(r.dropped) < maxDropped && r.leaveOut(v)
	case r.options.Repair&all == all:
		return false
	}
	r.options.Repair |= all
	return true
}

// leaveOut finds the tool that the provider refuses and does without it. A tool that was left out on suspicion without success is
// put back for the next suspicion.
func (r *recovery) leaveOut(v *verdict.Verdict) bool {
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

// confirm makes calls that come do without the tools, too, now that the provider has answered without them. Where it
// has not, they were not what it refused.
func (r *recovery) confirm() {
	for _, f := range r.dropped {
		r.call.upstream.opts.Logger.Warn("tool left out: the provider cannot read its schema", "upstream", r.call.upstream.opts.Name, "tool", f.Name)
		r.call.upstream.quarantine.add(f, r.call.spec.Family, r.call.req.Client.Key)
	}
}

package account

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// A tally is how many accounts one cause keeps from being lent.
type tally struct {
	kind  verdict.Kind
	count int
	first instant // when the first of them is back, or asked again; 0: it is not
	asked bool    // it is asked again, although it may have to rest for longer
}

// A Shortage is inside the error of a Next for which there is nobody. Kind is what the whole error is about: what ends first, or
// else what can be done about most easily.
type Shortage struct{ Kind verdict.Kind }

func (s *Shortage) Error() string { return "nobody can be lent (" + string(s.Kind) + ")" }

// refusal is what a call is told for which there is nobody: what the accounts wait for, when the first is back, and what to
// do. It names no account, as it goes to whoever made the call.
func (p *Pool) refusal(b *borrowing, now instant) error {
	if len(p.members) == 0 {
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is signed in").WithNext("run `perigee login`")
	}
	if p.brake.until > 0 && (p.spares(now) || b.group == groupControl) && p.anyInUse() {
		return p.sparing(b.want.Model, now)
	}
	tallies := p.tally(b, now)
	// The first to come back decides what kind of trouble it is, and else whatever is said first in the table of advice.
	decisive := slices.MinFunc(tallies, func(x, y tally) int {
		if (x.first == 0) != (y.first == 0) {
			return cmp.Compare(y.first, x.first)
		}
		return cmp.Or(cmp.Compare(x.first, y.first), slices.Index(lasting[:], x.kind)-slices.Index(lasting[:], y.kind))
	})
	e := &perigee.Error{Class: perigee.ClassUnavailable, Message: p.complaint(b, tallies, now), Model: b.want.Model,
		Cause: &Shortage{decisive.kind}}
	if c, ok := causes[decisive.kind]; ok {
		e.Class = c.class
	}
	if decisive.first == 0 {
		e.Next = remedies[decisive.kind]
		if decisive.kind != kindDisabled && slices.ContainsFunc(tallies, func(t tally) bool { return t.kind == kindDisabled }) {
			e.Next += "; or bring back one that is disabled with `perigee account enable`"
		}
		return e
	}
	e.Retry = max(decisive.first-now, time.Second)
	e.Next = verdict.WaitFor(e.Retry, p.opts.Now()) + ", or add another account with `perigee login`"
	if b.want.Model != "" {
		e.Next += "; `perigee account explain " + b.want.Model + "` says more"
	}
	return e
}

// lasting are the causes that do not end by themselves, what can be done about most easily first.
var lasting = [...]verdict.Kind{verdict.KindVerification, verdict.KindSignedOut, verdict.KindMisnamed, kindDisabled, verdict.KindNotFound, verdict.KindForbidden, verdict.KindBan}

var remedies = map[verdict.Kind]string{
	verdict.KindVerification: "see with `perigee account list` which, verify it in a browser that is signed in to it, and then run `perigee account enable` with its address",
	verdict.KindSignedOut:    "run `perigee login`",
	verdict.KindMisnamed:     "see with `perigee account list` which and whose it is; remove it, or import it under its own name",
	kindDisabled:             "run `perigee account enable`",
	verdict.KindNotFound:     "see with `perigee models` what can be asked",
	verdict.KindForbidden:    "see with `perigee models` what can be asked, or add another account with `perigee login`",
	verdict.KindBan:          "add another account with `perigee login`, or use another upstream",
}

// tally counts the accounts by what they wait for. One that waits for different things in different pools waits for
// what ends first.
func (p *Pool) tally(b *borrowing, now instant) []tally {
	var list []tally
	surveys := make([]survey, len(b.lanes))
	for i, l := range b.lanes {
		surveys[i] = p.survey(l, b.want.Model)
	}
	for place := range p.members {
		kind, first, asked := verdict.Kind(""), instant(0), false
		for i := range surveys {
			at, k, ok := surveys[i].back(place, now)
			probe, guessed := surveys[i].guessEnds(place, now)
			if guessed {
				at = min(at, probe)
			}
			switch {
			case ok && (first == 0 || at < first):
				kind, first, asked = k, at, guessed && at == probe
			case !ok && kind == "":
				kind = k
			}
		}
		if !surveys[0].outlooks[place].inUse {
			kind = p.members[place].gone()
		}
		i := slices.IndexFunc(list, func(t tally) bool { return t.kind == kind })
		if i < 0 {
			i = len(list)
			list = append(list, tally{kind: kind})
		}
		list[i].count++
		if first > 0 && (list[i].first == 0 || first < list[i].first) {
			list[i].first, list[i].asked = first, asked
		}
	}
	return list
}

func (p *Pool) complaint(b *borrowing, tallies []tally, now instant) string {
	parts := make([]string, len(tallies))
	for i, t := range tallies {
		says := causes[t.kind].many
		if says == "" {
			says = "resting (" + string(t.kind) + ")"
		}
		parts[i] = fmt.Sprintf("%d %s", t.count, says)
		if t.first > now {
			when := "back"
			if t.asked {
				when = "asked again"
			}
			parts[i] += fmt.Sprintf(" (%s in %s)", when, (t.first - now + time.Second - 1).Truncate(time.Second))
		}
	}
	what := ""
	if b.want.Model != "" {
		what = " for " + b.want.Model
	}
	return fmt.Sprintf("no account is usable%s; of %d: %s", what, len(p.members), strings.Join(parts, ", "))
}

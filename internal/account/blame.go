package account

import (
	"errors"
	"fmt"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// How long accounts rest.
const (
	longestBrief = 3 * time.Second        // a delay that is better waited for
	maxBriefs    = 3                      // so often in a row
	grace        = 500 * time.Millisecond // on top of what the provider says, which is a little early now and then
	sameCause    = time.Minute            // within which two accounts that are refused without a reason are refused for the same one
	notFoundRest = 10 * time.Minute
	projectRest  = 10 * time.Minute
	creditsRest  = 30 * time.Minute // nobody says when there will be some again
	tokenRest    = time.Minute      // after a new access token was refused as well
)

// A sighting is when something was seen, and with whom.
type sighting struct {
	member *member
	at     instant
}

// answered notes that a call was answered. A call that was under way before the last failure proves nothing about the
// time after it.
func (p *Pool) answered(l *loan, now instant) {
	m := l.member
	l.lane.served = max(l.lane.served, l.began)
	if l.call.want.Model != "" {
		p.had.note(l.call.want.Model, now)
	}
	if m.index >= 0 {
		p.gauges[m.index].heal(healthServed, now)
	}
	p.exonerate(l)
	if l.call.want.Model != "" && m.inUse() {
		p.lift()
	}
	for _, s := range []*slot{&m.whole, &m.faults, &m.slots[l.lane.id]} {
		if l.began <= s.failedAt {
			continue
		}
		s.failures, s.briefs = 0, 0
		if s.active(now) && (!s.told || l.why.code == whyProbe) {
			p.wake(m, l.lane, s, now)
		}
	}
	if key := (lacking{l.lane.id, l.call.want.Model}); m.lacks[key].active(now) && m.lacks[key].since <= l.began {
		p.unlack(m, key)
	}
}

// blame makes a verdict felt by those whom it belongs to and nobody else.
func (p *Pool) blame(l *loan, v *verdict.Verdict, now instant) {
	m := l.member
	p.refund(m, now)
	kind := v.Kind
	p.reconsider(l, v, now)
	var brief bool
	switch v.Blame {
	case verdict.ScopeAccountFamily:
		brief = p.limited(l, v, now)
	case verdict.ScopeAccountModel:
		p.lack(l, kind, now)
	case verdict.ScopeAccount:
		p.fail(l, v, now)
	case verdict.ScopeProvider, verdict.ScopeNetwork:
		p.faulted(l, v, now)
		return
	default:
		return
	}
	if burns(kind) && l.call.spend(kind, m) >= maxSpent {
		v.Blame = verdict.ScopeNobody
		if len(p.members) > maxSpent {
			v.Error = p.othersSpared(v.Error, now)
		}
		return
	}
	if kind == verdict.KindNoToken {
		l.call.refused, l.call.refusedErr = append(l.call.refused, m), v.Error
		if len(l.call.refused) >= maxTokenFailures {
			v.Blame = verdict.ScopeNobody
			return
		}
	}
	l.call.brief = brief
}

// othersSpared adds to an error what becomes of the accounts that the call did not ask.
func (p *Pool) othersSpared(err *perigee.Error, now instant) *perigee.Error {
	e := *err
	if !p.spares(now) {
		e.Next += "; two accounts met the same, and the others were spared: the next call asks them"
		return &e
	}
	e.Retry = max(p.brake.until-now, time.Second)
	e.Next += fmt.Sprintf("; %s, so the others are spared until %s, unless `perigee account enable` with the address of one of them lifts that",
		p.brake.happened(), p.spareEnd(now))
	return &e
}

// maxSpent is how many accounts a call may lose to one cause, whoever refuses them. A third would be lost to it too.
const maxSpent = 2

// burns says whether a verdict costs the call, or even the owner, an account.
func burns(kind verdict.Kind) bool {
	switch kind {
	case verdict.KindVerification, verdict.KindBan, verdict.KindIneligible, verdict.KindSignedOut, verdict.KindMisnamed, verdict.KindNotFound:
		return true
	}
	return false
}

// reconsider tells a limit from a refusal of the client, which looks the same but is not the account's fault: another
// account was just answered alike, or this one again although it has quota left.
func (p *Pool) reconsider(l *loan, v *verdict.Verdict, now instant) {
	if v.Kind != verdict.KindUnexplained {
		return
	}
	m, s := l.member, &l.member.slots[l.lane.id]
	seen := &l.lane.strange
	alike := seen.member != nil && seen.member != m && now-seen.at < sameCause && l.lane.served < seen.at
	again := s.failures > 0 && l.began > s.failedAt && s.kind == verdict.KindUnexplained && p.hasQuota(l, now)
	if !alike && !again {
		*seen = sighting{m, now}
		return
	}
	*v = v.WithQuotaLeft()
	for _, innocent := range []*member{seen.member, m} {
		if innocent == nil {
			continue
		}
		s := &innocent.slots[l.lane.id]
		if s.kind == verdict.KindUnexplained && s.active(now) {
			s.failures = 0
			p.wake(innocent, l.lane, s, now)
		}
	}
}

// limited lets an account rest for the models of a lane, and says whether only for a moment.
func (p *Pool) limited(l *loan, v *verdict.Verdict, now instant) (brief bool) {
	m := l.member
	f := failure{kind: v.Kind, delay: v.Delay, model: l.call.want.Model, began: l.began}
	points := float64(healthLimit)
	switch v.Kind {
	case verdict.KindProject:
		f.guess, points = projectRest, healthFault
	case verdict.KindCredits:
		f.guess = creditsRest
	}
	s := &m.slots[l.lane.id]
	if p.restAfter(m, l.lane, s, f, now) && m.index >= 0 {
		p.gauges[m.index].heal(points, now)
	}
	return s.brief
}

// A failure is a reason to let an account rest.
type failure struct {
	kind  verdict.Kind
	delay time.Duration // as the provider told; 0: it did not
	guess time.Duration // in its place; 0: the Ladder
	model string
	began instant // of the call that failed
}

// restAfter begins or extends a rest, and says whether the failure counts. Of several calls that were under way together only
// the first does: the others say nothing about the time since.
func (p *Pool) restAfter(m *member, l *lane, s *slot, f failure, now instant) (counts bool) {
	counts = f.began > s.failedAt
	told := f.delay > 0
	d := min(f.delay, verdict.MaxDelay) + grace
	if !told {
		if counts {
			s.failures++
		}
		if d = f.guess; d == 0 {
			d = verdict.Ladder(max(s.failures, 1))
		}
	}
	brief := told && f.delay <= longestBrief
	if counts {
		if usedUp(f.kind) {
			m.wokenInVain(s, now)
		}
		s.failedAt = now
		s.briefs++
		if !brief {
			s.briefs = 0
		}
	}
	switch {
	case !s.active(now):
	case told && !s.told: // it is known now
	case s.told && !told, now+d <= s.until, !counts && !told:
		if counts {
			s.since = now // it is confirmed, whatever was to be doubted
			p.refresh(m, now)
		}
		return counts
	}
	s.rest = rest{since: now, until: now + d, kind: f.kind, told: told, model: f.model, brief: brief && s.briefs <= maxBriefs}
	p.events.push(event{at: s.until, member: m, lane: l})
	p.refresh(m, now)
	p.changed = true // those who wait may wait in vain
	if d >= worthStoring {
		p.keep(m, l, s.rest, now)
	}
	logger, email := p.opts.Logger, m.email
	p.after = append(p.after, func() {
		logger.Info("account cooled down", "account", email, "kind", f.kind, "model", f.model, "for", d.Round(time.Millisecond))
	})
	return counts
}

// wake ends a rest.
func (p *Pool) wake(m *member, l *lane, s *slot, now instant) {
	stored := s.until-s.since >= worthStoring
	s.until, s.brief = now, false
	if s == &m.whole {
		l = nil
	}
	if stored && s != &m.faults { // that one is never stored
		p.keep(m, l, s.rest, now)
	}
	p.refresh(m, now)
}

// fail is for trouble of the whole account.
func (p *Pool) fail(l *loan, v *verdict.Verdict, now instant) {
	m := l.member
	if m.index >= 0 && v.Kind != verdict.KindNoToken { // that is trouble of the sign-in server
		p.gauges[m.index].heal(healthFault, now)
	}
	f := failure{kind: v.Kind, delay: v.Delay, guess: tokenRest, model: l.call.want.Model, began: l.began}
	switch state := stateAfter(v.Kind); {
	case state != "":
		p.stop(m, l.source, state, v.Reason(), l.generation, now)
	case v.Kind != verdict.KindNoToken:
		p.restAfter(m, nil, &m.whole, f, now)
	case !errors.Is(v.Error, ErrLeftAlone):
		f.guess = 0
		p.restAfter(m, nil, &m.whole, f, now)
	}
}

// stateAfter is the state that an account gets into by trouble that does not end by itself; empty: none.
func stateAfter(kind verdict.Kind) string {
	switch kind {
	case verdict.KindVerification:
		return perigee.AccountVerification
	case verdict.KindBan, verdict.KindIneligible:
		return perigee.AccountBanned
	case verdict.KindSignedOut:
		return perigee.AccountSignedOut
	case verdict.KindMisnamed:
		return perigee.AccountMisnamed
	}
	return ""
}

// stop takes an account out of use until its sign-in is changed.
func (p *Pool) stop(m *member, source Source, state, reason string, generation int64, now instant) {
	if m.index < 0 || !perigee.UsableState(m.state()) {
		return
	}
	if m.source != source {
		return // somebody has signed in again since, and the provider will say what it thinks of that
	}
	m.stopped, m.reason = state, reason
	m.stoppedAs = generation
	p.refresh(m, now)
	p.lose(m, state, now)
	p.changed = true
	logger, told, stopped := p.opts.Logger, p.opts.OnState, Stop{m.email, state, reason, generation}
	p.after = append(p.after, func() {
		logger.Warn("account stopped", "account", stopped.Email, "state", state, "reason", reason)
		if told != nil {
			told(stopped)
		}
	})
}

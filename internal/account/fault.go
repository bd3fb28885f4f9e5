package account

import (
	"context"
	"time"

	"perigee/internal/verdict"
)

// What follows is about trouble of the provider's own: server errors, connections that break, refusals without a reason. Nobody
// knows at first whether all accounts meet it or only one. A call finds out by asking one other account; it asks no third,
// as a provider that is down is not helped by twenty accounts that all ask.

const (
	// maxFaults in a row let an account rest for faultRest, so that others go first. That is no more than a preference: where
	// there are no others it is asked all the same, because such trouble may be over at any moment.
	maxFaults = 5
	faultRest = 30 * time.Second
	// faultAge is after how long trouble no longer counts as in a row with what came before.
	faultAge = time.Hour
	// faultPause is how long a call waits before it asks the same account once more, because there is no other.
	faultPause = 500 * time.Millisecond
)

// faulted notes that the provider has failed a call everywhere. The first time the call may go on, with another account or
// after a pause; the second time the verdict says that it is over.
func (p *Pool) faulted(l *loan, v *verdict.Verdict, now instant) {
	if v.Blame == verdict.ScopeProvider {
		p.countFault(l, now)
	}
	if l.call.failed != nil {
		v.Blame = verdict.ScopeNobody
		return
	}
	l.call.failed, l.call.again = l.member, v.Kind != verdict.KindForbidden
}

// countFault counts trouble against an account, and lets it rest when there was too much. Of several calls that were under way
// together one counts.
func (p *Pool) countFault(l *loan, now instant) {
	m, s := l.member, &l.member.faults
	if m.index >= 0 {
		p.gauges[m.index].heal(healthFault, now)
	}
	if l.began <= s.failedAt {
		return
	}
	if now-s.failedAt > faultAge {
		s.failures = 0
	}
	s.failures++
	s.failedAt = now
	if s.failures < maxFaults || !p.severalInUse() {
		return
	}
	s.rest = rest{since: now, until: now + faultRest, kind: verdict.KindUnavailable, model: l.call.want.Model}
	p.events.push(event{at: s.until, member: m})
	p.refresh(m, now)
	p.changed = true
	logger, email, failures := p.opts.Logger, m.email, s.failures
	p.after = append(p.after, func() {
		logger.Info("account cooled down: the provider keeps failing it", "account", email, "failures", failures, "for", faultRest)
	})
}

// severalInUse says whether there is anybody to prefer.
func (p *Pool) severalInUse() bool {
	n := 0
	for _, m := range p.members {
		if m.inUse() {
			n++
		}
	}
	return n > 1
}

// instead lends somebody to a call that the provider has just failed: another account, or the same one after a pause. It is
// not ok when the call has to be served like any other, which may mean to wait.
func (p *Pool) instead(b *borrowing, now instant) (l *loan, got finding, ok bool) {
	failed := b.failed
	for _, spared := range []bool{false, true} {
		for _, lane := range b.lanes {
			c := p.usable(b, lane, spared)
			if i := c.next(failed.index); i >= 0 && i != failed.index {
				w := why{code: whyInstead, spared: spared, from: failed.email}
				return p.lend(b, p.members[i], lane, w, now), found, true
			}
		}
	}
	if !b.again {
		return nil, nobody, true // it was refused, and a pause would change nothing
	}
	lane := b.lane
	if c := p.usable(b, lane, true); c.has(failed.index) || p.onlyFaulty(failed, lane, b, now) {
		l := p.lend(b, failed, lane, why{code: whyAgain}, now)
		l.pause = faultPause
		return l, found, true
	}
	return nil, nobody, false
}

// paused waits as long as the loan asks for, and says whether it could.
func (l *loan) paused(ctx context.Context) bool {
	if l.pause == 0 {
		return true
	}
	timer := time.NewTimer(l.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// onlyFaulty says whether nothing but the provider's own trouble keeps a member from being lent.
func (p *Pool) onlyFaulty(m *member, l *lane, b *borrowing, now instant) bool {
	if !m.faults.active(now) || !m.inUse() || p.busy.has(m.index) || b.excludes(m) {
		return false
	}
	lack := m.lack(l, b.want.Model)
	return !m.whole.active(now) && !m.slots[l.id].active(now) && !lack.active(now)
}

// leastFaulty is who has been failed by the provider longest ago, of those whom nothing else keeps from being lent; nil: there
// is nobody.
func (p *Pool) leastFaulty(b *borrowing, now instant) (best *member, lane *lane) {
	for _, l := range b.lanes {
		for i := range p.faulty.all {
			m := p.members[i]
			if p.onlyFaulty(m, l, b, now) && (best == nil || m.faults.until < best.faults.until) {
				best, lane = m, l
			}
		}
	}
	return best, lane
}

// exonerate is called when a call was answered. If another account had failed it, that one's trouble is its own: whoever stays
// with one account stays with the one that has answered.
func (p *Pool) exonerate(l *loan) {
	failed := l.call.failed
	if failed == nil || failed == l.member || l.member.index < 0 {
		return
	}
	if l.lane.current == failed {
		l.lane.current = l.member
	}
	if l.call.want.Session != "" {
		p.bind(l.call.want.Session, l.lane.group, binding{l.member, l.lane})
	}
}

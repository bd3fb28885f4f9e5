package account

import (
	"slices"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// quotaAge is how long what was said about a quota is believed.
const quotaAge = 15 * time.Minute

// someLeft is how much of a quota is enough to say that it cannot be why a call was refused.
const someLeft = 0.05

// quotaGroups are the groups whose quota is reported.
var quotaGroups = [...]group{groupGemini, groupThird, groupImage}

// quotaIndex is the place of a lane's group in quotaGroups; -1 when nobody reports its quota.
func quotaIndex(l *lane) int {
	if l.pool != PoolAntigravity {
		return -1
	}
	return slices.Index(quotaGroups[:], l.group)
}

// A remainder is what is left of a quota.
type remainder struct {
	fraction float64
	until    instant // from when on nobody knows any more
}

// ReportQuota says what an account had left of its models in PoolAntigravity at a time. Accounts that have used more than
// the soft quota are spared for a while, and whoever rests because its quota was used up is woken if some has returned. What
// is old, or about an account that is not here, is ignored.
func (p *Pool) ReportQuota(email string, list []perigee.Quota, at time.Time) {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	age := max(0, p.opts.Now().Sub(at))
	m := p.find(email)
	if m == nil || age >= quotaAge {
		return
	}
	m.quota = make(map[string]remainder, len(list))
	least := map[*lane]remainder{}
	for _, l := range p.lanes {
		for model := range l.spared {
			p.mark(l.spared, model, m, false)
		}
	}
	for _, q := range list {
		r := remainder{fraction: q.Remaining, until: now - age + quotaAge}
		if back := q.ResetsAt.Sub(p.opts.Now()); !q.ResetsAt.IsZero() && back > 0 {
			r.until = min(r.until, now+back) // then it is whole again
		}
		m.quota[q.Model] = r
		p.had.note(q.Model, now)
		l := p.spare(m, q.Model, r, now)
		if l == nil {
			continue
		}
		if known, ok := least[l]; !ok || r.fraction < known.fraction {
			least[l] = r
		}
	}
	if s := &m.whole; s.active(now) && s.kind == verdict.KindProject && now-age > max(s.since, s.failedAt) {
		p.relieve(m, nil, s, now) // it was asked for that project
	}
	for l, r := range least {
		if i := quotaIndex(l); i >= 0 {
			p.gauges[m.index].quota[i], p.gauges[m.index].quotaGood[i] = r.fraction, r.until
		}
		left := r.fraction
		if q, ok := m.quota[m.slots[l.id].model]; ok {
			left = q.fraction
		}
		p.returned(m, l, left, now-age, now)
	}
}

// spare notes whether an account is to be spared for a model, and returns the lane that the model belongs to.
func (p *Pool) spare(m *member, model string, r remainder, now instant) *lane {
	g := groupOf(Want{Model: model})
	i := slices.IndexFunc(p.lanes, func(l *lane) bool { return l.group == g && l.pool == PoolAntigravity })
	if i < 0 || g == groupControl {
		return nil
	}
	l := p.lanes[i]
	soft := p.opts.SoftQuota > 0 && p.opts.SoftQuota < 1
	over := soft && 1-r.fraction >= p.opts.SoftQuota-1e-9 && r.until > now
	p.mark(l.spared, model, m, over)
	if over {
		p.events.push(event{at: r.until, member: m, lane: l, model: model})
	}
	return l
}

// returned wakes an account that rests because its quota was used up, if a later report shows that some is left: of the model
// that was asked, or where that is not known of all.
func (p *Pool) returned(m *member, l *lane, left float64, reported, now instant) {
	s := &m.slots[l.id]
	if !s.active(now) || reported <= max(s.since, s.failedAt) || !usedUp(s.kind) {
		return
	}
	if left > 0 {
		s.wokenAt = now
		p.relieve(m, l, s, now)
		logger, email := p.opts.Logger, m.email
		p.after = append(p.after, func() {
			logger.Info("account has quota again, and rests no longer", "account", email, "family", l.group, "pool", l.pool, "left", percent(left))
		})
	}
}

// hasQuota says whether the account of a loan is known to have quota left for the model.
func (p *Pool) hasQuota(l *loan, now instant) bool {
	q, ok := l.member.quota[l.call.want.Model]
	return ok && l.lane.pool == PoolAntigravity && q.until > now && q.fraction >= someLeft
}

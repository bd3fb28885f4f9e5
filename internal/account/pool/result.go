package pool

import (
	"errors"
	"log/slog"
	"time"

	"perigee/internal/adapt/providererr"
)

const (
	// sameCause is how close together two accounts are refused without a reason, or stopped, for
	// the same cause.
	sameCause = time.Minute

	// Server errors, broken connections and refusals without a reason may affect one account or
	// all. A call finds out with one other account, and no third: a provider that is down is not
	// helped by more requests. After maxFaults in a row an account cools down for faultCooldown, so
	// that another one goes first. That is only a preference: the last one is used all the same,
	// because such errors may end at any moment.
	maxFaults     = 5
	faultCooldown = 30 * time.Second
	faultAge      = time.Hour // after which a fault does not count as consecutive
)

// answered applies a success. A call that was under way before the last failure proves nothing
// about the time after it.
func (l *lease) answered() {
	p, m, model := l.pool, l.member, l.call.req.Model
	l.group.served = max(l.group.served, l.began)
	m.health.addPoints(pointsServed, p.now)
	l.clearFaults()
	if model != "" {
		p.served.Put(model, p.now)
		if m.inUse() {
			p.breaker.reset()
		}
	}
	for _, i := range [...]int{wholeAccount, providerFaults, l.group.id} {
		c := &m.cooldowns[i]
		if l.began <= c.failedAt {
			continue
		}
		c.failures, c.briefs = 0, 0
		if c.until > p.now && (!c.fromProvider || l.why.reason == whyProbe) {
			m.endCooldown(c)
		}
	}
	if c := m.missingModel(l.group, model); c != nil && c.since <= l.began {
		m.clearMissing(l.group, model)
	}
}

// clearFaults moves the sticky choice and the session from the account that has failed the call to
// the one that has answered it: only the first account was affected.
func (l *lease) clearFaults() {
	failed := l.call.failed
	if failed == nil || failed == l.member || l.member.index < 0 {
		return
	}
	if l.group.current == failed {
		l.group.current = l.member
	}
	l.call.bind(binding{l.member, l.group})
}

// failed applies a failure to its scope, and to nothing else.
func (l *lease) failed(v *providererr.Diagnosis) {
	p, m, a := l.pool, l.member, l.call
	m.health.uncharge(p.now)
	l.reconsider(v)
	kind := v.Kind
	switch v.Scope {
	case providererr.ScopeAccountFamily:
		c := &m.cooldowns[l.group.id]
		points := float64(pointsLimit)
		if kind == providererr.KindProject {
			points = pointsFault
		}
		if m.startCooldown(c, l.failure(v)) {
			m.health.addPoints(points, p.now)
		}
		a.brief = c.brief
	case providererr.ScopeAccountModel:
		m.setMissing(l.group, a.req.Model, kind)
	case providererr.ScopeAccount:
		l.accountFailed(v)
	case providererr.ScopeProvider:
		l.countFault()
		l.providerFailed(v)
		return
	case providererr.ScopeNetwork:
		l.providerFailed(v)
		return
	default:
		return
	}
	switch {
	case causeOf(kind).costly && a.recordLost(kind, m):
		v.Scope = providererr.ScopeNone
		if len(p.members) > breakerMaxLost {
			v.Error = p.withLostHint(v.Error)
		}
	case kind == providererr.KindNoToken && a.refused.add(m, v.Error):
		v.Scope = providererr.ScopeNone
	}
}

func (l *lease) failure(v *providererr.Diagnosis) failure {
	return failure{kind: v.Kind, delay: v.Delay, model: l.call.req.Model, began: l.began}
}

// reconsider distinguishes a limit from a refusal of the client, which looks the same but is not
// the account's fault: another account has been refused in the same way, or this one again although
// it has quota left.
func (l *lease) reconsider(v *providererr.Diagnosis) {
	if v.Kind != providererr.KindUnexplained {
		return
	}
	m, g, c, now := l.member, l.group, &l.member.cooldowns[l.group.id], l.pool.now
	last := g.lastUnexplained
	alike := last.member != nil && last.member != m && now-last.at < sameCause && g.served < last.at
	again := c.failures > 0 && l.began > c.failedAt && c.kind == providererr.KindUnexplained && l.hasQuota()
	if !alike && !again {
		g.lastUnexplained = occurrence{m, now}
		return
	}
	*v = v.WithQuotaLeft()
	for _, cleared := range []*member{last.member, m} {
		if cleared == nil {
			continue
		}
		if c := &cleared.cooldowns[g.id]; c.kind == providererr.KindUnexplained && c.until > now {
			c.failures = 0
			cleared.endCooldown(c)
		}
	}
}

// accountFailed applies a failure of the whole account.
func (l *lease) accountFailed(v *providererr.Diagnosis) {
	m := l.member
	if v.Kind != providererr.KindNoToken { // the cause is the sign-in server
		m.health.addPoints(pointsFault, l.pool.now)
	}
	if state := causeOf(v.Kind).state; state != "" {
		m.stop(l.source, state, v.Reason(), l.generation)
	} else if v.Kind != providererr.KindNoToken || !errors.Is(v.Error, providererr.ErrRefreshPaused) {
		m.startCooldown(&m.cooldowns[wholeAccount], l.failure(v))
	}
}

// providerFailed applies an error of the provider or the network. After the first the call
// continues, with another account or after a pause; after the second the diagnosis ends it.
func (l *lease) providerFailed(v *providererr.Diagnosis) {
	if l.call.failed != nil {
		v.Scope = providererr.ScopeNone
		return
	}
	l.call.failed, l.call.again = l.member, v.Kind != providererr.KindForbidden
}

// countFault counts a provider error against an account, which cools down after too many if another
// account is in use. Of several calls that were under way together one counts.
func (l *lease) countFault() {
	p, m, c, now := l.pool, l.member, &l.member.cooldowns[providerFaults], l.pool.now
	m.health.addPoints(pointsFault, now)
	if l.began <= c.failedAt {
		return
	}
	if now-c.failedAt > faultAge {
		c.failures = 0
	}
	c.failures++
	c.failedAt = now
	inUse := 0
	for _, m := range p.members {
		if m.inUse() {
			inUse++
		}
	}
	if c.failures < maxFaults || inUse < 2 {
		return
	}
	c.since, c.until, c.kind, c.model = now, now+faultCooldown, providererr.KindUnavailable, l.call.req.Model
	p.logAfter(slog.LevelInfo, "account cooled down", "account", m.email, "kind", c.kind, "failures", c.failures, "for", faultCooldown)
}

package pool

import (
	"cmp"
	"log/slog"
	"slices"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A member is an account in the pool, with all that the pool has learned about it.
type member struct {
	pool   *Pool
	email  string
	source Source
	signIn perigee.SignIn // as SetSources or Learn read it
	index  int            // place in Pool.members; -1 if it was removed

	stopped   string // the state that a diagnosis has put it into; empty if there is none
	reason    string // why
	stoppedAs int64  // the generation of the sign-in that the diagnosis was about

	leases    int
	cooldowns []cooldown           // see wholeAccount, providerFaults and quotaGroup.id
	missing   []cooldown           // models that the account does not have; at most maxMissing
	quota     map[string]remainder // by model
	low       bool                 // some model in quota is below the soft quota
	least     []remainder          // the least that is left in each quota group
	lookAt    instant              // when a Look may ask for its quota again
	health    health
}

// Places in member.cooldowns; the rest are in quotaGroup.id.
const (
	wholeAccount   = iota
	providerFaults // see countFault
	firstGroup
)

func newMember(p *Pool, source Source, s perigee.SignIn) *member {
	m := &member{pool: p, email: s.Email, source: source, signIn: s, index: -1,
		cooldowns: make([]cooldown, firstGroup+len(p.groups)), least: make([]remainder, firstGroup+len(p.groups))}
	for _, g := range p.groups {
		m.cooldowns[g.id].group = g
	}
	return m
}

// inUse reports whether the account can be leased.
func (m *member) inUse() bool {
	return m.index >= 0 && m.signIn.Enabled && perigee.UsableState(m.state())
}

func (m *member) state() string {
	return cmp.Or(m.stopped, m.signIn.State, perigee.AccountReady)
}

// busy reports whether the account has as many leases as it may.
func (m *member) busy() bool {
	limit := m.pool.opts.Concurrency
	return limit > 0 && m.leases >= limit
}

// An availability describes why an account cannot be leased for a model from one quota group.
type availability struct {
	free         bool             // nothing does
	kind         providererr.Kind // the cause that ends last
	until        instant          // when that ends; 0 if it does not end by itself
	missing      bool             // the account does not have the model
	faulty       bool             // provider errors are the only cause
	low          bool             // so little quota is left that other accounts go first
	fromProvider bool             // the provider gave the duration of one of the cooldowns
	doubt        instant          // when the account may be probed although it cools down
}

// returns reports whether the account is free now or will be without anything else happening.
func (a *availability) returns() bool { return a.until > 0 && !a.missing }

func (m *member) availability(g *quotaGroup, model string) (a availability) {
	if !m.inUse() {
		a.kind = m.outOfUse()
		return a
	}
	now := m.pool.now
	a.until = now
	for _, i := range [...]int{wholeAccount, providerFaults, g.id} {
		c := &m.cooldowns[i]
		if c.until <= now {
			continue
		}
		a.faulty = i == providerFaults && a.until == now
		if c.until > a.until {
			a.until, a.kind = c.until, c.kind
		}
		a.fromProvider = a.fromProvider || c.fromProvider
		a.doubt = max(a.doubt, c.doubtAt())
	}
	if c := m.missingModel(g, model); c != nil && c.until > now {
		a.missing, a.faulty, a.until, a.kind = true, false, c.until, c.kind
		a.doubt = max(a.doubt, c.doubtAt())
	}
	if m.busy() {
		a.faulty = false
		if a.until == now {
			a.kind = kindBusy
		}
	} else {
		a.free = a.until == now
	}
	if m.low && g.pool == PoolAntigravity {
		q, known := m.quota[model]
		a.low = known && q.until > now && m.pool.opts.belowSoftQuota(q.fraction)
	}
	return a
}

// onlyBusy reports whether nothing but its own leases keeps the account from being chosen. A
// session or a sticky choice then stays with it.
func (m *member) onlyBusy(g *quotaGroup, model string) bool {
	a := m.availability(g, model)
	return a.kind == kindBusy && !a.low
}

// stop takes the account out of use until its sign-in changes. It does nothing if another sign-in
// has replaced the source that the diagnosis is about.
func (m *member) stop(source Source, state, reason string, generation int64) {
	if m.index < 0 || !perigee.UsableState(m.state()) || m.source != source {
		return
	}
	p := m.pool
	m.stopped, m.reason, m.stoppedAs = state, reason, generation
	p.logAfter(slog.LevelWarn, "account stopped", "account", m.email, "state", state, "reason", reason)
	if p.opts.OnState != nil {
		p.callbacks = append(p.callbacks, func() { p.opts.OnState(Stop{m.email, state, reason, generation}) })
	}
	if m.signIn.Enabled && p.breaker.trip(m.email, state, p.now) && slices.ContainsFunc(p.members, (*member).inUse) {
		p.logAfter(slog.LevelWarn, "circuit breaker opened",
			"locked", len(p.breaker.lost), "until", p.date(p.breaker.until))
	}
}

// renew takes over a sign-in that may have changed. It ignores one that is older than the pool's.
func (m *member) renew(source Source, s perigee.SignIn) {
	if source == m.source && s.Generation < m.signIn.Generation {
		return
	}
	if s.ProjectID != m.signIn.ProjectID {
		for c := range m.active() {
			if c.kind == providererr.KindProject {
				m.clearCooldown(c)
			}
		}
	}
	wasOut := !m.signIn.Enabled || !perigee.UsableState(m.state())
	if !perigee.UsableState(s.State) || !s.Enabled || !m.signIn.Enabled || s.Generation != m.stoppedAs {
		m.stopped, m.reason = "", ""
	}
	if source != m.source || wasOut && m.stopped == "" && s.Enabled && perigee.UsableState(s.State) {
		m.pool.breaker.reset() // the owner has selected it
	}
	m.source, m.signIn = source, s
}

// projectRefused reports whether the account cools down because of its project.
func (m *member) projectRefused() bool {
	for c := range m.active() {
		if c.kind == providererr.KindProject {
			return true
		}
	}
	return false
}

// listCooldowns lists the active cooldowns of the account. A model that no account had lately is
// left out: it may not exist.
func (m *member) listCooldowns() (list []perigee.Cooldown) {
	for c := range m.active() {
		pub := m.pool.public(c)
		if c.missing {
			pub.Reason += ": " + c.model
		}
		if !c.missing || m.pool.servedLately(c.model) {
			list = append(list, pub)
		}
	}
	return list
}

// outOfUse returns the cause that keeps an account out of use.
func (m *member) outOfUse() providererr.Kind {
	if !m.signIn.Enabled {
		return kindDisabled
	}
	return kindOfState(m.state())
}

// score returns the score of the account in hybrid selection.
func (m *member) score(g *quotaGroup) float64 {
	quota := quotaUnknown
	if q := m.least[g.id]; q.until > m.pool.now {
		quota = q.fraction
	}
	return m.health.score(quota, m.pool.now)
}

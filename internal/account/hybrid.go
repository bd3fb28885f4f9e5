package account

import "time"

// What hybrid selection weighs, in points.
const (
	healthStart  = 70
	healthMost   = 100
	healthLeast  = 50 // with less an account is passed over while there are others
	healthRegain = 2  // for each hour
	healthServed = 1
	healthLimit  = -10 // after a limit
	healthFault  = -20 // after other trouble of the account

	paceMost   = 50 // calls that an account can make at once
	paceRegain = 6  // for each minute

	longestIdle = time.Hour

	weightHealth = 2   // for each point of health
	weightPace   = 5   // for each hundredth of the pace
	weightIdle   = 0.1 // for each second without a call
	weightQuota  = 3   // for each hundredth of the quota; half of it when it is not known

	unfit = 10000 // more than there are points

	// A call without a session stays where the last one went unless another account is better by so much.
	stickiness = 150
)

// A gauge is what hybrid selection knows about a member. It moves by itself as time goes on. A thousand accounts are weighed
// for one call, so what is read for each is kept so that little has to be computed.
type gauge struct {
	health    float64
	healthAt  instant
	rested    instant // when its pace is back at paceMost
	usedAt    instant
	quota     [len(quotaGroups)]float64 // what is left, from 0 to 1
	quotaGood [len(quotaGroups)]instant // until when that is known
}

func newGauge(now instant) gauge { return gauge{health: healthStart, healthAt: now} }

func (g *gauge) healthNow(now instant) float64 {
	health := g.health
	if d := now - g.healthAt; d >= time.Hour {
		health = min(healthMost, health+healthRegain*float64(d/time.Hour))
	}
	return health
}

// What a pace is in time: each call costs paceCall, which comes back as time goes on.
const (
	paceCall = time.Minute / paceRegain
	paceDebt = paceMost * paceCall // of whoever has made as many calls as it can
)

// debt is how long it takes a member to be back at its full pace.
func (g *gauge) debt(now instant) time.Duration { return max(0, g.rested-now) }

func (g *gauge) heal(points float64, now instant) {
	g.health, g.healthAt = max(0, min(healthMost, g.healthNow(now)+points)), now
}

func (g *gauge) spend(now instant) {
	g.rested = now + min(g.debt(now)+paceCall, paceDebt)
	g.usedAt = now
}

// refund gives back what a call cost that was not answered.
func (g *gauge) refund(now instant) { g.rested = now + max(0, g.debt(now)-paceCall) }

// Factors instead of divisions: a thousand accounts would feel the difference.
const (
	perSecond = 1 / float64(time.Second)
	perDebt   = weightPace * 100 / float64(paceDebt)
)

// score is what a member is worth. Whoever is not in a state to be chosen comes behind all who are.
func (g *gauge) score(quotaGroup int, now instant) float64 {
	quota := 0.5
	if quotaGroup >= 0 && g.quotaGood[quotaGroup] > now {
		quota = g.quota[quotaGroup]
	}
	health, debt := g.healthNow(now), g.debt(now)
	idle := float64(min(now-g.usedAt, longestIdle))
	points := weightPace*100 + weightHealth*health - perDebt*float64(debt) + weightIdle*perSecond*idle + weightQuota*100*quota
	if health < healthLeast || debt > paceDebt-paceCall {
		return points - unfit
	}
	return points
}

// fit says whether a member is in a state to be chosen.
func (g *gauge) fit(now instant) bool {
	return g.healthNow(now) >= healthLeast && g.debt(now) <= paceDebt-paceCall
}

// overdone says whether a session is to leave its account because that has failed too much, or has made too many calls in a
// short time, and somebody else has not. A prompt cache is worth less than an account.
func (p *Pool) overdone(b binding, c *choice, now instant) bool {
	if p.opts.Selection != Hybrid || p.gauges[b.member.index].fit(now) {
		return false
	}
	for i := range c.all {
		if p.gauges[i].fit(now) {
			return true
		}
	}
	return false
}

// weigh chooses the member with the most points; -1: there is nobody. The algorithm that this is after knows no sessions, and
// so keeps every call on the current account unless another is better by stickiness. Here sessions have a binding of their own,
// which keeps their prompt cache: a new one has none to lose, and goes to the best, which spreads sessions over the accounts
// as long as those are equally good. Stickiness is left to calls without a session.
func (p *Pool) weigh(b *borrowing, l *lane, c *choice, now instant) (int, why) {
	quotaGroup := quotaIndex(l)
	best, most := -1, 0.0
	for i := range c.all {
		if s := p.gauges[i].score(quotaGroup, now); best < 0 || s > most {
			best, most = i, s
		}
	}
	if best < 0 {
		return best, why{}
	}
	if cur := l.current; b.want.Session == "" && cur != nil && c.has(cur.index) {
		if s := p.gauges[cur.index].score(quotaGroup, now); s+stickiness >= most {
			best, most = cur.index, s
		}
	}
	l.current = p.members[best]
	return best, why{code: whyWeighed, score: most}
}

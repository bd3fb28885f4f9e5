package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A candidate is an account that may be leased from a quota group.
type candidate struct {
	perigee.ChoiceRow
	member *member
	group  *quotaGroup
	rank   int
}

// The order of candidates.
const (
	rankUsable = iota
	rankLow
	rankFaulty
	rankUnusable
)

// Explain reports for each account and pool that a request can use whether it would be leased now,
// in the order in which they would be chosen, and why the first of them comes first. It changes
// nothing.
func (p *Pool) Explain(req Request) []perigee.ChoiceRow {
	a := p.acquire(req)
	p.lock()
	defer p.unlock()
	var list []candidate
	for _, g := range a.groups {
		for _, m := range p.ordered(g) {
			if !a.allows(m, g) {
				continue
			}
			c := m.explain(g, req.Model)
			if m.inUse() && p.breaker.blocks(a.models != groupControl, p.now) {
				c.rank, c.Usable, c.Why, c.Until = rankUnusable, false, p.breakerExplanation(), p.breakerEnd()
			}
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		switch {
		case a.rank != b.rank || a.rank < rankFaulty:
			return a.rank - b.rank
		case a.rank == rankFaulty:
			return cmp.Compare(a.member.cooldowns[providerFaults].until, b.member.cooldowns[providerFaults].until)
		case a.Until.IsZero() != b.Until.IsZero(): // accounts that do not come back are last
			return cmp.Compare(b.Until.Unix(), a.Until.Unix())
		}
		return a.Until.Compare(b.Until)
	})
	rows := make([]perigee.ChoiceRow, len(list))
	for i := range list {
		c := &list[i]
		c.Chosen = i == 0 && c.rank < rankUnusable
		switch {
		case c.rank == rankFaulty && i == 0:
			c.Usable = true
			c.Why += ", but no other account is usable"
		case c.rank >= rankFaulty:
		case i == 0:
			c.Why += ": " + cmp.Or(a.onlyChoice(), c.whyFirst(p.opts.Selection))
		case c.rank == rankUsable:
			c.Why += c.whyLater(&list[0], p.opts.Selection)
		}
		rows[i] = c.ChoiceRow
	}
	return rows
}

// ordered lists the members in the order in which a quota group would choose them for a call
// without a session.
func (p *Pool) ordered(g *quotaGroup) []*member {
	if p.opts.Selection != Hybrid {
		first := p.first(g)
		return slices.Concat(p.members[first:], p.members[:first])
	}
	return slices.SortedStableFunc(slices.Values(p.members), func(a, b *member) int {
		switch g.current {
		case a:
			return cmp.Or(cmp.Compare(b.score(g), a.score(g)+stickiness), -1)
		case b:
			return cmp.Or(cmp.Compare(b.score(g)+stickiness, a.score(g)), 1)
		}
		return cmp.Compare(b.score(g), a.score(g))
	})
}

// whyFirst returns why a candidate is chosen before all other usable ones.
func (c *candidate) whyFirst(selection string) string {
	current, preferred := c.group.current == c.member, c.member.signIn.Preferred
	switch {
	case selection == RoundRobin:
		return "next in turn"
	case selection == Hybrid && current:
		return fmt.Sprintf("it is the current account, and none scores %d points more", stickiness)
	case selection == Hybrid:
		return "it has the highest score"
	case current && preferred:
		return "it is preferred, and the current account"
	case current:
		return "it is the current account, and sticky selection stays with it"
	case preferred:
		return "it is preferred"
	}
	return "first usable account"
}

// whyLater returns why a candidate that is usable is not chosen.
func (c *candidate) whyLater(first *candidate, selection string) string {
	switch {
	case c.group != first.group:
		return ", if no account of the pool " + first.group.pool + " is"
	case selection == RoundRobin:
		return ", its turn is later"
	case selection == Hybrid:
		return ""
	}
	return ", if the accounts before it are not"
}

// explain reports whether an account is usable in a quota group, and why.
func (m *member) explain(g *quotaGroup, model string) candidate {
	p, v := m.pool, m.availability(g, model)
	row := perigee.ChoiceRow{Email: m.email, Pool: g.pool, Usable: v.free}
	c := candidate{ChoiceRow: row, member: m, group: g, rank: rankUnusable}
	switch {
	case v.until == 0:
		c.Why = m.absence()
	case v.until > p.now:
		c.Why, c.Until = m.describe(v.kind), p.date(v.until)
		if v.faulty {
			c.rank = rankFaulty
		}
	case !v.free:
		c.Why = causeOf(kindBusy).one
	default:
		c.Why, c.rank = "usable", rankUsable
		if p.opts.Selection == Hybrid {
			c.Why = fmt.Sprintf("usable, score %.0f", m.score(g))
		}
		q, known := m.quota[model]
		if known && g.pool == PoolAntigravity && q.until > p.now {
			c.Why += ", " + percent(q.fraction) + " of its quota left"
		}
		if v.low {
			c.Why += ": not used while accounts with more are usable"
			c.Until, c.rank = p.date(q.until), rankLow
		}
	}
	return c
}

// describe returns why the account cools down.
func (m *member) describe(kind providererr.Kind) string {
	switch one := causeOf(kind).one; {
	case one == "":
		return "it is cooling down (" + string(kind) + ")"
	case kind == providererr.KindProject && m.signIn.ProjectID != "":
		return "its project " + m.signIn.ProjectID + " is refused"
	default:
		return one
	}
}

// absence returns why the account is not in use.
func (m *member) absence() string {
	why := cmp.Or(m.reason, m.signIn.Reason)
	switch {
	case !m.signIn.Enabled:
		return "it is disabled; `perigee account enable` changes that"
	case why != "":
		return strings.ReplaceAll(m.state(), "_", " ") + ": " + why
	}
	return strings.ReplaceAll(m.state(), "_", " ")
}

// percent writes a fraction, rounded down: 0.999 is not shown as all, and 0.001 not as nothing.
func percent(fraction float64) string {
	if fraction > 0 && fraction < 0.01 {
		return "<1%"
	}
	return strconv.Itoa(int(100*fraction+1e-9)) + "%"
}

package account

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// A Reason says whether an account would be lent for a model from one of its pools right now, and why or why not.
type Reason struct {
	Email  string    `json:"email"`
	Pool   string    `json:"pool"`
	Usable bool      `json:"usable"`
	Chosen bool      `json:"chosen"` // the next call without a session gets this one
	Why    string    `json:"why"`
	Until  time.Time `json:"until,omitzero"` // when that changes by itself, if it does
}

// Explain says for each account and pool whether it would be lent for a model now, in the order in which they would be
// chosen, and why the first of them comes first. It changes nothing.
func (p *Pool) Explain(model string) []Reason {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	call := p.borrow(Want{Model: model})
	var usable, spared, faulty, others []candidate
	for _, l := range call.lanes {
		for _, m := range p.order(l, now) {
			c := candidate{p.reason(m, l, model, now), m, l}
			switch {
			case p.brake.until > 0 && m.inUse() && (p.spares(now) || call.group == groupControl):
				c.Usable, c.Why, c.Until = false, p.spared(), p.clock.date(max(p.brake.until, now), now)
				others = append(others, c)
			case p.onlyFaulty(m, l, call, now):
				faulty = append(faulty, c)
			case !c.Usable:
				others = append(others, c)
			case l.spared[model].has(m.index):
				spared = append(spared, c)
			default:
				usable = append(usable, c)
			}
		}
	}
	slices.SortStableFunc(faulty, func(a, b candidate) int { return cmp.Compare(a.member.faults.until, b.member.faults.until) })
	if len(usable)+len(spared) == 0 && len(faulty) > 0 {
		faulty[0].Usable = true // nobody else is
		faulty[0].Why += ", but nobody else is usable"
	}
	slices.SortStableFunc(others, func(a, b candidate) int { // those who never come back last
		if a.Until.IsZero() != b.Until.IsZero() {
			return cmp.Compare(b.Until.Unix(), a.Until.Unix())
		}
		return a.Until.Compare(b.Until)
	})
	return p.inOrder(slices.Concat(usable, spared, faulty, others), now)
}

// A candidate is somebody who may be lent from a lane.
type candidate struct {
	Reason
	member *member
	lane   *lane
}

// inOrder says of those who are usable why they come in this order.
func (p *Pool) inOrder(list []candidate, now instant) []Reason {
	reasons := make([]Reason, len(list))
	for i := range list {
		c := &list[i]
		switch {
		case !c.Usable || c.member.faults.active(now):
			c.Chosen = i == 0 && c.Usable
		case i == 0:
			c.Chosen = true
			c.Why += ": " + p.comesFirst(c, now)
		case c.Until.IsZero(): // who is spared says so already
			c.Why += p.comesLater(c, &list[0])
		}
		reasons[i] = c.Reason
	}
	return reasons
}

// comesFirst says why somebody is chosen before the others who are usable.
func (p *Pool) comesFirst(c *candidate, now instant) string {
	inUse, preferred := c.lane.current == c.member, c.member.signIn.Preferred
	switch {
	case p.opts.Selection == RoundRobin:
		return "its turn"
	case p.opts.Selection == Hybrid && inUse:
		return fmt.Sprintf("in use, and nobody is better by %d points", stickiness)
	case p.opts.Selection == Hybrid:
		return "it has the most points"
	case inUse && preferred:
		return "it is preferred, and in use"
	case inUse:
		return "it is the one in use, and sticky stays with it"
	case preferred:
		return "it is preferred"
	}
	return "the first that is usable"
}

// comesLater says why somebody who is usable is not chosen.
func (p *Pool) comesLater(c, first *candidate) string {
	switch {
	case c.lane != first.lane:
		return ", if no account of the pool " + first.lane.pool + " is"
	case p.opts.Selection == RoundRobin:
		return ", its turn comes later"
	case p.opts.Selection == Hybrid:
		return ""
	}
	return ", if the accounts before it are not"
}

// order lists the members in the order in which a lane would choose them.
func (p *Pool) order(l *lane, now instant) []*member {
	start := l.turn + 1
	if cur := l.current; p.opts.Selection != RoundRobin && cur != nil && cur.index >= 0 {
		start = cur.index
	}
	if p.opts.Selection == Hybrid {
		return p.ranked(l, now)
	}
	start = min(start, len(p.members))
	return slices.Concat(p.members[start:], p.members[:start])
}

// ranked lists the members by their points.
func (p *Pool) ranked(l *lane, now instant) []*member {
	list := slices.Clone(p.members)
	quotaGroup := quotaIndex(l)
	points := func(m *member) float64 {
		s := p.gauges[m.index].score(quotaGroup, now)
		if m == l.current {
			s += stickiness
		}
		return s
	}
	slices.SortStableFunc(list, func(a, b *member) int {
		if order := cmp.Compare(points(b), points(a)); order != 0 || a != l.current && b != l.current {
			return order
		}
		if a == l.current {
			return -1
		}
		return 1
	})
	return list
}

// reason says why a member is or is not usable in a lane.
func (p *Pool) reason(m *member, l *lane, model string, now instant) Reason {
	r := Reason{Email: m.email, Pool: l.pool}
	s := p.survey(l, model)
	at, kind, ok := s.back(m.index, now)
	switch {
	case !ok && (kind == verdict.KindNotFound || kind == verdict.KindForbidden):
		r.Why, r.Until = m.says(kind), p.clock.date(at, now)
	case !ok:
		r.Why = m.absence()
	case at > now:
		r.Why, r.Until = m.says(kind), p.clock.date(at, now)
	case p.busy.has(m.index):
		r.Why = causes[kindBusy].one
	default:
		r.Usable = true
		r.Why = "usable"
		if p.opts.Selection == Hybrid {
			r.Why = fmt.Sprintf("usable, %.0f points", p.gauges[m.index].score(quotaIndex(l), now))
		}
		if q, known := m.quota[model]; known && l.pool == PoolAntigravity && q.until > now {
			r.Why += ", " + percent(q.fraction) + " of its quota left"
		}
		if l.spared[model].has(m.index) {
			r.Why += ": spared while others are usable"
			r.Until = p.clock.date(m.quota[model].until, now)
		}
	}
	return r
}

// says is what a member rests from.
func (m *member) says(kind verdict.Kind) string {
	switch one := causes[kind].one; {
	case one == "":
		return "it rests (" + string(kind) + ")"
	case kind == verdict.KindProject && m.signIn.ProjectID != "":
		return "its project " + m.signIn.ProjectID + " is refused"
	default:
		return one
	}
}

// percent writes a fraction, rounded down: what is not whole is not shown as whole, and what is left not as nothing.
func percent(fraction float64) string {
	if fraction > 0 && fraction < 0.01 {
		return "<1%"
	}
	return strconv.Itoa(int(100*fraction+1e-9)) + "%"
}

// absence says why a member is not in use.
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

// A cause is what keeps accounts from being lent, for a listing and for counting.
type cause struct {
	one   string // about one account
	many  string // behind a number of accounts
	class perigee.Class
}

var causes = map[verdict.Kind]cause{
	verdict.KindQuota:           {"its quota is used up", "out of quota", perigee.ClassExhausted},
	verdict.KindCredits:         {"its quota and credits are used up", "out of quota and credits", perigee.ClassExhausted},
	verdict.KindRate:            {"it made too many calls in a short time", "over the rate limit", perigee.ClassRateLimited},
	verdict.KindUnexplained:     {"it was refused without a reason", "refused without a reason", perigee.ClassRateLimited},
	verdict.KindProject:         {"it may not use its project", "without use of their project", perigee.ClassForbidden},
	verdict.KindUnauthenticated: {"its access token was refused", "with a refused access token", perigee.ClassUnauthenticated},
	verdict.KindNoToken:         {"its access token could not be renewed", "without a new access token", perigee.ClassUnavailable},
	verdict.KindUnavailable:     {"the provider keeps failing it", "that the provider keeps failing", perigee.ClassUnavailable},
	kindBusy:                    {"it has as many calls as it may have", "busy", perigee.ClassRateLimited},
	verdict.KindNotFound:        {"it does not have this model", "without the model", perigee.ClassNotFound},
	verdict.KindForbidden:       {"it may not use this model", "not permitted to use the model", perigee.ClassForbidden},

	// Those who do not come back by themselves.
	verdict.KindVerification: {many: "to be verified", class: perigee.ClassVerification},
	verdict.KindSignedOut:    {many: "signed out", class: perigee.ClassUnauthenticated},
	verdict.KindBan:          {many: "banned", class: perigee.ClassForbidden},
	verdict.KindMisnamed:     {many: "with the token of another account", class: perigee.ClassUnauthenticated},
	kindDisabled:             {many: "disabled", class: perigee.ClassUnauthenticated},
}

const kindDisabled verdict.Kind = "disabled"

// gone is the kind of trouble of a member that is not in use.
func (m *member) gone() verdict.Kind {
	switch {
	case !m.signIn.Enabled:
		return kindDisabled
	case m.state() == perigee.AccountVerification:
		return verdict.KindVerification
	case m.state() == perigee.AccountBanned:
		return verdict.KindBan
	case m.state() == perigee.AccountMisnamed:
		return verdict.KindMisnamed
	}
	return verdict.KindSignedOut
}

package account

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// A member is an account in the pool, with all that the pool has learned about it.
type member struct {
	email  string
	source Source
	signIn perigee.SignIn // as SetSources found it
	index  int            // place in Pool.members; -1: it was removed

	stopped   string // the state that a verdict put it into; empty: none
	reason    string // why
	stoppedAs int64  // the generation of the sign-in that it was said about

	lent    int
	whole   slot                 // the account for everything
	faults  slot                 // trouble of the provider that may be about this account, see faulted
	slots   [maxLanes]slot       // by lane
	lacks   map[lacking]rest     // at most maxLacks
	lackDue bool                 // there is an event for when the first of lacks ends
	quota   map[string]remainder // by model
	lookAt  instant              // from when on its quota may be asked for although nobody uses it
}

// A rest is a time during which an account is left alone.
type rest struct {
	since instant
	until instant      // not after the present: it does not rest
	kind  verdict.Kind // why
	told  bool         // the provider said how long; otherwise it is a guess, which may be probed
	brief bool         // so short that it is better to wait than to lose the prompt cache
	model string       // what was asked
}

func (r rest) active(now instant) bool { return r.until > now }

// A slot is a rest that may come again and again.
type slot struct {
	rest
	failures int       // in a row without a delay: how far up the Ladder it is
	briefs   int       // brief rests in a row
	failedAt instant   // when the last failure was counted
	wokenAt  instant   // when figures have last ended a rest
	stored   time.Time // until when it rests as the store was told last, by this pool or another
}

// inUse says whether the account takes part at all.
func (m *member) inUse() bool {
	return m.index >= 0 && m.signIn.Enabled && perigee.UsableState(m.state())
}

func (m *member) state() string {
	switch {
	case m.stopped != "":
		return m.stopped
	case m.signIn.State == "":
		return perigee.AccountReady
	}
	return m.signIn.State
}

// kindBusy is what nobody says but the pool: the account has as many calls as it may have.
const kindBusy verdict.Kind = "busy"

// happen handles an event that is due.
func (p *Pool) happen(e event, now instant) {
	m := e.member
	switch {
	case e.lacks:
		p.expireLacks(m, now)
	case m.index < 0:
	case e.model == "":
		p.refresh(m, now)
	default:
		if m.quota[e.model].until <= now {
			delete(m.quota, e.model)
			p.mark(e.lane.spared, e.model, m, false)
		}
	}
}

// mark puts a member into the set of a model, or takes it out.
func (p *Pool) mark(sets map[string]bitset, model string, m *member, on bool) {
	s := sets[model]
	if m.index < 0 || s.has(m.index) == on {
		return
	}
	if s == nil {
		s = newBitset(len(p.members))
		sets[model] = s
	}
	s.set(m.index, on)
	if !on {
		p.changed = true
		if s.empty() {
			delete(sets, model)
		}
	}
}

// cooldowns lists what a member rests from.
func (p *Pool) cooldowns(m *member, now instant) []perigee.Cooldown {
	var list []perigee.Cooldown
	add := func(family, pool string, r rest) {
		if r.active(now) {
			list = append(list, perigee.Cooldown{Family: family, Pool: pool, Until: p.clock.date(r.until, now).UTC(), Reason: string(r.kind)})
		}
	}
	addModel := func(l *lane, r rest) {
		r.kind += verdict.Kind(": " + r.model)
		add(string(l.group), l.pool, r)
	}
	add("", "", m.whole.rest)
	add("", "", m.faults.rest)
	for _, l := range p.lanes {
		add(string(l.group), l.pool, m.slots[l.id].rest)
	}
	keys := slices.SortedFunc(maps.Keys(m.lacks), func(a, b lacking) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.lane, b.lane))
	})
	for _, key := range keys {
		if p.had.lately(key.model, now) { // what nobody has is nobody's rest
			addModel(p.lanes[key.lane], m.lacks[key])
		}
	}
	return list
}

// worthStoring is the shortest rest that is kept for the next start.
const worthStoring = 30 * time.Second

// keep stores a rest of a member as it is now, which may be that it is over.
func (p *Pool) keep(m *member, l *lane, r rest, now instant) {
	c := perigee.Cooldown{Until: p.clock.date(r.until, now).UTC(), Reason: string(r.kind)}
	s := &m.whole
	if l != nil {
		c.Family, c.Pool = string(l.group), l.pool
		s = &m.slots[l.id]
	}
	if r.active(now) {
		s.stored = c.Until
	}
	p.saveCooldown(m, c)
}

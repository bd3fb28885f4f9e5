package account

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"perigee/internal/verdict"
)

// lacking names a model that an account does not have in a lane.
type lacking struct {
	lane  int
	model string
}

// maxLacks is how many models an account is known not to have. There are fewer real ones: the rest are misspelt names,
// of which the oldest give way.
const maxLacks = 32

// lack notes that an account does not have a model, or may not use it. Whether that is a rest of the account, or whether
// nobody has a model of that name, shows when somebody is found to have it.
func (p *Pool) lack(l *loan, kind verdict.Kind, now instant) {
	m, key := l.member, lacking{l.lane.id, l.call.want.Model}
	if m.lacks == nil {
		m.lacks = map[lacking]rest{}
	}
	if _, known := m.lacks[key]; !known && len(m.lacks) >= maxLacks {
		p.unlack(m, p.oldestLack(m, now))
	}
	m.lacks[key] = rest{since: now, until: now + notFoundRest, kind: kind, model: l.call.want.Model}
	p.mark(l.lane.lacking, l.call.want.Model, m, true)
	p.awaitLacks(m)
	p.changed = true
}

// oldestLack is what a member is to forget first: names that nobody is known to have, then whatever is oldest.
func (p *Pool) oldestLack(m *member, now instant) lacking {
	return slices.MinFunc(slices.Collect(maps.Keys(m.lacks)), func(a, b lacking) int {
		if x, y := p.had.lately(a.model, now), p.had.lately(b.model, now); x != y {
			if x {
				return 1
			}
			return -1
		}
		return cmp.Compare(m.lacks[a].since, m.lacks[b].since)
	})
}

func (p *Pool) unlack(m *member, key lacking) {
	delete(m.lacks, key)
	p.mark(p.lanes[key.lane].lacking, key.model, m, false)
}

// awaitLacks has the first of a member's lacks end in its time. One event is enough for all, however many there come.
func (p *Pool) awaitLacks(m *member) {
	if m.lackDue || len(m.lacks) == 0 {
		return
	}
	m.lackDue = true
	first := slices.MinFunc(slices.Collect(maps.Values(m.lacks)), func(a, b rest) int { return cmp.Compare(a.until, b.until) })
	p.events.push(event{at: first.until, member: m, lacks: true})
}

// expireLacks forgets what a member was found not to have long ago.
func (p *Pool) expireLacks(m *member, now instant) {
	for key, r := range m.lacks {
		if !r.active(now) {
			p.unlack(m, key)
		}
	}
	m.lackDue = false
	p.awaitLacks(m)
}

// lack is the rest that a member takes from a model that it was found not to have.
func (m *member) lack(l *lane, model string) rest {
	if len(m.lacks) == 0 {
		return rest{}
	}
	return m.lacks[lacking{l.id, model}]
}

// had is when a model was last seen with any account: in an answer, or in what is left of a quota.
type had map[string]instant

const (
	hadAge = time.Hour // how long that shows that there is such a model
	maxHad = 256       // models that are remembered; there are fewer
)

func (h had) note(model string, now instant) {
	if _, known := h[model]; !known && len(h) >= maxHad {
		delete(h, slices.MinFunc(slices.Collect(maps.Keys(h)), func(a, b string) int { return cmp.Compare(h[a], h[b]) }))
	}
	h[model] = now
}

func (h had) lately(model string, now instant) bool {
	at, ok := h[model]
	return ok && now-at < hadAge
}

package pool

import (
	"time"

	"perigee/internal/adapt/providererr"
)

// The model is the pool in as few words as possible. It shares no code with the pool.
type poolModel struct {
	opts     Options
	accounts []*modelAccount
	current  map[string]int // sticky: by quota group
	bound    map[string]boundTo

	lost      map[int]bool // accounts that were banned since the last good answer
	sparedTo  time.Time    // until when the breaker is open; zero means it is closed
	looksInto *lease       // the probe
}

// spares reports whether all accounts are left alone, because two of them were banned in a row.
func (m *poolModel) open(now time.Time) bool { return m.looksInto != nil || m.sparedTo.After(now) }

func (m *poolModel) reset() { m.lost, m.sparedTo, m.looksInto = map[int]bool{}, time.Time{}, nil }

type boundTo struct {
	account int
	pool    string
}

type modelAccount struct {
	enabled, banned bool
	removed         bool
	remembered      bool // although it was removed, because it still had calls
	open            int
	rests           map[string]modelRest // by quota group
	failedAt        map[string]instant   // by quota group
	faults          int                  // in a row
	faultAt         instant
	faulty          time.Time            // until when it is used last, because of those
	lacks           map[string]modelRest // by quota group and model
	quota           map[string]modelQuota
}

type modelRest struct {
	since, until time.Time
	kind         providererr.Kind
	model        string
}

type modelQuota struct {
	left  float64
	until time.Time
}

func modelGroup(w Request, pool string) string { return string(groupOf(w)) + "/" + pool }

// free is when an account can be asked, as far as time decides; ok reports whether time decides.
func (m *poolModel) free(i int, w Request, pool string) (at time.Time, ok bool) {
	a := m.accounts[i]
	if !a.enabled || a.banned || a.removed {
		return at, false
	}
	at = a.rests[modelGroup(w, pool)].until
	if lacks := a.lacks[modelGroup(w, pool)+w.Model].until; lacks.After(at) {
		at = lacks
	}
	if a.faulty.After(at) {
		at = a.faulty
	}
	return at, true
}

// onlyFaulty reports whether an account would be usable if the provider did not keep failing it.
func (m *poolModel) onlyFaulty(i int, w Request, pool string, now time.Time) bool {
	a := m.accounts[i]
	was := a.faulty
	a.faulty = time.Time{}
	defer func() { a.faulty = was }()
	return was.After(now) && m.usable(i, w, pool, now)
}

func (m *poolModel) anyOnlyFaulty(w Request, now time.Time) bool {
	for _, pool := range m.pools(w) {
		for i := range m.accounts {
			if m.onlyFaulty(i, w, pool, now) {
				return true
			}
		}
	}
	return false
}

func (m *poolModel) busy(i int) bool {
	return m.opts.Concurrency > 0 && m.accounts[i].open >= m.opts.Concurrency
}

func (m *poolModel) usable(i int, w Request, pool string, now time.Time) bool {
	at, ok := m.free(i, w, pool)
	return ok && !at.After(now) && !m.busy(i)
}

func (m *poolModel) spared(i int, w Request, pool string, now time.Time) bool {
	q, ok := m.accounts[i].quota[w.Model]
	return ok && pool == PoolAntigravity && q.until.After(now) && q.left <= 1-m.opts.SoftQuota+1e-9
}

// onlyBusy reports whether an account would be chosen if it had fewer calls.
func (m *poolModel) onlyBusy(i int, w Request, pool string) bool {
	now := time.Now()
	free, ok := m.free(i, w, pool)
	return ok && !free.After(now) && m.busy(i) && !m.spared(i, w, pool, now)
}

func (m *poolModel) pools(w Request) []string {
	if groupOf(w) == groupGemini {
		return m.opts.Pools
	}
	return []string{PoolAntigravity}
}

// anyUsable reports whether an account is usable, with or without those that have low quota.
func (m *poolModel) anyUsable(w Request, spared bool, now time.Time) bool {
	for _, pool := range m.pools(w) {
		for i := range m.accounts {
			if m.usable(i, w, pool, now) && (spared || !m.spared(i, w, pool, now)) {
				return true
			}
		}
	}
	return false
}

// outlook is when a call gets an account if nothing else happens, and whether it does.
func (m *poolModel) outlook(w Request, now time.Time) (at time.Time, ok bool) {
	deadline := now.Add(m.opts.MaxWait)
	worthIt := false
	for _, pool := range m.pools(w) {
		for i, a := range m.accounts {
			free, in := m.free(i, w, pool)
			if !in {
				continue
			}
			if lacks := a.lacks[modelGroup(w, pool)+w.Model].until; !lacks.After(now) && !free.After(deadline) {
				worthIt = true
			}
			if !m.busy(i) && (!ok || free.Before(at)) {
				at, ok = free, true
			}
		}
	}
	if at.Before(now) {
		at = now
	}
	if m.open(now) {
		return now, false
	}
	if (!ok || at.After(now)) && m.anyOnlyFaulty(w, now) {
		return now, true
	}
	return at, ok && (at.Equal(now) || worthIt && !at.After(deadline))
}

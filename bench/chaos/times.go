package main

import (
	"slices"
	"time"
)

// A span is a time in which something was the case; a zero end is now.
type span struct {
	from, to time.Time
	drained  bool // perigee was stopped with SIGTERM
}

func (s span) overlaps(from, to time.Time) bool {
	return !to.Before(s.from) && (s.to.IsZero() || !from.After(s.to))
}

// wasDown reports whether perigee was not up at some moment of a time. An answer that had begun is
// not excused by SIGTERM: it is finished, or its client is told.
func (w *world) wasDown(from, to time.Time, begun bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.downs {
		if s.overlaps(from, to) && !(begun && s.drained) {
			return true
		}
	}
	return false
}

// storeOut marks a time in which nothing can be stored.
func (w *world) storeOut() (back func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.storeOuts)
	w.storeOuts = append(w.storeOuts, span{from: time.Now()})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.storeOuts[i].to = time.Now()
	}
}

// ends are the moments at which a process ended that could not write all its rows: it was killed, or
// it was stopped while nothing could be stored.
func (w *world) ends() []time.Time {
	ends := slices.Clone(w.kills)
	for _, s := range w.downs {
		for _, out := range w.storeOuts {
			if s.drained && out.overlaps(s.from, s.to) {
				ends = append(ends, s.to)
				break
			}
		}
	}
	return ends
}

// mayLose reports whether the end of a process may have lost a row that was made at a time: rows are
// written together, a moment later, and later still when the store was out.
func (w *world) mayLose(at time.Time) bool {
	for _, kill := range w.ends() {
		from := kill.Add(-3 * time.Second)
		for _, out := range w.storeOuts {
			if out.from.Before(kill) && out.to.After(kill.Add(-35*time.Second)) && out.from.Before(from) {
				from = out.from.Add(-3 * time.Second)
			}
		}
		if at.After(from) && at.Before(kill.Add(time.Second)) {
			return true
		}
	}
	return false
}

// unsettle marks a time in which the configuration is not whole.
func (w *world) unsettle() (back func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.unset)
	w.unset = append(w.unset, span{from: time.Now()})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.unset[i].to = time.Now()
	}
}

// reload is how long perigee may take until it uses a configuration that has become whole.
const reload = 10 * time.Second

// A blankStart is a start of perigee while the configuration was not whole: without upstreams and
// keys it answers everybody from its simulator, as it does without a configuration.
type blankStart struct {
	at    time.Time
	unset int // the span of the configuration, in world.unset
}

func (w *world) noteBlank(started time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range w.unset {
		if s.overlaps(started, time.Now()) {
			w.blank = append(w.blank, blankStart{started, i})
		}
	}
}

// wasBlank reports whether perigee may have been without its configuration at some moment of a time.
func (w *world) wasBlank(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.blank {
		without := span{from: b.at}
		if whole := w.unset[b.unset].to; !whole.IsZero() {
			without.to = whole.Add(reload)
		}
		if without.overlaps(from, to) {
			return true
		}
	}
	return false
}

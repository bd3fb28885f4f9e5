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

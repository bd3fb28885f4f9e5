package record

import (
	"sync"
	"time"

	"perigee"
)

// spending is the cost of the calls of each key, for the last day on which one of them began.
type spending struct {
	mu   sync.Mutex
	keys map[string]*daySpending
}

type daySpending struct {
	day   time.Time     // its first moment, in UTC
	ended perigee.Spent // by calls that have ended
	saved perigee.Spent // by the ended calls that are in the store
}

// Spent returns the cost of the calls of a key that began on a UTC day and ended in this process,
// and the part of it that is in the store. Only the last day on which calls of the key began is
// known.
func (r *Recorder) Spent(key string, day time.Time) (ended, saved perigee.Spent) {
	r.spending.mu.Lock()
	defer r.spending.mu.Unlock()
	if d := r.spending.keys[key]; d != nil && d.day.Equal(day) {
		return d.ended, d.saved
	}
	return perigee.Spent{}, perigee.Spent{}
}

func (s *spending) ended(call *perigee.Call) {
	s.add(call, func(d *daySpending, cost perigee.Spent) { d.ended = d.ended.Plus(cost) })
}

// saved counts calls that are now in the store. Each is there once, with its last state.
func (s *spending) saved(calls []perigee.Call) {
	for i := range calls {
		if calls[i].Outcome != perigee.OutcomeOpen {
			s.add(&calls[i], func(d *daySpending, cost perigee.Spent) { d.saved = d.saved.Plus(cost) })
		}
	}
}

func (s *spending) add(call *perigee.Call, to func(d *daySpending, cost perigee.Spent)) {
	cost, key := perigee.Spent{Tokens: call.Usage.Total(), USD: call.Cost.USD}, call.Client.Key
	if cost.Tokens == 0 || key == "" {
		return
	}
	day := call.Time.UTC().Truncate(24 * time.Hour)
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.keys[key]
	if d == nil {
		if s.keys == nil {
			s.keys = map[string]*daySpending{}
		}
		d = &daySpending{day: day}
		s.keys[key] = d
	}
	switch {
	case day.Before(d.day):
		return
	case day.After(d.day):
		*d = daySpending{day: day}
	}
	to(d, cost)
}

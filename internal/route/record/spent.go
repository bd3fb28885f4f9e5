package record

import (
	"sync"
	"time"

	"perigee"
)

// spending is what the calls of each key have cost on the last day that one of them began on.
type spending struct {
	mu   sync.Mutex
	keys map[string]*daySpending
}

type daySpending struct {
	day   time.Time     // its first moment, in UTC
	ended perigee.Spent // by calls that have ended
	saved perigee.Spent // and by those that are in the store
}

// Spent returns what calls of a key that began on a UTC day have cost in this process, and what of
// that is in the store. Only the last day that calls of the key began on is known.
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

// saved notes calls that are in the store now. Each is there once with its last state.
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

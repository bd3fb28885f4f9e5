package route

import (
	"sync"
	"time"

	"perigee"
)

const (
	// absentFor is how long a model that no upstream has is not requested again while a replacement
	// answers.
	absentFor = time.Hour
	// maxAbsent bounds the number of remembered names, because clients choose them.
	maxAbsent = 1000
)

// An absentMemory holds the names of models that no upstream had, and for which another model
// answered. It saves each such call a round trip.
type absentMemory struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (m *absentMemory) add(model string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil || len(m.until) >= maxAbsent {
		m.until = map[string]time.Time{}
	}
	if now.Before(m.until[model]) {
		return // the time is not extended, so that the provider is asked again
	}
	m.until[model] = now.Add(absentFor)
}

func (m *absentMemory) has(model string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Before(m.until[model])
}

func (m *absentMemory) forget(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.until, model)
}

func (m *absentMemory) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.until)
}

// recentlyMissing returns a failure for each upstream of a model that none of them had within the
// last hour, or nil for other models. For a strict request it returns nil, so that the provider is
// asked.
func (r *Router) recentlyMissing(found resolution, req *perigee.Request) (list failures) {
	if req.Strict || !r.absents.has(found.key(), r.opts.Now()) || r.models.has(found.model) {
		return nil
	}
	for _, target := range found.targets {
		list = append(list, failure{upstream: target.Name, err: perigee.Errorf(perigee.ClassNotFound, "no model %q", found.model), recorded: true})
	}
	return list
}

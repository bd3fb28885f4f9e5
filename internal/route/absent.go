package route

import (
	"sync"
	"time"

	"perigee"
)

const (
	// absentFor is how long a model that no upstream has is not asked for again while another
	// answers in its place.
	absentFor = time.Hour
	// maxAbsent bounds how many of them are remembered: clients choose the names.
	maxAbsent = 1000
)

// An absentMemory keeps the names of models that no upstream had, and for which another model
// answered. Requesting them first costs each call a round trip.
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
		return // only asking counts
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

// remembered returns what the upstreams of a model have said when none of them had it, not too long
// ago; nil: that is not known. A strict request is told what the provider says now.
func (r *Router) remembered(found resolved, req *perigee.Request) (list failures) {
	if req.Strict || !r.absents.has(found.model, r.opts.Now()) || r.models.has(found.model) {
		return nil // or it is listed again
	}
	for _, target := range found.targets {
		list = append(list, failure{upstream: target.Name, err: perigee.Errorf(perigee.ClassNotFound, "no model %q", found.model), recorded: true})
	}
	return list
}

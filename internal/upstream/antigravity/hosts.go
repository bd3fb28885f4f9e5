package antigravity

import (
	"slices"
	"sync"
	"time"
)

// hosts are the endpoints in the order in which they are tried. One that could not be reached stands at the end for a
// while, so that not every call waits for it again.
type hosts struct {
	list []string
	now  func() time.Time

	mu    sync.Mutex
	until map[string]time.Time
}

// rest is how long an endpoint that could not be reached is tried last.
const rest = 30 * time.Second

// content returns the endpoints for asking a model. The plainer envelope is taken by the last one only.
func (h *hosts) content(cli bool) []string {
	if cli && len(h.list) > 0 {
		return h.list[len(h.list)-1:]
	}
	return h.awake(h.list)
}

// control returns the endpoints for everything else: the stable one first.
func (h *hosts) control() []string {
	list := slices.Clone(h.list)
	slices.Reverse(list)
	return h.awake(list)
}

func (h *hosts) awake(list []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.until) == 0 {
		return list
	}
	now := h.now()
	asleep := func(host string) bool { return now.Before(h.until[host]) }
	if !slices.ContainsFunc(list, asleep) {
		return list
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b string) int {
		switch {
		case asleep(a) == asleep(b):
			return 0
		case asleep(a):
			return 1
		}
		return -1
	})
	return sorted
}

// unreachable notes that an endpoint did not answer at all.
func (h *hosts) unreachable(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	h.until[host] = h.now().Add(rest)
}

func (h *hosts) reachable(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.until, host)
}

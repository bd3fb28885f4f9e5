package antigravity

import (
	"slices"
	"sync"
	"time"
)

// hosts are the endpoints in the order in which they are tried. One that could not be reached is
// tried last for cooldown, so that not every call waits for it again.
type hosts struct {
	list []string
	now  func() time.Time

	mu    sync.Mutex
	until map[string]time.Time
}

const cooldown = 30 * time.Second

// content returns the endpoints for requests to a model. Only the last one accepts the envelope of
// the command-line tool.
func (h *hosts) content(cli bool) []string {
	if cli && len(h.list) > 0 {
		return h.list[len(h.list)-1:]
	}
	return h.reachableFirst(h.list)
}

// control returns the endpoints for everything else: the stable one first.
func (h *hosts) control() []string {
	list := slices.Clone(h.list)
	slices.Reverse(list)
	return h.reachableFirst(list)
}

// reachableFirst moves endpoints that could not be reached to the end.
func (h *hosts) reachableFirst(list []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.until) == 0 {
		return list
	}
	now := h.now()
	var first, last []string
	for _, host := range list {
		if now.Before(h.until[host]) {
			last = append(last, host)
		} else {
			first = append(first, host)
		}
	}
	return append(first, last...)
}

// unreachable records that an endpoint did not respond.
func (h *hosts) unreachable(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	h.until[host] = h.now().Add(cooldown)
}

func (h *hosts) reachable(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.until, host)
}

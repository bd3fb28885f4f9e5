package extserver

import (
	"maps"
	"sync"
)

// A counter counts calls by method and code. Both come from fixed lists.
type counter struct {
	mu    sync.Mutex
	calls map[string]map[string]int64
}

func (c *counter) add(method, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]map[string]int64{}
	}
	if c.calls[method] == nil {
		c.calls[method] = map[string]int64{}
	}
	c.calls[method][code]++
}

func (c *counter) all() map[string]map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]map[string]int64, len(c.calls))
	for method, codes := range c.calls {
		all[method] = maps.Clone(codes)
	}
	return all
}

// openCalls counts calls that have not ended.
type openCalls struct {
	mu      sync.Mutex
	count   int
	waiting []chan struct{} // closed when there are none
}

// begin counts a call until the returned function is called.
func (o *openCalls) begin() (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.count--; o.count == 0 {
			for _, c := range o.waiting {
				close(c)
			}
			o.waiting = nil
		}
	}
}

// none returns a channel that is closed as soon as no call is open.
func (o *openCalls) none() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := make(chan struct{})
	if o.count == 0 {
		close(c)
	} else {
		o.waiting = append(o.waiting, c)
	}
	return c
}

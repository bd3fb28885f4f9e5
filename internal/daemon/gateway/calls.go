package gateway

import "sync"

// An openCalls counts the calls that may reach an upstream. Unlike a sync.WaitGroup, it may be
// waited for while calls begin: an upstream that perigee closes when it stops is in force until the
// end. The zero value has none.
type openCalls struct {
	mu   sync.Mutex
	open int
	over chan struct{} // closed when none is open; nil if it is not waited for
}

// begin counts a call.
func (c *openCalls) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
}

// end ends a call that begin has counted.
func (c *openCalls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 && c.over != nil {
		close(c.over)
		c.over = nil
	}
}

// none returns a channel that is closed as soon as no call is open. Calls that begin after that do
// not matter to it.
func (c *openCalls) none() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over == nil {
		c.over = make(chan struct{})
	}
	over := c.over
	if c.open == 0 {
		close(c.over)
		c.over = nil
	}
	return over
}

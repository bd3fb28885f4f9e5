package connlimit

import (
	"context"
	"time"
)

// firstRequestTime is how old a connection may become without sending a request until WaitFresh no
// longer waits for one. It is the age up to which http.Server.Shutdown keeps such a connection
// open.
const firstRequestTime = 5 * time.Second

// Drain has every connection closed after its next answer.
func (c *Limiter) Drain() { c.draining.Store(true) }

// WaitFresh returns when the first request of every open connection has reached its handler, except
// for connections that are too old, or when ctx ends. http.Server.Shutdown closes a connection
// without an answer before that, even if the request is already there, so it is called afterwards.
func (c *Limiter) WaitFresh(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for c.anyFresh() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// anyFresh reports whether a connection that is not too old has not sent a request yet.
func (c *Limiter) anyFresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		if !conn.requested.Load() && time.Since(conn.opened) < firstRequestTime {
			return true
		}
	}
	return false
}

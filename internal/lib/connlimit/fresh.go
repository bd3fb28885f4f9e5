package connlimit

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// firstRequestTime is how old a connection may become without sending a request until Wait no
// longer waits for one. It is the age up to which http.Server.Shutdown keeps such a connection
// open.
const firstRequestTime = 5 * time.Second

// Fresh tracks connections until their first request reaches a handler. http.Server.Shutdown closes
// such a connection without an answer, even when the request is already there, so they are waited
// for first.
type Fresh struct {
	mu    sync.Mutex
	conns map[net.Conn]*freshConnection // all that are open
}

type freshConnection struct {
	opened time.Time
	begun  atomic.Bool // a handler has its first request
}

type freshConnectionKey struct{}

// Track has a server count its new connections, and close connections after the answer while
// stopping is true.
func (n *Fresh) Track(server *http.Server, stopping *atomic.Bool) {
	remember := server.ConnContext
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if remember != nil {
			ctx = remember(ctx, c)
		}
		return n.context(ctx, c)
	}
	noteState := server.ConnState
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			n.remove(c)
		}
		if noteState != nil {
			noteState(c, state)
		}
	}
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(freshConnectionKey{}).(*freshConnection); ok && !c.begun.Load() {
			c.begun.Store(true)
		}
		if stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

func (n *Fresh) context(ctx context.Context, c net.Conn) context.Context {
	fresh := &freshConnection{opened: time.Now()}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = make(map[net.Conn]*freshConnection)
	}
	n.conns[c] = fresh
	return context.WithValue(ctx, freshConnectionKey{}, fresh)
}

func (n *Fresh) remove(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// any reports whether a connection that is not too old has not sent a request yet.
func (n *Fresh) any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		if !c.begun.Load() && time.Since(c.opened) < firstRequestTime {
			return true
		}
	}
	return false
}

// Wait returns when there is no such connection any more, or when ctx ends.
func (n *Fresh) Wait(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for n.any() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

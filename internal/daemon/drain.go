package daemon

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// firstRequestTime is how long a connection that was accepted before the listeners were closed may take to send a request.
const firstRequestTime = time.Second

// freshConnections are connections whose first request has not reached a handler. http.Server.Shutdown closes such a connection
// without an answer, even when the request is already there, so they are waited for first.
type freshConnections struct {
	mu    sync.Mutex
	conns map[net.Conn]*freshConnection
	open  atomic.Int64 // those without a request
}

type freshConnection struct{ begun atomic.Bool }

type freshConnectionKey struct{}

// track has a server count its new connections, and close connections after the answer while stopping is true.
func (n *freshConnections) track(server *http.Server, stopping *atomic.Bool) {
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
		if c, ok := r.Context().Value(freshConnectionKey{}).(*freshConnection); ok {
			n.begin(c)
		}
		if stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

func (n *freshConnections) context(ctx context.Context, c net.Conn) context.Context {
	fresh := new(freshConnection)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = make(map[net.Conn]*freshConnection)
	}
	n.conns[c] = fresh
	n.open.Add(1)
	return context.WithValue(ctx, freshConnectionKey{}, fresh)
}

func (n *freshConnections) begin(c *freshConnection) {
	if !c.begun.Load() && c.begun.CompareAndSwap(false, true) {
		n.open.Add(-1)
	}
}

func (n *freshConnections) remove(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if fresh := n.conns[c]; fresh != nil {
		n.begin(fresh)
		delete(n.conns, c)
	}
}

// wait returns when every connection has sent a request or was closed, after firstRequestTime, or when ctx ends.
func (n *freshConnections) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstRequestTime)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for n.open.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// stopAccepting closes the listeners for clients and waits until the connections that they had accepted have sent a request.
func (d *Daemon) stopAccepting(ctx context.Context) {
	for _, l := range d.listeners {
		_ = l.Close()
	}
	d.accepting.Wait()
	d.fresh.wait(ctx)
}

package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"perigee/internal/lib/netguard"
	"perigee/internal/lib/peeruser"
)

// An Endpoint is a loopback address that a language server uses in place of the cloud.
type Endpoint struct {
	handler *Handler
	server  *http.Server
	url     string
	serving sync.WaitGroup
}

// Listen opens an endpoint on a random port of 127.0.0.1, for processes of this user. The handler
// needs the address of the cloud.
func Listen(ctx context.Context, handler *Handler) (*Endpoint, error) {
	if handler.cloud == nil {
		return nil, errors.New("endpoint of the language server: the address of the cloud is missing")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("endpoint of the language server: %w", err)
	}
	listener = peeruser.NewCheck(ctx).Listener(listener, func() {
		handler.opts.Logger.Warn("endpoint of the language server: connection of another user refused")
	})
	e := &Endpoint{handler: handler, url: "http://" + listener.Addr().String()}
	e.server = &http.Server{
		Handler: e, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute,
		ErrorLog: slog.NewLogLogger(handler.opts.Logger.Handler(), slog.LevelDebug),
	}
	e.serving.Go(func() { _ = e.server.Serve(listener) }) // ends with Close
	return e, nil
}

// URL returns the address of the endpoint.
func (e *Endpoint) URL() string { return e.url }

// Close cuts off the language server. Calls with answers that have started continue.
func (e *Endpoint) Close() error {
	err := e.server.Close()
	e.serving.Wait()
	return err
}

// ServeHTTP admits only the language server. It refuses requests of web pages, under any host
// name.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil || !netguard.IsLoopback(host) || r.Header.Get("Origin") != "" {
		http.Error(w, "this address is for the language server only", http.StatusForbidden)
		return
	}
	e.handler.ServeHTTP(w, r)
}

package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"perigee/internal/lib/connlimit"
	"perigee/internal/server"
	"perigee/internal/store/datadir"
)

// A Service runs as long as the daemon does: a listener, a proxy, a child process.
//
// Its life cycle, each step at most once: the daemon starts its services in order. When it stops,
// all of them drain at the same time; then the contexts of open calls end, and the services are
// closed in order. After a failed Start nothing else is called of that service; those that were
// started before are closed without Drain.
type Service interface {
	// Start returns when the service can be used, or with an error after it has cleaned up; then
	// the daemon does not start. A failure later on is reported to failed. ctx is for the start
	// alone.
	Start(ctx context.Context, failed func(error)) error
	// Drain accepts no new work and returns when the open work has ended, or with an error when ctx
	// ends before. ctx is Stop's.
	Drain(ctx context.Context) error
	// Close ends the service. Work that is still open is cut off when ctx ends, closeTime after the
	// first service is closed.
	Close(ctx context.Context) error
}

// closeTime is how long services may take to cut off open work: handlers write the error to their
// clients.
const closeTime = 2 * time.Second

func (d *Daemon) startServices(ctx context.Context, services []Service) error {
	for _, s := range services {
		if err := s.Start(ctx, d.serviceFailed); err != nil {
			return err
		}
		d.services = append(d.services, s)
	}
	return nil
}

// serviceFailed passes the first failures on to Failed. Errors while the daemon stops are ignored.
func (d *Daemon) serviceFailed(err error) {
	if d.draining.Load() {
		return
	}
	select {
	case d.failed <- err:
	default:
	}
}

func (d *Daemon) drainServices(ctx context.Context) error {
	d.observers.Drain()
	errs := make([]error, len(d.services))
	var draining sync.WaitGroup
	for i, s := range d.services {
		draining.Go(func() { errs[i] = s.Drain(ctx) })
	}
	draining.Wait()
	return errors.Join(errs...)
}

func (d *Daemon) closeServices(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	for _, s := range d.services {
		if err := s.Close(ctx); err != nil {
			d.opts.Logger.Debug("service not closed cleanly", "error", err)
		}
	}
}

// A clientService serves the API to clients, on the configured address or on sockets that were
// passed.
type clientService struct {
	api       *server.Server
	server    *http.Server
	limiter   *connlimit.Limiter
	open      func() ([]net.Listener, error)
	listeners []net.Listener
	accepting sync.WaitGroup
}

// Start listens.
func (s *clientService) Start(_ context.Context, failed func(error)) (err error) {
	if s.listeners, err = s.open(); err != nil {
		return err
	}
	for _, l := range s.listeners {
		s.accepting.Go(func() { serve(s.server, s.limiter.Listener(l), failed) })
	}
	return nil
}

// Drain closes the listeners and waits for the calls of connections that were accepted before, for
// WebSockets, which http.Server does not track, and for responses in the background.
func (s *clientService) Drain(ctx context.Context) error {
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.accepting.Wait()
	s.limiter.WaitFresh(ctx)
	sockets := make(chan error, 1)
	go func() { sockets <- s.api.Drain(ctx) }()
	if err := errors.Join(s.server.Shutdown(ctx), <-sockets); err != nil {
		return err
	}
	return s.api.Finish(ctx)
}

// Close gives handlers until ctx ends to write their error. Their own context has ended.
func (s *clientService) Close(ctx context.Context) error {
	err := errors.Join(s.server.Shutdown(ctx), s.server.Close())
	s.accepting.Wait()
	return err
}

// A socketService answers the owner's commands on a socket in data_dir, also while the daemon
// drains.
type socketService struct {
	server  *http.Server
	path    string
	missing func(error) // called when there is no socket
	serving sync.WaitGroup
}

// Start listens. Commands work without the socket, too, so its absence is not an error: a file
// system may not have sockets, and their paths have a length limit.
func (s *socketService) Start(_ context.Context, failed func(error)) error {
	l, err := datadir.ListenSocket(s.path)
	if err != nil {
		s.missing(err)
		return nil
	}
	s.serving.Go(func() { serve(s.server, l, failed) })
	return nil
}

// Drain does nothing: commands are answered until the end.
func (s *socketService) Drain(context.Context) error { return nil }

// Close ends open commands.
func (s *socketService) Close(context.Context) error {
	err := s.server.Close()
	s.serving.Wait()
	return err
}

// serve accepts connections until the server or the listener is closed, with TLS where the server
// has a configuration for it.
func serve(server *http.Server, l net.Listener, failed func(error)) {
	accept := server.Serve
	if server.TLSConfig != nil {
		accept = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := accept(l); !errors.Is(err, http.ErrServerClosed) {
		failed(err)
	}
}

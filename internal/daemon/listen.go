package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"perigee/internal/config"
	"perigee/internal/httpapi"
)

// listen serves clients, and the owner's commands on a socket in data_dir.
func (d *Daemon) listen(cfg *config.Config) (err error) {
	if d.listeners, err = d.openListeners(cfg); err != nil {
		return err
	}
	d.connections = newConnections(d.opts.Logger)
	d.connections.apply(cfg.Limits.Connections, d.memory.Size())
	d.tcp = d.newServer(d.connections.answering(d.api))
	d.encrypt(d.tcp)
	d.connections.encrypted = d.tcp.TLSConfig != nil
	d.fresh.track(d.tcp, &d.draining)
	for _, l := range d.listeners {
		d.accepting.Add(1)
		d.run(d.tcp, d.connections.limit(l), d.accepting.Done)
	}
	// Commands work without the socket, too, so the gateway does not fail for want of one: a file system
	// may not have sockets, and their paths have a length limit.
	socket, err := listenSocket(SocketPath(cfg))
	if err != nil {
		d.opts.Logger.Warn("commands cannot reach this daemon directly", "error", err)
		return nil
	}
	d.socket = d.newServer(d.api.Trusted())
	d.run(d.socket, socket, func() {})
	return nil
}

// openListeners returns the sockets that were passed, or else opens the address in the configuration.
func (d *Daemon) openListeners(cfg *config.Config) ([]net.Listener, error) {
	if len(d.opts.Listeners) > 0 {
		return d.opts.Listeners, nil
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w; another program may have the port: choose one with --listen", err)
	}
	return []net.Listener{l}, nil
}

// checkListeners refuses to serve without a key where a socket that was passed can be reached from other machines: the check of
// the configuration knows only the address in it.
func (d *Daemon) checkListeners(cfg *config.Config) error {
	for _, l := range d.opts.Listeners {
		address := l.Addr().String()
		if isLocal(l) {
			continue
		}
		if len(cfg.Keys) == 0 {
			return &ConfigError{fmt.Sprintf("the socket %s that was passed can be reached from other machines, and there is no key; "+
				"add one under keys, or let the socket listen on 127.0.0.1", address)}
		}
		if d.certificate.Load() == nil {
			d.opts.Logger.Warn("other machines can reach this listener, and keys and prompts are sent there unencrypted; set tls",
				"listen", address)
		}
	}
	return nil
}

// isLocal reports whether a listener can be reached from this machine only.
func isLocal(l net.Listener) bool {
	return l.Addr().Network() == "unix" || httpapi.IsLoopback(l.Addr().String())
}

// loopback reports whether only this machine can reach the listeners: those that were passed, or the configured address.
func (d *Daemon) loopback(listen string) bool {
	for _, l := range d.opts.Listeners {
		if !isLocal(l) {
			return false
		}
	}
	return len(d.opts.Listeners) > 0 || httpapi.IsLoopback(listen)
}

// run serves a listener in the background, with TLS where the server has a configuration for it. It calls ended when no more
// connections are accepted there.
func (d *Daemon) run(server *http.Server, l net.Listener, ended func()) {
	serve := server.Serve
	if server.TLSConfig != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	d.background.Go(func() {
		defer ended()
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) && !d.draining.Load() {
			d.failed <- err
		}
	})
}

// URL is the address that clients use.
func (d *Daemon) URL() string {
	address := d.listeners[0].Addr()
	switch {
	case address.Network() == "unix":
		return "unix:" + address.String()
	case d.certificate.Load() != nil:
		return "https://" + address.String()
	}
	return "http://" + address.String()
}

package daemon

import (
	"fmt"
	"net"

	"perigee/internal/lib/connlimit"
	"perigee/internal/lib/netguard"
	"perigee/internal/store/config"
)

// newClientService prepares the service that clients call.
func (d *Daemon) newClientService(cfg *config.Config) *clientService {
	s := &clientService{api: d.api, limiter: connlimit.New(d.opts.Logger)}
	s.open = func() ([]net.Listener, error) { return d.openListeners(cfg) }
	s.limiter.Apply(cfg.Limits.Connections, d.memory.Size())
	s.server = d.newServer(s.limiter.Handler(d.api))
	s.server.ConnState, s.server.ConnContext = s.limiter.ConnState, s.limiter.ConnContext
	d.encrypt(s.server)
	s.limiter.Encrypted = s.server.TLSConfig != nil
	return s
}

// newSocketService prepares the service for the owner's commands.
func (d *Daemon) newSocketService(cfg *config.Config) *socketService {
	return &socketService{server: d.newServer(d.api.Trusted()), path: SocketPath(cfg), missing: func(err error) {
		d.opts.Logger.Warn("commands cannot reach this daemon through its socket", "error", err)
	}}
}

// openListeners returns the sockets that were passed, or else opens the address in the
// configuration.
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

// checkListeners refuses to serve without a key where a socket that was passed can be reached from
// other machines: the check of the configuration covers only the address in it.
func (d *Daemon) checkListeners(cfg *config.Config) error {
	for _, l := range d.opts.Listeners {
		address := l.Addr().String()
		if netguard.IsLocal(l.Addr()) {
			continue
		}
		if len(cfg.Keys) == 0 {
			return &ConfigError{Message: fmt.Sprintf("the socket %s that was passed can be reached from other machines, and there is no key; "+
				"add one under keys, or let the socket listen on 127.0.0.1", address)}
		}
		if d.certificate.Load() == nil {
			d.opts.Logger.Warn("other machines can reach this listener, and keys and prompts are sent there unencrypted; set tls",
				"listen", address)
		}
	}
	return nil
}

// loopback reports whether only this machine can reach the listeners: those that were passed, or
// the configured address.
func (d *Daemon) loopback(listen string) bool {
	for _, l := range d.opts.Listeners {
		if !netguard.IsLocal(l.Addr()) {
			return false
		}
	}
	return len(d.opts.Listeners) > 0 || netguard.ListensOnLoopback(listen)
}

// listeners returns the addresses that the daemon listens on, without the addresses of its
// processes and of the socket for commands.
func (d *Daemon) listeners() []string {
	list := []string{}
	for _, l := range d.clients.listeners {
		list = append(list, l.Addr().String())
	}
	if proxy := d.gateway.ProxyAddress(); proxy != "" {
		list = append(list, proxy)
	}
	return list
}

// URL returns the address that clients use.
func (d *Daemon) URL() string {
	address := d.clients.listeners[0].Addr()
	switch {
	case address.Network() == "unix":
		return "unix:" + address.String()
	case d.certificate.Load() != nil:
		return "https://" + address.String()
	}
	return "http://" + address.String()
}

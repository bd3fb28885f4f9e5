// Package mitm is an intercepting proxy. It answers the requests of chosen hosts with a handler,
// over HTTP/1.1 and HTTP/2, and tunnels the connections of all other hosts without reading them.
// It serves clients that use it as a proxy, and connections that the system redirects to it. It
// also has the parts that a handler needs to forward requests: a forwarder, a transport, and a
// dialer through other proxies.
package mitm

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"perigee/internal/intercept/authority"
	"perigee/internal/lib/netguard"
)

// Options configure a Proxy. Handler, and Authority if there are hosts, must be set.
type Options struct {
	Authority *authority.Authority
	// the intercepted hosts; connections to other hosts are tunnelled unread
	Hosts netguard.HostList
	// Handler answers the requests of intercepted hosts. The URL of a request is absolute: its
	// scheme, host and port come from the tunnel, never from the Host header. For redirected
	// connections, Destination has the address.
	Handler http.Handler
	// Plain answers requests in absolute form (http://) to other hosts. If it is nil, they are
	// forwarded with Dial.
	Plain http.Handler
	// Dial makes the connections of tunnels. If it is nil, they are direct. Dialer returns one
	// that goes through a proxy.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Admit reports whether a connection of ServeTransparent is admitted, before it is read;
	// otherwise it is closed. The destination is the original one of a redirected connection, and
	// not valid for a connection that was made to the listener itself. If Admit is nil, all are
	// admitted.
	Admit func(client net.Conn, destination netip.AddrPort) bool
	// Tunnelled is called at the end of each tunnel. It may be nil.
	Tunnelled func(Tunnel)

	MaxConns int // open connections of clients; 1024 if 0
	// for CONNECT, the TLS handshake, and the head of a request; 10 s if 0
	HeaderTimeout time.Duration
	DialTimeout   time.Duration // for the connection of a tunnel; 30 s if 0
	// without a byte: between requests, in a request body, in an answer that is not read, in
	// tunnels; 5 min if 0
	IdleTimeout time.Duration
	Logger      *slog.Logger // nil discards all messages
}

// maxHeader bounds the head of a request and of an answer.
const maxHeader = 1 << 20

// A Proxy serves listeners until Shutdown.
type Proxy struct {
	opts     Options
	log      *slog.Logger
	tls      *tls.Config
	outer    *http.Server // clients that use the proxy, before CONNECT
	inner    *http.Server // requests of intercepted hosts
	incoming *handover    // connections for inner, after their handshake
	conns    registry
	// returns the original destination of a redirected connection
	original func(*net.TCPConn) (netip.AddrPort, bool)

	start     sync.Once
	inside    sync.WaitGroup // the loop of inner
	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	closing   bool
}

// New returns a proxy. It does nothing before Serve or ServeTransparent.
func New(opts Options) *Proxy {
	opts.MaxConns = cmp.Or(opts.MaxConns, 1024)
	opts.HeaderTimeout = cmp.Or(opts.HeaderTimeout, 10*time.Second)
	opts.DialTimeout = cmp.Or(opts.DialTimeout, 30*time.Second)
	opts.IdleTimeout = cmp.Or(opts.IdleTimeout, 5*time.Minute)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Tunnelled == nil {
		opts.Tunnelled = func(Tunnel) {}
	}
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{}).DialContext
	}
	if opts.Plain == nil {
		opts.Plain = NewForwarder(ForwarderOptions{RoundTripper: newPlainTransport(opts.Dial), Logger: opts.Logger})
	}
	p := &Proxy{opts: opts, log: opts.Logger, incoming: newHandover(), original: originalDestination, listeners: map[net.Listener]struct{}{}}
	p.conns.init(opts.MaxConns)
	p.tls = p.tlsConfig()
	p.outer = p.newServer(http.HandlerFunc(p.serveClient))
	p.inner = p.newServer(http.HandlerFunc(p.serveIntercepted))
	return p
}

func (p *Proxy) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            p.opts.HeaderTimeout,
		IdleTimeout:                  p.opts.IdleTimeout,
		MaxHeaderBytes:               maxHeader,
		ConnContext:                  connContext,
		ConnState:                    trackState,
		// relevant errors are logged where they occur
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
}

// Serve accepts clients that use the proxy: CONNECT, and requests in absolute form. It returns
// http.ErrServerClosed after Shutdown, otherwise the error of the listener.
func (p *Proxy) Serve(l net.Listener) error {
	if !p.begin(l) {
		_ = l.Close()
		return http.ErrServerClosed
	}
	defer p.end(l)
	err := p.outer.Serve(&explicitListener{Listener: l, p: p})
	if p.isClosing() {
		return http.ErrServerClosed
	}
	return err
}

// begin records a listener, and starts the server of intercepted connections.
func (p *Proxy) begin(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.listeners[l] = struct{}{}
	p.start.Do(func() { p.inside.Go(func() { _ = p.inner.Serve(p.incoming) }) })
	return true
}

func (p *Proxy) end(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.listeners, l)
}

// isSelf reports whether an address is one that this proxy listens on.
func (p *Proxy) isSelf(addr net.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.listeners {
		if sameEndpoint(l.Addr(), addr) {
			return true
		}
	}
	return false
}

// Shutdown stops accepting connections, requests clients to close theirs (HTTP/1.1: Connection:
// close, HTTP/2: GOAWAY) and waits until they are all closed. When ctx ends first, it cuts the
// remaining ones, so that no incomplete answer looks complete, and returns the error of ctx.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	for l := range p.listeners {
		_ = l.Close()
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.outer.Shutdown(ctx) })
	wg.Go(func() { _ = p.inner.Shutdown(ctx) })
	err := p.conns.wait(ctx)
	if err != nil {
		p.conns.cut()
		_ = p.outer.Close()
		_ = p.inner.Close()
	}
	wg.Wait()
	_ = p.incoming.Close()
	p.inside.Wait()
	if plain, ok := p.opts.Plain.(interface{ CloseIdleConnections() }); ok {
		plain.CloseIdleConnections()
	}
	return err
}

// A handover is a listener with connections that come from other goroutines.
type handover struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandover() *handover { return &handover{conns: make(chan net.Conn), done: make(chan struct{})} }

// give hands a connection over, and reports whether the listener has accepted it.
func (h *handover) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.done:
		return false
	}
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }

var errLimit = errors.New("too many connections")

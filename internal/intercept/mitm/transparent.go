package mitm

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// ServeTransparent accepts connections that the system has redirected. A connection with a
// ClientHello that names an intercepted host is intercepted; its requests have the address that
// the client connected to as Destination. Any other is tunnelled to that address. A connection
// that was made to the listener itself goes to port 443 of the server that it names.
// ServeTransparent returns http.ErrServerClosed after Shutdown, otherwise the error of the
// listener.
func (p *Proxy) ServeTransparent(l net.Listener) error {
	if !p.begin(l) {
		_ = l.Close()
		return http.ErrServerClosed
	}
	defer p.end(l)
	defer func() { _ = l.Close() }()
	for pause := time.Duration(0); ; {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
		case p.isClosing():
			return http.ErrServerClosed
		case isTemporary(err): // such as no more file descriptors
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			p.log.Error("connection not accepted", "error", err, "pause", pause)
			time.Sleep(pause)
			continue
		default:
			return err
		}
		client := p.conns.add(c, p.opts.IdleTimeout)
		if client == nil {
			p.log.Warn("connection refused", "error", errLimit, "limit", p.opts.MaxConns)
			_ = c.Close()
			continue
		}
		go p.serveRedirected(client)
	}
}

func (p *Proxy) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

func isTemporary(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}

// serveRedirected determines the destination of a connection, and intercepts or tunnels it.
func (p *Proxy) serveRedirected(client *clientConn) {
	original := p.destinationOf(client)
	if p.opts.Admit != nil && !p.opts.Admit(client.Conn, original) {
		client.abort()
		return
	}
	destination := ""
	if original.IsValid() {
		destination = original.String()
	}
	_ = client.SetReadDeadline(time.Now().Add(p.opts.HeaderTimeout))
	name, read, err := readHello(client.Conn)
	_ = client.SetReadDeadline(time.Time{})
	client.prefix = read
	if err != nil && !errors.Is(err, errNotTLS) && (len(read) == 0 || isTimeout(err)) {
		_ = client.Close() // it has sent nothing, or not enough in time
		return
	}
	if p.opts.Hosts.Match(name) {
		port := "443"
		if _, of, err := net.SplitHostPort(destination); err == nil {
			port = of
		}
		client.host, client.authority, client.destination = name, authorityOf(name, port), destination
		p.intercept(client)
		return
	}
	address := destination
	if address == "" {
		if name == "" {
			p.log.Warn("connection closed: it was not redirected and names no server", "client", client.RemoteAddr().String())
			_ = client.Close()
			return
		}
		address = net.JoinHostPort(name, "443")
	}
	began := time.Now()
	server, err := p.dial(context.Background(), address)
	if err != nil {
		client.abort()
		p.log.Info("tunnel not opened", "address", address, "error", err)
		p.opts.Tunnelled(Tunnel{Address: address, Began: began, Took: time.Since(began), Err: err})
		return
	}
	p.tunnel(client, server, address, began)
}

// destinationOf returns the original destination of a redirected connection. It is not valid if
// the connection was made to the proxy itself.
func (p *Proxy) destinationOf(client *clientConn) netip.AddrPort {
	tcp, ok := client.Conn.(*net.TCPConn)
	if !ok {
		return netip.AddrPort{}
	}
	destination, ok := p.original(tcp)
	if !ok || p.isSelf(net.TCPAddrFromAddrPort(destination)) {
		return netip.AddrPort{}
	}
	return destination
}

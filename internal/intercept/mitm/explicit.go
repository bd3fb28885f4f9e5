package mitm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"perigee/internal/lib/netguard"
)

// An explicitListener accepts connections within the limit.
type explicitListener struct {
	net.Listener
	p *Proxy
}

const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 71\r\n" +
	"Retry-After: 2\r\nConnection: close\r\n\r\nthe proxy has as many connections as it allows; try again in a moment.\n"

// Accept refuses connections beyond the limit.
func (l *explicitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if client := l.p.conns.add(c, l.p.opts.IdleTimeout); client != nil {
			return client, nil
		}
		l.p.log.Warn("connection refused", "error", errLimit, "limit", l.p.opts.MaxConns)
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, tooManyConnections) // a new connection has room for it
		_ = c.Close()
	}
}

// serveClient answers a client that uses the proxy, or that uses it as a web server.
func (p *Proxy) serveClient(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.serveConnect(w, r)
	case r.URL.Host == "":
		p.serveOwn(w, r)
	case r.URL.Scheme != "http":
		refuse(w, http.StatusBadRequest, "a proxy forwards http:// URLs; for https:// use CONNECT")
	case p.isOwnAddress(r.URL.Hostname(), cmp.Or(r.URL.Port(), "80")):
		refuse(w, http.StatusForbidden, "this is the proxy itself: it does not forward requests to itself")
	case p.opts.Hosts.Match(r.URL.Hostname()):
		r.URL.User = nil
		p.handle(w, r)
	default:
		p.opts.Plain.ServeHTTP(w, r)
	}
}

// serveOwn answers requests to the proxy as a server. It has no pages, and reveals nothing to web
// pages.
func (p *Proxy) serveOwn(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	switch {
	case !netguard.IsLoopback(strings.Trim(host, "[]")):
		refuse(w, http.StatusForbidden, "this proxy is for programs on this machine: the Host of a request to it must be a loopback address")
	case r.Header.Get("Origin") != "":
		refuse(w, http.StatusForbidden, "this is a proxy, which web pages cannot call")
	default:
		refuse(w, http.StatusNotFound, "this is a proxy: set HTTPS_PROXY of a program to its address")
	}
}

// serveConnect opens a tunnel, or intercepts the connection.
func (p *Proxy) serveConnect(w http.ResponseWriter, r *http.Request) {
	host, port, err := splitTarget(r.RequestURI)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if p.isOwnAddress(host, port) {
		refuse(w, http.StatusForbidden, "this is the proxy itself: it does not connect to itself")
		return
	}
	if p.opts.Hosts.Match(host) {
		if client := p.establish(w); client != nil {
			client.host, client.authority = host, authorityOf(host, port)
			p.intercept(client)
		}
		return
	}
	address := net.JoinHostPort(host, port)
	began := time.Now()
	server, err := p.dial(r.Context(), address)
	if err != nil {
		p.failTunnel(w, r, address, began, err)
		return
	}
	if client := p.establish(w); client != nil {
		go p.tunnel(client, server, address, began)
	} else {
		_ = server.Close()
	}
}

func (p *Proxy) failTunnel(w http.ResponseWriter, r *http.Request, address string, began time.Time, err error) {
	p.opts.Tunnelled(Tunnel{Address: address, Began: began, Took: time.Since(began), Err: err})
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
	if errors.Is(err, errSelf) {
		refuse(w, http.StatusForbidden, err.Error())
		return
	}
	status := http.StatusBadGateway
	if isTimeout(err) {
		status = http.StatusGatewayTimeout
	}
	p.log.Info("tunnel not opened", "address", address, "error", err)
	refuse(w, status, "cannot connect to "+address+": "+err.Error())
}

var errSelf = errors.New("this is the proxy itself: it does not connect to itself")

// dial connects to the target of a tunnel.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	c, err := p.opts.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if p.isSelf(c.RemoteAddr()) { // by a name that resolves to it
		_ = c.Close()
		return nil, errSelf
	}
	return c, nil
}

// establish answers CONNECT and takes over the connection. It returns nil if the connection is
// lost.
func (p *Proxy) establish(w http.ResponseWriter) *clientConn {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the connection cannot be taken over: "+err.Error())
		return nil
	}
	client := clientOf(c)
	_ = client.SetDeadline(time.Time{})
	if n := buffered.Reader.Buffered(); n > 0 { // sent together with CONNECT
		sent, _ := buffered.Reader.Peek(n)
		client.prefix = bytes.Clone(sent)
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = client.Close()
		return nil
	}
	return client
}

// splitTarget reads the target of CONNECT, which must have a port.
func splitTarget(target string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(target)
	if err != nil || host == "" {
		return "", "", errors.New("CONNECT needs a host and a port, such as example.org:443")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || port[0] == '+' {
		return "", "", fmt.Errorf("CONNECT: the port is not between 1 and 65535")
	}
	if len(host) > 253 {
		return "", "", errors.New("CONNECT: the host is longer than a name can be")
	}
	if strings.ContainsFunc(host, func(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune("/@\\?#", c) }) {
		return "", "", errors.New("CONNECT: the host has characters that a name cannot have")
	}
	return host, port, nil
}

// authorityOf returns the host of a URL with https.
func authorityOf(host, port string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if port == "443" {
		return host
	}
	return net.JoinHostPort(host, port)
}

// isOwnAddress reports whether host and port belong to one of the proxy's listeners, without
// resolving names.
func (p *Proxy) isOwnAddress(host, port string) bool {
	number, err := strconv.Atoi(port)
	if err != nil {
		return false
	}
	if netguard.IsLoopback(host) {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && p.isSelf(&net.TCPAddr{IP: ip.AsSlice(), Port: number})
}

// sameEndpoint compares addresses of listeners and connections. All loopback addresses and
// unspecified addresses are equal.
func sameEndpoint(a, b net.Addr) bool {
	one, ok := a.(*net.TCPAddr)
	other, ok2 := b.(*net.TCPAddr)
	if !ok || !ok2 || one.Port != other.Port {
		return false
	}
	local := func(ip net.IP) bool { return ip.IsLoopback() || ip.IsUnspecified() }
	return one.IP.Equal(other.IP) || local(one.IP) && local(other.IP)
}

// refuse answers with a text.
func refuse(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

package headless

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"perigee"

	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/cloud"
	"perigee/internal/intercept/mitm"
	"perigee/internal/intercept/redirect"
	"perigee/internal/lib/netguard"
	"perigee/internal/lib/peeruser"
	"perigee/internal/lib/procgroup"
	"perigee/internal/lib/wire"
	"perigee/internal/store/config"
)

// InterceptionOptions describe the proxy between language servers and their clouds.
type InterceptionOptions struct {
	config.Interception
	DataDir string
	Logger  *slog.Logger
	Now     func() time.Time
}

// The values of intercept that need the proxy.
const (
	modeProxy       = "proxy"
	modeTransparent = "transparent"
)

// NewTransport returns the transport to the cloud: through upstream_proxy, or else the proxy of
// the upstream, with the additional roots of upstream_ca.
func NewTransport(settings config.Interception, proxy perigee.Secret) (http.RoundTripper, error) {
	if !settings.UpstreamProxy.IsZero() {
		proxy = settings.UpstreamProxy
	}
	transport, err := wire.NewProxyTransport(proxy)
	if err != nil || settings.UpstreamCA == "" {
		return transport, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(settings.UpstreamCA)
	if err != nil {
		return nil, fmt.Errorf("interception.upstream_ca: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("interception.upstream_ca: %s has no certificate in PEM format", settings.UpstreamCA)
	}
	transport.Configure(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots} })
	return transport, nil
}

// An Interception is the proxy through which a language server reaches its cloud in the modes
// proxy and transparent. The first language server that needs it opens it, and it stays open for
// the language servers that follow in reloads. Intercepted requests go to the handler of the
// language server that was started last. All language servers share one set of waiting calls,
// because during a reload both the old and the new one have calls, and the old one stays in use if
// the reload fails.
type Interception struct {
	opts    InterceptionOptions
	calls   *cloud.Calls
	handler atomic.Pointer[cloud.Handler] // the last of users
	serving sync.WaitGroup
	warned  sync.Once              // of the first connection of another user
	opened  atomic.Pointer[string] // address while the proxy is open

	mu      sync.Mutex
	users   []*cloud.Handler // handlers of the language servers that have not been closed
	proxy   *mitm.Proxy      // nil if not open
	mode    string
	user    *procgroup.User // of the language server in transparent mode
	address string          // of the listener
	bundle  string          // file with the certificates that clients of the proxy need
}

// NewInterception returns a proxy that is not open yet.
func NewInterception(opts InterceptionOptions) *Interception {
	return &Interception{opts: opts, calls: cloud.NewCalls()}
}

// use makes handler the receiver of intercepted requests, and returns the user that a language
// server in transparent mode runs as. It opens the proxy if it is not open yet.
func (i *Interception) use(ctx context.Context, mode string, handler *cloud.Handler) (*procgroup.User, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.proxy != nil && i.mode != mode {
		return nil, &SetupError{fmt.Sprintf("intercept: %s needs a restart, since the proxy is open for intercept: %s", mode, i.mode)}
	}
	if i.proxy == nil {
		if err := i.open(ctx, mode); err != nil {
			return nil, err
		}
	}
	i.users = append(i.users, handler)
	i.handler.Store(handler)
	return i.user, nil
}

// release removes a handler. If it was the receiver of intercepted requests, the handler before it
// takes its place.
func (i *Interception) release(handler *cloud.Handler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users = slices.DeleteFunc(i.users, func(h *cloud.Handler) bool { return h == handler })
	if len(i.users) == 0 {
		i.handler.Store(nil)
		return
	}
	i.handler.Store(i.users[len(i.users)-1])
}

// Address returns the address that the proxy listens on, or "" if it is not open. It does not wait
// for a proxy that is being opened.
func (i *Interception) Address() string {
	if address := i.opened.Load(); address != nil {
		return *address
	}
	return ""
}

// CheckInterception returns the reason why the proxy for a value of intercept could not be opened,
// or nil. Addresses for which held returns true are not tried.
func CheckInterception(ctx context.Context, settings config.Interception, mode string, held func(address string) bool) error {
	if mode != modeProxy && mode != modeTransparent {
		return nil
	}
	addresses, _, err := addressesOf(ctx, settings, mode)
	if err != nil || held(addresses[0]) {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addresses[0])
	if err != nil {
		return cannotListen(mode, err)
	}
	return l.Close()
}

// addressesOf returns the addresses that the proxy of a mode listens on, and in transparent mode
// the user of the language server. Only the first address is required.
func addressesOf(ctx context.Context, settings config.Interception, mode string) ([]string, *procgroup.User, error) {
	if mode == modeTransparent {
		return redirected(ctx)
	}
	return []string{settings.Listen}, nil, nil
}

// cannotListen returns the error for a proxy with an address that cannot be used.
func cannotListen(mode string, err error) error {
	change := "change interception.listen"
	if mode == modeTransparent {
		change = "install the redirect with another --port"
	}
	return fmt.Errorf("the intercepting proxy cannot listen: %w; end the program that uses the port, or %s", err, change)
}

// open opens the proxy for a mode.
func (i *Interception) open(ctx context.Context, mode string) error {
	addresses, user, err := addressesOf(ctx, i.opts.Interception, mode)
	if err != nil {
		return err
	}
	i.user = user
	proxy, err := i.newProxy(ctx)
	if err != nil {
		return err
	}
	serve := proxy.Serve
	if mode == modeTransparent {
		serve = proxy.ServeTransparent
	}
	for n, address := range addresses {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		switch {
		case err != nil && n > 0:
			i.opts.Logger.Warn("connections over IPv6 are not intercepted", "address", address, "error", err)
			continue
		case err != nil:
			return cannotListen(mode, err)
		case n == 0:
			i.address = l.Addr().String()
		}
		if mode == modeProxy {
			l = peeruser.NewCheck(ctx).Listener(l, i.refused)
		}
		i.serving.Go(func() { _ = serve(l) }) // ends with Close
	}
	i.proxy, i.mode = proxy, mode
	i.opened.Store(&i.address)
	i.opts.Logger.Info("intercepting", "address", i.address, "mode", mode, "hosts", i.opts.Hosts)
	return nil
}

// A SetupError names the part of the setup that is missing on this machine.
type SetupError struct{ message string }

func (e *SetupError) Error() string { return e.message }

// redirected returns the addresses that connections are redirected to, one for each version of IP,
// and the user they belong to.
func redirected(ctx context.Context) ([]string, *procgroup.User, error) {
	installed, err := redirect.Installed(ctx)
	switch {
	case err == nil && installed.Problem != "":
		err = errors.New(installed.Problem)
	case err == nil && !installed.Installed:
		err = errors.New("no redirect is installed; run perigee redirect install --user perigee-ls as root")
	}
	if err != nil {
		return nil, nil, &SetupError{"intercept: transparent: " + err.Error()}
	}
	user, err := procgroup.Lookup(installed.User)
	if err == nil {
		err = user.Check(ctx)
	}
	if err != nil {
		return nil, nil, &SetupError{"intercept: transparent: " + err.Error()}
	}
	port := strconv.Itoa(installed.Port)
	return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}, user, nil
}

// refused logs the first connection of another user.
func (i *Interception) refused() {
	i.warned.Do(func() { i.opts.Logger.Warn("intercepting proxy: connection of another user refused") })
}

// admit returns the check of connections in transparent mode: only the redirected user and root
// are admitted, so that no other user of the machine can call the cloud through perigee, or
// disturb the calls of the language server.
func (i *Interception) admit(ctx context.Context) func(net.Conn, netip.AddrPort) bool {
	if i.user == nil {
		return nil
	}
	check := peeruser.Only(ctx, i.user.UID)
	return func(client net.Conn, destination netip.AddrPort) bool {
		if check.OwnTo(client, destination) {
			return true
		}
		i.refused()
		return false
	}
}

// newProxy opens the certificate authority and returns the proxy.
func (i *Interception) newProxy(ctx context.Context) (*mitm.Proxy, error) {
	hosts, err := netguard.ParseHosts(i.opts.Hosts)
	if err != nil {
		return nil, fmt.Errorf("interception.hosts: %w", err)
	}
	ca, made, err := authority.Open(filepath.Join(i.opts.DataDir, "ca"), hosts, i.opts.Now)
	if err != nil {
		return nil, err
	}
	if made {
		i.opts.Logger.Info("certificate authority created; programs that trusted an earlier one must trust this one", "file", ca.Info().Path)
	}
	if i.bundle, err = ca.WriteBundle(); err != nil {
		return nil, err
	}
	transport, err := i.transport()
	if err != nil {
		return nil, err
	}
	dial, err := mitm.Dialer(transport)
	if err != nil {
		return nil, err
	}
	return mitm.New(mitm.Options{
		Authority: ca, Hosts: hosts, Handler: http.HandlerFunc(i.serve), Dial: dial, Admit: i.admit(ctx), Logger: i.opts.Logger,
		Plain: mitm.NewForwarder(mitm.ForwarderOptions{Transport: transport, Logger: i.opts.Logger}),
	}), nil
}

// transport returns the options for connections to the servers that clients of the proxy call.
func (i *Interception) transport() (opts mitm.TransportOptions, err error) {
	opts.CAFile = i.opts.UpstreamCA
	if address := i.opts.UpstreamProxy.Reveal(); address != "" && address != wire.NoProxy {
		if opts.Proxy, err = url.Parse(address); err != nil {
			// the cause would contain the password
			err = errors.New("interception.upstream_proxy cannot be read")
		}
	}
	return opts, err
}

// passOn makes a handler forward its requests to the hosts named in them, at the addresses to
// which the connections were made.
func (i *Interception) passOn(opts *cloud.Options) error {
	transport, err := i.transport()
	if err != nil {
		return err
	}
	if opts.Transport, err = mitm.NewTransport(transport); err != nil {
		return fmt.Errorf("interception: %w", err)
	}
	opts.Failed = mitm.AnswerFailed
	return nil
}

// serve passes an intercepted request to the handler of the language server.
func (i *Interception) serve(w http.ResponseWriter, r *http.Request) {
	handler := i.handler.Load()
	if handler == nil {
		http.Error(w, "no language server is running", http.StatusServiceUnavailable)
		return
	}
	handler.ServeHTTP(w, r)
}

// variables returns the environment variables that make a program use and trust the proxy.
func (i *Interception) variables() map[string]string {
	v := map[string]string{"SSL_CERT_FILE": i.bundle}
	if i.mode == modeProxy {
		v["HTTPS_PROXY"], v["HTTP_PROXY"] = "http://"+i.address, "http://"+i.address
	}
	return v
}

// Close ends the proxy if it is open. It waits for open requests until ctx ends.
func (i *Interception) Close(ctx context.Context) error {
	i.mu.Lock()
	proxy := i.proxy
	i.mu.Unlock() // language servers that end at the same time release their handlers
	if proxy == nil {
		return nil
	}
	err := proxy.Shutdown(ctx)
	i.serving.Wait()
	return err
}

// Package daemon builds the house and runs it: it is the only package that knows all the others. Commands start
// it; nothing imports it but commands and tests.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/audit"
	"perigee/internal/config"
	"perigee/internal/fetch"
	"perigee/internal/httpapi"
	"perigee/internal/imagestore"
	"perigee/internal/membudget"
	"perigee/internal/oauth"
	"perigee/internal/record"
	"perigee/internal/simulator"
	"perigee/internal/sqlstore"
)

// Options say what to run.
type Options struct {
	Loaded   *config.Loaded
	Sources  config.Sources // where Loaded came from, to follow changes; with a zero Poll nothing is followed
	Poll     time.Duration
	Simulate bool // answer from the simulator, whatever is configured
	Version  string
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // follows the configuration when set
	Now      func() time.Time
	NewID    func() string
	Random   io.Reader // where the names of images come from; nil: crypto/rand
	// Transport is how sign-in and gateway are reached; nil: over the network.
	Transport http.RoundTripper
	// Listeners are open sockets to serve in place of the address in the configuration; Stop closes them.
	Listeners []net.Listener
	// Reloading is called before a changed configuration is put in force, and what it returns afterwards; nil: nothing is.
	Reloading func() (done func())
	// IDE is the directory of the installed IDE whose OAuth client is used where none is configured; empty: it is looked for.
	IDE string

	installed *oauth.Installed // one for all upstreams, before and after a reload
}

func (o Options) complete() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.installed == nil {
		o.installed = oauth.NewInstalled(oauth.InstalledOptions{Dir: o.IDE, Now: o.Now, Logger: o.Logger})
	}
	return o
}

// A Daemon is the gateway, listening.
type Daemon struct {
	opts     Options
	lock     *os.File
	store    *sqlstore.Store
	recorder *record.Recorder
	audit    *audit.Log
	house    *house
	api      *httpapi.Server
	memory   *membudget.Budget

	tcp, socket *http.Server
	connections *connections
	listeners   []net.Listener // for clients
	accepting   sync.WaitGroup // while connections are accepted there
	fresh       freshConnections
	base        context.Context
	cancel      context.CancelCauseFunc
	background  sync.WaitGroup
	loaded      atomic.Pointer[config.Loaded]    // the configuration in force
	certificate atomic.Pointer[tls.Certificate]  // nil: plain HTTP
	redactor    atomic.Pointer[perigee.Redactor] // of its secrets
	admin       *adminToken
	keepCalls   atomic.Int64 // for how long, as a time.Duration; 0: forever
	failed      chan error
	started     atomic.Bool
	draining    atomic.Bool
	storeProbe  probe
	lastUnready atomic.Pointer[string] // as it was logged; nil: ready
}

// Start opens the store, builds the upstreams and listens. When it returns without an error, requests are
// being answered and the caller owes a Stop.
func Start(ctx context.Context, opts Options) (_ *Daemon, err error) {
	opts = opts.complete()
	d := &Daemon{opts: opts, failed: make(chan error, 2+len(opts.Listeners))}
	d.base, d.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			d.release(context.WithoutCancel(ctx))
		}
	}()
	cfg := opts.Loaded.Config
	d.loaded.Store(opts.Loaded)
	d.redactor.Store(perigee.NewRedactor(cfg.Secrets()...))
	d.certificate.Store(opts.Loaded.Certificate)
	if err := d.checkListeners(cfg); err != nil {
		return nil, err
	}
	if err := d.openStore(ctx, cfg); err != nil {
		return nil, err
	}
	d.house, err = newHouse(ctx, cfg, opts, openOnce(func(ctx context.Context) (*sqlstore.Accounts, error) {
		return openAccounts(ctx, cfg, d.store, opts)
	}), false)
	if err != nil {
		return nil, err
	}
	d.house.signatures.KeepIn(d.store)
	d.admin = adminTokenOf(cfg)
	if _, err := d.admin.read(); err != nil {
		return nil, noDataDir(err)
	}
	d.recorder = record.New(d.house, record.Options{
		Store: d.store, Now: opts.Now, Logger: opts.Logger,
		Status: func(c *perigee.Call) int { return httpapi.TraceRow(c).Status },
	})
	d.audit = audit.New(audit.Options{Store: d.store, Logger: opts.Logger, Now: opts.Now, Redact: d.redactNow})
	garbage := newCollector()
	d.memory = membudget.New(memorySize(cfg), garbage.hold)
	limitRuntime(d.memory.Size())
	recorded := freshCalls{d.recorder, d.store}
	images := d.openImages(cfg)
	d.api = httpapi.New(httpapi.Options{
		Upstream: d.recorder, Model: d.house.model, Missing: d.house.missing, Usage: recorded, Stored: d.store, Spent: d.recorder.Spent, Requests: sharedRequests(d.store), Calls: recorded, Responses: d.store, Images: images, Logger: opts.Logger, Now: opts.Now, NewID: opts.NewID,
		Keeper:  keeper{func() *config.Config { return d.loaded.Load().Config }, d.store, images, true},
		Control: auditedControl{control{d.house}, d.audit}, Audit: d.audit, Acts: d.store, Status: d.status, Ready: d.unready, Admin: d.admin.opens, Redact: d.redact,
		Refused: d.recorder.Refused, Memory: d.memory, OnIdle: garbage.giveBack,
	}, d.settings(cfg))
	d.warnDescriptors(cfg, descriptors())
	if err := d.listen(cfg); err != nil {
		return nil, err
	}
	d.keepCalls.Store(int64(cfg.Retention.Calls))
	d.follow()
	d.followReplicas()
	d.upkeep()
	d.started.Store(true)
	return d, nil
}

func (d *Daemon) openStore(ctx context.Context, cfg *config.Config) (err error) {
	if err := ownDir(cfg.DataDir, d.opts.Logger); err != nil {
		return noDataDir(err)
	}
	if d.lock, err = lockDir(ctx, cfg.DataDir); err != nil {
		return err
	}
	options := StoreOptions(cfg)
	options.Replica, options.Now, options.Logger = replicaName(), d.opts.Now, d.opts.Logger
	d.store, err = sqlstore.Open(ctx, options)
	if err != nil {
		return err
	}
	d.store.LimitResponses(int64(cfg.Store.Responses))
	if d.store.Shared() {
		alive, err := d.store.Replicas(ctx)
		if err != nil {
			return err
		}
		d.opts.Logger.Info("the database is shared", "replica", options.Replica, "replicas", alive)
	}
	cut, err := d.store.CutOffOpenCalls(ctx)
	if err != nil {
		return err
	}
	if cut > 0 {
		d.opts.Logger.Warn("calls were open when perigee ended the last time", "calls", cut)
	}
	return nil
}

// openImages returns the store of images, which sees to it that none is older than it should be.
func (d *Daemon) openImages(cfg *config.Config) *imagestore.Store {
	images := imagestore.New(imagestore.Options{
		Dir: imageDir(cfg), Now: d.opts.Now, Random: d.opts.Random, Logger: d.opts.Logger,
	})
	d.background.Go(images.Sweep)
	return images
}

func noDataDir(err error) error {
	return fmt.Errorf("data_dir: %w; make it writable, or choose another one with data_dir or PERIGEE_DATA_DIR", err)
}

// storeName is what the database is called in data_dir.
const storeName = "perigee.db"

// StoreOptions say where everything is kept.
func StoreOptions(cfg *config.Config) sqlstore.Options {
	return sqlstore.Options{Path: filepath.Join(cfg.DataDir, storeName), URL: cfg.Store.URL}
}

// SocketPath is where the owner's commands reach the daemon.
func SocketPath(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "perigee.sock") }

// Times that no client needs longer than. There is no limit on a whole request or answer, because streams last
// as long as they last; the handlers watch for silence themselves.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
)

// headMargin is how far beyond limits.head a head is read, so that its refusal is in the client's dialect, has an id and is logged.
// What unfinished heads hold in all is bounded by limits.memory.
const headMargin = 64 << 10

// Bounds of one HTTP/2 connection, which only TLS listeners have. limits.connections would mean little if each of them had any number
// of streams; the buffers are what bodies that are not read yet may fill. Pings close connections whose client is gone.
var http2Limits = http.HTTP2Config{
	MaxConcurrentStreams:          100,
	MaxReadFrameSize:              16 << 10,
	MaxReceiveBufferPerConnection: 1 << 20,
	MaxReceiveBufferPerStream:     256 << 10,
	SendPingTimeout:               30 * time.Second,
	PingTimeout:                   15 * time.Second,
	WriteByteTimeout:              2 * time.Minute, // for a client that does not read, as every answer has; pings see only one that is silent
}

func (d *Daemon) newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    int(d.opts.Loaded.Config.Limits.Head) + headMargin, // net/http adds 4 KiB
		HTTP2:             &http2Limits,
		ConnState:         d.connections.note,
		ConnContext:       d.connections.remember,
		BaseContext:       func(net.Listener) context.Context { return d.base },
		ErrorLog:          slog.NewLogLogger(d.opts.Logger.Handler(), slog.LevelDebug),
	}
}

// Simulated says whether answers come from the simulator because no upstream is configured or wanted.
func (d *Daemon) Simulated() bool { return d.house.simulated() }

// Active is how many requests are being answered right now.
func (d *Daemon) Active() int { return d.api.Active() }

// status is what the daemon works with now.
func (d *Daemon) status() perigee.DaemonStatus {
	loaded := d.loaded.Load()
	path := loaded.Path
	if whole, err := filepath.Abs(path); path != "" && err == nil {
		path = whole
	}
	return perigee.DaemonStatus{
		Version: d.opts.Version, Listen: d.URL(), Configuration: path, DataDir: loaded.Config.DataDir,
		Upstreams: d.Upstreams(), Simulated: d.Simulated(), Variables: append([]string{}, loaded.Variables...),
	}
}

// Upstreams describes the upstreams in force, each with what is known of it without a call, and the models that are routed there:
// "studio (gemini, 2 keys, for gemini-*)".
func (d *Daemon) Upstreams() []string {
	var lines []string
	routes := d.loaded.Load().Config.Models.Routes
	for _, r := range d.house.current.Load().rooms {
		kind, what := r.config.Kind, ""
		switch {
		case r.roster != nil:
			what = count(len(r.roster.everybody()), "account")
		case kind == config.KindSimulator:
			what = count(len(simulator.Models()), "model")
		default:
			what = count(len(r.config.Keys), "key")
		}
		if kind != r.config.Name {
			what = string(kind) + ", " + what
		}
		var routed []string
		for _, route := range routes {
			if slices.Contains(route.To, r.config.Name) {
				routed = append(routed, route.Match)
			}
		}
		if len(routed) > 3 {
			routed = append(routed[:3], "…")
		}
		if len(routed) > 0 {
			what += ", for " + strings.Join(routed, " ")
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", r.config.Name, what))
	}
	return lines
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Advice is what the owner should know or do before the upstreams can answer, a line for each.
func (d *Daemon) Advice() []string {
	var lines []string
	for _, r := range (control{d.house}).rosters() {
		lines = append(lines, d.sealAdvice(r)...)
		everybody := r.everybody()
		switch {
		case len(everybody) == 0:
			lines = append(lines, fmt.Sprintf("upstream %[1]s has no account yet; sign in with perigee login --upstream %[1]s, or perigee account import FILE", r.upstream))
		case !slices.ContainsFunc(everybody, (*source).inUse):
			lines = append(lines, fmt.Sprintf("upstream %s has no account that can be used; perigee account list says why", r.upstream))
		}
	}
	return lines
}

// Failed delivers the error of a listener that broke.
func (d *Daemon) Failed() <-chan error { return d.failed }

// Stop takes no new calls and waits for the open ones until ctx ends; then it cuts them off, visibly for their
// clients. Everything that was recorded is on disk when it returns.
func (d *Daemon) Stop(ctx context.Context) {
	d.announceStop(ctx)
	d.stopAccepting(ctx)
	sockets := make(chan error, 1)
	go func() { sockets <- d.api.Drain(ctx) }() // which Shutdown knows nothing of
	err := errors.Join(d.tcp.Shutdown(ctx), <-sockets)
	if err == nil {
		err = d.api.Finish(ctx)
	}
	if err != nil {
		d.opts.Logger.Warn("cutting off open calls", "calls", d.api.Active())
		d.cancel(httpapi.ErrShutdown)
		// Their handlers see it and say goodbye; who does not manage in this time is cut.
		last, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		_ = d.tcp.Shutdown(last)
		done()
	}
	d.release(context.WithoutCancel(ctx))
}

// release gives back whatever there is.
func (d *Daemon) release(ctx context.Context) {
	d.cancel(httpapi.ErrShutdown)
	for _, server := range []*http.Server{d.tcp, d.socket} {
		if server != nil {
			_ = server.Close()
		}
	}
	if d.tcp == nil {
		for _, l := range d.listeners {
			_ = l.Close()
		}
	}
	d.background.Wait()
	if d.api != nil {
		d.api.Close()
	}
	ctx, done := context.WithTimeout(ctx, 10*time.Second)
	defer done()
	if d.recorder != nil {
		if err := d.recorder.Close(ctx); err != nil {
			d.opts.Logger.Error("some calls could not be recorded", "error", err)
		}
	}
	if d.house != nil {
		if err := d.house.signatures.Close(ctx); err != nil {
			d.opts.Logger.Error("thought signatures could not be stored", "error", err)
		}
	}
	if d.house != nil {
		d.house.close() // a refresh token that is on its way has to be stored
	}
	if d.store != nil {
		_ = d.store.Close()
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// settings are the part of the configuration that the HTTP edge enforces.
func (d *Daemon) settings(cfg *config.Config) httpapi.Settings {
	s := httpapi.Settings{
		MaxBody:     int64(cfg.Limits.Body),
		MaxHead:     int(cfg.Limits.Head),
		Concurrency: cfg.Limits.Concurrency,
		Strict:      cfg.Strict,
		Loopback:    d.loopback(cfg.Listen),
		KeepAlive:   cfg.Limits.KeepAlive,
		Origins:     cfg.Origins,
		Hosts:       cfg.Hosts,
		Fetch: fetch.New(fetch.Options{
			Allow: cfg.Media.Fetch, MaxBytes: int64(cfg.Media.Max), Timeout: cfg.Media.Timeout, UserAgent: "perigee/" + d.opts.Version, Logger: d.opts.Logger,
		}),
	}
	for _, k := range cfg.Keys {
		s.Keys = append(s.Keys, httpapi.Key{
			Name: k.Name, Secret: k.Secret, Models: k.Models,
			RPM: k.RPM, TokensPerDay: k.TokensPerDay, Concurrency: k.Concurrency, Expires: k.Expires,
		})
	}
	return s
}

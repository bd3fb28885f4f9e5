package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/account/oauth"
	"perigee/internal/account/roster"
	"perigee/internal/adapt/models"
	"perigee/internal/daemon/gateway"
	"perigee/internal/lib/connlimit"
	"perigee/internal/lib/redact"
	"perigee/internal/mcp/mcpserver"
	"perigee/internal/observe/trace"
	"perigee/internal/route/record"
	"perigee/internal/server"
	"perigee/internal/server/fetch"
	"perigee/internal/server/imagestore"
	"perigee/internal/server/membudget"
	"perigee/internal/server/reqbody"
	"perigee/internal/store/audit"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/store/sqlstore"
	"perigee/internal/upstream/headless"
)

// SimulatorName is the name of the built-in upstream.
const SimulatorName = gateway.SimulatorName

// A ConfigError means that a valid configuration cannot be used.
type ConfigError = gateway.ConfigError

// Options configure a Daemon.
type Options struct {
	Loaded *config.Loaded
	// Sources are the sources of Loaded. They are read again every Poll, or never if Poll is 0.
	Sources  config.Sources
	Poll     time.Duration
	Simulate bool // answer from the simulator, whatever is configured
	Version  string
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // follows the configuration when set
	Now      func() time.Time
	NewID    func() string
	Random   io.Reader // the source of the names of images; crypto/rand if nil
	// Transport is used for sign-in and gateway; nil for the network.
	Transport http.RoundTripper
	// Listeners are open sockets to serve in place of the address in the configuration; Stop closes
	// them.
	Listeners []net.Listener
	// Services run beside the listeners.
	Services []Service
	// AccountFeed reports changes of accounts and new access tokens of all upstreams, also after a
	// reload. A service that follows them, such as one that passes tokens on to a child process,
	// subscribes to it before the daemon starts. If nil, the daemon makes a new one.
	AccountFeed *roster.Feed
	// Reloading, if not nil, is called before a changed configuration is put in force, and done
	// afterwards.
	Reloading func() (done func())
	// IDE is the directory of the installed IDE with the OAuth client to use if none is configured;
	// if empty, it is searched for.
	IDE string

	installed *oauth.Installed           // one for all upstreams, before and after a reload
	builders  map[string]gateway.Builder // by kind of upstream; tests replace some
}

func (o Options) complete() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.installed == nil {
		o.installed = oauth.NewInstalled(o.IDE, o.Logger)
	}
	if o.AccountFeed == nil {
		o.AccountFeed = new(roster.Feed)
	}
	return o
}

// An accountsOpener returns the store of accounts, which it opens when it is first called.
type accountsOpener = func(context.Context) (*sqlstore.Accounts, error)

// forUpstreams returns the options that upstreams are built with. open is called when one of them
// needs sign-ins.
func (o Options) forUpstreams(open accountsOpener) gateway.Options {
	return gateway.Options{
		Simulate: o.Simulate, Version: o.Version, Logger: o.Logger, Now: o.Now, Transport: o.Transport,
		Installed: o.installed, Feed: o.AccountFeed, Accounts: open, Builders: o.builders,
	}
}

// A Daemon is the gateway, listening.
type Daemon struct {
	opts      Options
	lock      *os.File
	store     *sqlstore.Store
	recorder  *record.Recorder
	observers *observers
	warnings  *warnings
	control   perigee.Control
	audit     *audit.Log
	prices    *models.PriceBook
	gateway   *gateway.Gateway
	api       *server.Server
	mcp       *mcpserver.Server
	memory    *membudget.Budget

	clients       *clientService
	services      []Service // that were started, clients among them
	base          context.Context
	cancel        context.CancelCauseFunc
	background    sync.WaitGroup
	loaded        atomic.Pointer[config.Loaded]   // the configuration in force
	pendingConfig atomic.Pointer[pendingConfig]   // the part of its file that is not in force, or nil
	certificate   atomic.Pointer[tls.Certificate] // nil for plain HTTP
	redactor      atomic.Pointer[redact.Redactor] // of its secrets
	admin         *datadir.AdminToken
	failed        chan error
	started       atomic.Bool
	draining      atomic.Bool
	stopping      sync.Once
	storeProbe    healthCheck
	lastUnready   atomic.Pointer[string] // the last logged reason; nil if ready
}

// Start opens the store, builds the upstreams and listens. When it returns without an error,
// requests are being answered and the caller must call Stop.
func Start(ctx context.Context, opts Options) (_ *Daemon, err error) {
	opts = opts.complete()
	kept := &warnings{}
	opts.Logger = kept.capture(opts.Logger)
	d := &Daemon{opts: opts, warnings: kept, failed: make(chan error, 2)}
	d.base, d.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			d.release(context.WithoutCancel(ctx))
		}
	}()
	cfg := opts.Loaded.Config
	d.loaded.Store(opts.Loaded)
	d.redactor.Store(redact.New(cfg.Secrets()...))
	d.certificate.Store(opts.Loaded.Certificate)
	if err := d.checkListeners(cfg); err != nil {
		return nil, err
	}
	if err := d.openStore(ctx, cfg); err != nil {
		return nil, err
	}
	signIns := openOnce(func(ctx context.Context) (*sqlstore.Accounts, error) { return openAccounts(ctx, cfg, d.store, opts) })
	upstreams := opts.forUpstreams(signIns)
	upstreams.Recording = new(headless.Recording)
	d.gateway, err = gateway.New(ctx, cfg, upstreams)
	if err != nil {
		return nil, err
	}
	d.gateway.Signatures().KeepIn(d.store)
	d.admin = datadir.NewAdminToken(cfg.DataDir)
	if _, err := d.admin.Read(); err != nil {
		return nil, datadir.Unusable(err)
	}
	garbage := membudget.NewCollector()
	d.memory = membudget.New(memorySize(cfg), func(delta int64) {
		if delta >= reqbody.Factor*reqbody.Large { // a large body is about to arrive
			d.observers.traces.GiveWay()
		}
		garbage.Hold(delta)
	})
	membudget.LimitRuntime(d.memory.Size())
	d.observers = newObservers(d)
	d.prices = cfg.PriceBook()
	d.prices.Now = opts.Now
	d.recorder = record.New(d.gateway, record.Options{
		Store: d.store, Now: opts.Now, Logger: opts.Logger, Price: d.prices.CallCost,
		Watch: d.observers.Watch(), Observe: d.observers.metrics.Observe, Redact: d.observers.Redact,
	})
	upstreams.Recording.Use(d.recorder)
	d.audit = audit.New(audit.Options{Store: d.store, Logger: opts.Logger, Now: opts.Now, Redact: d.redactNow})
	recorded := d.recorded()
	images := d.openImages(cfg)
	d.control = newControl(d.gateway, signIns, opts.Now).audited(d.audit)
	stored := keeper{Config: d.config, Store: d.store, Images: images}
	pages := d.observers.newDashboard(recorded, stored)
	d.api = server.New(server.Options{
		Upstream: d.recorder, Model: d.gateway.Model, Names: d.gateway.Names, Missing: func(ctx context.Context, name string) error {
			_, err := d.gateway.Missing(ctx, name)
			return err
		},
		Forwards: d.gateway.Forwards,
		Usage:    recorded, Stored: d.prices.Reader(d.store), Spent: d.recorder.Spent, Requests: sharedRequests(d.store),
		Calls: d.observers.Calls(recorded), Responses: d.store, Images: images, Logger: opts.Logger, Now: opts.Now, NewID: opts.NewID,
		Keeper: stored, Control: d.control, Audit: d.audit, Acts: d.store, Home: pages,
		Status: d.status, Langservers: d.gateway.Langservers, Ready: d.unready, Admin: d.admin.Matches, Redact: d.redact,
		Refused: d.recorder.Refused, Unrecorded: d.observers.metrics.Refused, Memory: d.memory, OnIdle: garbage.GiveBack,
		Mounts: append(append(d.newMCP(recorded), environmentPoint()), d.observers.Points(pages)...),
	}, d.settings(cfg))
	connlimit.WarnOfDescriptors(opts.Logger, cfg.Limits.Connections)
	d.clients = d.newClientService(cfg)
	if err := d.startServices(ctx, append([]Service{mcpService{d.mcp}, d.clients, d.newSocketService(cfg)}, opts.Services...)); err != nil {
		return nil, err
	}
	d.mark(opts.Loaded)
	d.follow()
	d.followReplicas()
	d.background.Go(func() {
		d.warmUp()
		d.upkeep()
	})
	d.started.Store(true)
	return d, nil
}

func (d *Daemon) openStore(ctx context.Context, cfg *config.Config) (err error) {
	if err := datadir.Secure(cfg.DataDir, d.opts.Logger); err != nil {
		return err
	}
	if d.lock, err = datadir.Lock(ctx, cfg.DataDir); err != nil {
		return err
	}
	trace.MakeRoom(ctx, traceDir(cfg), d.opts.Logger)
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
		d.opts.Logger.Warn("calls were cut off when perigee last ended", "calls", cut)
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

// memorySize is limits.memory in bytes.
func memorySize(cfg *config.Config) int64 {
	if cfg.Limits.Memory > 0 {
		return int64(cfg.Limits.Memory)
	}
	return membudget.Auto()
}

// StoreOptions returns the options of the database of a configuration.
func StoreOptions(cfg *config.Config) sqlstore.Options {
	return sqlstore.Options{Path: filepath.Join(cfg.DataDir, datadir.StoreName), URL: cfg.Store.URL}
}

// MarkPath returns the file that the next start compares its configuration with.
func MarkPath(cfg *config.Config) string { return filepath.Join(cfg.DataDir, datadir.MarkName) }

// mark notes what a configuration that is in effect has, for the next start. Without the note it
// compares nothing.
func (d *Daemon) mark(loaded *config.Loaded) {
	if err := config.WriteMark(MarkPath(d.config()), loaded.Mark()); err != nil {
		d.opts.Logger.Debug("the next start does not notice if the configuration loses a section", "error", err)
	}
}

// SocketPath returns where the owner's commands reach the daemon.
func SocketPath(cfg *config.Config) string { return filepath.Join(cfg.DataDir, datadir.SocketName) }

// Timeouts that no client exceeds. There is no limit on a whole request or answer, because a stream
// may take any time; the handlers watch for silence themselves.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
)

// headMargin is how far beyond limits.head a head is read, so that its refusal is in the client's
// dialect, has an id and is logged. The total memory of unfinished heads is bounded by
// limits.memory.
const headMargin = 64 << 10

// Limits of one HTTP/2 connection, which only TLS listeners have. limits.connections would mean
// little if each of them had any number of streams; the buffers limit the bodies that are not read
// yet. Pings close connections of clients that are gone.
var http2Limits = http.HTTP2Config{
	MaxConcurrentStreams:          100,
	MaxReadFrameSize:              16 << 10,
	MaxReceiveBufferPerConnection: 1 << 20,
	MaxReceiveBufferPerStream:     256 << 10,
	SendPingTimeout:               30 * time.Second,
	PingTimeout:                   15 * time.Second,
	WriteByteTimeout:              2 * time.Minute, // for a client that answers pings and does not read
}

func (d *Daemon) newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    int(d.opts.Loaded.Config.Limits.Head) + headMargin, // net/http adds 4 KiB
		HTTP2:             &http2Limits,
		BaseContext:       func(net.Listener) context.Context { return d.base },
		ErrorLog:          slog.NewLogLogger(d.opts.Logger.Handler(), slog.LevelDebug),
	}
}

// Simulated reports whether answers come from the simulator because no upstream is configured or
// wanted.
func (d *Daemon) Simulated() bool { return d.gateway.Simulated() }

// Active returns how many requests are being answered right now.
func (d *Daemon) Active() int { return d.api.Active() }

// config returns the configuration in force.
func (d *Daemon) config() *config.Config { return d.loaded.Load().Config }

// status returns the configuration and state of the daemon.
func (d *Daemon) status() perigee.DaemonStatus {
	loaded := d.loaded.Load()
	path := loaded.Path
	if whole, err := filepath.Abs(path); path != "" && err == nil {
		path = whole
	}
	limits := loaded.Config.Limits
	status := perigee.DaemonStatus{
		Listeners:       d.listeners(),
		ShutdownDelayMS: float64(limits.ShutdownDelay) / float64(time.Millisecond), DrainMS: float64(limits.Drain) / float64(time.Millisecond),
		Version: d.opts.Version, Listen: d.URL(), Configuration: path, DataDir: loaded.Config.DataDir,
		Upstreams: d.Upstreams(), Simulated: d.Simulated(), Stopping: d.draining.Load(), Variables: append([]string{}, loaded.Variables...),
		Keys: d.gateway.KeyProblems(),
	}
	if b := d.pendingConfig.Load(); b != nil {
		status.Refused, status.Pending = b.refused, b.pending
	}
	return status
}

// Upstreams describes the upstreams in force, a line for each.
func (d *Daemon) Upstreams() []string { return d.gateway.Describe(d.config().Models.Routes) }

// Advice returns the steps that the owner has to take before the upstreams can answer, one a line.
func (d *Daemon) Advice() []string {
	var lines []string
	for _, r := range d.gateway.Rosters() {
		lines = append(lines, d.sealAdvice(r)...)
		list := r.SignIns()
		switch {
		case len(list) == 0:
			lines = append(lines, fmt.Sprintf(
				"upstream %[1]s has no account yet; sign in with perigee login --upstream %[1]s, or perigee account import FILE", r.Upstream()))
		case !slices.ContainsFunc(list, func(s perigee.SignIn) bool { return s.Enabled && perigee.UsableState(s.State) }):
			lines = append(lines, fmt.Sprintf("upstream %s has no account that can be used; perigee account list says why", r.Upstream()))
		}
	}
	return lines
}

// Failed delivers the error of a service that broke.
func (d *Daemon) Failed() <-chan error { return d.failed }

// Stop takes no new calls and waits for the open ones until ctx ends; then it cuts them off,
// visibly for their clients. Everything that was recorded is on disk when it returns. Only the
// first Stop does so; a further one waits for it.
func (d *Daemon) Stop(ctx context.Context) {
	d.stopping.Do(func() {
		d.announceStop(ctx)
		if err := d.drainServices(ctx); err != nil {
			d.opts.Logger.Warn("cutting off open calls", "calls", d.api.Active())
		}
		d.release(context.WithoutCancel(ctx))
	})
}

// release ends everything that was started. The base context ends first, which cuts off open calls.
func (d *Daemon) release(ctx context.Context) {
	d.cancel(server.ErrShutdown)
	d.closeServices(ctx)
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
	if d.observers != nil {
		if err := d.observers.Close(ctx); err != nil {
			d.opts.Logger.Error("some traces could not be written", "error", err)
		}
	}
	if d.gateway != nil {
		if err := d.gateway.Signatures().Close(ctx); err != nil {
			d.opts.Logger.Error("thought signatures could not be stored", "error", err)
		}
		d.gateway.Close(ctx) // a refresh token that is on its way has to be stored
	}
	if d.store != nil {
		_ = d.store.Close()
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// settings returns the part of the configuration that the HTTP edge enforces.
func (d *Daemon) settings(cfg *config.Config) server.Settings {
	s := server.Settings{
		MaxBody:     int64(cfg.Limits.Body),
		MaxHead:     int(cfg.Limits.Head),
		Concurrency: cfg.Limits.Concurrency,
		Strict:      cfg.Strict,
		Loopback:    d.loopback(cfg.Listen),
		KeepAlive:   cfg.Limits.KeepAlive,
		Origins:     cfg.Origins,
		Hosts:       cfg.Hosts,
		Fetch: fetch.New(fetch.Options{
			Allow: cfg.Media.Fetch, MaxBytes: int64(cfg.Media.Max), Timeout: cfg.Media.Timeout,
			UserAgent: "perigee/" + d.opts.Version, Logger: d.opts.Logger,
		}),
	}
	for _, k := range cfg.Keys {
		s.Keys = append(s.Keys, server.Key{
			Name: k.Name, Secret: k.Secret, Models: k.Models,
			RPM: k.RPM, TokensPerDay: k.TokensPerDay, CostPerDay: k.CostPerDay, Concurrency: k.Concurrency, Expires: k.Expires,
		})
	}
	return s
}

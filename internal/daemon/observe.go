package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard"
	"perigee/internal/observe/live"
	"perigee/internal/observe/metrics"
	"perigee/internal/observe/secrets"
	"perigee/internal/observe/telemetry"
	"perigee/internal/observe/trace"
	"perigee/internal/route/record"
	"perigee/internal/server"
	"perigee/internal/server/mount"
	"perigee/internal/store/audit"
	"perigee/internal/store/config"
)

// observerOptions are the parts of a daemon that observers show. The functions are called after the
// daemon has started.
type observerOptions struct {
	Loaded  func() *config.Loaded // the configuration in force
	Version string
	Now     func() time.Time
	Logger  *slog.Logger // its warnings are shown if it is from Capture

	Control     func() perigee.Control
	Recorded    func() record.Reader
	Status      func() perigee.DaemonStatus
	Langservers func() []perigee.LangserverRow
	Audit       func() *audit.Log
	Secrets     func() []secrets.Named  // of accounts and processes, which are in memory
	Owner       func() http.Handler     // the server as the owner sees it, for replays
	Unready     func() []server.Unready // why calls cannot be answered now
	Store       func(ctx context.Context) (perigee.StoreReport, error)

	Accounts  func() []metrics.Accounts
	Extserver func() map[string]map[string]int64 // requests by method and code
	Memory    func() (reserved, limit int64)
}

// observers follow the calls of a daemon. Close them after the last call.
type observers struct {
	opts      observerOptions
	live      *live.Hub
	metrics   *metrics.Metrics
	secrets   *secrets.Collector
	recent    atomic.Pointer[recent] // of secrets
	traces    *trace.Store
	sessions  *dashboard.Sessions
	dashboard *dashboard.Dashboard
	telemetry *telemetry.Telemetry
	drained   context.Context // ends replays of the dashboard
	drain     context.CancelFunc
	replays   sync.WaitGroup
}

// newObservers returns the observers of a daemon that is about to start.
func newObservers(opts observerOptions) *observers {
	o := &observers{opts: opts}
	o.drained, o.drain = context.WithCancel(context.Background())
	o.live = live.New(opts.Now)
	o.metrics = o.newMetrics()
	o.sessions = dashboard.NewSessions(opts.Now, func() { o.recent.Store(nil) })
	o.secrets = o.newSecrets()
	o.traces = o.newTraces()
	o.dashboard = o.newDashboard()
	o.telemetry = telemetry.New(telemetry.Options{Version: opts.Version, Now: opts.Now, Logger: opts.Logger, Target: o.target})
	o.applyTelemetry(opts.Loaded().Config)
	return o
}

// Watch is for record.Options.
func (o *observers) Watch() []func(*perigee.Call, *perigee.Origin) perigee.Watcher {
	return []func(*perigee.Call, *perigee.Origin) perigee.Watcher{o.live.Watch, o.traces.Watch, o.telemetry.Watch}
}

// Observe is for record.Options.
func (o *observers) Observe(call *perigee.Call) { o.metrics.Observe(call) }

// Unrecorded is for server.Options.
func (o *observers) Unrecorded(dialect perigee.Dialect, class perigee.Class) {
	o.metrics.Refused(dialect, class)
}

// Points returns the paths of the observers.
func (o *observers) Points() []mount.Point {
	return slices.Concat(o.newReplays().Points(), o.dashboard.Points(), []mount.Point{o.newTail(), o.newBundles(), o.metrics.Point()})
}

// Apply puts a changed configuration in force.
func (o *observers) Apply(cfg *config.Config) {
	o.traces.SetLimits(int64(cfg.Traces.Keep), cfg.Traces.Bodies)
	o.applyTelemetry(cfg)
}

// Drain ends the streams of live views, which would keep the server open, and the replays of the
// dashboard, which the server does not know of.
func (o *observers) Drain() {
	o.live.Stop()
	o.drain()
	o.replays.Wait()
}

// Close waits until the observed calls are written, at most until ctx ends.
func (o *observers) Close(ctx context.Context) error {
	return errors.Join(o.traces.Close(ctx), o.telemetry.Close(ctx))
}

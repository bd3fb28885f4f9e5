package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"perigee"
	"perigee/internal/observe/dashboard"
	"perigee/internal/observe/live"
	"perigee/internal/observe/metrics"
	"perigee/internal/observe/secrets"
	"perigee/internal/observe/telemetry"
	"perigee/internal/observe/trace"
	"perigee/internal/server/membudget"
	"perigee/internal/server/mount"
	"perigee/internal/store/config"
)

// observers follow the calls of a daemon. Close them after the last call.
type observers struct {
	d         *Daemon
	live      *live.Hub
	metrics   *metrics.Metrics
	secrets   *secrets.Collector
	recent    atomic.Pointer[recent] // of secrets
	traces    *trace.Store
	held      membudget.Lease // of traces
	sessions  *dashboard.Sessions
	telemetry *telemetry.Telemetry
	drained   context.Context // ends replays of the dashboard
	drain     context.CancelFunc
	replays   sync.WaitGroup
}

// newObservers returns the observers of a daemon that is about to start. The recorder and the
// server need them, so the parts of the daemon that they show are made after them.
func newObservers(d *Daemon) *observers {
	o := &observers{d: d}
	o.drained, o.drain = context.WithCancel(context.Background())
	o.live = live.New(d.opts.Now)
	o.metrics = o.newMetrics()
	o.sessions = dashboard.NewSessions(d.opts.Now, func() { o.recent.Store(nil) })
	o.secrets = o.newSecrets()
	o.traces = o.newTraces()
	o.telemetry = telemetry.New(telemetry.Options{Version: d.opts.Version, Now: d.opts.Now, Logger: d.opts.Logger, Target: o.target})
	o.applyTelemetry(d.config())
	return o
}

// Watch is for record.Options.
func (o *observers) Watch() []func(*perigee.Call, *perigee.Origin) perigee.Watcher {
	return []func(*perigee.Call, *perigee.Origin) perigee.Watcher{o.live.Watch, o.traces.Watch, o.telemetry.Watch}
}

// Points returns the paths of the observers and of the dashboard.
func (o *observers) Points(pages *dashboard.Dashboard) []mount.Point {
	return slices.Concat(o.newReplays().Points(), pages.Points(), []mount.Point{o.newTail(), o.newBundles(), o.newProfiles(), o.metrics.Point()})
}

// Apply puts a changed configuration in force.
func (o *observers) Apply(cfg *config.Config) {
	o.traces.SetLimits(int64(cfg.Traces.Keep), cfg.Traces.Bodies)
	o.applyTelemetry(cfg)
}

// Drain ends the streams of live views, which would keep the server open, and the replays of the
// dashboard, which are not requests of the server.
func (o *observers) Drain() {
	o.live.Stop()
	o.drain()
	o.replays.Wait()
}

// Close waits until the observed calls are written, at most until ctx ends.
func (o *observers) Close(ctx context.Context) error {
	return errors.Join(o.traces.Close(ctx), o.telemetry.Close(ctx))
}

package daemon

import (
	"context"
	"slices"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/mcp/bridge"
	"perigee/internal/observe/secrets"
	"perigee/internal/observe/trace"
	"perigee/internal/observe/trace/bundle"
	"perigee/internal/server/mount"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// traceMemory is the part of limits.memory that traces may hold: an eighth.
const traceMemory = 8

// newTraces returns the store that writes trace directories.
func (o *observers) newTraces() *trace.Store {
	traces := o.d.config().Traces
	_ = o.held.Open(o.d.memory, false) // without it, nothing is counted
	return trace.New(trace.Options{
		Dir: o.traceDir(), Keep: int64(traces.Keep), Bodies: traces.Bodies, Redactor: o.secrets.Redactor,
		Now: o.d.opts.Now, Logger: o.d.opts.Logger,
		Memory: &o.held, Queue: func() int64 { return o.d.memory.Size() / traceMemory },
	})
}

// Calls adds to calls whether their bodies can be read. It waits for the bodies of calls that have
// only now ended.
func (o *observers) Calls(calls perigee.CallReader) perigee.CallReader {
	return trace.Reader{CallReader: flushed{calls, o.traces}, Store: o.traces}
}

// flushed has traces written before calls are read.
type flushed struct {
	perigee.CallReader
	traces *trace.Store
}

// flushTime is how long a listing waits for traces that are being written.
const flushTime = time.Second

func (f flushed) Calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	waiting, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	f.traces.Flush(waiting)
	return f.CallReader.Calls(ctx, q)
}

// newBundles returns the path at which bundles are made.
func (o *observers) newBundles() mount.Point {
	return bundle.Point(bundle.Source{
		Open: o.traces.Open, Secrets: o.secrets.Known, Version: o.d.opts.Version, Now: o.d.opts.Now,
		Calls: func() perigee.CallReader { return o.Calls(o.d.recorded()) },
		Accounts: func(ctx context.Context) (list []string) {
			rows, err := o.d.control.Accounts(ctx)
			if err != nil {
				o.d.opts.Logger.WarnContext(ctx, "accounts not read for a bundle", "error", err)
			}
			for _, r := range rows {
				list = append(list, r.Email)
			}
			return list
		},
		Audit: func(ctx context.Context, e perigee.AuditEntry) { _ = o.d.audit.Record(ctx, e) },
	})
}

// newSecrets returns the collector of all secrets: of the configuration, of accounts and processes,
// the admin token, and the tokens of windows and browsers.
func (o *observers) newSecrets() *secrets.Collector {
	var last *config.Loaded
	var configured []secrets.Named
	admin := datadir.NewAdminToken(o.d.config().DataDir)
	return secrets.New(secrets.Options{
		Now: o.d.opts.Now,
		Memory: func() []secrets.Named {
			if loaded := o.d.loaded.Load(); loaded != last {
				last, configured = loaded, secrets.OfConfig(loaded.Config)
			}
			return slices.Concat(o.d.secrets(), configured, secrets.All("ticket or cookie of the dashboard", o.sessions.Secrets()...))
		},
		Files: func() []secrets.Named { return fileSecrets(admin) },
	})
}

// Redact is for record.Options.
//
// It is called several times for each call, and collecting a thousand secrets takes longer than
// redacting a name, so the secrets may be recentTime old. Those of browsers are not.
func (o *observers) Redact(text string) string {
	known := o.recent.Load()
	if known == nil || time.Since(known.at) > recentTime {
		known = &recent{o.secrets.Redactor(), time.Now()}
		o.recent.Store(known)
	}
	return known.redactor.Clipped(text)
}

const recentTime = 100 * time.Millisecond

// A recent is the redactor of the secrets of a moment.
type recent struct {
	redactor *redact.Redactor
	at       time.Time
}

// fileSecrets returns the admin token and the tokens of editor windows, which are in files.
func fileSecrets(admin *datadir.AdminToken) (list []secrets.Named) {
	if token, err := admin.Read(); err == nil {
		list = secrets.All("admin token", token)
	}
	if dir, err := bridge.Dir(); err == nil {
		list = append(list, secrets.All("token of a window", bridge.Secrets(dir)...)...)
	}
	return list
}

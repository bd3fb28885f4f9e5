package daemon

import (
	"context"
	"net/http"

	"perigee"
	"perigee/internal/observe/live"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/route/record"
	"perigee/internal/server/mount"
)

// traceDir returns the directory of traces.
func (o *observers) traceDir() string { return traceDir(o.d.config()) }

// newReplays returns the service that sends recorded calls again.
func (o *observers) newReplays() *replay.Service {
	return replay.New(replay.Options{
		Open: o.traces.Open, Handler: func() http.Handler { return o.d.api.Trusted() },
		Calls:    func() perigee.CallReader { return o.Calls(o.d.recorded()) },
		Recorder: func() *record.Recorder { return o.d.recorded().Recorder },
		NewID:    func() string { return perigee.NewCallID(o.d.opts.Now()) },
		Audit:    func() replay.AuditLog { return o.d.audit },
	})
}

// newTail returns the path at which calls are followed.
func (o *observers) newTail() mount.Point {
	return live.Point(live.PointOptions{Hub: o.live, Redactor: o.secrets.Redactor,
		Audit: func(ctx context.Context, e perigee.AuditEntry) { _ = o.d.audit.Record(ctx, e) }})
}

package daemon

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"perigee"
	"perigee/internal/intercept/authority"
	"perigee/internal/mcp/bridge"
	"perigee/internal/observe/dashboard"
	"perigee/internal/observe/trace"
)

// newDashboard returns the pages of the daemon.
func (o *observers) newDashboard() *dashboard.Dashboard {
	recorded := lateReader{o}
	return dashboard.New(dashboard.Options{
		Version: o.opts.Version, Started: o.opts.Now(), Now: o.opts.Now, Logger: o.opts.Logger, Sessions: o.sessions, Redact: o.redact,
		Copy:    func(to io.Writer, from io.Reader) error { return o.secrets.Redactor().Copy(to, from) },
		Control: func() perigee.Control { return o.opts.Control() }, Calls: recorded, Usage: recorded, Live: o.live,
		Status: o.opts.Status, Unready: o.unready, Langservers: o.opts.Langservers, Config: o.opts.Loaded, Store: o.opts.Store,
		Windows: o.windows, Audit: lateAudit{o}, Clients: dashboard.Clients,
		ClientStates: dashboard.ClientStates(func() string { return o.opts.Loaded().Config.DataDir }),
		Replay:       o.replay, Shrink: o.shrink, Warnings: warningsOf(o.opts.Logger).list, CA: o.authority,
		PriceDate: func() string { return o.opts.Loaded().Config.PriceBook().Date() },
		Trace:     func(id string) (dashboard.Trace, error) { return trace.Open(o.traceDir(), id) },
	})
}

// authority describes the CA of interception; nothing: there is none.
func (o *observers) authority() []dashboard.Fact {
	info, err := authority.Read(filepath.Join(o.opts.Loaded().Config.DataDir, "ca"))
	if err != nil {
		return nil
	}
	return []dashboard.Fact{
		{Name: "Certificate", Value: info.Path}, {Name: "Valid until", Value: info.NotAfter.UTC().Format(time.DateOnly)},
		{Name: "Hosts", Value: strings.Join(info.Hosts, ", ")}, {Name: "Fingerprint", Value: info.Fingerprint},
	}
}

// Home answers GET / of browsers.
func (o *observers) Home() *dashboard.Dashboard { return o.dashboard }

// unready lists why calls cannot be answered now, for the owner.
func (o *observers) unready() (lines []string) {
	for _, r := range o.opts.Unready() {
		lines = append(lines, strings.TrimSuffix(r.Reason+": "+r.Detail, ": "))
	}
	return lines
}

// redact replaces all secrets that are known now.
func (o *observers) redact(text string) string {
	return string(o.secrets.Redactor().AppendAll(nil, []byte(text)))
}

// A lateReader reads recorded calls once there is a recorder.
type lateReader struct{ o *observers }

func (r lateReader) Calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	return r.o.opts.Recorded().Calls(ctx, q)
}

func (r lateReader) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	return r.o.opts.Recorded().Usage(ctx, q)
}

// A lateAudit records acts once there is an audit log.
type lateAudit struct{ o *observers }

func (a lateAudit) Record(ctx context.Context, e perigee.AuditEntry) error {
	return a.o.opts.Audit().Record(ctx, e)
}

func (a lateAudit) Refused(ctx context.Context, e perigee.AuditEntry) {
	a.o.opts.Audit().Refused(ctx, e)
}

// windows lists the editor windows with the extension.
func (o *observers) windows(ctx context.Context) (list []dashboard.Window, err error) {
	dir, err := bridge.Dir()
	if err != nil {
		return nil, err
	}
	rows, _, err := bridge.List(ctx, dir, o.opts.Version)
	for _, r := range rows {
		list = append(list, dashboard.Window{Name: r.IDE, Version: r.Version, State: string(r.State), Workspace: r.Workspace})
	}
	return list, err
}

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
	"perigee/internal/route/record"
)

// newDashboard returns the pages of the daemon.
func (o *observers) newDashboard(recorded record.Reader, stored keeper) *dashboard.Dashboard {
	return dashboard.New(dashboard.Options{
		Version: o.d.opts.Version, Started: o.d.opts.Now(), Now: o.d.opts.Now, Logger: o.d.opts.Logger, Sessions: o.sessions, Redact: o.redact,
		Copy:    func(to io.Writer, from io.Reader) error { return o.secrets.Redactor().Copy(to, from) },
		Control: func() perigee.Control { return o.d.control }, Calls: recorded, Usage: recorded, Live: o.live,
		Status: o.d.status, Unready: o.unready, Upstreams: o.upstreams, Langservers: o.d.gateway.Langservers, Config: o.d.loaded.Load, Store: stored.StoreReport,
		Windows: o.windows, Audit: o.d.audit, Clients: dashboard.Clients,
		ClientStates: dashboard.ClientStates(func() string { return o.d.config().DataDir }),
		Replay:       o.replay, Shrink: o.shrink, Warnings: o.d.warnings.list, CA: o.authority,
		PriceDate: func() string { return o.d.config().PriceBook().Date() },
		Trace:     func(id string) (dashboard.Trace, error) { return o.traces.Open(id) },
	})
}

// authority describes the CA of interception. It returns nil if there is none.
func (o *observers) authority() []dashboard.Fact {
	info, err := authority.Read(filepath.Join(o.d.config().DataDir, "ca"))
	if err != nil {
		return nil
	}
	return []dashboard.Fact{
		{Name: "Certificate", Value: info.Path}, {Name: "Valid until", Value: info.NotAfter.UTC().Format(time.DateOnly)},
		{Name: "Hosts", Value: strings.Join(info.Hosts, ", ")}, {Name: "Fingerprint", Value: info.Fingerprint},
	}
}

// unready lists why calls cannot be answered now, for the owner.
func (o *observers) unready() (lines []string) {
	for _, r := range o.d.unready() {
		lines = append(lines, strings.TrimSuffix(r.Reason+": "+r.Detail, ": "))
	}
	return lines
}

// upstreams lists the upstreams in force.
func (o *observers) upstreams() (list []dashboard.UpstreamState) {
	for _, e := range o.d.gateway.Entries() {
		list = append(list, dashboard.UpstreamState{Name: e.Config.Name, Kind: e.Config.Kind, Unready: e.Unusable()})
	}
	return list
}

// redact replaces all secrets that are known now.
func (o *observers) redact(text string) string {
	return string(o.secrets.Redactor().AppendAll(nil, []byte(text)))
}

// windows lists the editor windows with the extension.
func (o *observers) windows(ctx context.Context) (list []dashboard.Window, err error) {
	dir, err := bridge.Dir()
	if err != nil {
		return nil, err
	}
	rows, _, err := bridge.List(ctx, dir, o.d.opts.Version)
	for _, r := range rows {
		list = append(list, dashboard.Window{Name: r.IDE, Version: r.Version, State: string(r.State), Workspace: r.Workspace})
	}
	return list, err
}

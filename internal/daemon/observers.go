package daemon

import (
	"context"
	"net/http"

	"perigee"
	"perigee/internal/observe/metrics"
	"perigee/internal/observe/secrets"
	"perigee/internal/route/record"
	"perigee/internal/store/audit"
)

// recorded returns a reader of recorded calls, with costs.
func (d *Daemon) recorded() record.Reader {
	return record.Reader{Recorder: d.recorder, Store: d.prices.Reader(d.store)}
}

// newObservers returns the observers of calls. They are made before the parts that they show.
func (d *Daemon) newObservers() *observers {
	return newObservers(observerOptions{
		Loaded: d.loaded.Load, Version: d.opts.Version, Now: d.opts.Now, Logger: d.opts.Logger,
		Recorded: d.recorded, Status: d.status, Langservers: d.gateway.Langservers, Secrets: d.secrets, Unready: d.unready,
		Control: func() perigee.Control { return d.control },
		Audit:   func() *audit.Log { return d.audit },
		Owner:   func() http.Handler { return d.api.Trusted() },
		Store: func(ctx context.Context) (perigee.StoreReport, error) {
			return offlineKeeper(d.config(), d.store).StoreReport(ctx)
		},
		Accounts:  d.countAccounts,
		Extserver: d.extserverRequests,
		Memory:    func() (reserved, limit int64) { return d.memory.Used(), d.memory.Size() },
	})
}

// countAccounts counts the accounts of the upstreams that are in force.
func (d *Daemon) countAccounts() (list []metrics.Accounts) {
	for _, r := range d.gateway.Rosters() {
		n := r.Count()
		list = append(list, metrics.Accounts{Upstream: r.Upstream(), States: n.States, Disabled: n.Disabled, Cooling: n.Cooling})
	}
	return list
}

// extserverRequests adds up the requests to the Extension Servers of all language servers, by
// method and code.
func (d *Daemon) extserverRequests() map[string]map[string]int64 {
	sum := map[string]map[string]int64{}
	for _, e := range d.gateway.Entries() {
		u, ok := e.Upstream.(interface {
			Requests() map[string]map[string]int64
		})
		if !ok {
			continue
		}
		for method, codes := range u.Requests() {
			if sum[method] == nil {
				sum[method] = map[string]int64{}
			}
			for code, n := range codes {
				sum[method][code] += n
			}
		}
	}
	return sum
}

// secrets returns the tokens of accounts, processes and windows, and the secrets of OAuth clients
// that were found.
func (d *Daemon) secrets() []secrets.Named {
	list := secrets.All("secret of an installed OAuth client", d.opts.installed.Secrets()...)
	for _, e := range d.gateway.Entries() {
		if e.Roster != nil {
			list = append(list, secrets.OfAccounts(e.Config.Name, e.Roster)...)
		}
		list = append(list, secrets.OfUpstream(e.Config.Name, e.Upstream)...)
	}
	return list
}

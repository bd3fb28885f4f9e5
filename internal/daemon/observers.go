package daemon

import (
	"perigee/internal/observe/metrics"
	"perigee/internal/observe/secrets"
	"perigee/internal/route/record"
)

// recorded returns a reader of recorded calls, with costs.
func (d *Daemon) recorded() record.Reader {
	return record.Reader{Recorder: d.recorder, Store: d.prices.Reader(d.store)}
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

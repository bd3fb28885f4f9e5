// Package admin serves the paths about perigee itself: accounts, traces, the audit log, the store,
// usage and quota. Its paths are mounted into the HTTP server, which checks keys and tokens.
package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"perigee"
	"perigee/internal/lib/terminal"
	"perigee/internal/server/mount"
)

// An API holds the services behind the paths. All of them are required.
type API struct {
	Control perigee.Control
	Audit   AuditLog
	Acts    perigee.AuditReader
	Calls   perigee.CallReader
	Usage   perigee.UsageReader
	Keeper  StoreKeeper
	Status  func() perigee.DaemonStatus
	// Langservers lists the language servers that are supervised.
	Langservers func() []perigee.LangserverRow
	// KeyNames returns the names of the keys in force.
	KeyNames func() []string
}

// Points returns the paths.
func (a *API) Points() []mount.Point {
	return []mount.Point{
		mount.Methods{"GET": a.usage}.At("/v1/usage", mount.Client),
		mount.Methods{"GET": a.quota}.At("/v1/quota", mount.Client),
		mount.Methods{
			"GET":    mount.List(a.accounts),
			"POST":   mount.List(a.importAccounts),
			"PATCH":  mount.Value(a.changeAccount),
			"DELETE": a.actOn(perigee.AccountControl.RemoveAccount),
		}.At("/v1/accounts", mount.Admin),
		mount.Methods{"POST": a.actOn(perigee.AccountControl.UseAccount)}.At("/v1/accounts/use", mount.Admin),
		mount.Methods{"GET": mount.List(a.accountStatus)}.At("/v1/accounts/status", mount.Admin),
		mount.Methods{"GET": mount.Value(a.explain)}.At("/v1/explain", mount.Admin),
		mount.Methods{"GET": mount.List(a.traces)}.At("/v1/traces", mount.Admin),
		mount.Methods{"GET": mount.Value(a.trace)}.At("/v1/traces/*", mount.Admin),
		mount.Methods{"GET": mount.Value(func(r *http.Request) (perigee.StoreReport, error) { return a.Keeper.StoreReport(r.Context()) })}.At("/v1/store", mount.Admin),
		mount.Methods{"POST": mount.Value(a.storeCompact)}.At("/v1/store/compact", mount.Admin),
		mount.Methods{"GET": mount.List(a.auditEntries), "POST": mount.Value(a.recordAct)}.At("/v1/audit", mount.Admin),
		mount.Methods{"GET": mount.Value(func(*http.Request) (perigee.DaemonStatus, error) { return a.Status(), nil })}.At("/v1/status", mount.Admin),
		mount.Methods{"GET": mount.List(func(*http.Request) ([]perigee.LangserverRow, error) { return a.Langservers(), nil })}.At("/v1/langserver", mount.Admin),
	}
}

// explain answers GET /v1/explain?model=&agent=&input_tokens=&images=&tools=: which upstream would
// answer a call now, and why the rest would not.
func (a *API) explain(r *http.Request) (none perigee.RouteExplanation, err error) {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "model", "agent", "input_tokens", "images", "tools"); err != nil {
		return none, err
	}
	q := perigee.RouteQuestion{Model: query.Get("model"), Agent: query.Get("agent")}
	if q.Agent != "" && q.Agent != "main" && q.Agent != "sub" {
		return none, perigee.Errorf(perigee.ClassInvalid, "there is no agent %q", mount.Shorten(q.Agent)).WithHint("use main or sub")
	}
	if text := query.Get("input_tokens"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return none, perigee.Errorf(perigee.ClassInvalid, "input_tokens: %q is not a number of tokens", mount.Shorten(text))
		}
		q.InputTokens = &n
	}
	for name, to := range map[string]**bool{"images": &q.Images, "tools": &q.Tools} {
		if query.Get(name) == "" {
			continue
		}
		is, err := mount.BoolParameter(query, name)
		if err != nil {
			return none, err
		}
		*to = &is
	}
	return a.Control.ExplainRoute(r.Context(), q)
}

// usage answers GET /v1/usage?by=&each=&since=&until=&format=.
func (a *API) usage(w http.ResponseWriter, r *http.Request) error {
	rows, err := a.usageRows(r)
	if err != nil {
		return err
	}
	switch format := r.URL.Query().Get("format"); format {
	case "", "json":
		return mount.WriteList(w, rows)
	case "csv":
		w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
		return terminal.WriteCSV(w, rows)
	default:
		return perigee.Errorf(perigee.ClassInvalid, "there is no format %q", mount.Shorten(format)).WithHint("use json or csv")
	}
}

func (a *API) usageRows(r *http.Request) ([]perigee.UsageRow, error) {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "by", "each", "since", "until", "format"); err != nil {
		return nil, err
	}
	q := perigee.UsageQuery{By: query.Get("by"), Each: query.Get("each")}
	q.Key = mount.CallOf(r).Key // a key can list only its own calls
	var err error
	if q.Since, q.Until, err = mount.TimeRange(query); err != nil {
		return nil, err
	}
	return a.Usage.Usage(r.Context(), q)
}

// quota answers GET /v1/quota with the remaining quota of the accounts for the models that the key
// allows. Accounts that could not be asked are named in the notes. Through the socket,
// ?problems=true returns the full reasons.
func (a *API) quota(w http.ResponseWriter, r *http.Request) error {
	call := mount.CallOf(r)
	if err := mount.KnownParameters(r.URL.Query(), "problems"); err != nil {
		return err
	}
	// The owner gets fresh values; clients poll.
	list, err := a.Control.Quota(r.Context(), call.Trusted)
	if err != nil {
		return err
	}
	list.Rows = slices.DeleteFunc(list.Rows, func(row perigee.QuotaRow) bool { return !call.Allows(row.Model) })
	if call.Trusted && r.URL.Query().Get("problems") == "true" {
		return mount.WriteValue(w, list)
	}
	for _, problem := range list.Problems {
		w.Header().Add("X-Perigee-Notes", mount.HeaderSafe(problem.String()))
	}
	return mount.WriteList(w, list.Rows)
}

// A StoreKeeper reports on the store and compacts it.
type StoreKeeper interface {
	StoreReport(ctx context.Context) (perigee.StoreReport, error)
	CompactStore(ctx context.Context) (perigee.StoreCompacted, error)
}

// storeCompact answers POST /v1/store/compact. It ends when its client goes away.
func (a *API) storeCompact(r *http.Request) (perigee.StoreCompacted, error) {
	done, err := a.Keeper.CompactStore(r.Context())
	a.audit(r, perigee.AuditEntry{Action: perigee.AuditStoreCompact, Object: done.Database,
		Detail: fmt.Sprintf("%d bytes freed", done.Freed)}, err)
	return done, err
}

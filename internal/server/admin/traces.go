package admin

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/server/mount"
)

// traceRows is how many traces a listing has unless it is asked for another number, and how many at
// most.
const (
	traceRows    = 100
	maxTraceRows = 1000
	maxID        = 100 // of a call, in bytes; ours are shorter
)

// traces answers GET
// /v1/traces?limit=&before=&since=&errors=&replays=&model=&client=&account=&key=: the newest calls
// first, without calls of trace replay and trace shrink unless replays=true. The last four are
// patterns; key matches the names of clients' keys.
func (a *API) traces(r *http.Request) ([]perigee.TraceRow, error) {
	rows, err := a.listTraces(r)
	a.audit(r, perigee.AuditEntry{Action: perigee.AuditTraceList, Object: TraceFilter(r.URL.Query(), a.KeyNames()),
		Detail: TracesRead(len(rows))}, err)
	return rows, err
}

func (a *API) listTraces(r *http.Request) ([]perigee.TraceRow, error) {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "limit", "before", "since", "errors", "replays", "model", "client", "account", "key"); err != nil {
		return nil, err
	}
	q := perigee.CallQuery{
		Model: query.Get("model"), Client: query.Get("client"), Account: query.Get("account"), Key: query.Get("key"),
	}
	var err error
	if q.Errors, err = mount.BoolParameter(query, "errors"); err != nil {
		return nil, err
	}
	replays, err := mount.BoolParameter(query, "replays")
	if err != nil {
		return nil, err
	}
	q.Sent = !replays
	if q.Since, err = mount.TimeParameter(query, "since"); err != nil {
		return nil, err
	}
	if q.Limit, err = mount.Limit(query, traceRows, maxTraceRows,
		"page with before=ID, the last call of the page before"); err != nil {
		return nil, err
	}
	if before := query.Get("before"); before != "" {
		found, err := FindCall(r.Context(), a.Calls, before)
		if err != nil {
			return nil, err
		}
		q.Before = found.ID
	}
	calls, err := a.Calls.Calls(r.Context(), q)
	if err != nil {
		return nil, err
	}
	rows := make([]perigee.TraceRow, len(calls))
	for i := range calls {
		rows[i] = calls[i].TraceRow()
	}
	return rows, nil
}

// trace answers GET /v1/traces/{id}.
func (a *API) trace(r *http.Request) (t perigee.Trace, err error) {
	if err := mount.KnownParameters(r.URL.Query()); err != nil {
		return t, err
	}
	id := mount.Wildcard(r)
	found, err := FindCall(r.Context(), a.Calls, id)
	if err == nil {
		id, t = found.ID, found.Trace()
	}
	a.audit(r, perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: id}, err)
	return t, err
}

// LastCall is the name of the newest call of a client, not counting calls of trace replay and trace
// shrink.
const LastCall = "last"

// FindCall returns the call of a name: its id, the beginning of the id where no other call's begins
// so, or LastCall. A name that no call has is of ClassNotFound; one that several have is of
// ClassInvalid, and the error lists them.
func FindCall(ctx context.Context, calls perigee.CallReader, name string) (*perigee.Call, error) {
	if name == LastCall {
		newest, err := calls.Calls(ctx, perigee.CallQuery{Sent: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(newest) == 0 {
			return nil, perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet")
		}
		return &newest[0], nil
	}
	missing := perigee.Errorf(perigee.ClassNotFound, "there is no call %q", mount.Shorten(name)).
		WithHint("the x-perigee-call header of a response has the ID, and GET /perigee/v1/traces lists recent calls")
	if name == "" || len(name) > maxID {
		return nil, missing
	}
	for _, q := range []perigee.CallQuery{{ID: name}, {Prefix: name, Limit: maxCandidates + 1}} {
		found, err := calls.Calls(ctx, q)
		switch {
		case err != nil:
			return nil, err
		case len(found) == 1:
			return &found[0], nil
		case len(found) > 1:
			return nil, ambiguous(name, found)
		}
	}
	return nil, missing
}

// maxCandidates is how many of the calls that a name may mean are listed.
const maxCandidates = 5

func ambiguous(name string, found []perigee.Call) error {
	var ids []string
	for _, c := range found[:min(len(found), maxCandidates)] {
		ids = append(ids, c.ID)
	}
	if len(found) > maxCandidates {
		ids = append(ids, "and more")
	}
	return perigee.Errorf(perigee.ClassInvalid, "several calls begin with %q: %s", mount.Shorten(name), strings.Join(ids, ", ")).
		WithHint("enter more of the ID")
}

// TraceFilter returns the query of a listing of traces for the audit log. A value of key that is
// not among the names in keys is left out, because it may be a key itself.
func TraceFilter(query url.Values, keys []string) string {
	query = maps.Clone(query)
	for i, value := range query["key"] {
		if value != "" && !slices.Contains(keys, value) {
			query["key"] = slices.Clone(query["key"])
			query["key"][i] = "[redacted]"
		}
	}
	if since, err := time.Parse(time.RFC3339, query.Get("since")); err == nil {
		// A relative time, such as "2d", has fractions of a second, which are left out.
		query.Set("since", since.UTC().Format(time.RFC3339))
	}
	text, err := url.QueryUnescape(query.Encode())
	if err != nil {
		return query.Encode()
	}
	return text
}

// TracesRead is the detail of reading so many traces.
func TracesRead(n int) string {
	if n == 1 {
		return "1 call"
	}
	return strconv.Itoa(n) + " calls"
}

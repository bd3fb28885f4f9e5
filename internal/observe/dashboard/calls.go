package dashboard

import (
	"net/url"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/server/admin"
	"perigee/internal/server/mount"
)

// pageRows is how many calls a page lists.
const pageRows = 50

// periods are the choices of times.
var periods = []pages.Period{
	{Value: "", Label: "Any time"},
	{Value: "1h", Label: "Last hour", Length: time.Hour},
	{Value: "24h", Label: "Last 24 hours", Length: 24 * time.Hour},
	{Value: "7d", Label: "Last 7 days", Length: 7 * 24 * time.Hour},
	{Value: "30d", Label: "Last 30 days", Length: 30 * 24 * time.Hour},
}

// calls lists calls as perigee trace list does.
func (v *visit) calls() error {
	if v.opts.Calls == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	query := v.r.URL.Query()
	page := pages.Calls{Periods: periods, Newer: query.Get("before") != ""}
	f := &page.Filter
	*f = pages.CallFilter{Model: query.Get("model"), Client: query.Get("client"), Account: query.Get("account"), Key: query.Get("key"),
		Since: query.Get("since"), Errors: query.Get("errors") != "", Replays: query.Get("replays") != ""}
	q := perigee.CallQuery{Model: f.Model, Client: f.Client, Account: f.Account, Key: f.Key, Errors: f.Errors, Sent: !f.Replays, Limit: pageRows + 1,
		Before: query.Get("before")}
	var err error
	if q.Since, err = v.sinceOf(f); err != nil {
		return err
	}
	calls, err := v.opts.Calls.Calls(v.ctx, q)
	v.audit(v.ctx, perigee.AuditEntry{Action: perigee.AuditTraceList, Object: admin.TraceFilter(filterValues(f), nil),
		Detail: admin.TracesRead(min(len(calls), pageRows))}, err)
	if err != nil {
		return err
	}
	for _, c := range calls[:min(len(calls), pageRows)] {
		page.Calls = append(page.Calls, v.clean(c))
	}
	values := filterValues(f)
	page.Any = len(values) > 0
	page.First = address("/dashboard/calls", values)
	if len(calls) > pageRows {
		values.Set("before", calls[pageRows-1].ID)
		page.Older = address("/dashboard/calls", values)
	}
	return v.render(200, "Calls", "calls", page)
}

func address(path string, values url.Values) string {
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// filterValues are the parameters of a filter, without empty ones.
func filterValues(f *pages.CallFilter) url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"model": f.Model, "client": f.Client, "account": f.Account, "key": f.Key, "since": f.Since} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if f.Errors {
		values.Set("errors", "true")
	}
	if f.Replays {
		values.Set("replays", "true")
	}
	return values
}

// sinceOf returns the time from which on calls are wanted: one of periods, or a time as RFC 3339.
func (v *visit) sinceOf(f *pages.CallFilter) (time.Time, error) {
	for _, p := range periods {
		if f.Since == p.Value && p.Length == 0 {
			return time.Time{}, nil
		}
		if f.Since == p.Value {
			return v.now.Add(-p.Length), nil
		}
	}
	t, err := time.Parse(time.RFC3339, f.Since)
	if err != nil {
		return t, perigee.Errorf(perigee.ClassInvalid, "since %q is not a time", mount.Shorten(f.Since)).
			WithHint("write it as 2026-01-31T00:00:00Z, or use the form")
	}
	return t, nil
}

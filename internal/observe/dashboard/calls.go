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

// calls lists calls as perigee trace list does.
func (v *visit) calls() error {
	query := v.r.URL.Query()
	filter := url.Values{}
	for _, name := range pages.CallFilter {
		if value := query.Get(name); value != "" {
			filter.Set(name, value)
		}
	}
	for _, name := range []string{"errors", "replays"} {
		if query.Get(name) != "" {
			filter.Set(name, "true")
		}
	}
	since, err := v.sinceOf(filter.Get("since"))
	if err != nil {
		return err
	}
	calls, err := v.opts.Calls.Calls(v.ctx, perigee.CallQuery{
		Model: filter.Get("model"), Client: filter.Get("client"), Account: filter.Get("account"),
		Key: filter.Get("key"), Since: since, Errors: filter.Has("errors"), Sent: !filter.Has("replays"),
		Before: query.Get("before"), Limit: pageRows + 1})
	v.audit(v.ctx, perigee.AuditEntry{Action: perigee.AuditTraceList,
		Object: admin.TraceFilter(filter, nil), Detail: admin.TracesRead(min(len(calls), pageRows))}, err)
	if err != nil {
		return err
	}
	page := pages.Calls{Filter: filter, Newer: query.Get("before") != ""}
	if len(calls) > pageRows {
		calls, page.Older = calls[:pageRows], calls[pageRows-1].ID
	}
	for _, c := range calls {
		page.Calls = append(page.Calls, v.clean(c))
	}
	return v.render(200, "Calls", "calls", page)
}

// sinceOf returns the time from which on calls are listed: the begin of a period, or a time as RFC
// 3339. The zero time means all calls.
func (v *visit) sinceOf(text string) (time.Time, error) {
	for _, p := range pages.Periods {
		switch {
		case text == p.Value && p.Length == 0:
			return time.Time{}, nil
		case text == p.Value:
			return v.now.Add(-p.Length), nil
		}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, perigee.Errorf(perigee.ClassInvalid,
			"since %q is not a time", mount.Shorten(text)).
			WithHint("write it as 2026-01-31T00:00:00Z, or use the form")
	}
	return t, nil
}

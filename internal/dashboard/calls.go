package dashboard

import (
	"fmt"
	"net/url"
	"time"

	"perigee"
	"perigee/internal/httpapi/admin"
	"perigee/internal/httpapi/mount"
)

// pageRows is how many calls a page lists.
const pageRows = 50

// A callsPage lists calls.
type callsPage struct {
	Filter  callFilter
	Periods []period
	Calls   []perigee.Call
	Newer   bool   // the page does not begin with the newest
	First   string // address of the page with the newest
	Older   string // address of the next page; empty: there is none
	Any     bool   // a filter is set
}

// A callFilter is what the form of the page says.
type callFilter struct {
	Model, Client, Account, Key, Since string
	Errors                             bool
}

// A period is a choice of times.
type period struct {
	Value, Label string
	length       time.Duration
}

var periods = []period{
	{"", "Any time", 0}, {"1h", "Last hour", time.Hour}, {"24h", "Last 24 hours", 24 * time.Hour}, {"7d", "Last 7 days", 7 * 24 * time.Hour},
	{"30d", "Last 30 days", 30 * 24 * time.Hour},
}

// calls lists calls as perigee trace list does.
func (v *visit) calls() error {
	if v.opts.Calls == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	query := v.r.URL.Query()
	page := callsPage{Periods: periods, Newer: query.Get("before") != ""}
	f := &page.Filter
	*f = callFilter{query.Get("model"), query.Get("client"), query.Get("account"), query.Get("key"), query.Get("since"),
		query.Get("errors") != ""}
	q := perigee.CallQuery{Model: f.Model, Client: f.Client, Account: f.Account, Key: f.Key, Errors: f.Errors, Limit: pageRows + 1,
		Before: query.Get("before")}
	var err error
	if q.Since, err = v.sinceOf(f); err != nil {
		return err
	}
	calls, err := v.opts.Calls.Calls(v.ctx, q)
	v.audit(v.ctx, perigee.AuditEntry{Action: perigee.AuditTraceList, Object: admin.TraceFilter(f.values(), nil),
		Detail: admin.TracesRead(min(len(calls), pageRows))}, err)
	if err != nil {
		return err
	}
	for _, c := range calls[:min(len(calls), pageRows)] {
		page.Calls = append(page.Calls, v.clean(c))
	}
	values := f.values()
	page.Any = len(values) > 0
	page.First = address("/dashboard/calls", values)
	if len(calls) > pageRows {
		values.Set("before", calls[pageRows-1].ID)
		page.Older = address("/dashboard/calls", values)
	}
	return v.render(200, "calls", "Calls", "calls", page)
}

func address(path string, values url.Values) string {
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// values are the parameters of a filter, without empty ones.
func (f callFilter) values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"model": f.Model, "client": f.Client, "account": f.Account, "key": f.Key, "since": f.Since} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if f.Errors {
		values.Set("errors", "true")
	}
	return values
}

// sinceOf returns the time from which on calls are wanted: one of periods, or a time as RFC 3339.
func (v *visit) sinceOf(f *callFilter) (time.Time, error) {
	for _, p := range periods {
		if f.Since == p.Value && p.length == 0 {
			return time.Time{}, nil
		}
		if f.Since == p.Value {
			return v.now.Add(-p.length), nil
		}
	}
	t, err := time.Parse(time.RFC3339, f.Since)
	if err != nil {
		return t, perigee.Errorf(perigee.ClassInvalid, "since %q is not a time", mount.Shorten(f.Since)).
			WithHint("write it as 2026-01-31T00:00:00Z, or use the form")
	}
	return t, nil
}

// statusOf is how a call ended, in a word or a number.
func statusOf(c *perigee.Call) string {
	if c.ClientStatus != 0 {
		return fmt.Sprint(c.ClientStatus)
	}
	return string(c.Outcome)
}

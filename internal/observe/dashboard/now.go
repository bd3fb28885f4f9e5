package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/observe/live"
)

// Limits of the home page.
const (
	recentCalls = 10
	recentDays  = 14
	shownText   = 1200 // bytes of a growing answer
)

// home shows the home page.
func (v *visit) home() error {
	page := pages.Home{Open: v.openCalls(), Status: v.opts.Status(),
		Langservers: v.opts.Langservers(), Unready: v.redactAll(v.opts.Unready())}
	q := perigee.CallQuery{Sent: true, Limit: recentCalls + len(page.Open)}
	calls, err := v.opts.Calls.Calls(v.ctx, q)
	if err != nil {
		return err
	}
	page.Fresh = len(calls) == 0
	page.Recent = v.ended(calls)
	if page.Today, err = v.today(v.ctx, v.now); err != nil {
		return err
	}
	if page.Accounts, err = v.accountRows(); err != nil {
		page.Problem, page.Accounts = v.opts.Redact(err.Error()), nil
	}
	return v.render(200, "Now", "now", page)
}

// ended returns the calls that have ended, at most recentCalls.
func (d *Dashboard) ended(calls []perigee.Call) (list []perigee.Call) {
	for _, c := range calls {
		if c.Outcome != perigee.OutcomeOpen && len(list) < recentCalls {
			list = append(list, d.clean(c))
		}
	}
	return list
}

// openCalls returns the calls that are being answered, the newest first.
func (d *Dashboard) openCalls() (list []pages.OpenCall) {
	for _, c := range d.opts.Live.Open() {
		list = append(list, d.openCall(c))
	}
	slices.Reverse(list)
	return list
}

func (d *Dashboard) openCall(c live.OpenCall) pages.OpenCall {
	o := pages.OpenCall{Call: d.clean(c.Call), Text: tailOf(d.opts.Redact(c.Text)), Thinking: tailOf(d.opts.Redact(c.Thinking))}
	o.Tools = d.redactAll(c.Tools)
	switch {
	case c.Text != "" || c.FirstByte > 0 && c.Thinking == "":
		o.Phase = "answering"
	case c.Thinking != "":
		o.Phase = "thinking"
	default:
		o.Phase = "waiting"
	}
	return o
}

// tailOf returns the end of a text, from the beginning of a word if one is near.
func tailOf(text string) string {
	if len(text) <= shownText {
		return text
	}
	text = text[len(text)-shownText:]
	if i := strings.IndexAny(text[:100], " \n"); i >= 0 {
		text = text[i+1:]
	}
	return "…" + strings.ToValidUTF8(text, "")
}

// today returns the usage since midnight, with the chart of the last days.
func (d *Dashboard) today(ctx context.Context, now time.Time) (t pages.Today, err error) {
	local := now.In(d.opts.Zone)
	t.Zone = zoneOf(local)
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, d.opts.Zone)
	rows, err := d.opts.Usage.Usage(ctx, perigee.UsageQuery{By: perigee.ByModel, Since: midnight})
	if err != nil {
		return t, err
	}
	for _, r := range rows {
		t.Add(r)
	}
	first := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-recentDays)
	if rows, err = d.opts.Usage.Usage(ctx, perigee.UsageQuery{By: perigee.ByDay, Since: first}); err != nil {
		return t, err
	}
	t.Days = pages.Days(rows, recentDays, now)
	return t, nil
}

// zoneOf returns the zone of a time as text: UTC, CET, or UTC+05:30 if it has no name.
func zoneOf(at time.Time) string {
	if name, _ := at.Zone(); strings.Trim(name, "+-0123456789") != "" {
		return name
	}
	return "UTC" + at.Format("-07:00")
}

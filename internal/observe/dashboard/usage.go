package dashboard

import (
	"slices"
	"strconv"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
)

// maxGroups is how many groups a table has.
const maxGroups = 20

// usageGroups are the groups of usage, each in a table.
var usageGroups = []string{
	perigee.ByModel, perigee.ByClient, perigee.ByKey, perigee.ByAccount, perigee.ByUpstream,
}

// usage shows the usage of a period.
func (v *visit) usage() error {
	days := 30
	for _, n := range pages.UsageDays {
		if v.r.URL.Query().Get("days") == strconv.Itoa(n) {
			days = n
		}
	}
	page := pages.Usage{Prices: v.opts.PriceDate()}
	if err := v.lastHours(&page); err != nil {
		return err
	}
	since := v.now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)
	rows, err := v.opts.Usage.Usage(v.ctx, perigee.UsageQuery{By: perigee.ByDay, Since: since})
	if err != nil {
		return err
	}
	page.Days = pages.Days(rows, days, v.now)
	for _, by := range usageGroups {
		rows, err := v.opts.Usage.Usage(v.ctx, perigee.UsageQuery{By: by, Since: since})
		if err != nil {
			return err
		}
		if len(rows) == 0 || len(rows) == 1 && rows[0].Group == "" { // it has no information
			continue
		}
		group := pages.UsageGroup{ID: by, More: len(rows) - maxGroups}
		group.Rows = slices.Clone(rows[:min(len(rows), maxGroups)])
		for i := range group.Rows {
			group.Rows[i].Group = v.opts.Redact(group.Rows[i].Group)
		}
		page.Groups = append(page.Groups, group)
	}
	return v.render(200, "Usage", "usage", page)
}

// maxSummed is how many calls the charts of the last hours are made of.
const maxSummed = 5000

// lastHours adds the calls of the last hours.
func (v *visit) lastHours(page *pages.Usage) error {
	calls, err := v.opts.Calls.Calls(v.ctx, perigee.CallQuery{Sent: true, Since: v.now.Add(-pages.Hours * time.Hour), Limit: maxSummed})
	if err != nil {
		return err
	}
	page.Recent = pages.LastHours(calls, v.now, v.opts.Zone)
	page.Recent.Cut = len(calls) == maxSummed
	for i := range page.Recent.Upstreams {
		page.Recent.Upstreams[i].Upstream = v.opts.Redact(page.Recent.Upstreams[i].Upstream)
	}
	for i := range page.Recent.Sessions {
		s := &page.Recent.Sessions[i]
		s.Group, s.Each = v.opts.Redact(s.Group), v.opts.Redact(s.Each)
	}
	return nil
}

package dashboard

import (
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/observe/dashboard/view"
)

var usageDays = []int{7, 30, 90}

// maxGroups is how many groups a table has.
const maxGroups = 20

// usage shows what was spent.
func (v *visit) usage() error {
	if v.opts.Usage == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	page := pages.Usage{Days: 30, Choices: usageDays}
	switch v.r.URL.Query().Get("days") {
	case "7":
		page.Days = 7
	case "90":
		page.Days = 90
	}
	if v.opts.PriceDate != nil {
		page.Prices = v.opts.PriceDate()
	}
	if err := v.lastHours(&page); err != nil {
		return err
	}
	since := v.now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-page.Days)
	rows, err := v.opts.Usage.Usage(v.ctx, perigee.UsageQuery{By: perigee.ByDay, Since: since})
	if err != nil {
		return err
	}
	list, dates := view.Days(rows, page.Days, v.now)
	page.Chart, page.Costs = view.TokenChart(list, dates), view.CostChart(list, dates)
	for i := len(list) - 1; i >= 0; i-- {
		page.Total.Add(list[i])
		if list[i].Calls > 0 {
			page.ByDay = append(page.ByDay, list[i])
		}
	}
	for _, group := range []pages.UsageGroup{
		{Title: "By model", Column: "Model", ID: perigee.ByModel}, {Title: "By client", Column: "Client", ID: perigee.ByClient},
		{Title: "By key", Column: "Key", ID: perigee.ByKey}, {Title: "By account", Column: "Account", ID: perigee.ByAccount},
		{Title: "By upstream", Column: "Upstream", ID: perigee.ByUpstream},
	} {
		rows, err := v.opts.Usage.Usage(v.ctx, perigee.UsageQuery{By: group.ID, Since: since})
		if err != nil {
			return err
		}
		v.fill(&group, rows)
		if len(group.Rows) > 0 {
			page.Groups = append(page.Groups, group)
		}
	}
	return v.render(200, "Usage", "usage", page)
}

// fill adds the rows of a group. A single row without a name says nothing: it is left out.
func (v *visit) fill(group *pages.UsageGroup, rows []perigee.UsageRow) {
	if len(rows) == 1 && rows[0].Group == "" {
		return
	}
	if group.More = len(rows) - maxGroups; group.More > 0 {
		rows = rows[:maxGroups]
	}
	var largest int64
	for _, r := range rows {
		largest = max(largest, r.InputTokens+r.OutputTokens)
	}
	for _, r := range rows {
		r.Group = v.opts.Redact(r.Group)
		group.Rows = append(group.Rows, pages.UsageRow{UsageRow: r, Parts: view.Shares(r, largest)})
	}
}

// maxSummed is how many calls the charts of the last hours are made of.
const maxSummed = 5000

// lastHours adds what happened in the last hours.
func (v *visit) lastHours(page *pages.Usage) error {
	if v.opts.Calls == nil {
		return nil
	}
	calls, err := v.opts.Calls.Calls(v.ctx, perigee.CallQuery{Sent: true, Since: v.now.Add(-view.Hours * time.Hour), Limit: maxSummed})
	if err != nil {
		return err
	}
	page.Recent = view.LastHours(calls, v.now, v.opts.Zone)
	page.Recent.Cut = len(calls) == maxSummed
	for i := range page.Recent.Upstreams {
		page.Recent.Upstreams[i].Upstream = v.opts.Redact(page.Recent.Upstreams[i].Upstream)
	}
	return nil
}

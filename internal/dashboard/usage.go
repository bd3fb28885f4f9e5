package dashboard

import (
	"time"

	"perigee"
	"perigee/internal/dashboard/view"
)

// A usagePage is what was spent.
type usagePage struct {
	Days    int
	Choices []int
	Total   perigee.UsageRow
	Chart   view.Chart
	Costs   view.Chart
	ByDay   []perigee.UsageRow // days with calls, the newest first
	Groups  []usageGroup
	Empty   bool
	Prices  string // the date of the price list
}

// A usageGroup is what was spent by one kind of group.
type usageGroup struct {
	Title, Column, ID string
	Rows              []usageRow
	More              int // rows that are left out
}

// A usageRow is what a group has spent, with bars.
type usageRow struct {
	perigee.UsageRow
	Parts []view.Share
}

var usageDays = []int{7, 30, 90}

// maxGroups is how many groups a table has.
const maxGroups = 20

// usage shows what was spent.
func (v *visit) usage() error {
	if v.opts.Usage == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	page := usagePage{Days: 30, Choices: usageDays}
	switch v.r.URL.Query().Get("days") {
	case "7":
		page.Days = 7
	case "90":
		page.Days = 90
	}
	if v.opts.PriceDate != nil {
		page.Prices = v.opts.PriceDate()
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
	page.Empty = page.Total.Calls == 0
	for _, group := range []usageGroup{
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
	return v.render(200, "usage", "Usage", "usage", page)
}

// fill adds the rows of a group. A single row without a name says nothing: it is left out.
func (v *visit) fill(group *usageGroup, rows []perigee.UsageRow) {
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
		group.Rows = append(group.Rows, usageRow{r, view.Shares(r, largest)})
	}
}

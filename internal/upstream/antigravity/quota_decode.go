package antigravity

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account/pool"
)

// A gauge is a remaining quota as the gateway encodes it. A missing fraction is zero, since the
// encoding omits zeros; without a reset time as well, the gateway has not reported anything.
type gauge struct {
	RemainingFraction float64 `json:"remainingFraction"`
	ResetTime         string  `json:"resetTime"`
}

// read returns the remaining fraction and its reset time. ok is false if the gateway did not
// report them.
func (g *gauge) read() (remaining float64, reset time.Time, ok bool) {
	if g == nil || g.ResetTime == "" && g.RemainingFraction == 0 {
		return 0, time.Time{}, false
	}
	reset, _ = time.Parse(time.RFC3339, g.ResetTime) // an unreadable time counts as unknown
	return min(max(g.RemainingFraction, 0), 1), reset.UTC(), true
}

// decodeModelQuota reads the quota of each model in a list of models. Models without one are left
// out.
func decodeModelQuota(raw []byte) ([]perigee.QuotaRow, error) {
	var list struct {
		Models map[string]struct {
			Quota *gauge `json:"quotaInfo"`
		} `json:"models"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var rows []perigee.QuotaRow
	for id, m := range list.Models {
		if remaining, reset, ok := m.Quota.read(); ok && !hidden(id) {
			rows = append(rows, perigee.QuotaRow{Model: id, Pool: pool.PoolAntigravity, Remaining: remaining, ResetsAt: reset})
		}
	}
	return rows, nil
}

// windowLengths has the quota windows that the gateway is known to use.
var windowLengths = map[string]time.Duration{"5h": 5 * time.Hour, "weekly": 7 * 24 * time.Hour}

// addWindows gives the rows the windows of their group. A summary that cannot be read adds nothing.
func addWindows(rows []perigee.QuotaRow, raw []byte) {
	var summary struct {
		Groups []struct {
			Buckets []struct {
				ID     string `json:"bucketId"` // gemini-5h, 3p-weekly
				Window string `json:"window"`
				gauge
			} `json:"buckets"`
		} `json:"groups"`
	}
	if json.Unmarshal(raw, &summary) != nil {
		return
	}
	windows := map[string][]perigee.QuotaWindow{}
	for _, group := range summary.Groups {
		for _, b := range group.Buckets {
			name, found := strings.CutSuffix(b.ID, "-"+b.Window)
			remaining, reset, ok := b.read()
			if ok && found && b.Window != "" {
				windows[name] = append(windows[name], perigee.QuotaWindow{
					Window: b.Window, Length: windowLengths[b.Window], Remaining: remaining, ResetsAt: reset,
				})
			}
		}
	}
	for _, list := range windows {
		slices.SortStableFunc(list, func(a, b perigee.QuotaWindow) int { return cmp.Compare(a.Length, b.Length) })
	}
	for i := range rows {
		rows[i].Windows = windows[quotaGroupOf(rows[i].Model).summary]
		// The summary is the later answer, and may report less.
		for _, w := range rows[i].Windows {
			if w.Remaining < rows[i].Remaining {
				rows[i].Remaining, rows[i].ResetsAt = w.Remaining, w.ResetsAt
			}
		}
	}
}

// decodeCLIQuota reads the quota in the pool of the command-line tool. It returns no rows for an
// answer that cannot be read.
func decodeCLIQuota(raw []byte) []perigee.QuotaRow {
	var list struct {
		Buckets []struct {
			Model string `json:"modelId"`
			gauge
		} `json:"buckets"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var rows []perigee.QuotaRow
	for _, b := range list.Buckets {
		if remaining, reset, ok := b.read(); ok && b.Model != "" {
			rows = append(rows, perigee.QuotaRow{Model: b.Model, Pool: pool.PoolCLI, Remaining: remaining, ResetsAt: reset})
		}
	}
	return rows
}

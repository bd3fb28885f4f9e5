package antigravity

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account"
)

// A gauge is how the gateway says what is left. A fraction that is missing is zero, which its encoding leaves out; but
// without a time of reset nothing was said at all.
type gauge struct {
	RemainingFraction float64 `json:"remainingFraction"`
	ResetTime         string  `json:"resetTime"`
}

// read returns what is left and when it is whole again; not ok when the gateway did not say.
func (g *gauge) read() (remaining float64, reset time.Time, ok bool) {
	if g == nil || g.ResetTime == "" && g.RemainingFraction == 0 {
		return 0, time.Time{}, false
	}
	reset, _ = time.Parse(time.RFC3339, g.ResetTime) // an unreadable time is an unknown one
	return min(max(g.RemainingFraction, 0), 1), reset.UTC(), true
}

// decodeModelQuota reads the quota out of a list of models. Those of which nothing is said are left out.
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
			rows = append(rows, perigee.QuotaRow{Model: id, Pool: account.PoolAntigravity, Remaining: remaining, ResetsAt: reset})
		}
	}
	return rows, nil
}

// windowLengths are the windows that the gateway has been seen to count in.
var windowLengths = map[string]time.Duration{"5h": 5 * time.Hour, "weekly": 7 * 24 * time.Hour}

// addWindows gives the rows the windows of their group. A summary that makes no sense adds nothing.
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
		rows[i].Windows = windows[quotaGroup(rows[i].Model)]
		// The two answers are of different moments, and the later one may know of less.
		for _, w := range rows[i].Windows {
			if w.Remaining < rows[i].Remaining {
				rows[i].Remaining, rows[i].ResetsAt = w.Remaining, w.ResetsAt
			}
		}
	}
}

// decodeCLIQuota reads what is left in the pool of the command-line tool; nothing of what makes no sense.
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
			rows = append(rows, perigee.QuotaRow{Model: b.Model, Pool: account.PoolCLI, Remaining: remaining, ResetsAt: reset})
		}
	}
	return rows
}

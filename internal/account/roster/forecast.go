package roster

import (
	"maps"
	"sync"
	"time"

	"perigee"
)

const (
	recentUse = time.Hour        // the period over which the rate of use is measured
	leastUse  = 10 * time.Minute // the shortest period that yields a rate
	moreUse   = time.Minute      // between two samples
)

// A history has the remaining quota of windows at the readings of the last hour.
type history struct {
	mu      sync.Mutex
	windows map[historyKey][]sample
}

type historyKey struct{ account, model, pool, window string }

// A sample is the fraction of a window that was left at a time.
type sample struct {
	at   time.Time
	left float64
}

// add takes a reading.
func (h *history) add(rows []perigee.QuotaRow, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.windows == nil {
		h.windows = map[historyKey][]sample{}
	}
	for _, row := range rows {
		for _, w := range row.Windows {
			key := historyKey{row.Account, row.Model, row.Pool, w.Window}
			h.windows[key] = addSample(h.windows[key], sample{now, w.Remaining})
		}
	}
	maps.DeleteFunc(h.windows, func(_ historyKey, list []sample) bool { return now.Sub(list[len(list)-1].at) > recentUse })
}

// addSample adds a sample to the samples of a window, the oldest first. If more is left than
// before, the window has begun anew, and so do its samples. The last sample that is older than
// recentUse stays, so that the list covers that time.
func addSample(list []sample, s sample) []sample {
	if last := len(list) - 1; last >= 0 && (s.left > list[last].left || s.at.Before(list[last].at)) {
		list = nil
	} else if last > 0 && s.at.Sub(list[last-1].at) < moreUse {
		list = list[:last] // in place of one of the same minute
	}
	list = append(list, s)
	for len(list) > 1 && s.at.Sub(list[1].at) >= recentUse {
		list = list[1:]
	}
	return list
}

// forecast adds when rows will be used up: at the rate of the last hour, or else at the rate since
// their windows began.
func (h *history) forecast(rows []perigee.QuotaRow, now time.Time) []perigee.QuotaRow {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := make([]perigee.QuotaRow, len(rows))
	for i, row := range rows {
		for _, w := range row.Windows {
			end := runsOut(w, h.windows[historyKey{row.Account, row.Model, row.Pool, w.Window}], now)
			if !end.IsZero() && row.Remaining > 0 && (row.RunsOutAt.IsZero() || end.Before(row.RunsOutAt)) {
				row.RunsOutAt = end.UTC().Truncate(time.Second)
			}
		}
		seen[i] = row
	}
	return seen
}

// runsOut returns when a window will be used up at the rate of its samples, or at the rate since it
// began if they cover too short a time. It returns zero if the window resets before that, or if
// there is no rate.
func runsOut(w perigee.QuotaWindow, samples []sample, now time.Time) time.Time {
	if len(samples) == 0 || now.Sub(samples[0].at) < leastUse || samples[0].left < w.Remaining {
		return w.RunsOut(now)
	}
	passed, used := now.Sub(samples[0].at), samples[0].left-w.Remaining
	if used <= 0 || w.Remaining <= 0 {
		return time.Time{}
	}
	end := time.Duration(float64(passed) / used * w.Remaining)
	if end < 0 || !w.ResetsAt.IsZero() && end >= w.ResetsAt.Sub(now) {
		return time.Time{}
	}
	return now.Add(end)
}

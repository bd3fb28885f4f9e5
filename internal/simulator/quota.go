package simulator

import (
	"slices"
	"strings"
	"time"
)

// Quota groups: the provider counts Gemini models together, Claude and GPT-OSS together, and the
// pool of requests in the style of the command-line tool apart from both.
const (
	groupGemini     = "gemini"
	groupThirdParty = "3p"
	groupCLI        = "gemini-cli"

	fiveHours = 5 * time.Hour
	oneWeek   = 7 * 24 * time.Hour

	creditType      = "GOOGLE_ONE_AI"
	creditMinimum   = 50
	creditsPerReply = 10
)

func quotaGroup(model string, cliStyle bool) string {
	switch {
	case !strings.HasPrefix(model, "gemini"):
		return groupThirdParty
	case cliStyle:
		return groupCLI
	}
	return groupGemini
}

// window counts requests from its first one until its length has passed.
type window struct {
	name   string // as the summary calls it
	length time.Duration
	limit  int // negative: none
	used   int
	reset  time.Time // zero if not started
}

func (w *window) roll(now time.Time) {
	if !w.reset.IsZero() && !now.Before(w.reset) {
		w.used, w.reset = 0, time.Time{}
	}
}

func (w *window) fraction() float64 {
	if w.limit < 0 {
		return 1
	}
	return float64(max(w.limit-w.used, 0)) / float64(w.limit)
}

func (w *window) empty() bool { return w.limit >= 0 && w.used >= w.limit }

// use counts one request.
func (w *window) use(now time.Time) {
	if w.reset.IsZero() {
		w.reset = now.Add(w.length)
	}
	w.used++
}

// resetAt returns the time at which the window will be full again. A window that has not started
// would take its whole length.
func (w *window) resetAt(now time.Time) time.Time {
	if w.reset.IsZero() {
		return now.Add(w.length)
	}
	return w.reset
}

type groupQuota struct {
	windows []*window
	recent  []time.Time // requests of the last minute

	emptyUntil time.Time // a fault has it reported as used up until then
}

// quota is the remaining quota of one account. It is guarded by the directory's mutex.
type quota struct {
	limits Limits
	groups map[string]*groupQuota
}

func newQuota(limits Limits) quota {
	if limits.FiveHour == 0 {
		limits.FiveHour = defaultFiveHour
	}
	if limits.Weekly == 0 {
		limits.Weekly = defaultWeekly
	}
	return quota{limits: limits, groups: map[string]*groupQuota{}}
}

// group returns the state of one group at a time, after rolling over its windows.
func (q *quota) group(name string, now time.Time) *groupQuota {
	g := q.groups[name]
	if g == nil {
		g = &groupQuota{windows: []*window{
			{name: "weekly", length: oneWeek, limit: q.limits.Weekly},
			{name: "5h", length: fiveHours, limit: q.limits.FiveHour},
		}}
		q.groups[name] = g
	}
	for _, w := range g.windows {
		w.roll(now)
	}
	g.recent = slices.DeleteFunc(g.recent, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	return g
}

// report returns the answer of the quota methods for a window.
func (g *groupQuota) report(w *window, now time.Time) quotaInfo {
	if now.Before(g.emptyUntil) {
		return quotaInfo{0, stamp(g.emptyUntil)}
	}
	return quotaInfo{w.fraction(), stamp(w.resetAt(now))}
}

// scarcest returns the window that will refuse first.
func (g *groupQuota) scarcest() *window {
	return slices.MinFunc(g.windows, func(a, b *window) int {
		switch fa, fb := a.fraction(), b.fraction(); {
		case fa < fb:
			return -1
		case fa > fb:
			return 1
		}
		return int(a.length/time.Second) - int(b.length/time.Second)
	})
}

// spend takes one request out of the account's quota, or returns the refusal. If the request
// allows credits, they pay for requests beyond the windows.
func (d *directory) spend(a *account, group, model string, credits bool, now time.Time) *statusError {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := a.quota.group(group, now)
	if limit := a.quota.limits.PerMinute; limit > 0 && len(g.recent) >= limit {
		delay := g.recent[len(g.recent)-limit].Add(time.Minute).Sub(now)
		return exhausted("RATE_LIMIT_EXCEEDED", model, now, delay, "quota.per_minute")
	}
	var refused time.Time // the latest reset of those windows that are empty
	for _, w := range g.windows {
		if w.empty() && w.resetAt(now).After(refused) {
			refused = w.resetAt(now)
		}
	}
	if !refused.IsZero() {
		switch {
		case !credits:
			return exhausted("QUOTA_EXHAUSTED", model, now, refused.Sub(now), "quota.window")
		case a.Credits < creditMinimum:
			return insufficientCredits(model)
		}
		a.Credits -= creditsPerReply
		g.recent = append(g.recent, now)
		return nil
	}
	for _, w := range g.windows {
		w.use(now)
	}
	g.recent = append(g.recent, now)
	return nil
}

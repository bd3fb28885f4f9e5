package accountfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
)

// limitNames are the names under which the OpenCode plugin notes until when an account has used
// something up, and what that is here. The second is what its older versions wrote.
var limitNames = map[string]perigee.Cooldown{
	"gemini-antigravity": {Family: "gemini", Pool: pool.PoolAntigravity},
	"gemini":             {Family: "gemini", Pool: pool.PoolAntigravity},
	"gemini-cli":         {Family: "gemini", Pool: pool.PoolCLI},
	"claude":             {Family: "claude", Pool: pool.PoolAntigravity},
}

// readLimits takes over what the account has used up and for how long, and says what of it has no
// place here. Limits that are over are dropped.
func (e *entry) readLimits(m members, now time.Time) (unkept []string) {
	keep := func(c perigee.Cooldown) {
		if c.Until.After(now) {
			c.Until = slices.MinFunc([]time.Time{c.Until, now.Add(providererr.MaxDelay)}, time.Time.Compare) // no window is longer
			e.Cooldowns = append(e.Cooldowns, c)
		}
	}
	var own []perigee.Cooldown
	_ = json.Unmarshal(m["cooldowns"], &own) // only Document writes them
	for _, c := range own {
		keep(perigee.Cooldown{Family: oneLine(c.Family), Pool: oneLine(c.Pool), Until: c.Until.UTC(), Reason: oneLine(c.Reason)})
	}
	var limits members
	_ = json.Unmarshal(m["rateLimitResetTimes"], &limits)
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		c, known := limitNames[name]
		c.Until, c.Reason = limits.moment(name), string(providererr.KindQuota)
		switch {
		case known:
			keep(c)
		case c.Until.After(now):
			unkept = append(unkept, "its limit for "+strings.Join(strings.SplitN(oneLine(name), ":", 2), ", model "))
		}
	}
	if m.is("isRateLimited", true) { // the first version counted everything together
		for _, name := range []string{"gemini-antigravity", "claude"} {
			c := limitNames[name]
			c.Until, c.Reason = m.moment("rateLimitResetTime"), string(providererr.KindQuota)
			keep(c)
		}
	}
	if until := m.moment("coolingDownUntil"); until.After(now) {
		why, _ := m.text("cooldownReason")
		unkept = append(unkept, strings.TrimSpace("its pause "+oneLine(why)))
	}
	return unkept
}

// notKept says what a file has of an account that is of no use here.
func notKept(what []string) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf("not kept: %s", strings.Join(what, "; "))
}

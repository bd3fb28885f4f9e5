package roster

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

// limitNames maps the names under which the OpenCode plugin stores the end of a limit to the
// cooldown it becomes. The second name is from its older versions.
var limitNames = map[string]perigee.Cooldown{
	"gemini-antigravity": {Family: "gemini", Pool: pool.PoolAntigravity},
	"gemini":             {Family: "gemini", Pool: pool.PoolAntigravity},
	"gemini-cli":         {Family: "gemini", Pool: pool.PoolCLI},
	"claude":             {Family: "claude", Pool: pool.PoolAntigravity},
}

// readLimits takes over the account's limits and their ends, and returns the names of those that
// have no equivalent here. Limits that are over are dropped.
func (e *entry) readLimits(m members, now time.Time) (dropped []string) {
	keep := func(c perigee.Cooldown) {
		if c.Until.After(now) {
			// No window is longer than MaxDelay.
			c.Until = slices.MinFunc([]time.Time{c.Until, now.Add(providererr.MaxDelay)}, time.Time.Compare)
			e.Cooldowns = append(e.Cooldowns, c)
		}
	}
	var own []perigee.Cooldown
	_ = json.Unmarshal(m["cooldowns"], &own) // only encodeAccounts writes them
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
			dropped = append(dropped, "its limit for "+strings.Join(strings.SplitN(oneLine(name), ":", 2), ", model "))
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
		dropped = append(dropped, strings.TrimSpace("its pause "+oneLine(why)))
	}
	return dropped
}

// dropNote returns the note about members of an account that are not imported.
func dropNote(what []string) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf("not kept: %s", strings.Join(what, "; "))
}

package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/simulator"
)

// A provider that asks for a moment again and again is waited for as long as max_wait says: asking
// the same accounts once more spends no other. All of it happens in bubbles.
func TestProviderThatAsksForAMomentIsWaitedForUntilMaxWait(t *testing.T) {
	for _, accounts := range []int{1, 2} {
		moments := func(t *testing.T, times int, wait time.Duration) (waited time.Duration, err error) {
			script := simulator.Script{Accounts: people(simulator.Limits{FiveHour: -1, Weekly: -1})[:accounts], Faults: []simulator.Fault{
				{When: generating, Do: "rate_limit", Delay: simulator.Duration(time.Second), Times: times}}}
			d := newUpstreamRig(t, script, pool.Options{MaxWait: wait, Pools: []string{pool.PoolAntigravity}})
			start := time.Now()
			err = d.ask("gemini-3-flash", "one")
			return time.Since(start), err
		}
		synctest.Test(t, func(t *testing.T) {
			if waited, err := moments(t, 30, time.Minute); err != nil || waited > time.Minute {
				t.Errorf("%d accounts: not answered after %s: %v", accounts, waited, err)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			waited, err := moments(t, 0, 40*time.Second)
			if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassRateLimited || waited > 40*time.Second || waited < 35*time.Second {
				t.Errorf("%d accounts: after %s: %v", accounts, waited, err)
			}
		})
	}
}

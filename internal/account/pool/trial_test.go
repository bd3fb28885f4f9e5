package pool

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A step is one thing that happens to the pool.
type step struct {
	What    string
	Account int
	Request int
	Session int
	Lease   int
	Seconds int
	Left    float64
}

func (s step) String() string {
	return fmt.Sprintf("%s account=%d want=%d session=%d lease=%d %ds left=%.2f", s.What, s.Account, s.Request, s.Session, s.Lease, s.Seconds, s.Left)
}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		What: rapid.SampledFrom([]string{"lend", "lend", "lend", "lend", "done", "done", "rate", "quota", "missing", "ban", "capacity",
			"identity", "fault", "faults", "pass", "pass", "disable", "enable", "report", "clear", "remove", "restore", "restore", "turn"}).Draw(t, "what"),
		Account: rapid.IntRange(0, 4).Draw(t, "account"),
		Request: rapid.IntRange(0, 3).Draw(t, "want"),
		Session: rapid.IntRange(0, 3).Draw(t, "session"),
		Lease:   rapid.IntRange(0, 9).Draw(t, "lease"),
		Seconds: rapid.SampledFrom([]int{4, 10, 29, 45, 90, 1000, 7200}).Draw(t, "seconds"),
		Left:    rapid.SampledFrom([]float64{0, 0.05, 0.1, 0.11, 0.5, 1}).Draw(t, "left"),
	}
})

// A trial holds a pool against the model.
type trial struct {
	*poolRig
	model poolModel
	all   []*fakeSource // by the place in the model; that in the pool changes
	order []int
	open  []*lease
	fault string
}

func place(l Lease) int { return int(l.Account().Email[0] - 'a') }

// announce tells the pool which accounts there are, and forgets those that were removed and have no
// calls any more.
func (x *trial) announce() {
	x.sources = nil
	for _, i := range x.order {
		if !x.model.accounts[i].removed {
			x.sources = append(x.sources, x.all[i])
		}
	}
	x.poolRig.announce()
	for _, a := range x.model.accounts {
		a.remembered = a.removed && a.remembered && a.open > 0
	}
}

// restore brings a removed account back. What is known about it is only remembered while it has
// calls.
func (x *trial) restore(i int) {
	a := x.model.accounts[i]
	if !a.removed {
		return
	}
	a.removed, a.banned = false, false
	if !a.remembered {
		clear(a.rests)
		clear(a.lacks)
		clear(a.failedAt)
		a.quota, a.open, a.faults, a.faulty, a.faultAt = map[string]modelQuota{}, 0, 0, time.Time{}, 0
		maps.DeleteFunc(x.model.current, func(_ string, who int) bool { return who == i })
		maps.DeleteFunc(x.model.bound, func(_ string, b boundTo) bool { return b.account == i })
		x.open = slices.DeleteFunc(x.open, func(l *lease) bool { return place(l) == i })
	}
	x.announce()
	x.model.reset()
}

func (x *trial) wrong(format string, args ...any) {
	if x.fault == "" {
		x.fault = fmt.Sprintf(format, args...)
	}
}

func TestPoolAgainstItsModel(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		for _, pools := range [][]string{{PoolAntigravity}, {PoolAntigravity, PoolCLI}, {PoolCLI, PoolAntigravity}} {
			for concurrency := range 3 {
				if t.Failed() {
					return
				}
				t.Run(fmt.Sprint(selection, pools, concurrency), func(t *testing.T) {
					opts := Options{Selection: selection, Pools: pools, SoftQuota: 0.9, Concurrency: concurrency}
					rapid.Check(t, func(rt *rapid.T) {
						opts.MaxWait = time.Duration(rapid.SampledFrom([]int{0, 30, 60}).Draw(rt, "max wait")) * time.Second
						accounts := rapid.IntRange(1, 4).Draw(rt, "accounts")
						list := rapid.SliceOfN(steps, 40, 120).Draw(rt, "steps")
						// What is drawn was drawn: inside the bubble nothing may come from rapid.
						var fault string
						synctest.Test(t, func(t *testing.T) { fault = try(t, opts, accounts, list) })
						if fault != "" {
							rt.Fatal(fault)
						}
					})
				})
			}
		}
	}
}

// try takes steps until one of them shows that the pool is wrong.
func try(t *testing.T, opts Options, accounts int, list []step) string {
	x := &trial{poolRig: newPoolRig(t, accounts, opts), model: poolModel{opts: opts, current: map[string]int{}, bound: map[string]boundTo{}, lost: map[int]bool{}}}
	x.all = x.sources
	for i := range accounts {
		x.order = append(x.order, i)
		x.model.accounts = append(x.model.accounts, &modelAccount{enabled: true,
			rests: map[string]modelRest{}, failedAt: map[string]instant{}, lacks: map[string]modelRest{}, quota: map[string]modelQuota{}})
	}
	for i, s := range list {
		if x.take(s); x.fault != "" {
			return fmt.Sprintf("step %d, %s: %s", i, s, x.fault)
		}
	}
	return ""
}

// take does a step with the pool and the model.
func (x *trial) take(s step) {
	now := time.Now()
	i := s.Account % len(x.model.accounts)
	a, email := x.model.accounts[i], x.all[i].signIn.Email
	w := []Request{flash, {Model: "gemini-3-pro-low", Family: "gemini-3"}, opus, banana}[s.Request]
	delay := time.Duration(s.Seconds) * time.Second
	switch s.What {
	case "lend":
		if s.Session > 0 {
			w.Session = fmt.Sprint("session ", s.Session)
		}
		x.lend(w)
	case "done", "rate", "quota", "missing", "ban", "capacity", "identity", "fault":
		x.finish(s.What, s.Lease, delay)
	case "faults": // so many in a row that they count
		for range maxFaults {
			passes(time.Second)
			if n := len(x.open); x.fault == "" {
				if x.lend(w); len(x.open) > n {
					x.finish("fault", n, 0)
				}
			}
		}
	case "pass":
		passes(delay)
	case "disable", "enable":
		a.enabled = s.What == "enable"
		a.banned = false
		x.all[i].change(func(s *perigee.SignIn) { s.Enabled = false })
		x.announce()
		x.all[i].change(func(in *perigee.SignIn) {
			in.Enabled, in.State = a.enabled, perigee.AccountReady
			if s.Left > 0.1 { // which makes no difference
				in.State = perigee.AccountUntested
			}
		})
		x.announce()
		if a.enabled && !a.removed {
			x.model.reset()
		}
	case "remove":
		if !a.removed {
			a.removed, a.remembered = true, true
			x.announce()
		}
	case "restore":
		x.restore(i)
	case "turn":
		x.order = append(x.order[1:], x.order[0])
		x.announce()
	case "report":
		if a.removed {
			return
		}
		x.report(email, w.Model, s.Left)
		a.quota = map[string]modelQuota{w.Model: {s.Left, now.Add(quotaAge)}}
		group := modelGroup(w, PoolAntigravity)
		if r := a.rests[group]; r.kind == providererr.KindQuota && r.since.Before(now) && s.Left > 0 {
			delete(a.rests, group)
		}
	case "clear":
		if a.removed {
			return
		}
		if err := x.Clear(email); err != nil {
			x.wrong("%v", err)
		}
		clear(a.rests)
		clear(a.lacks)
		a.faults, a.faulty = 0, time.Time{}
		x.model.reset()
	}
}

// finish gives a lease back.
func (x *trial) finish(how string, which int, delay time.Duration) {
	if len(x.open) == 0 {
		return
	}
	which %= len(x.open)
	l, now := x.open[which], time.Now()
	x.open = slices.Delete(x.open, which, which+1)
	a := x.model.accounts[place(l)]
	a.open--
	group := modelGroup(l.call.req, l.group.pool)
	rests := func(kind providererr.Kind) *providererr.Diagnosis {
		if until := now.Add(delay + grace); until.After(a.rests[group].until) {
			a.rests[group] = modelRest{now, until, kind, l.call.req.Model}
		}
		if l.began > a.failedAt[group] {
			r := a.rests[group]
			r.since = now // it is confirmed
			a.rests[group], a.failedAt[group] = r, x.clock.Now()
		}
		return judged(kind, delay)
	}
	looks := x.model.looksInto == l
	if looks {
		x.model.looksInto = nil
	}
	var v *providererr.Diagnosis
	switch how {
	case "rate":
		v = rests(providererr.KindRate)
	case "quota":
		v = rests(providererr.KindQuota)
	case "missing":
		v = judged(providererr.KindNotFound, 0)
		a.lacks[group+l.call.req.Model] = modelRest{since: now, until: now.Add(notFoundCooldown)}
	case "ban":
		v = judged(providererr.KindBan, 0)
		counts := a.enabled && !a.banned && !a.removed
		if counts {
			x.model.lost[place(l)] = true
		}
		if len(x.model.lost) >= breakerMaxLost && counts {
			x.model.sparedTo = now.Add(breakerOpenFor)
		}
		a.banned = true
	case "fault":
		v = fault(providererr.KindUnavailable)
		x.faulted(l, a, now)
	case "capacity":
		v = judged(providererr.KindCapacity, 0)
	case "identity":
		v = judged(providererr.KindIdentity, 0)
		if looks { // it says nothing about the accounts
			x.model.sparedTo = now
		}
	default:
		if a.enabled && !a.banned && !a.removed {
			x.model.reset()
		}
		if l.began > a.faultAt {
			a.faults, a.faulty = 0, time.Time{}
		}
		if l.why.reason == whyProbe && l.began > a.failedAt[group] {
			delete(a.rests, group) // it was not needed
		}
		if r := a.lacks[group+l.call.req.Model]; !r.since.IsZero() && !r.since.After(now) && l.began >= x.clock.Now()-now.Sub(r.since) {
			delete(a.lacks, group+l.call.req.Model)
		}
	}
	l.Done(v)
}

// faulted counts what the provider has failed an account with.
func (x *trial) faulted(l *lease, a *modelAccount, now time.Time) {
	at := x.clock.Now()
	if l.began <= a.faultAt {
		return
	}
	if at-a.faultAt > faultAge {
		a.faults = 0
	}
	a.faultAt = at
	inUse := 0
	for _, a := range x.model.accounts {
		if a.enabled && !a.banned && !a.removed {
			inUse++
		}
	}
	if a.faults++; a.faults >= maxFaults && inUse > 1 {
		a.faulty = now.Add(faultCooldown)
	}
}

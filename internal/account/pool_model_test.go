package account

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"perigee"

	"pgregory.net/rapid"
)

// The model is the pool as one would explain it to somebody, without any index: it looks at every account each time.
type poolModel struct {
	opts     Options
	accounts []*modelAccount
	current  map[string]int // sticky: by lane
	bound    map[string]boundTo
}

type boundTo struct {
	account int
	pool    string
}

type modelAccount struct {
	enabled, banned bool
	removed         bool
	remembered      bool // although it was removed, because it still had calls
	open            int
	rests           map[string]modelRest // by lane
	lacks           map[string]modelRest // by lane and model
	quota           map[string]modelQuota
}

type modelRest struct {
	since, until time.Time
	kind         Kind
	model        string
}

type modelQuota struct {
	left  float64
	until time.Time
}

func modelLane(w Want, pool string) string { return string(groupOf(w)) + "/" + pool }

// free is when an account can be asked, as far as time decides; ok says whether time decides.
func (m *poolModel) free(i int, w Want, pool string) (at time.Time, ok bool) {
	a := m.accounts[i]
	if !a.enabled || a.banned || a.removed {
		return at, false
	}
	at = a.rests[modelLane(w, pool)].until
	if lacks := a.lacks[modelLane(w, pool)+w.Model].until; lacks.After(at) {
		at = lacks
	}
	return at, true
}

func (m *poolModel) busy(i int) bool {
	return m.opts.Concurrency > 0 && m.accounts[i].open >= m.opts.Concurrency
}

func (m *poolModel) usable(i int, w Want, pool string, now time.Time) bool {
	at, ok := m.free(i, w, pool)
	return ok && !at.After(now) && !m.busy(i)
}

func (m *poolModel) spared(i int, w Want, pool string, now time.Time) bool {
	q, ok := m.accounts[i].quota[w.Model]
	return ok && pool == PoolAntigravity && q.until.After(now) && q.left <= 1-m.opts.SoftQuota+1e-9
}

// onlyBusy says whether an account would be chosen if it had fewer calls.
func (m *poolModel) onlyBusy(i int, w Want, pool string) bool {
	now := time.Now()
	free, ok := m.free(i, w, pool)
	return ok && !free.After(now) && m.busy(i) && !m.spared(i, w, pool, now)
}

func (m *poolModel) pools(w Want) []string {
	if groupOf(w) == groupGemini {
		return m.opts.Pools
	}
	return []string{PoolAntigravity}
}

// anyUsable finds somebody who is usable, with or without those who are spared.
func (m *poolModel) anyUsable(w Want, spared bool, now time.Time) bool {
	for _, pool := range m.pools(w) {
		for i := range m.accounts {
			if m.usable(i, w, pool, now) && (spared || !m.spared(i, w, pool, now)) {
				return true
			}
		}
	}
	return false
}

// outlook is when a call gets an account if nothing else happens, and whether it does.
func (m *poolModel) outlook(w Want, now time.Time) (at time.Time, ok bool) {
	deadline := now.Add(m.opts.MaxWait)
	worthIt := false
	for _, pool := range m.pools(w) {
		for i, a := range m.accounts {
			free, in := m.free(i, w, pool)
			if !in {
				continue
			}
			if lacks := a.lacks[modelLane(w, pool)+w.Model].until; !lacks.After(now) && !free.After(deadline) {
				worthIt = true
			}
			if !m.busy(i) && (!ok || free.Before(at)) {
				at, ok = free, true
			}
		}
	}
	if at.Before(now) {
		at = now
	}
	return at, ok && (at.Equal(now) || worthIt && !at.After(deadline))
}

// A step is one thing that happens to the pool.
type step struct {
	What    string
	Account int
	Want    int
	Session int
	Loan    int
	Seconds int
	Left    float64
}

func (s step) String() string {
	return fmt.Sprintf("%s account=%d want=%d session=%d loan=%d %ds left=%.2f", s.What, s.Account, s.Want, s.Session, s.Loan, s.Seconds, s.Left)
}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		What: rapid.SampledFrom([]string{"lend", "lend", "lend", "lend", "done", "done", "rate", "quota", "missing", "ban", "capacity",
			"identity", "pass", "pass", "disable", "enable", "report", "clear", "remove", "restore", "restore", "turn"}).Draw(t, "what"),
		Account: rapid.IntRange(0, 4).Draw(t, "account"),
		Want:    rapid.IntRange(0, 3).Draw(t, "want"),
		Session: rapid.IntRange(0, 3).Draw(t, "session"),
		Loan:    rapid.IntRange(0, 9).Draw(t, "loan"),
		Seconds: rapid.SampledFrom([]int{4, 10, 29, 45, 90, 1000}).Draw(t, "seconds"),
		Left:    rapid.SampledFrom([]float64{0, 0.05, 0.1, 0.11, 0.5, 1}).Draw(t, "left"),
	}
})

// A trial holds a pool against the model.
type trial struct {
	*poolRig
	model poolModel
	all   []*fakeSource // by the place in the model; that in the pool changes
	order []int
	open  []*loan
	fault string
}

func place(l Loan) int { return int(l.Email()[0] - 'a') }

// announce tells the pool which accounts there are, and forgets those who were removed and have no calls any more.
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

// restore brings a removed account back. What is known about it is only remembered while it has calls.
func (x *trial) restore(i int) {
	a := x.model.accounts[i]
	if !a.removed {
		return
	}
	a.removed, a.banned = false, false
	if !a.remembered {
		clear(a.rests)
		clear(a.lacks)
		a.quota, a.open = map[string]modelQuota{}, 0
		maps.DeleteFunc(x.model.current, func(_ string, who int) bool { return who == i })
		maps.DeleteFunc(x.model.bound, func(_ string, b boundTo) bool { return b.account == i })
		x.open = slices.DeleteFunc(x.open, func(l *loan) bool { return place(l) == i })
	}
	x.announce()
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
	x := &trial{poolRig: newPoolRig(t, accounts, opts), model: poolModel{opts: opts, current: map[string]int{}, bound: map[string]boundTo{}}}
	x.all = x.sources
	for i := range accounts {
		x.order = append(x.order, i)
		x.model.accounts = append(x.model.accounts, &modelAccount{enabled: true,
			rests: map[string]modelRest{}, lacks: map[string]modelRest{}, quota: map[string]modelQuota{}})
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
	w := []Want{flash, {Model: "gemini-3-pro-low", Family: "gemini-3"}, opus, banana}[s.Want]
	delay := time.Duration(s.Seconds) * time.Second
	switch s.What {
	case "lend":
		if s.Session > 0 {
			w.Session = fmt.Sprint("session ", s.Session)
		}
		x.lend(w)
	case "done", "rate", "quota", "missing", "ban", "capacity", "identity":
		x.finish(s.What, s.Loan, delay)
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
		lane := modelLane(w, PoolAntigravity)
		if r := a.rests[lane]; r.kind == KindQuota && r.since.Before(now) && s.Left > 0 {
			delete(a.rests, lane)
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
	}
}

// finish gives a loan back.
func (x *trial) finish(how string, which int, delay time.Duration) {
	if len(x.open) == 0 {
		return
	}
	which %= len(x.open)
	l, now := x.open[which], time.Now()
	x.open = slices.Delete(x.open, which, which+1)
	a := x.model.accounts[place(l)]
	a.open--
	lane := modelLane(l.want, l.lane.pool)
	rests := func(kind Kind) *Verdict {
		if until := now.Add(delay + grace); until.After(a.rests[lane].until) {
			a.rests[lane] = modelRest{now, until, kind, l.want.Model}
		}
		return verdict(kind, delay)
	}
	var v *Verdict
	switch how {
	case "rate":
		v = rests(KindRate)
	case "quota":
		v = rests(KindQuota)
	case "missing":
		v = verdict(KindNotFound, 0)
		a.lacks[lane+l.want.Model] = modelRest{since: now, until: now.Add(notFoundRest)}
	case "ban":
		v = verdict(KindBan, 0)
		a.banned = true
	case "capacity":
		v = verdict(KindCapacity, 0)
	case "identity":
		v = verdict(KindIdentity, 0)
	default:
		if r := a.lacks[lane+l.want.Model]; !r.since.IsZero() && !r.since.After(now) && l.began >= x.clock.read()-now.Sub(r.since) {
			delete(a.lacks, lane+l.want.Model)
		}
	}
	l.Done(v)
}

// lend borrows, and checks everything that can be said about who was chosen and when.
func (x *trial) lend(w Want) {
	m, began := &x.model, time.Now()
	at, will := m.outlook(w, began)
	plan := x.Explain(w.Model)
	got, err := x.Lend(x.t.Context(), w)
	now := time.Now()
	if err != nil {
		e := perigee.AsError(err)
		if will {
			x.wrong("failed, although somebody is usable at %s: %v", at, err)
		}
		if (e.Class == perigee.ClassExhausted || e.Class == perigee.ClassRateLimited) && e.Retry <= 0 {
			x.wrong("%s without a time", e.Class)
		}
		return
	}
	l := got.(*loan)
	i, pool := place(l), l.lane.pool
	if l.why.code == whyProbe {
		x.checkProbe(l, will)
	} else {
		if !will || !now.Equal(cmp.Or(at, began)) {
			x.wrong("%s was lent at %s, expected at %s (%t)", name(l), now, at, will)
		}
		x.checkChoice(l, i, pool, now)
		if chosen := plan[0].Email + " " + plan[0].Pool; w.Session == "" && now.Equal(began) && chosen != l.Email()+" "+pool {
			x.wrong("%s was chosen (%s), but %s announced: %+v", name(l), l.Why(), chosen, plan)
		}
	}
	m.accounts[i].open++
	x.open = append(x.open, l)
	if c := m.opts.Concurrency; c > 0 && m.accounts[i].open > c {
		x.wrong("%s has %d loans", name(l), m.accounts[i].open)
	}
}

// checkProbe checks a loan that cut a rest short.
func (x *trial) checkProbe(l *loan, will bool) {
	a := x.model.accounts[place(l)]
	told := a.rests[modelLane(l.want, l.lane.pool)].until.After(time.Now())
	if will || told || !a.enabled || a.banned || a.removed || x.model.busy(place(l)) {
		x.wrong("%s was probed", name(l))
	}
}

func (x *trial) checkChoice(l *loan, i int, pool string, now time.Time) {
	m, w := &x.model, l.want
	if !m.usable(i, w, pool, now) {
		x.wrong("%s is not usable (%s)", name(l), l.Why())
		return
	}
	if m.spared(i, w, pool, now) && m.anyUsable(w, false, now) {
		x.wrong("%s is spared, but others are usable (%s)", name(l), l.Why())
	}
	good := func(i int, pool string) bool { return m.usable(i, w, pool, now) && !m.spared(i, w, pool, now) }
	lane := modelLane(w, pool)
	bound, known := m.bound[w.Session+lane[:len(lane)-len(pool)]]
	known = known && w.Session != ""
	if known && good(bound.account, bound.pool) && bound != (boundTo{i, pool}) {
		x.wrong("the session left %d in %s for %s (%s)", bound.account, bound.pool, name(l), l.Why())
	}
	if l.why.code != whySession {
		x.checkOrder(l, i, pool, good)
	}
	if !known || !m.onlyBusy(bound.account, w, bound.pool) {
		m.bound[w.Session+lane[:len(lane)-len(pool)]] = boundTo{i, pool}
	}
}

// checkOrder checks that an earlier pool had nobody, and that sticky stayed where it was.
func (x *trial) checkOrder(l *loan, i int, pool string, good func(i int, pool string) bool) {
	m, w := &x.model, l.want
	for _, earlier := range m.pools(w) {
		if earlier == pool {
			break
		}
		for j := range m.accounts {
			if good(j, earlier) {
				x.wrong("%s was chosen, although %d is usable from %s", name(l), j, earlier)
			}
		}
	}
	lane := modelLane(w, pool)
	if last, ok := m.current[lane]; ok && m.opts.Selection == Sticky && good(last, pool) && last != i {
		x.wrong("sticky left %d for %s (%s)", last, name(l), l.Why())
	}
	if last, ok := m.current[lane]; !ok || !m.onlyBusy(last, w, pool) {
		m.current[lane] = i
	}
}

package accounttests

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

var everyPool = flag.Int("pools", 7, "TestPoolsInTrouble plays one of so many of its scripts; 1: all of them")

// Every class of trouble at every moment, for pools of 1, 3 and 20 accounts, through the whole
// daemon: all of it by hand with
// -pools 1. Time is moved by hand; what is waited for really is a second at most.
func TestPoolsInTrouble(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	var total tallied
	var cells []func()
	for _, size := range []int{1, 3, 20} {
		template := poolDir(t, size)
		for _, k := range troubles {
			for _, m := range moments {
				if m.token && k.noToken {
					continue
				}
				cells = append(cells, func() {
					t.Run(fmt.Sprintf("%s, %s, %d accounts", k.name, m.name, size), func(t *testing.T) {
						c := newCell(t, k, m, size, template)
						c.play()
						total.add(c)
					})
				})
			}
		}
	}
	queue := make(chan func(), len(cells))
	for i := 0; i < len(cells); i += *everyPool {
		queue <- cells[i]
	}
	close(queue)
	played := make(chan struct{}, len(queue))
	for range 6 { // most of them wait most of the time
		go func() {
			for cell := range queue {
				cell()
				played <- struct{}{}
			}
		}()
	}
	for range cap(played) {
		await.Receive(t, played, "the end of a script")
	}
	t.Log(total.String())
	if played := cap(played); total.cells != played || total.answered == 0 || total.strikes < played {
		t.Errorf("of %d scripts %d were played to their end, with %d answers and %d strikes", played, total.cells, total.answered, total.strikes)
	}
}

// poolDir is a data directory with accounts, to be copied.
func poolDir(t *testing.T, size int) string {
	t.Helper()
	dir := daemontest.DataDir(t)
	var list []perigee.SignIn
	for i := range size {
		list = append(list, daemontest.SignedIn(member(i), projectOf(member(i)), "refresh-of-"+member(i)))
	}
	daemontest.SignIn(t, dir, list...)
	return dir
}

func member(i int) string { return fmt.Sprintf("member%02d@example.com", i) }

// A cell is one kind of trouble at one moment for one pool.
type cell struct {
	t        *testing.T
	trouble  fault
	moment   moment
	emails   []string
	clock    *daemontest.Clock // moved by hand, besides what passes
	now      func() time.Time  // both together
	provider *simulator.Server
	open     atomic.Int64 // requests that the provider is answering
	hosts    []string
	gateway  *daemontest.Gateway
	owner    *daemontest.Owner
	model    string

	asked    int                  // questions so far
	seen     int                  // of the provider's calls
	out      map[string]time.Time // until when an account may be left alone
	resting  map[string]time.Time // until when it must be
	stopped  map[string]bool
	locked   map[string]bool // banned or to be verified, with no good answer since
	lockedAt time.Time       // the last of them
	failed   map[string]int  // by account: calls that all endpoints failed
	answered int
	refused  map[string]int // by class
	requests int
	strikes  int
}

// newCell starts a daemon and its provider.
//
// Real time: calls wait for cooldowns with real timers, so that the clock of the cell passes with
// it.
func newCell(t *testing.T, k fault, m moment, size int, template string) *cell {
	c := &cell{t: t, trouble: k, moment: m, clock: &daemontest.Clock{At: time.Now()}, out: map[string]time.Time{}, resting: map[string]time.Time{},
		stopped: map[string]bool{}, locked: map[string]bool{}, failed: map[string]int{}, refused: map[string]int{}, model: "gemini-3-flash"}
	if size == 3 {
		c.model = "claude-opus-4-6-thinking"
	}
	var accounts []simulator.Account
	for i := range size {
		email := member(i)
		c.emails = append(c.emails, email)
		accounts = append(accounts, simulator.Account{Email: email, RefreshToken: "refresh-of-" + email, Project: projectOf(email),
			Limits: simulator.Limits{FiveHour: -1, Weekly: -1}})
	}
	began := time.Now()
	c.now = func() time.Time { return c.clock.Now().Add(time.Since(began)) }
	c.provider = daemontest.NewSimulator(t, simulator.Options{Seed: "pools", Accounts: accounts, Now: c.now, Admin: true})
	for range 2 {
		c.hosts = append(c.hosts, daemontest.Serve(t, c))
	}
	// What is left of a quota does not go with the trouble, and would end it.
	if slices.Contains(k.class, perigee.ClassExhausted) {
		if err := c.provider.AddFaults(simulator.Fault{Do: "unavailable_503", When: simulator.When{Path: ":fetchAvailableModels"}}); err != nil {
			t.Fatal(err)
		}
	}
	dir := daemontest.EmptyDir(t)
	if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
		t.Fatal(err)
	}
	c.gateway = daemontest.StartIn(t, daemontest.Sources(c.config(), dir), func(o *daemon.Options) { o.Now = c.now })
	c.owner = daemontest.AdminOf(t, c.gateway)
	return c
}

func (c *cell) config() string {
	selection := "round_robin"
	if c.moment.sticky {
		selection = "sticky"
	}
	text := daemontest.AntigravityConfig(c.hosts[0], "selection: "+selection+"\n    pools: [antigravity]\n    max_wait: 1s")
	text = strings.Replace(text, "endpoints: ["+c.hosts[0]+"]", "endpoints: ["+strings.Join(c.hosts, ", ")+"]", 1)
	if c.trouble.hangs {
		text += "limits: {first_byte: 1s}\n"
	}
	return text
}

// ServeHTTP counts the requests that are open: the simulator logs one when it is over.
func (c *cell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.open.Add(1)
	defer c.open.Add(-1)
	c.provider.ServeHTTP(w, r)
}

// fault is the trouble at the moment.
func (c *cell) fault() simulator.Fault {
	f := c.trouble.fault
	f.When = c.moment.when
	f.When.Method = "streamGenerateContent"
	if c.moment.token {
		f.When.Method, f.When.Path = "", "/token"
		if c.trouble.hangs {
			f.Delay = simulator.Duration(200 * time.Millisecond)
		}
	}
	if c.moment.oneAccount {
		f.When.Account = c.emails[0]
	}
	if c.moment.oneHost {
		f.When.Host = strings.TrimPrefix(c.hosts[0], "http://")
	}
	return f
}

// quotaRead waits for the look at the quota that a first call brings about, where there is a choice
// of accounts: in trouble it would be one account more that asks for a token.
func (c *cell) quotaRead() {
	if len(c.emails) < 2 {
		return
	}
	await.Until(c.t, "the quota was read", func() bool {
		models, done := 0, false
		for _, call := range c.provider.Calls() {
			if strings.HasSuffix(call.Path, ":fetchAvailableModels") {
				models++
			}
			done = done || strings.HasSuffix(call.Path, ":retrieveUserQuotaSummary")
		}
		return (done || models >= len(c.hosts)) && c.open.Load() == 0
	})
}

// play goes through the cell: trouble, half the rest that it brings, and the time after it.
func (c *cell) play() {
	t := c.t
	if c.moment.later {
		c.ask(true)
		c.quotaRead()
		c.clock.Advance(2 * time.Hour) // no access token is good any more
	}
	if err := c.provider.AddFaults(c.fault()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		c.ask(false)
	}
	c.standing("in trouble")
	if c.trouble.rests >= time.Minute && !c.moment.token {
		c.clock.Advance(c.trouble.rests / 2)
		c.ask(false)
	}
	if c.strikes == 0 {
		t.Error("nothing went wrong")
	}
	w := httptest.NewRecorder()
	c.provider.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/simulator/faults", nil))
	if c.braked() {
		c.clock.Advance(spareFor)
	}
	c.clock.Advance(max(c.trouble.out, 2*time.Minute) + time.Second)
	c.recover()
}

// recover checks that accounts are asked again after a cooldown, and stopped ones only when their
// owner enables them.
func (c *cell) recover() {
	if len(c.stopped) < len(c.emails) {
		c.askAll(func(email string) bool { return !c.out[email].IsZero() && !c.stopped[email] })
	} else {
		c.ask(false)
	}
	if len(c.stopped) == 0 {
		return
	}
	email := slices.Sorted(maps.Keys(c.stopped))[0]
	if c.moment.token && c.trouble.tokenState == perigee.AccountSignedOut {
		bringIn(c.t, c.owner, email, consent(c.t, c.provider, email))
	} else {
		enable(c.t, c.owner, email, true)
	}
	delete(c.stopped, email)
	c.askAll(func(e string) bool { return e == email })
}

// askAll asks until all of some accounts were used. A sticky upstream only shows that they could
// be.
func (c *cell) askAll(wanted func(email string) bool) {
	var missing []string
	for _, email := range c.emails {
		if wanted(email) {
			missing = append(missing, email)
		}
	}
	from := c.seen
	for n := 0; n == 0 || n < len(c.emails) && len(missing) > 0; n++ {
		c.ask(true)
		for _, call := range c.provider.Calls()[from:] {
			if isQuestion(call) {
				missing = slices.DeleteFunc(missing, func(email string) bool { return email == call.Account })
			}
		}
		if c.moment.sticky {
			break
		}
	}
	if c.moment.sticky {
		for _, row := range daemontest.Rows[perigee.ChoiceRow](c.t, c.owner, "/v1/accounts/status?model="+c.model) {
			if !row.Usable && !c.stopped[row.Email] {
				c.t.Errorf("%s cannot be used after its rest: %s", row.Email, row.Why)
			}
		}
	} else if len(missing) > 0 {
		c.t.Errorf("not asked again after their rest: %v", missing)
	}
}

func isQuestion(call simulator.Call) bool {
	return strings.HasSuffix(call.Path, ":streamGenerateContent")
}

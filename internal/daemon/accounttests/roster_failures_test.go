package accounttests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// newTeam builds an accountRig with a daemon and so many accounts, member00 and so on. The
// upstream's configuration gets more.
func newTeam(t *testing.T, size int, more string, limits simulator.Limits, change func(*daemon.Options), faults ...simulator.Fault) *accountRig {
	t.Helper()
	var accounts []simulator.Account
	var list []perigee.SignIn
	for i := range size {
		accounts = append(accounts, simulator.Account{Email: member(i), RefreshToken: "refresh-of-" + member(i), Project: projectOf(member(i)), Limits: limits})
		list = append(list, daemontest.SignedIn(member(i), projectOf(member(i)), "refresh-of-"+member(i)))
	}
	provider, url := daemontest.StartSimulator(t, simulator.Options{Accounts: accounts, Admin: true}, faults...)
	dir := daemontest.DataDir(t)
	daemontest.SignIn(t, dir, list...)
	w := &accountRig{t: t, provider: provider, src: daemontest.Sources(daemontest.AntigravityConfig(url, more), dir)}
	w.gateway = daemontest.StartIn(t, w.src, change)
	return w
}

// unlimited is for accounts whose quota does not matter.
var unlimited = simulator.Limits{FiveHour: -1, Weekly: -1}

// says begins a conversation, or goes on with one.
func (w *accountRig) says(text string) *reply {
	w.t.Helper()
	r, err := askIn(w.t.Context(), w.gateway.URL(), &dialectRigs[1], false, "gemini-3-flash", text+" [[text: the answer is here]]")
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// failing says which error a call has to come to.
func (w *accountRig) failing(text string, status int, class perigee.Class) *reply {
	w.t.Helper()
	r := w.says(text)
	if got := r.header.Get("X-Perigee-Class"); r.status != status || got != string(class) {
		w.t.Errorf("%s: want %d %s, got %s", text, status, class, r)
	}
	return r
}

// askedOf lists the accounts that models were asked with, in order, by their numbers.
func (w *accountRig) askedOf() (list []string) {
	calls := w.provider.Calls() // as they ended
	slices.SortStableFunc(calls, func(a, b simulator.Call) int { return a.Time.Compare(b.Time) })
	for _, call := range calls {
		if isQuestion(call) {
			list = append(list, strings.TrimSuffix(strings.TrimPrefix(call.Account, "member"), "@example.com"))
		}
	}
	return list
}

func (w *accountRig) faults(list ...simulator.Fault) {
	w.t.Helper()
	if err := w.provider.AddFaults(list...); err != nil {
		w.t.Fatal(err)
	}
}

func troubled(do, account string) simulator.Fault {
	return simulator.Fault{Do: do, When: simulator.When{Path: "streamGenerateContent", Account: account}}
}

// An account that the provider keeps failing is left, and the calls that met it are answered by
// other accounts.
func TestAccountThatIsOnlyFailedIsLeft(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"internal_500", "unavailable_503", "reset", "bad_gateway_html", "forbidden"} {
		for _, selection := range []string{"sticky", "round_robin", "hybrid"} {
			t.Run(do+" "+selection, func(t *testing.T) {
				t.Parallel()
				w := newTeam(t, 3, "selection: "+selection, unlimited, nil, troubled(do, member(0)))
				for i := range 12 {
					if r := w.says(fmt.Sprint("conversation ", i)); !r.answered() {
						t.Errorf("conversation %d: %s", i, r)
					}
				}
				asked := slices.Compact(w.askedOf()) // a request whose connection was reset is sent once more
				if bad := count(asked, "00"); bad == 0 || bad > 5 {
					t.Errorf("it was asked %d times: %v", bad, asked)
				}
			})
		}
	}
}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// A provider that is down meets two accounts of each call, and a model without capacity one.
func TestProviderThatIsDownMeetsTwoAccounts(t *testing.T) {
	t.Parallel()
	for do, most := range map[string]int{"internal_500": 2, "reset": 2, "forbidden": 2, "capacity": 1} {
		w := newTeam(t, 20, "", unlimited, nil, troubled(do, ""))
		for i := range 4 {
			if r := w.says(fmt.Sprint("conversation ", i)); r.answered() || r.status == http.StatusTooManyRequests {
				t.Errorf("%s: %s", do, r)
			}
			asked := w.askedOf()
			if do == "reset" {
				asked = slices.Compact(asked) // a request whose connection was reset is sent once more
			}
			if len(asked) != most*(i+1) {
				t.Errorf("%s: %d calls asked %v", do, i+1, asked)
			}
		}
	}
}

// A sign-in server with a hiccup is no reason to fail while other accounts have a token: neither
// before a call nor in the middle of one.
func TestHiccupOfTheSignInServerMovesOn(t *testing.T) {
	t.Parallel()
	// A request on a connection that is reset is sent once more, so that one reset alone is no
	// trouble.
	for do, times := range map[string]int{"unavailable_503": 1, "bad_gateway_html": 1, "reset": 2} {
		w := newTeam(t, 3, "", unlimited, nil)
		if r := w.says("hello"); !r.answered() {
			t.Fatalf("%s", r)
		}
		w.faults(troubled("unauthorized", member(0)), simulator.Fault{Do: do, When: simulator.When{Path: "/token"}, Times: times})
		if r := w.says("hello"); !r.answered() {
			t.Errorf("%s after a 401: %s", do, r)
		}
		if asked := w.askedOf(); !slices.Equal(asked, []string{"00", "00", "01"}) {
			t.Errorf("%s: asked %v", do, asked)
		}
	}
}

// A refusal without a reason is what it is, each time, and no account has a cooldown for it.
func TestRefusalWithoutAReasonIsForbidden(t *testing.T) {
	t.Parallel()
	w := newTeam(t, 1, "", unlimited, nil, troubled("forbidden", ""))
	for i := range 3 {
		r := w.failing("hello", http.StatusForbidden, perigee.ClassForbidden)
		if !strings.Contains(r.body, "the provider does not permit the call: ") || r.header.Get("Retry-After") != "" {
			t.Errorf("call %d: %s", i, r)
		}
	}
	if asked := w.askedOf(); len(asked) != 3 {
		t.Errorf("asked %v", asked)
	}
	if rows := w.accounts(); len(rows[0].Cooldowns) > 0 {
		t.Errorf("it rests: %+v", rows[0].Cooldowns)
	}
}

// What a call is advised to wait for is when the next one is really made.
func TestAdviceAfterARefusedProject(t *testing.T) {
	t.Parallel()
	for do, want := range map[string]struct {
		status int
		class  perigee.Class
		told   bool
	}{"service_disabled": {403, perigee.ClassForbidden, true}, "not_found": {404, perigee.ClassNotFound, false}} {
		clock := &daemontest.Clock{At: time.Now()}
		w := newTeam(t, 1, "pools: [antigravity]\n    max_wait: 1s", unlimited, func(o *daemon.Options) { o.Now = clock.Now }, troubled(do, ""))
		w.failing("hello", want.status, want.class)
		r := w.failing("hello", want.status, want.class)
		seconds, _ := strconv.Atoi(r.header.Get("Retry-After"))
		if want.told != (seconds > 0) || seconds > 61 {
			t.Errorf("%s: %s", do, r)
		}
		asked := len(w.askedOf())
		clock.Advance(max(time.Duration(seconds)*time.Second, time.Minute) + time.Second)
		w.failing("hello", want.status, want.class)
		if again := len(w.askedOf()); again != asked+1 {
			t.Errorf("%s: asked %d times before, and %d after", do, asked, again)
		}
	}
}

// A cause that locks accounts gets two of them, and then one every ten minutes.
func TestCauseThatLocksAccountsDoesNotGetThemAll(t *testing.T) {
	t.Parallel()
	for do, class := range map[string]perigee.Class{"banned": perigee.ClassForbidden, "validation_required": perigee.ClassVerification} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			clock := &daemontest.Clock{At: time.Now()}
			w := newTeam(t, 6, "", unlimited, func(o *daemon.Options) { o.Now = clock.Now }, troubled(do, ""))
			for i := range 4 {
				r := w.failing(fmt.Sprint("conversation ", i), http.StatusForbidden, class)
				seconds, _ := strconv.Atoi(r.header.Get("Retry-After")) // ten minutes, less what has passed since the second call
				if !strings.Contains(r.body, "no account is used until") || !strings.Contains(r.body, "perigee account enable") || seconds < 1 || seconds > 600 {
					t.Errorf("call %d: %s", i, r)
				}
			}
			if asked := w.askedOf(); len(asked) != 2 {
				t.Fatalf("asked %v", asked)
			}
			row := w.accounts()[5]
			if len(row.Cooldowns) != 1 || row.Cooldowns[0].Reason != "breaker_open" || !strings.Contains(row.Reason, "2 accounts in a row were") {
				t.Errorf("listed as %+v", row)
			}
			for _, choice := range w.choices() {
				if choice.Usable {
					t.Errorf("explained as %+v", choice)
				}
			}
			clock.Advance(10*time.Minute + time.Second)
			for range 2 {
				w.failing("hello", http.StatusForbidden, class)
			}
			if asked := w.askedOf(); len(asked) != 3 {
				t.Errorf("after ten minutes asked %v", asked)
			}
			w.forgive()
			w.failing("hello", http.StatusForbidden, class)
			if _, err := w.control().EnableAccount(t.Context(), named(member(5)), true); err != nil {
				t.Fatal(err)
			}
			if r := w.says("hello"); !r.answered() {
				t.Errorf("lifted: %s", r)
			}
		})
	}
}

// forgive ends all trouble at the provider.
func (w *accountRig) forgive() {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodDelete, "/simulator/faults", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.provider.ServeHTTP(&nobodysWriter{header: http.Header{}}, req)
}

// A nobodysWriter takes an answer that is not read.
type nobodysWriter struct{ header http.Header }

func (w *nobodysWriter) Header() http.Header         { return w.header }
func (w *nobodysWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *nobodysWriter) WriteHeader(int)             {}

// Accounts that die now and then, with good answers in between, cost no other account.
func TestAccountsThatAreLockedNowAndThen(t *testing.T) {
	t.Parallel()
	w := newTeam(t, 5, "", unlimited, nil)
	for i := range 4 {
		w.faults(troubled("banned", member(i)))
		for n := range 2 {
			if r := w.says(fmt.Sprint("conversation ", i, n)); !r.answered() {
				t.Errorf("after %d bans: %s", i+1, r)
			}
		}
	}
}

// A quota that returns before its time is noticed by the next call, without a token being spent on
// it; and not sooner than a minute after the last look.
func TestQuotaThatReturnsEarlyIsNoticed(t *testing.T) {
	t.Parallel()
	clock := &daemontest.Clock{At: time.Now()}
	w := newTeam(t, 2, "pools: [antigravity]\n    max_wait: 5s", simulator.Limits{FiveHour: 1}, func(o *daemon.Options) { o.Now = clock.Now })
	for range 2 {
		if r := w.says("hello"); !r.answered() {
			t.Fatalf("%s", r)
		}
	}
	looks := func() int { return w.times(":fetchAvailableModels") }
	await.Until(t, "the quota of both accounts was read at their first use", func() bool { return looks() >= 2 })
	w.failing("hello", http.StatusTooManyRequests, perigee.ClassExhausted)
	for _, passes := range []time.Duration{2 * time.Minute, 0, 30 * time.Second} {
		before, asked := looks(), len(w.askedOf())
		clock.Advance(passes)
		w.failing("hello", http.StatusTooManyRequests, perigee.ClassExhausted)
		if more := looks() - before; more != map[bool]int{true: 2}[passes > time.Minute] {
			t.Errorf("%s later it was looked %d times", passes, more)
		}
		if more := len(w.askedOf()) - asked; more > 0 {
			t.Errorf("%s later %d questions were asked", passes, more)
		}
	}
	w.provider.Advance(5*time.Hour + time.Minute)
	clock.Advance(time.Minute + time.Second)
	if r := w.says("hello"); !r.answered() {
		t.Errorf("%s", r)
	}
	for _, row := range w.accounts() {
		if len(row.Cooldowns) > 0 {
			t.Errorf("%s still rests: %+v", row.Email, row.Cooldowns)
		}
	}
}

// Enabling an account that is enabled ends its cooldowns, also in the store.
func TestEnablingEndsRests(t *testing.T) {
	t.Parallel()
	w := newTeam(t, 1, "pools: [antigravity]\n    max_wait: 0s", unlimited, nil,
		simulator.Fault{Do: "quota_exhausted", When: simulator.When{Path: "GenerateContent"}, Times: 1, Delay: simulator.Duration(100 * time.Hour)})
	w.failing("hello", http.StatusTooManyRequests, perigee.ClassExhausted)
	w.failing("hello", http.StatusTooManyRequests, perigee.ClassExhausted)
	row := w.accounts()[0]
	if len(row.Cooldowns) != 1 || row.Cooldowns[0].Family != "gemini" {
		t.Fatalf("got %+v", row)
	}
	got, err := w.control().EnableAccount(t.Context(), named(member(0)), true)
	if err != nil || len(got.Cooldowns) > 0 || len(w.accounts()[0].Cooldowns) > 0 {
		t.Errorf("got %+v, %v; listed as %+v", got, err, w.accounts()[0])
	}
	if r := w.says("hello"); !r.answered() {
		t.Errorf("%s", r)
	}
	w.gateway.Daemon.Stop(t.Context())
	w.gateway = nil
	if row := w.accounts()[0]; len(row.Cooldowns) > 0 {
		t.Errorf("stored as %+v", row)
	}
}

// The family of a rest is one that a person knows, and what is about one model says which.
func TestRestsAreListedByFamily(t *testing.T) {
	t.Parallel()
	w := newTeam(t, 2, "pools: [antigravity]\n    selection: round_robin", unlimited, nil,
		simulator.Fault{Do: "quota_exhausted", When: simulator.When{Path: "GenerateContent", Model: "gpt-oss-120b-medium"}, Times: 1, Delay: simulator.Duration(time.Hour)},
		simulator.Fault{Do: "not_found", When: simulator.When{Path: "GenerateContent", Model: "gemini-3-flash", Account: member(0)}})
	for _, model := range []string{"gpt-oss-120b-medium", "gemini-3-flash", "gemini-3-flash"} {
		if r, err := askIn(t.Context(), w.gateway.URL(), &dialectRigs[1], false, model, "hello [[text: the answer is here]]"); err != nil || !r.answered() {
			t.Errorf("%s: %s, %v", model, r, err)
		}
	}
	var rests []string
	for _, row := range w.accounts() {
		for _, c := range row.Cooldowns {
			rests = append(rests, c.Family+" "+c.Pool+" "+c.Reason)
		}
	}
	slices.Sort(rests)
	for _, want := range []string{"claude antigravity quota", "gemini antigravity not_found: gemini-3-flash"} {
		if !slices.Contains(rests, want) {
			t.Errorf("%q is not among %q", want, rests)
		}
	}
}

// Asking for the quota as a command does asks the provider each time; clients with a key may poll.
func TestQuotaIsAskedAnewForTheOwner(t *testing.T) {
	t.Parallel()
	w := newTeam(t, 1, "", unlimited, nil)
	for i := range 3 {
		w.quota()
		if n := w.times(":fetchAvailableModels"); n != i+1 {
			t.Errorf("asked %d times, and the provider %d times", i+1, n)
		}
	}
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.gateway.URL()+"/v1/quota", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := daemontest.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var rows []perigee.QuotaRow
		if err := json.Unmarshal([]byte(daemontest.Rest(t, resp)), &rows); err != nil || len(rows) == 0 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
	if n := w.times(":fetchAvailableModels"); n != 3 {
		t.Errorf("clients had the provider asked %d times", n-3)
	}
}

// concurrency is how many calls an account answers at a time: further calls go elsewhere, and then
// wait.
func TestConcurrencyOfAnAccount(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	hold := troubled("slow", "")
	hold.Delay, hold.Times = simulator.Duration(3*time.Second), 4 // until all four are there, on a slow machine, too
	w := newTeam(t, 2, "concurrency: 2\n    max_wait: 30s", unlimited, nil, hold)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			text := fmt.Sprint("conversation ", i, " [[chunks: 2]] [[text: the answer is here]]")
			if r, err := askIn(t.Context(), w.gateway.URL(), &dialectRigs[1], false, "gemini-3-flash", text); err != nil || !r.answered() {
				t.Errorf("%v (%v)", r, err)
			}
		})
	}
	await.Return(t, calls.Wait, "the calls")
	first := w.askedOf()[:4] // those that were held up
	if count(first, "00") != 2 || count(first, "01") != 2 {
		t.Errorf("asked %v", w.askedOf())
	}
}

// A conversation stays with its account over a restart.
func TestSessionsOutliveARestart(t *testing.T) {
	t.Parallel()
	w := newTeam(t, 4, "selection: round_robin", unlimited, nil)
	for i := range 4 {
		w.says(fmt.Sprint("conversation ", i))
	}
	before := w.askedOf()
	w.gateway.Daemon.Stop(t.Context())
	w.gateway = daemontest.StartIn(t, w.src, nil)
	for _, i := range []int{2, 0, 3, 1} {
		w.says(fmt.Sprint("conversation ", i))
	}
	after := w.askedOf()[4:]
	if want := []string{before[2], before[0], before[3], before[1]}; !slices.Equal(after, want) {
		t.Errorf("asked %v, and after the restart %v, want %v", before, after, want)
	}
	if _, err := w.control().EnableAccount(t.Context(), named(member(0)), true); err != nil {
		t.Fatal(err)
	}
	if err := w.control().UseAccount(t.Context(), named(member(3))); err != nil {
		t.Fatal(err)
	}
	w.says("conversation 0")
	if asked := w.askedOf(); asked[8] != "03" {
		t.Errorf("using another one does not move it: %v", asked)
	}
}

// trace is the newest call, as its owner sees it.
func (w *accountRig) trace() (newest perigee.Trace) {
	w.t.Helper()
	owner := daemontest.AdminOf(w.t, w.gateway)
	var list []perigee.Trace
	await.Until(w.t, "a stored call", func() bool { // a list waits only a second for what is being stored
		list = daemontest.Rows[perigee.Trace](w.t, owner, "/v1/traces?limit=1")
		return len(list) == 1
	})
	status, body, err := owner.Do(w.t.Context(), http.MethodGet, "/v1/traces/"+list[0].ID, "")
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(body), &newest)
	}
	if err != nil || status != http.StatusOK {
		w.t.Fatalf("%d %s: %v", status, body, err)
	}
	return newest
}

// A sign-in server that is asked too often, or is down, is in trouble itself, whatever it says
// about quotas: no model was asked. The call is told so, with a time after which trying again makes
// sense, and its trace shows every account that was tried.
func TestTroubleOfTheSignInServerIsItsOwn(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"quota_exhausted", "rate_limit", "bare_429", "capacity", "internal_500", "bad_gateway_html", "reset", "not_found"} {
		for size := 1; size <= 2; size++ {
			t.Run(fmt.Sprint(do, " ", size), func(t *testing.T) {
				t.Parallel()
				w := newTeam(t, size, "max_wait: 1ms", unlimited, nil, simulator.Fault{Do: do, When: simulator.When{Path: "/token"}})
				r := w.failing("hello", http.StatusServiceUnavailable, perigee.ClassUnavailable)
				seconds, _ := strconv.Atoi(r.header.Get("Retry-After"))
				if strings.Contains(r.body, "quota for this model") || seconds < 1 || seconds > 60 {
					t.Errorf("%s", r)
				}
				if asked := w.askedOf(); len(asked) > 0 {
					t.Errorf("asked %v", asked)
				}
				steps := w.trace().Attempts
				if len(steps) != size {
					t.Fatalf("%d steps: %+v", len(steps), steps)
				}
				for i, step := range steps {
					if step.Upstream != "gravity" || step.Account != member(i) || step.Why == "" || step.Class != perigee.ClassUnavailable || step.Error == "" {
						t.Errorf("step %d: %+v", i, step)
					}
				}
			})
		}
	}
}

// That the only account has answered at once needs no step; that it did after a failure does.
func TestStepsOfTheOnlyAccount(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	w := newTeam(t, 1, "", unlimited, nil)
	w.says("hello")
	if steps := w.trace().Attempts; len(steps) > 0 {
		t.Errorf("there are steps: %+v", steps)
	}
	fault := troubled("internal_500", "")
	fault.Times = 1
	w.faults(fault)
	w.says("hello")
	steps := w.trace().Attempts
	if len(steps) != 2 || steps[0].Class != perigee.ClassUnavailable || steps[1].Class != "" || steps[1].Account != member(0) {
		t.Errorf("steps are %+v", steps)
	}
}

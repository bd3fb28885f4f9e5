package accounttests

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// choices writes which account would be taken, and why each of the rest would not.
func (w *accountRig) choices() map[string]perigee.ChoiceRow {
	w.t.Helper()
	rows, err := w.control().ExplainAccounts(w.t.Context(), "gemini-3-flash")
	if err != nil {
		w.t.Fatal(err)
	}
	m := map[string]perigee.ChoiceRow{}
	for _, row := range rows {
		if row.Pool == "antigravity" {
			name, _, _ := strings.Cut(row.Email, "@")
			m[name] = row
		}
	}
	return m
}

// agree checks that the listing and the explanation agree on which accounts can be used.
func (w *accountRig) agree() {
	w.t.Helper()
	choices := w.choices()
	rows := w.accounts()
	if len(rows) == 0 {
		w.t.Error("nobody is listed")
	}
	for _, row := range rows {
		name, _, _ := strings.Cut(row.Email, "@")
		usable := row.Enabled && perigee.UsableState(row.State) && len(row.Cooldowns) == 0
		if choice := choices[name]; choice.Usable != usable {
			w.t.Errorf("%s is listed as %s (%s), and explained as %q", name, row.State, row.Reason, choice.Why)
		}
	}
}

func (w *accountRig) quota() perigee.QuotaList {
	w.t.Helper()
	list, err := w.control().Quota(w.t.Context(), true)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// What asking for the quota finds out about imported accounts is known to the pool at once.
func TestWhatQuotaFindsOutIsKnownAtOnce(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", adaAlone, nil)
		w.imports(`[{"email":"zed@example.com","refresh_token":"sim-refresh-zed"},{"email":"zoe@example.com","refresh_token":"sim-refresh-ada"}]`)
		w.quota()
		w.want("ada, zed signed_out, zoe misnamed")
		w.agree()
		choices := w.choices()
		if !choices["ada"].Usable || !strings.HasPrefix(choices["zed"].Why, "signed out: ") || !strings.Contains(choices["zoe"].Why, "belongs to ada@example.com") {
			t.Errorf("got %+v", choices)
		}
		if problems := w.quota().Problems; len(problems) != 2 || !strings.Contains(problems[0].String()+problems[1].String(), "zed@example.com: it is signed out") {
			t.Errorf("got %q", problems)
		}
	})
}

// A refresh token that is refused while there is no call, and an account that the provider stops
// when it is asked about its quota, are out of use from then on.
func TestAccountStoppedOutsideOfCalls(t *testing.T) {
	for name, c := range map[string]struct {
		fault simulator.Fault
		want  string
	}{
		"signed out": {simulator.Fault{When: simulator.When{Path: "/token"}, Do: "invalid_grant"}, "ada signed_out"},
		"banned":     {simulator.Fault{When: simulator.When{Path: "fetchAvailableModels"}, Do: "banned"}, "ada banned"},
		"verify":     {simulator.Fault{When: simulator.When{Path: "fetchAvailableModels"}, Do: "validation_required"}, "ada verification"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &daemontest.Clock{At: time.Now()}
			w := newAccountRig(t, true, "", adaAlone, func(o *daemon.Options) { o.Now = clock.Now })
			if status, body := w.call(); status != http.StatusOK {
				t.Fatalf("%d: %s", status, body)
			}
			clock.Advance(2 * time.Hour)
			if err := w.provider.AddFaults(c.fault); err != nil {
				t.Fatal(err)
			}
			w.quota()
			w.want(c.want)
			w.agree()
			if w.choices()["ada"].Usable {
				t.Error("it is explained as usable")
			}
		})
	}
}

const adaElsewhere = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada","project_id":"p1"}]`

func (w *accountRig) project() string {
	w.t.Helper()
	rows := w.accounts()
	if len(rows) != 1 {
		w.t.Fatalf("got %+v", rows)
	}
	return rows[0].ProjectID
}

// A project that is not the account's is looked up by the first call that is refused for it, once.
func TestWrongProjectIsLookedUp(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, w *accountRig){
		"by a call": func(t *testing.T, w *accountRig) {
			if status, body := w.call(); status != http.StatusOK {
				t.Errorf("%d: %s", status, body)
			}
		},
		"by asking for the quota": func(t *testing.T, w *accountRig) {
			if list := w.quota(); len(list.Rows) == 0 || len(list.Problems) > 0 {
				t.Errorf("got %+v", list)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAccountRig(t, true, "", adaElsewhere, nil)
			if got := w.project(); got != "p1" {
				t.Errorf("imported with %q", got)
			}
			use(t, w)
			w.agree()
			if got := w.project(); got != "sim-project-ada" {
				t.Errorf("the project is %q", got)
			}
			if status, body := w.call(); status != http.StatusOK || w.times(":loadCodeAssist") != 1 {
				t.Errorf("%d after %d lookups: %s", status, w.times(":loadCodeAssist"), body)
			}
		})
	}
}

// An account that was never onboarded cannot have the project that it was imported with.
func TestWrongProjectOfWhoHasNone(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	w := newAccountRig(t, true, "", strings.ReplaceAll(adaElsewhere, "ada", "cyd"), nil)
	if status, body := w.call(); status != http.StatusOK || w.project() != "sim-project-cyd" {
		t.Errorf("%d with project %q: %s", status, w.project(), body)
	}
}

// A model that no upstream has does not cost an account its project, and it is looked up once.
func TestRightProjectStays(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", strings.ReplaceAll(adaElsewhere, "p1", "sim-project-ada"), nil,
		simulator.Fault{When: simulator.When{Path: "GenerateContent"}, Do: "not_found"})
	for range 2 {
		if status, body := w.call(); status != http.StatusNotFound {
			t.Errorf("%d: %s", status, body)
		}
	}
	if got := w.project(); got != "sim-project-ada" || w.times(":loadCodeAssist") != 1 {
		t.Errorf("the project is %q after %d lookups", got, w.times(":loadCodeAssist"))
	}
}

// When there is no other project, everybody says that it is refused, and importing without one
// forgets it.
func TestRefusedProjectIsNamed(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAlone, nil, simulator.Fault{When: simulator.When{Path: "GenerateContent"}, Do: "service_disabled"})
	if status, body := w.call(); status != http.StatusForbidden {
		t.Errorf("%d: %s", status, body)
	}
	const says = "its project sim-project-ada is refused"
	if got := w.states(); !strings.Contains(got, says) {
		t.Errorf("listed: %q", got)
	}
	if got := w.choices()["ada"]; got.Why != says || got.Usable {
		t.Errorf("explained: %+v", got)
	}
	if got := w.quota().Problems; len(got) != 1 || !strings.Contains(got[0].Why, says) {
		t.Errorf("quota: %q", got)
	}
	if n := w.times(":loadCodeAssist"); n != 1 {
		t.Errorf("it was looked up %d times, although it was just found", n)
	}
	w.imports(adaAlone)
	if got := w.project(); got != "" || !w.choices()["ada"].Usable {
		t.Errorf("imported again, its project is %q, and it is %+v", got, w.choices()["ada"])
	}
}

// What the call says is about one cause, whichever account was tried last.
func TestErrorIsAboutOneCause(t *testing.T) {
	t.Parallel()
	at := func(account, do string, delay time.Duration) simulator.Fault {
		return simulator.Fault{When: simulator.When{Path: "GenerateContent", Account: account}, Do: do, Delay: simulator.Duration(delay)}
	}
	t.Run("verification before a ban", func(t *testing.T) {
		w := newAccountRig(t, true, "", adaAndBob, nil, at("ada", "validation_required", 0), at("bob", "banned", 0))
		_, body := w.call()
		if !strings.Contains(body, "VERIFICATION_REQUIRED") || !strings.Contains(body, "of 2: 1 to be verified, 1 banned") ||
			!strings.Contains(body, "verify it in a browser") || strings.Contains(body, "has disabled") {
			t.Errorf("got %s", body)
		}
	})
	t.Run("one time", func(t *testing.T) {
		w := newAccountRig(t, true, "", adaAndBob, nil, at("ada", "quota_exhausted", time.Hour), at("bob", "quota_exhausted", 3*time.Hour))
		status, body := w.call()
		if status != http.StatusTooManyRequests || !strings.Contains(body, "2 out of quota (back in ") ||
			strings.Contains(body, "3h0m") || strings.Contains(body, "2h59m") || strings.Contains(body, "will reset") {
			t.Errorf("%d: %s", status, body)
		}
	})
}

// An account that is known to rest has nothing left, whatever was read before.
func TestQuotaShowsWhatIsUsedUp(t *testing.T) {
	t.Parallel()
	clock := &daemontest.Clock{At: time.Now()}
	w := newAccountRig(t, true, "", adaAlone, func(o *daemon.Options) { o.Now = clock.Now })
	left := func(model string) (float64, time.Time) {
		for _, row := range w.quota().Rows {
			if row.Model == model && row.Pool == "antigravity" {
				return row.Remaining, row.ResetsAt
			}
		}
		t.Fatalf("nothing is said about %s", model)
		return 0, time.Time{}
	}
	if now, _ := left("gemini-3-flash"); now != 1 {
		t.Errorf("%v is left at first", now)
	}
	clock.Advance(time.Second)
	fault := simulator.Fault{When: simulator.When{Path: "GenerateContent"}, Do: "quota_exhausted", Delay: simulator.Duration(5 * time.Hour)}
	if err := w.provider.AddFaults(fault); err != nil {
		t.Fatal(err)
	}
	if status, body := w.call(); status != http.StatusTooManyRequests {
		t.Fatalf("%d: %s", status, body)
	}
	for _, passed := range []time.Duration{0, time.Minute} { // as read before, and as the provider says afterwards
		clock.Advance(passed)
		now, until := left("gemini-3-flash")
		if in := until.Sub(clock.Now()); now != 0 || in < 4*time.Hour+58*time.Minute || in > 5*time.Hour+time.Minute {
			t.Errorf("%v later %v is left until %v", passed, now, in)
		}
		if other, _ := left("claude-opus-4-6-thinking"); other != 1 {
			t.Errorf("%v later %v is left of another family", passed, other)
		}
	}
}

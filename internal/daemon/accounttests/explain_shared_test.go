package accounttests

import (
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/simulator"
)

// routes tells what explain says: the upstream that would answer, and of each candidate why.
func (r *kindRig) routes() {
	r.t.Helper()
	found, err := r.control().ExplainRoute(r.t.Context(), perigee.RouteQuestion{Model: gemini})
	if err != nil {
		r.t.Fatal(err)
	}
	var words []string
	for _, c := range found.Candidates {
		words = append(words, c.Upstream+" "+strings.Replace(c.Reason, ", 100% of its quota left", "", 1))
	}
	r.logf("route: %s (%s)", found.Upstream, strings.Join(words, "; "))
}

// chosen tells which account account explain says would be taken.
func (r *kindRig) chosen() {
	r.t.Helper()
	rows, err := r.control().ExplainAccounts(r.t.Context(), gemini)
	if err != nil {
		r.t.Fatal(err)
	}
	rows = slices.DeleteFunc(rows, func(row perigee.ChoiceRow) bool { return !row.Chosen })
	names := ""
	for _, row := range rows {
		name, _, _ := strings.Cut(row.Email, "@")
		names += " " + name + " from " + row.Pool
	}
	r.logf("taken:%s", names)
}

// TestExplanationsAreThoseOfALanguageServer compares calls of a language server that shares
// accounts with what explain and account explain say: it may be restricted to one account, and
// never uses the quota of the command-line tool.
func TestExplanationsAreThoseOfALanguageServer(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		fault simulator.Fault
		want  string
	}{
		"shared, one account": {refusing("quota_exhausted", "bob"), `
gemini-3-flash: 200 [bob]
route: headless (headless bob@example.com: usable: the configuration names it; gravity models.routes sends * to headless)
taken: bob from antigravity
explain gemini-3-flash: bob usable: the configuration names it; ada headless uses only bob@example.com
gemini-3-flash: 429 exhausted: no account is usable for gemini-3-flash; of 1: 1 out of quota (back in …); wait until … UTC (…), or add another account with 'perigee login'; 'perigee account explain gemini-3-flash' says more, later [bob]
route:  (headless bob@example.com: its quota is used up; gravity models.routes sends * to headless)
taken:
explain gemini-3-flash: bob its quota is used up; ada headless uses only bob@example.com
`},
		"shared, before the owner": {refusing("quota_exhausted", "bob"), `
gemini-3-flash: 200 [bob]
route: headless (headless bob@example.com: usable: the configuration names it; gravity ada@example.com: usable: first usable account)
taken: bob from antigravity
explain gemini-3-flash: bob usable: the configuration names it; ada usable: first usable account; ada usable, if no account of the pool antigravity is; bob usable, if no account of the pool antigravity is
gemini-3-flash: 200 [bob ada]
route: gravity (headless bob@example.com: its quota is used up; gravity ada@example.com: usable: it is the current account, and sticky selection stays with it)
taken: ada from antigravity
explain gemini-3-flash: ada usable: it is the current account, and sticky selection stays with it; ada usable, if no account of the pool antigravity is; bob usable, if no account of the pool antigravity is; bob its quota is used up
`},
		"shared, unknown account": {refusing("quota_exhausted", ""), `
gemini-3-flash: 403 unauthenticated: gravity has no account zed@example.com; run perigee login --upstream gravity --email zed@example.com []
route:  (headless gravity has no account zed@example.com; run perigee login --upstream gravity --email zed@example.com; gravity models.routes sends * to headless)
taken:
explain gemini-3-flash: ada headless uses only zed@example.com; bob headless uses only zed@example.com
gemini-3-flash: 403 unauthenticated: gravity has no account zed@example.com; run perigee login --upstream gravity --email zed@example.com []
route:  (headless gravity has no account zed@example.com; run perigee login --upstream gravity --email zed@example.com; gravity models.routes sends * to headless)
taken:
explain gemini-3-flash: ada headless uses only zed@example.com; bob headless uses only zed@example.com
`},
		"shared": {refusing("quota_exhausted", ""), `
gemini-3-flash: 200 [ada]
route: headless (headless ada@example.com: usable: it is the current account, and sticky selection stays with it; gravity models.routes sends * to headless)
taken: ada from antigravity
explain gemini-3-flash: ada usable: it is the current account, and sticky selection stays with it; bob usable, if the accounts before it are not
gemini-3-flash: 429 exhausted: no account is usable for gemini-3-flash; of 2: 2 out of quota (back in …); wait until … UTC (…), or add another account with 'perigee login'; 'perigee account explain gemini-3-flash' says more, later [ada bob]
route:  (headless ada@example.com: its quota is used up; gravity models.routes sends * to headless)
taken:
explain gemini-3-flash: ada its quota is used up; bob its quota is used up
`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newKindRig(t, kind, "sim-refresh-ada")
			tell := func() {
				r.ask(gemini)
				r.routes()
				r.chosen()
				r.explains(gemini)
			}
			tell()
			if err := r.provider.AddFaults(c.fault); err != nil {
				t.Fatal(err)
			}
			tell()
			if got, want := strings.Join(r.story, "\n"), strings.TrimSpace(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

package antigravity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/simulator"
)

// A person is an account that is asked about itself.
type person struct {
	signIn  perigee.SignIn
	token   perigee.Secret
	err     error
	refused int
}

func (p *person) SignIn() perigee.SignIn                        { return p.signIn }
func (p *person) Token(context.Context) (perigee.Secret, error) { return p.token, p.err }
func (p *person) Refused(perigee.Secret)                        { p.refused++ }

func (r *rig) person(email, project string) *person {
	return &person{token: r.fakePool.token, signIn: perigee.SignIn{
		Account: perigee.Account{Email: email, ProjectID: project, Enabled: true, State: perigee.AccountReady},
	}}
}

// sketch writes rows in short, without times.
func sketch(rows []perigee.QuotaRow) string {
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "%s %s %.4g", row.Model, row.Pool, row.Remaining)
		for _, w := range row.Windows {
			fmt.Fprintf(&b, " %s=%.4g", w.Window, w.Remaining)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestQuotaOfAnAccount(t *testing.T) {
	r := newRig(t, nil)
	r.hear(prompt(t, "gemini-3-flash", user("hello")))
	rows, err := r.QuotaOf(t.Context(), r.person("ada@example.com", "sim-project-ada"), true)
	if err != nil {
		t.Fatal(err)
	}
	got := sketch(rows)
	for _, want := range []string{
		"claude-sonnet-4-6 antigravity 1 5h=1 weekly=1\n",
		"gemini-3-flash antigravity 0.9999 5h=0.9999 weekly=1\n",
		"gemini-3-flash gemini-cli 1\n",
		"gpt-oss-120b-medium antigravity 1 5h=1 weekly=1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, row := range rows {
		if row.Account != "ada@example.com" || row.Upstream != "gravity" || row.ResetsAt.IsZero() || row.Model == "" {
			t.Errorf("a row is not whole: %+v", row)
		}
	}
	if !slices.IsSortedFunc(rows, func(a, b perigee.QuotaRow) int { return strings.Compare(a.Model, b.Model) }) {
		t.Error("the models are in no order")
	}
	rows, err = r.QuotaOf(t.Context(), r.person("ada@example.com", "sim-project-ada"), false)
	if err != nil || strings.Contains(sketch(rows), pool.PoolCLI) {
		t.Errorf("the other pool was not asked for: %v\n%s", err, sketch(rows))
	}
}

// What only some endpoints tell is a bonus.
func TestQuotaWithoutTheBonus(t *testing.T) {
	r := newRig(t, nil,
		simulator.Fault{When: simulator.When{Method: "retrieveUserQuotaSummary"}, Do: "not_found"},
		simulator.Fault{When: simulator.When{Method: "retrieveUserQuota"}, Do: "forbidden"})
	rows, err := r.QuotaOf(t.Context(), r.person("ada@example.com", "sim-project-ada"), true)
	if got := sketch(rows); err != nil || !strings.Contains(got, "gemini-3-flash antigravity 1\n") || strings.Contains(got, pool.PoolCLI) {
		t.Errorf("got %v\n%s", err, got)
	}
}

func TestQuotaRenewsATokenOnce(t *testing.T) {
	r := newRig(t, nil, simulator.Fault{When: simulator.When{Method: "fetchAvailableModels"}, Times: 1, Do: "unauthorized"})
	p := r.person("ada@example.com", "sim-project-ada")
	if rows, err := r.QuotaOf(t.Context(), p, false); err != nil || len(rows) == 0 || p.refused != 1 {
		t.Errorf("got %d rows, %v, and %d refusals", len(rows), err, p.refused)
	}
}

func TestQuotaTroubleNamesTheAccount(t *testing.T) {
	r := newRig(t, nil, simulator.Fault{When: simulator.When{Method: "fetchAvailableModels"}, Do: "validation_required"})
	_, err := r.QuotaOf(t.Context(), r.person("ada@example.com", "sim-project-ada"), false)
	if e := perigee.AsError(err); err == nil || e.Class != perigee.ClassVerification || !strings.HasPrefix(e.Message, "ada@example.com: ") {
		t.Errorf("got %v", err)
	}
}

// Trap 80: a fraction that is not told is nothing left, not everything.
func TestDecodeModelQuota(t *testing.T) {
	const reset = `"resetTime":"2026-08-22T18:00:00Z"`
	for _, c := range []struct{ name, info, want string }{
		{"some left", `{"quotaInfo":{"remainingFraction":0.62,` + reset + `}}`, "m antigravity 0.62\n"},
		{"a fraction that is missing is zero", `{"quotaInfo":{` + reset + `}}`, "m antigravity 0\n"},
		{"nothing said is not zero", `{"displayName":"M"}`, ""},
		{"nothing said in many words", `{"quotaInfo":{}}`, ""},
		{"no time of reset", `{"quotaInfo":{"remainingFraction":0.5}}`, "m antigravity 0.5\n"},
		{"more than all", `{"quotaInfo":{"remainingFraction":1.5,` + reset + `}}`, "m antigravity 1\n"},
		{"less than nothing", `{"quotaInfo":{"remainingFraction":-1,` + reset + `}}`, "m antigravity 0\n"},
	} {
		rows, err := decodeModelQuota([]byte(`{"models":{"m":` + c.info + `,"chat_12345":{"quotaInfo":{"remainingFraction":1}}}}`))
		if got := sketch(rows); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	for _, damaged := range []string{``, `{"models":[]}`, `{"models":{"m":{"quotaInfo":{"remainingFraction":"all"}}}}`} {
		if _, err := decodeModelQuota([]byte(damaged)); err == nil {
			t.Errorf("%q was read", damaged)
		}
	}
}

func TestWindowsGoByGroup(t *testing.T) {
	rows := func() []perigee.QuotaRow {
		return []perigee.QuotaRow{{Model: "gemini-3-flash", Remaining: 0.9}, {Model: "claude-sonnet-4-6", Remaining: 0.4}, {Model: "gemini-3.1-flash-image", Remaining: 1}}
	}
	got := rows()
	addWindows(got, []byte(`{"groups":[
		{"buckets":[{"bucketId":"gemini-weekly","window":"weekly","remainingFraction":0.8,"resetTime":"2026-08-29T00:00:00Z"},
			{"bucketId":"gemini-5h","window":"5h","remainingFraction":0.95,"resetTime":"2026-08-22T18:00:00Z"}]},
		{"buckets":[{"bucketId":"3p-weekly","window":"weekly","remainingFraction":0.4,"resetTime":"2026-08-29T00:00:00Z"},
			{"bucketId":"3p-5h","window":"5h","resetTime":"2026-08-22T18:00:00Z"},
			{"bucketId":"3p-yearly","window":"monthly","remainingFraction":0.1,"resetTime":"2026-08-22T18:00:00Z"}]}]}`))
	const want = "gemini-3-flash  0.8 5h=0.95 weekly=0.8\nclaude-sonnet-4-6  0 5h=0 weekly=0.4\ngemini-3.1-flash-image  1\n"
	if s := sketch(got); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	if at := got[0].ResetsAt; !at.Equal(time.Date(2026, 8, 29, 0, 0, 0, 0, time.UTC)) || got[0].Windows[0].Length != 5*time.Hour {
		t.Errorf("the scarcest window resets at %v, and the first takes %v", at, got[0].Windows[0].Length)
	}
	got = rows()
	addWindows(got, []byte(`{"groups":{}}`))
	if s := sketch(got); s != sketch(rows()) {
		t.Errorf("nonsense made\n%s", s)
	}
}

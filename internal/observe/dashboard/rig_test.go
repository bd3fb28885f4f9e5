package dashboard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/observe/live"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/server"
	"perigee/internal/server/connect"
	"perigee/internal/store/config"
)

// rigNow is the time on the pages of a rig.
var rigNow = time.Date(2026, 11, 16, 14, 20, 4, 0, time.UTC)

// A rig is a dashboard on the real server, with fixed data.
type rig struct {
	*Dashboard
	server *httptest.Server
	hub    *live.Hub
	store  *Sessions

	mu       sync.Mutex
	now      time.Time
	calls    []perigee.Call
	accounts []perigee.AccountRow
	audited  []perigee.AuditEntry
	replayed []string
	files    map[string]string
}

// newRig returns a rig whose data the caller may change before the first request.
func newRig(t testing.TB, change ...func(*rig, *Options)) *rig {
	t.Helper()
	r := &rig{now: rigNow, files: map[string]string{}}
	r.hub = live.New(r.clock)
	r.store = NewSessions(r.clock, func() {})
	loaded, err := config.Load(config.Sources{Path: "perigee.yaml", ReadFile: func(string) ([]byte, error) { return []byte(rigConfig), nil },
		Env:     func(name string) (string, bool) { return "gemini-secret-value", name == "GEMINI_API_KEY" },
		HomeDir: "/home/ada", ConfigDir: "/home/ada/.config"})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Version: "1.4.0", Started: rigNow.Add(-26 * time.Hour), Now: r.clock, Zone: time.UTC, Sessions: r.store, Live: r.hub,
		Control: func() perigee.Control { return perigee.Control{AccountControl: r, RoutingControl: r, QuotaControl: r} }, Calls: r, Usage: r, Audit: r,
		Status: func() perigee.DaemonStatus {
			return perigee.DaemonStatus{Version: "1.4.0", Listen: r.server.URL, Configuration: "/home/ada/.config/perigee/config.yaml",
				DataDir: "/home/ada/.local/share/perigee",
				Keys:    []perigee.KeyProblem{{Upstream: "studio", Model: "gemini-3-pro", Why: "its quota is used up", Until: rigNow.Add(90 * time.Second)}},
				Upstreams: []string{"studio (gemini, 2 keys, for *)",
					"antigravity (4 accounts, for claude-*)", "headless (langserver, 1 account)"}}
		},
		Unready: func() []string { return nil },
		Upstreams: func() []UpstreamState {
			return []UpstreamState{{Name: "studio", Kind: "gemini"}, {Name: "antigravity", Kind: "antigravity"},
				{Name: "headless", Kind: "langserver", Unready: "no account is signed in"}}
		},
		Langservers: func() []perigee.LangserverRow {
			return []perigee.LangserverRow{{Upstream: "headless", State: "ready", PID: 4711, Version: "1.21.6", Profile: "classic",
				Account: "ada@example.com", Restarts: 1, Since: rigNow.Add(-time.Hour), LastExit: "signal: killed", Memory: 312 << 20}}
		},
		Windows: func(context.Context) ([]Window, error) {
			return []Window{{Name: "Antigravity", Version: "1.21.6", State: "ready", Workspace: []string{"/home/ada/src/orbit"}}}, nil
		},
		Config: func() *config.Loaded { return loaded },
		Store: func(context.Context) (perigee.StoreReport, error) {
			return perigee.StoreReport{Engine: "sqlite", Bytes: 48 << 20, Rows: []perigee.StoreRow{{What: "calls", Count: 18204, Bytes: 21 << 20},
				{What: "stored responses", Count: 1204, Bytes: 19 << 20}, {What: "daily usage", Count: 2210, Bytes: 300 << 10}, {What: "audit log", Count: 140, Bytes: 40 << 10}}}, nil
		},
		Warnings: func() []Warning {
			return []Warning{{Time: rigNow.Add(-4 * time.Minute), Level: "WARN", Text: "account cooled down account=grace@example.com until=15:02"},
				{Time: rigNow.Add(-3 * time.Hour), Level: "ERROR", Text: "the database is locked; trying again"}}
		},
		CA: func() []Fact {
			return []Fact{{Name: "Certificate", Value: "perigee CA, valid until 2036"}, {Name: "Trusted by the system", Value: "no"}}
		},
		Trace: r.trace,
		Replay: func(_ context.Context, id string) (string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.replayed = append(r.replayed, id)
			if id == failingReplay {
				return "", perigee.Errorf(perigee.ClassUnavailable, "the upstream is gone")
			}
			return r.calls[0].ID, nil
		},
		Clients: Clients, ClientStates: func(string) map[string]connect.Status { return nil },
		Redact:    func(text string) string { return text },
		Logger:    slog.New(slog.DiscardHandler),
		PriceDate: func() string { return "" },
		Shrink: func(context.Context, string, func(replay.Progress)) (*replay.Shrunk, error) {
			return nil, perigee.Errorf(perigee.ClassUnimplemented, "this rig does not shrink")
		},
	}
	opts.Copy = func(to io.Writer, from io.Reader) error {
		text, err := io.ReadAll(from)
		_, _ = io.WriteString(to, opts.Redact(string(text)))
		return err
	}
	r.calls, r.accounts = rigCalls(), rigAccounts()
	for _, f := range change {
		f(r, &opts)
	}
	r.Dashboard = New(opts)
	t.Cleanup(r.hub.Stop)
	api := server.New(server.Options{Status: opts.Status, Home: r.Dashboard, Mounts: r.Points(),
		Admin: func(offer string) (bool, error) { return offer == "admin-token", nil }}, server.Settings{Loopback: true, MaxBody: 1 << 20})
	t.Cleanup(api.Close)
	r.server = httptest.NewServer(api)
	t.Cleanup(r.server.Close)
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// A browser is a client with a cookie.
type browser struct {
	t      testing.TB
	rig    *rig
	cookie *http.Cookie
	header http.Header
}

// signIn returns a browser that has opened the link of the owner.
func (r *rig) signIn(t testing.TB) *browser {
	t.Helper()
	b := &browser{t: t, rig: r}
	answer := b.do("GET", "/?ticket="+r.store.NewTicket().Reveal(), nil)
	if len(answer.Cookies()) != 1 {
		t.Fatalf("no cookie: %s", answer.Status)
	}
	b.cookie = answer.Cookies()[0]
	return b
}

// A reply is an answer with its body.
type reply struct {
	*http.Response
	text string
}

// do makes a request as a browser does. A form that is not nil is sent.
func (b *browser) do(method, path string, form url.Values) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.rig.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "null") // as browsers do without a referrer
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for name, values := range b.header {
		if req.Header[name] = values; values == nil {
			delete(req.Header, name)
		}
	}
	if b.cookie != nil {
		req.AddCookie(b.cookie)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{resp, string(text)}
}

// get returns a page, which must be there.
func (b *browser) get(path string) string {
	b.t.Helper()
	answer := b.do("GET", path, nil)
	if answer.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s\n%s", path, answer.Status, answer.text)
	}
	return answer.text
}

// token returns the token of the forms.
func (b *browser) token() string {
	b.t.Helper()
	_, rest, ok := strings.Cut(b.get("/dashboard/setup"), `name="token" value="`)
	token, _, _ := strings.Cut(rest, `"`)
	if !ok || token == "" {
		b.t.Fatal("the page has no token")
	}
	return token
}

const failingReplay = "01KA5R2M4W0000000000000001"

const rigConfig = `
listen: 127.0.0.1:8741
keys:
  - {name: laptop, secret: client-secret-value}
upstreams:
  - name: studio
    kind: gemini
    keys: ["env:GEMINI_API_KEY"]
models:
  default: gemini-3-flash
  aliases: {gpt-4o: gemini-3-flash, "claude-*": gemini-3-pro}
  routes:
    - {match: "*", to: [studio]}
`

func rigCalls() (list []perigee.Call) {
	models := []string{"gemini-3-flash", "claude-opus-4-6-thinking", "gemini-3-pro", "claude-sonnet-4-6"}
	clients := []string{"claude-cli", "codex_cli_rs", "opencode", "geminicli"}
	for i := range 120 {
		c := perigee.Call{ID: fmt.Sprintf("01KA5R2M4W%016d", i), Time: rigNow.Add(-time.Duration(i*i+20) * time.Second), Operation: perigee.OperationGenerate,
			Dialect: perigee.DialectAnthropic, Stream: true, Client: perigee.Client{Name: clients[i%4], Version: "2.1.0", Key: "laptop"},
			Model: models[i%4], ModelAsked: models[i%4], Upstream: []string{"studio", "antigravity"}[i%2], Outcome: perigee.OutcomeDone, ClientStatus: 200,
			FirstByte: time.Duration(310+i*7) * time.Millisecond, Duration: time.Duration(2100+i*130) * time.Millisecond, BytesIn: 103 << 10, Finish: "STOP",
			Usage: perigee.Usage{Input: 24000 + int64(i)*31, Cached: 19000, Output: 820 + int64(i)*3, Thinking: 300}}
		if i%2 == 1 {
			c.Account = "ada@example.com"
		}
		if i%5 == 0 {
			c.ModelAsked = "gpt-4o"
		}
		if i%9 == 1 {
			c.Outcome, c.ClientStatus, c.Class = perigee.OutcomeFailed, 429, perigee.ClassExhausted
			c.Error = "the quota of every account is used up; the first is reset at 15:02"
			c.Usage, c.FirstByte, c.Finish = perigee.Usage{}, 0, ""
		}
		c.Attempts = []perigee.Attempt{{Upstream: c.Upstream, Account: "grace@example.com", Why: "used least", Class: perigee.ClassExhausted,
			Error: "RESOURCE_EXHAUSTED: quota of 5 hours used up", Took: 420 * time.Millisecond},
			{Upstream: c.Upstream, Account: c.Account, Why: "next usable account", Class: c.Class, Took: c.Duration - 420*time.Millisecond}}
		c.Notes = []string{"dropped logprobs", "renamed tool 1mcp.read"}
		list = append(list, c)
	}
	return list
}

func rigAccounts() []perigee.AccountRow {
	return []perigee.AccountRow{
		{Email: "ada@example.com", Upstream: "antigravity", Enabled: true, Preferred: true, ProjectID: "orbit-prod-1842", State: "ready"},
		{Email: "grace@example.com", Upstream: "antigravity", Enabled: true, ProjectID: "hopper-lab", State: "ready",
			Cooldowns: []perigee.Cooldown{{Family: "claude", Pool: "antigravity", Until: rigNow.Add(42 * time.Minute), Reason: "quota of 5 hours used up"}}},
		{Email: "edsger@example.com", Upstream: "antigravity", Enabled: true, State: perigee.AccountVerification, Reason: "Google asks the owner to verify the account"},
		{Email: "barbara@example.com", Upstream: "antigravity", ProjectID: "liskov", State: "ready"},
	}
}

// Accounts and what follows make the rig a perigee.Control.
func (r *rig) Accounts(context.Context) ([]perigee.AccountRow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.accounts), nil
}

func (r *rig) ImportAccounts(context.Context, perigee.AccountImport) ([]perigee.ImportedRow, error) {
	return nil, nil
}

func (r *rig) EnableAccount(_ context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	return r.change(name, func(row *perigee.AccountRow) { row.Enabled = enabled })
}

func (r *rig) RemoveAccount(context.Context, perigee.AccountName) error { return nil }

func (r *rig) UseAccount(_ context.Context, name perigee.AccountName) error {
	_, err := r.change(name, func(row *perigee.AccountRow) { row.Preferred, row.Cooldowns = true, nil })
	return err
}

func (r *rig) change(name perigee.AccountName, f func(*perigee.AccountRow)) (perigee.AccountRow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.accounts {
		if r.accounts[i].Email == name.Email && r.accounts[i].Upstream == name.Upstream {
			f(&r.accounts[i])
			return r.accounts[i], nil
		}
	}
	return perigee.AccountRow{}, perigee.Errorf(perigee.ClassNotFound, "no account %s", name.Email)
}

func (r *rig) ExplainRoute(_ context.Context, q perigee.RouteQuestion) (perigee.RouteExplanation, error) {
	e := perigee.RouteExplanation{Model: q.Model, Upstream: "studio", Steps: []string{"models.routes sends * to studio"},
		Candidates: []perigee.RouteCandidate{{Upstream: "headless", Reason: "no account is signed in"}, {Upstream: "studio", Usable: true},
			{Upstream: "antigravity", Usable: true}}}
	switch q.Model {
	case "gemini-embedding-001":
		e.Upstream, e.Candidates, e.Steps = "", e.Candidates[:1], nil
	case "claude-sonnet-4-6":
		return e, perigee.Errorf(perigee.ClassInternal, "the routing is being replaced")
	}
	return e, nil
}

func (r *rig) ExplainAccounts(context.Context, string) ([]perigee.ChoiceRow, error) { return nil, nil }

func (r *rig) Models(context.Context, string, bool) (perigee.ModelList, error) {
	return perigee.ModelList{Rows: []perigee.ModelRow{
		{ID: "gemini-3-flash", Upstream: "studio", Context: 1048576, Output: 65536, Thinking: true, Default: true},
		{ID: "gemini-3-pro", Upstream: "studio", Context: 1048576, Output: 65536, Thinking: true},
		{ID: "gpt-4o", Upstream: "studio", Context: 1048576, Output: 65536, Thinking: true, AliasOf: "gemini-3-flash"},
		{ID: "claude-opus-4-6-thinking", Upstream: "antigravity", Context: 200000, Output: 64000, Thinking: true},
		{ID: "claude-sonnet-4-6", Upstream: "antigravity", Context: 200000, Output: 64000},
		{ID: "gemini-embedding-001", Upstream: "studio"},
	}, Problems: []perigee.Problem{{Upstream: "headless", Why: "it is starting"}}}, nil
}

func (r *rig) Quota(context.Context, bool) (perigee.QuotaList, error) {
	row := func(account, model, group string, left float64, reset, out time.Duration) perigee.QuotaRow {
		q := perigee.QuotaRow{Account: account, Upstream: "antigravity", Model: model, Group: group, Pool: "antigravity", Remaining: left, ResetsAt: rigNow.Add(reset)}
		if out > 0 {
			q.RunsOutAt = rigNow.Add(out)
		}
		return q
	}
	return perigee.QuotaList{Rows: []perigee.QuotaRow{
		row("ada@example.com", "gemini-3-pro", "gemini", 0.82, 3*time.Hour, 0), row("ada@example.com", "gemini-3-flash", "gemini", 0.82, 3*time.Hour, 0),
		row("ada@example.com", "claude-opus-4-6-thinking", "claude", 0.31, 2*time.Hour, 80*time.Minute),
		row("grace@example.com", "gemini-3-pro", "gemini", 0.96, 4*time.Hour, 0), row("grace@example.com", "claude-sonnet-4-6", "claude", 0, 42*time.Minute, 0),
		row("barbara@example.com", "gemini-3-pro", "gemini", 1, 0, 0), row("barbara@example.com", "claude-sonnet-4-6", "claude", 0.18, time.Hour, 0),
	}, Problems: []perigee.Problem{{Email: "edsger@example.com", Upstream: "antigravity", Why: "the account cannot be used"}}}, nil
}

// Calls makes the rig a perigee.CallReader.
func (r *rig) Calls(_ context.Context, q perigee.CallQuery) (list []perigee.Call, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	skipping := q.Before != ""
	for _, c := range r.calls {
		switch {
		case skipping:
			skipping = c.ID != q.Before
		case q.Sent && c.ReplayOf != "", q.ID != "" && c.ID != q.ID, q.Prefix != "" && !strings.HasPrefix(c.ID, q.Prefix), q.Errors && c.Outcome == perigee.OutcomeDone,
			q.Model != "" && c.Model != q.Model, !q.Since.IsZero() && c.Time.Before(q.Since):
		case q.Limit == 0 || len(list) < q.Limit:
			list = append(list, c)
		}
	}
	return list, nil
}

// Usage makes it a perigee.UsageReader.
func (r *rig) Usage(_ context.Context, q perigee.UsageQuery) (rows []perigee.UsageRow, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		return nil, nil
	}
	row := func(group string, scale int64) perigee.UsageRow {
		return perigee.UsageRow{Group: group, Calls: 14 * scale, InputTokens: 410_000 * scale, CachedTokens: 270_000 * scale, OutputTokens: 31_000 * scale,
			ThinkingTokens: 12_000 * scale, Errors: scale % 4, CostUSD: perigee.USD(0.31 * float64(scale))}
	}
	groups := map[string][]string{perigee.ByModel: {"gemini-3-flash", "claude-opus-4-6-thinking", "gemini-3-pro"}, perigee.ByClient: {"claude-cli", "codex_cli_rs", "opencode", "geminicli"},
		perigee.ByKey: {"laptop", "ci"}, perigee.ByAccount: {"ada@example.com", "grace@example.com"}, perigee.ByUpstream: {"studio", "antigravity"}}
	if q.By == perigee.ByDay {
		for i := 89; i >= 0; i-- {
			day := rigNow.UTC().Truncate(24*time.Hour).AddDate(0, 0, -i)
			if !day.Before(q.Since) && day.Weekday() != time.Sunday {
				rows = append(rows, row(day.Format(time.DateOnly), int64(2+(i*7)%11)))
			}
		}
		return rows, nil
	}
	for i, name := range groups[q.By] {
		rows = append(rows, row(name, int64(9-2*i)))
	}
	return rows, nil
}

// Record and Refused make it an AuditLog.
func (r *rig) Record(ctx context.Context, e perigee.AuditEntry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Actor, e.From = perigee.ActorOf(ctx).Kind, perigee.ActorOf(ctx).From
	r.audited = append(r.audited, e)
	return nil
}

func (r *rig) Refused(ctx context.Context, e perigee.AuditEntry) { _ = r.Record(ctx, e) }

// trace makes a trace of the files of the rig.
func (r *rig) trace(string) (Trace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) == 0 {
		return nil, perigee.Errorf(perigee.ClassNotFound, "no trace")
	}
	return rigTrace(r.files), nil
}

type rigTrace map[string]string

func (t rigTrace) Files() (names []string) {
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (t rigTrace) OpenFile(name string) (io.ReadCloser, int64, error) {
	return &rigFile{strings.NewReader(t[name]), name}, int64(len(t[name])), nil
}

// filesRead has the names of the files that were read.
var filesRead sync.Map

// A rigFile notes that it is read.
type rigFile struct {
	*strings.Reader
	name string
}

func (f *rigFile) Read(p []byte) (int, error) {
	filesRead.Store(f.name, true)
	return f.Reader.Read(p)
}

func (f *rigFile) Close() error { return nil }

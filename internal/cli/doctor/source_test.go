package doctor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/intercept/redirect"
	"perigee/internal/mcp/bridge"
	"perigee/internal/server/connect"
	"perigee/internal/store/config"
)

func TestUpstreamIsAskedForItsModels(t *testing.T) {
	for _, c := range []struct {
		kind   string
		err    error
		status Status
		word   string
	}{
		{config.KindGemini, nil, OK, "1 models"},
		{config.KindGemini, perigee.Errorf(perigee.ClassUnauthenticated, "the key was refused"), Fail, "/etc/perigee.yaml"},
		{config.KindAntigravity, perigee.Errorf(perigee.ClassUnauthenticated, "no account"), Fail, "perigee login --upstream source"},
		{config.KindAntigravity, perigee.Errorf(perigee.ClassVerification, "verify"), Fail, "perigee account list"},
		{config.KindAntigravity, perigee.Errorf(perigee.ClassExhausted, "used up"), Warn, "perigee quota"},
		{config.KindGemini, perigee.Errorf(perigee.ClassUnavailable, "connection refused"), Fail, "curl -sSIv https://api.example.com"},
		{config.KindOpenAI, perigee.Errorf(perigee.ClassUnavailable, "no /models").WithHint("add /v1"), Fail, "no /models; add /v1"},
		{config.KindGemini, context.DeadlineExceeded, Fail, "did not answer in time"},
		{config.KindLangserver, errors.New("odd"), Fail, "perigee langserver status"},
		{config.KindIDE, errors.New("odd"), Fail, "perigee bridge list"},
		{config.KindSimulator, errors.New("odd"), Fail, "perigee models --upstream source"},
	} {
		u := UpstreamOf(config.Upstream{Name: "source", Kind: c.kind, URL: "https://api.example.com"}, &config.Loaded{Path: "/etc/perigee.yaml", Config: &config.Config{}})
		asked := ""
		want(t, u.Check(t.Context(), func(_ context.Context, name string) (perigee.ModelList, error) {
			asked = name
			return perigee.ModelList{Rows: make([]perigee.ModelRow, 1)}, c.err
		}), c.status, c.word)
		if asked != "source" {
			t.Errorf("asked %q", asked)
		}
	}
	u := Upstream{Name: "source", Kind: config.KindGemini, Variable: "GEMINI_API_KEY"}
	u.Config, u.Lines = "/etc/perigee.yaml", map[string]int{"": 3, "location": 7}
	for _, c := range []struct {
		problem perigee.Error
		words   []string
	}{
		{perigee.Error{Class: perigee.ClassForbidden, Message: "no quota project", Hint: "name one", Fix: "gcloud set"}, []string{"no quota project", "gcloud set"}},
		{perigee.Error{Class: perigee.ClassNotFound, Message: "no model", Hint: "try global", Setting: "location"}, []string{"no model; try global", "+7 /etc/perigee.yaml"}},
		{perigee.Error{Class: perigee.ClassForbidden, Message: "no project", Setting: "project"}, []string{"no project", "+3 /etc/perigee.yaml"}},
	} {
		list := perigee.ModelList{Problems: []perigee.Problem{perigee.ProblemOf("source", &c.problem)}}
		want(t, u.Check(t.Context(), func(context.Context, string) (perigee.ModelList, error) { return list, nil }), Fail, c.words...)
	}
	u.Config, u.Lines = "", nil
	list := perigee.ModelList{Problems: []perigee.Problem{{Why: "no answer"}}}
	want(t, u.Check(t.Context(), func(context.Context, string) (perigee.ModelList, error) { return list, nil }), Fail, "no answer")
	want(t, u.NoAccount(), Fail, "export GEMINI_API_KEY=…")
	want(t, u.Skipped("--offline"), OK, "--offline")
	want(t, u.Blocked("perigee serve", "fix listen first"), Warn, "fix listen first")
	u.Builtin = true
	want(t, u.Check(t.Context(), nil), Warn, "perigee config init")
	u.Config = "/etc/perigee/config.yaml"
	want(t, u.Check(t.Context(), nil), Warn, edit(u.Config, 0))
}

// API keys that the provider limits or refuses are a warning about an upstream that lists its
// models all the same.
func TestTroublesOfKeysAreWarnings(t *testing.T) {
	u := Upstream{Name: "studio", Kind: config.KindGemini, Config: "/etc/perigee.yaml"}
	until := time.Date(2026, 3, 2, 14, 5, 0, 0, time.Local)
	limited := perigee.KeyProblem{Upstream: "studio", Model: "gemini-2.5-pro", Why: "its 2 API keys are limited", Until: until}
	refused := perigee.KeyProblem{Upstream: "studio", Why: "the provider refuses API key 2 of 2"}
	other := perigee.KeyProblem{Upstream: "other", Why: "odd"}
	fine := u.Skipped("--offline")
	want(t, u.WithKeyProblems(fine, nil), OK)
	want(t, u.WithKeyProblems(fine, []perigee.KeyProblem{other}), OK)
	want(t, u.WithKeyProblems(fine, []perigee.KeyProblem{other, limited}), Warn, "its 2 API keys are limited for gemini-2.5-pro until 14:05:00",
		"perigee explain gemini-2.5-pro")
	want(t, u.WithKeyProblems(fine, []perigee.KeyProblem{refused, limited}), Warn, "API key 2 of 2; its 2 API keys are limited", "/etc/perigee.yaml")
	want(t, u.WithKeyProblems(fine, []perigee.KeyProblem{limited, limited, limited, limited}), Warn, "and 1 more")
	want(t, u.WithKeyProblems(u.NoAccount(), []perigee.KeyProblem{limited}), Fail, "no account is signed in")
}

// Without a daemon, a language server is judged by what is stored about the accounts that it uses.
func TestLanguageServerThatIsNotRunning(t *testing.T) {
	banned := perigee.AccountRow{Email: "ada@example.com", Upstream: "gravity", Enabled: true, State: perigee.AccountBanned}
	disabled := perigee.AccountRow{Email: "bob@example.com", Upstream: "gravity", State: perigee.AccountReady}
	other := perigee.AccountRow{Email: "eve@example.com", Upstream: "other", Enabled: true, State: perigee.AccountReady}
	resting := perigee.AccountRow{Email: "cyd@example.com", Upstream: "gravity", Enabled: true, State: perigee.AccountReady,
		Cooldowns: []perigee.Cooldown{{Family: "gemini", Reason: "quota"}}}
	loaded := &config.Loaded{Path: "/etc/perigee.yaml", Config: &config.Config{}}
	for _, u := range []config.Upstream{{Name: "gravity", Kind: config.KindLangserver}, {Name: "headless", Kind: config.KindLangserver, AccountsFrom: "gravity"}} {
		described := UpstreamOf(u, loaded)
		want(t, described.NotRunning([]perigee.AccountRow{other}), Fail, "no account is signed in", "perigee login --upstream gravity")
		want(t, described.NotRunning([]perigee.AccountRow{banned, disabled, other}), Fail, "no account can be used", "perigee account list")
		want(t, described.NotRunning([]perigee.AccountRow{banned, resting}), OK, "language servers run with the daemon")
	}
	want(t, UpstreamOf(config.Upstream{Name: "desk", Kind: config.KindLangserver, Attach: true}, loaded).NotRunning(nil), OK)
}

func TestAccountsHaveTheirStateAndQuota(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 30, 0, 0, time.UTC)
	row := func(email, state string) perigee.AccountRow {
		return perigee.AccountRow{Email: email, Upstream: "gravity", Enabled: true, State: state}
	}
	disabled, unopened, cooled := row("disabled@example.com", ""), row("unopened@example.com", ""), row("cooled@example.com", "")
	disabled.Enabled, unopened.Unopened = false, true
	cooled.Cooldowns = []perigee.Cooldown{{Family: "claude", Until: now.Add(time.Hour), Reason: "rate limit"}}
	rows := []perigee.AccountRow{
		row("ready@example.com", perigee.AccountReady), row("low@example.com", perigee.AccountUntested), row("refused@example.com", ""),
		disabled, unopened, cooled, row("out@example.com", perigee.AccountSignedOut), row("verify@example.com", perigee.AccountVerification),
		row("banned@example.com", perigee.AccountBanned), row("misnamed@example.com", perigee.AccountMisnamed),
	}
	quota := perigee.QuotaList{
		Rows: []perigee.QuotaRow{
			{Account: "ready@example.com", Upstream: "gravity", Model: "a", Group: "claude", Remaining: 0.5},
			{Account: "ready@example.com", Upstream: "gravity", Model: "b", Group: "claude", Remaining: 0.25},
			{Account: "low@example.com", Upstream: "gravity", Model: "a", Group: "claude", Remaining: 0.05, ResetsAt: now.Add(2 * time.Hour)},
			{Account: "low@example.com", Upstream: "other", Model: "a", Group: "gemini", Remaining: 0},
		},
		Problems: []perigee.Problem{{Email: "refused@example.com", Upstream: "gravity", Why: "the provider refused the refresh token"}},
	}
	accounts := Accounts{
		List:  func(context.Context) ([]perigee.AccountRow, error) { return rows, nil },
		Quota: func(context.Context) (perigee.QuotaList, error) { return quota, nil },
		Now:   now,
	}
	results := accounts.Check(t.Context())
	for i, c := range []struct {
		status Status
		words  []string
	}{
		{OK, []string{"ready, of the upstream gravity; left: claude 25%"}},
		{Warn, []string{"claude 5% until 2026-03-02T12:30:00Z (in 2h", "perigee account use ready@example.com"}},
		{Fail, []string{"the provider refused the refresh token", "perigee login --upstream gravity"}},
		{Warn, []string{"disabled", "perigee account enable disabled@example.com"}},
		{Fail, []string{"cannot be decrypted", "perigee login"}},
		{Warn, []string{"not used for claude until 2026-03-02T11:30:00Z: rate limit", "perigee quota"}},
		{Fail, []string{"signed out", "perigee login --upstream gravity"}},
		{Fail, []string{"verify", "perigee account enable verify@example.com"}},
		{Fail, []string{"perigee account disable banned@example.com"}},
		{Fail, []string{"perigee account remove misnamed@example.com && perigee login --upstream gravity"}},
	} {
		if results[i].Check != NameAccount+rows[i].Email {
			t.Errorf("got %+v for %s", results[i], rows[i].Email)
		}
		want(t, results[i], c.status, c.words...)
	}

	rows = rows[1:2] // the only account: another one has to be added
	want(t, accounts.Check(t.Context())[0], Warn, "perigee login --upstream gravity")
	accounts.Quota = func(context.Context) (perigee.QuotaList, error) { return perigee.QuotaList{}, errors.New("no network") }
	want(t, accounts.Check(t.Context())[0], Warn, "could not be tested: no network", "perigee quota --account low@example.com")
	accounts.Quota, accounts.Reason = nil, "--offline"
	want(t, accounts.Check(t.Context())[0], OK, "not tested because of --offline")
	accounts.List = func(context.Context) ([]perigee.AccountRow, error) { return nil, errors.New("locked") }
	want(t, accounts.Check(t.Context())[0], Fail, "locked")
}

func TestLanguageServersAreNotExecuted(t *testing.T) {
	dir := t.TempDir()
	executed := filepath.Join(dir, "executed")
	server := write(t, filepath.Join(dir, "server"), "#!/bin/sh\ntouch "+executed+"\n", 0o755)
	l := Langserver{Upstream: config.Upstream{Name: "headless", Binary: server}, Config: "/etc/perigee.yaml", Command: []string{server}, Cache: dir}
	want(t, Langservers(nil), OK)
	want(t, Langservers([]Langserver{l}), OK, "headless: "+server+", not run yet")
	for state, status := range map[string]Status{"ready": OK, "starting": Warn, "restarting": Warn, "failed": Fail, "stopped": Fail} {
		l.Row = &perigee.LangserverRow{Upstream: "headless", State: state, LastExit: "exit status 7"}
		want(t, Langservers([]Langserver{l}), status, state)
	}
	l.Row = &perigee.LangserverRow{Upstream: "headless", State: "stopped", LastExit: "stopped (exit status 0)"}
	l.Upstream.AccountsFrom = "gravity"
	want(t, Langservers([]Langserver{l}), Fail, "stopped, because no account can be used", "perigee login --upstream gravity")
	l.Row = nil
	attached := Langserver{Upstream: config.Upstream{Name: "desk", Attach: true}}
	want(t, Langservers([]Langserver{attached, l, {Upstream: config.Upstream{Name: "lost"}, Err: errors.New("no language server found")}}),
		Fail, "lost: no language server found", "perigee config init")
	if matches, _ := filepath.Glob(executed); len(matches) > 0 {
		t.Error("the program was executed")
	}
}

func TestRedirectsThatNothingAnswers(t *testing.T) {
	installed := redirect.Status{Installed: true, User: "perigee-ls", UID: 7, Backend: "nftables", Port: 8742}
	want(t, Redirect{}.Check(), OK)
	want(t, Redirect{Status: installed, Wanted: true, Running: true}.Check(), OK, "nftables")
	want(t, Redirect{Status: installed, Wanted: true}.Check(), Warn, "perigee serve")
	want(t, Redirect{Status: installed}.Check(), Warn, "sudo perigee redirect remove")
	want(t, Redirect{Wanted: true}.Check(), Fail, "sudo perigee redirect install --user perigee-ls")
	want(t, Redirect{Status: redirect.Status{Problem: "half a rule"}}.Check(), Fail, "half a rule", "sudo perigee redirect remove")
	for _, c := range []struct {
		ended  redirect.Status // its rules ended with the system
		wanted bool
		fix    string
	}{
		{redirect.Status{User: "perigee-ls", Port: redirect.DefaultPort}, true, "sudo perigee redirect install --user perigee-ls"},
		{redirect.Status{User: "perigee-ls"}, true, "sudo perigee redirect install --user perigee-ls"},
		{redirect.Status{User: "perigee-ls", Port: 9000}, true, "sudo perigee redirect install --user perigee-ls --port 9000"},
		{redirect.Status{User: "perigee-ls", Persistent: true}, true, "sudo systemctl restart perigee-redirect.service"},
		{redirect.Status{User: "perigee-ls"}, false, "sudo perigee redirect remove"},
		{redirect.Status{Persistent: true}, false, "sudo perigee redirect remove"},
	} {
		c.ended.Problem = "no rules"
		if got := (Redirect{Status: c.ended, Wanted: c.wanted}).Check(); got.Status != Fail || got.Detail != "no rules" || got.Fix != c.fix {
			t.Errorf("%+v, wanted %t: %+v, want the fix %s", c.ended, c.wanted, got, c.fix)
		}
	}
	want(t, Redirect{Err: errors.New("no nft")}.Check(), Warn, "no nft")
}

func TestServiceIsAskedForItsState(t *testing.T) {
	dir := t.TempDir()
	program := write(t, filepath.Join(dir, "perigee"), "", 0o755)
	state := ""
	s := Service{UserDirs: []string{filepath.Join(dir, "user")}, SystemDirs: []string{filepath.Join(dir, "system")},
		Run: func(context.Context, []string) (string, error) { return state, errors.New("exit status 3") }}
	if results := s.Check(t.Context(), false); results != nil {
		t.Errorf("got %v", results)
	}
	unit := write(t, filepath.Join(dir, "system", "perigee.service"), "[Service]\nExecStart="+program+" serve\n", 0o644)
	for said, status := range map[string]Status{"active": OK, "activating": OK, "": OK, "inactive": Warn, "failed": Fail} {
		state = said
		want(t, s.Check(t.Context(), false)[0], status, unit)
	}
	write(t, filepath.Join(dir, "user", "perigee.service"), "[Service]\nExecStart=/not/there/perigee serve\n", 0o644)
	want(t, s.Check(t.Context(), false)[0], Fail, "/not/there/perigee", "systemctl --user edit --full perigee.service")
	s.UserDirs, s.Run = nil, nil
	want(t, s.Check(t.Context(), false)[0], OK, "--offline")
}

func TestBridgeNamesWindowsThatDoNotAnswer(t *testing.T) {
	dir := t.TempDir()
	want(t, Bridge(t.Context(), filepath.Join(dir, "not/there"), "v1", false), OK, "no editor window")
	// Process 1 is alive, and nothing listens at port 1.
	file := write(t, filepath.Join(dir, "1.json"),
		`{"version":1,"port":1,"token":"canary-canary-canary","workspace":["/project"],"ide":{"name":"Code","version":"1.2"},"pid":1}`, 0o600)
	want(t, Bridge(t.Context(), dir, "v1", true), OK, "1 announcements", "--offline")
	want(t, Bridge(t.Context(), dir, "v1", false), Warn, "Code 1.2 (process 1) is announced and "+string(bridge.Unreachable), "rm "+file)
}

func TestClientsThatDoNotReachThisPerigee(t *testing.T) {
	const here = "http://127.0.0.1:8741"
	claude := connect.Status{Client: "claude-code", File: "/home/ada/.claude/settings.json", State: connect.Connected}
	codex := connect.Status{Client: "codex", File: "/home/ada/.codex/config.toml", State: connect.NotConnected}
	c := Client{Status: claude, Address: "http://localhost:8741/v1", Perigee: here}
	want(t, c.Check(), OK, "connected, /home/ada/.claude/settings.json")
	c.Overrides = []string{"the environment variable ANTHROPIC_API_KEY", "/project/.claude/settings.json"}
	want(t, c.Check(), Warn, "ANTHROPIC_API_KEY, /project", "unset ANTHROPIC_API_KEY")
	c.Overrides = []string{"apiKeyHelper in /home/ada/.claude/settings.json"}
	want(t, c.Check(), Warn, `"${EDITOR:-vi}" /home/ada/.claude/settings.json`)
	c.Address = "http://127.0.0.1:9999"
	want(t, c.Check(), Warn, "connected to http://127.0.0.1:9999", "perigee connect claude-code")
	c.Perigee = "" // no daemon
	c.Overrides = nil
	want(t, c.Check(), OK, "connected")
	changed := codex
	changed.State = connect.Changed
	want(t, Client{Status: changed}.Check(), Warn, "was changed", "perigee connect codex")
	want(t, Client{Status: codex, Address: "https://api.example.com/v1", Perigee: here}.Check(), OK, "not connected")
	want(t, Client{Status: codex, Address: "http://127.0.0.1:8080/v1", Perigee: here}.Check(), Warn, "points at http://127.0.0.1:8080/v1")
	want(t, Client{Status: codex, Perigee: here}.Check(), OK, "not connected")
	codex.State, codex.Model = connect.Connected, "antigravity-agent"
	want(t, Client{Status: codex, WithoutTools: true}.Check(), Warn, "antigravity-agent is the agent of the IDE, which ignores the tools of codex", "perigee connect codex")
	want(t, Client{Status: connect.Status{Client: "copilot-cli"}, RunOnly: true}.Check(), OK, "perigee run copilot-cli")
}

// A daemon that listens on all addresses is the one that clients reach at 127.0.0.1.
func TestClientsOfADaemonThatListensOnAllAddresses(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR"} {
		t.Setenv(name, "")
	}
	settings := write(t, filepath.Join(home, ".claude", "settings.json"), `{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8741"}}`, 0o600)
	e := examination{loaded: &config.Loaded{Config: &config.Config{DataDir: t.TempDir()}}}
	for _, listen := range []string{"http://0.0.0.0:8741", "http://[::]:8741"} {
		e.daemon.Status = &perigee.DaemonStatus{Listen: listen}
		results := e.clients(t.Context())
		i := slices.IndexFunc(results, func(r Result) bool { return r.Check == NameClient+"claude-code" })
		if i < 0 {
			t.Fatalf("%s: got %+v", listen, results)
		}
		want(t, results[i], OK, "connected, "+settings)
		if strings.Contains(results[i].Detail, "not connected") {
			t.Errorf("%s: got %+v", listen, results[i])
		}
	}
}

func TestBudgetsOfKeys(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 30, 0, 0, time.UTC)
	loaded := &config.Loaded{Config: &config.Config{Keys: []config.Key{
		{Name: "free"}, {Name: "calm", CostPerDay: 5}, {Name: "near", CostPerDay: 0.01}, {Name: "spent", CostPerDay: 5, TokensPerDay: 100},
	}}, Origins: map[string]config.Origin{
		"keys[2].cost_per_day": {Source: "/etc/perigee.yaml", Line: 7}, "keys[3].tokens_per_day": {Source: "/etc/perigee.yaml", Line: 9},
	}}
	budgets := Budgets{Loaded: loaded, Now: now, Spent: func(_ context.Context, since time.Time) (map[string]perigee.Spent, error) {
		if !since.Equal(now.Truncate(24 * time.Hour)) {
			t.Errorf("asked for what was used since %v", since)
		}
		return map[string]perigee.Spent{"calm": {USD: 3.9}, "near": {USD: 0.008}, "spent": {Tokens: 100, USD: 4.5}}, nil
	}}
	got := budgets.Check(t.Context())
	if len(got) != 3 || got[0].Check != "key:calm" {
		t.Fatalf("got %+v", got)
	}
	want(t, got[0], OK, "used $3.90 of $5.00 for today")
	want(t, got[1], Warn, "used $0.0080 of $0.0100 for today")
	want(t, got[1], Warn, "+7 /etc/perigee.yaml")
	want(t, got[2], Fail, "used 100 of 100 tokens for today: its calls get 429 until midnight UTC")
	want(t, got[2], Fail, "+9 /etc/perigee.yaml")
	budgets.Spent = func(context.Context, time.Time) (map[string]perigee.Spent, error) { return nil, errors.New("broken") }
	if got := budgets.Check(t.Context()); len(got) != 0 {
		t.Errorf("without a store: %+v", got)
	}
}

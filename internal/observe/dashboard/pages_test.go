package dashboard

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/server/connect"
	"perigee/internal/testing/perigeetest/await"
)

// payload breaks out of each context of HTML that a page may put it in.
const payload = `"'><script>alert(1)</script><img src=x onerror=alert(1)>` + "`" + `</title></textarea></svg>{{.}}javascript:alert(1)`

// A hostileRig says the payload wherever a client, a provider or a file can.
type hostileRig struct{ *rig }

func (hostileRig) Models(context.Context, string, bool) (perigee.ModelList, error) {
	return perigee.ModelList{Rows: []perigee.ModelRow{{ID: payload, Upstream: payload, AliasOf: payload}},
		Problems: []perigee.Problem{{Upstream: payload, Why: payload}}}, nil
}

func (hostileRig) ExplainRoute(context.Context, perigee.RouteQuestion) (perigee.RouteExplanation, error) {
	return perigee.RouteExplanation{Upstream: payload, Steps: []string{payload}, Candidates: []perigee.RouteCandidate{
		{Upstream: "first", Reason: payload}, {Upstream: payload, Usable: true}, {Upstream: payload + "2", Usable: true}}}, nil
}

func (hostileRig) Quota(context.Context, bool) (perigee.QuotaList, error) {
	return perigee.QuotaList{Rows: []perigee.QuotaRow{{Account: payload, Upstream: payload, Model: payload, Group: payload, Pool: payload,
		Windows: []perigee.QuotaWindow{{Window: payload}, {Window: payload}}}}, Problems: []perigee.Problem{{Upstream: payload, Why: payload}}}, nil
}

func (hostileRig) Usage(_ context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	if q.By == perigee.ByDay {
		return []perigee.UsageRow{{Group: rigNow.Format(time.DateOnly), Calls: 1, Errors: 1}}, nil
	}
	return []perigee.UsageRow{{Group: payload, Calls: 1, Errors: 1}, {Calls: 1}}, nil
}

// set puts the payload into everything that the pages show.
func (h hostileRig) set(o *Options) {
	c := h.calls[0]
	c.Client = perigee.Client{Name: payload, Version: payload, Key: payload, Session: payload}
	c.Model, c.ModelAsked, c.Upstream, c.Account, c.Error, c.Finish = payload, payload+"2", payload, payload, payload, payload
	c.Class, c.Outcome, c.Dialect, c.Operation = payload, perigee.OutcomeFailed, payload, payload
	c.Notes = []string{payload}
	c.Attempts = []perigee.Attempt{{Upstream: payload, Account: payload, Why: payload, Class: payload, Error: payload, Took: 1}}
	h.calls = []perigee.Call{c}
	h.accounts = []perigee.AccountRow{{Email: payload, Upstream: payload, State: payload, Reason: payload, ProjectID: payload,
		Cooldowns: []perigee.Cooldown{{Family: payload, Pool: payload, Reason: payload, Until: rigNow.Add(1e9)}}}}
	quoted := strings.ReplaceAll(payload, `"`, `\"`)
	h.files = map[string]string{
		"client_request.json": `{"system":"` + quoted + `","messages":[{"role":"` + quoted + `","content":"` + quoted + `"}],"tools":[{"name":"` + quoted + `"}]}`,
		"events.jsonl":        `{"ms":1,"kind":"text","text":"` + quoted + `"}` + "\n" + `{"ms":2,"kind":"thinking","text":"` + quoted + `"}` + "\n" + `{"ms":3,"kind":"call","name":"` + quoted + `"}`,
		"meta.json":           `{"replay_of":"` + quoted + `"}`, payload: payload,
	}
	o.Version = payload
	o.Control = func() perigee.Control { return perigee.Control{AccountControl: h, RoutingControl: h, QuotaControl: h} }
	o.Usage = h
	o.Windows = func(context.Context) ([]Window, error) {
		return []Window{{Name: payload, Version: payload, State: payload, Workspace: []string{payload}}}, errors.New(payload)
	}
	o.Store = func(context.Context) (perigee.StoreReport, error) {
		return perigee.StoreReport{Engine: payload, Rows: []perigee.StoreRow{{What: payload}}}, errors.New(payload)
	}
	o.Langservers = func() []perigee.LangserverRow {
		return []perigee.LangserverRow{{Upstream: payload, State: payload, LastExit: payload, Version: payload, Profile: payload, Account: payload}}
	}
	o.Warnings = func() []Warning { return []Warning{{Time: rigNow, Level: payload, Text: payload}} }
	o.CA = func() []Fact { return []Fact{{Name: payload, Value: payload}} }
	o.Unready = func() []string { return []string{payload} }
	o.Status = func() perigee.DaemonStatus {
		return perigee.DaemonStatus{Version: payload, Listen: payload, Configuration: payload, DataDir: payload, Upstreams: []string{payload},
			Keys: []perigee.KeyProblem{{Upstream: payload, Model: payload, Why: payload}}}
	}
	o.Upstreams = func() []UpstreamState {
		return []UpstreamState{{Name: payload, Kind: payload, Unready: payload}, {Name: payload, Kind: payload}}
	}
	o.PriceDate = func() string { return payload }
	o.Clients = func(string, bool) []Client {
		return []Client{{Name: payload, Title: payload, Program: payload, Note: payload, Settings: []Fact{{Name: payload, Value: payload}}}}
	}
	loaded := o.Config()
	loaded.Path = payload
	cfg := loaded.Config
	cfg.Models.Default, cfg.Models.Fallback, cfg.Models.Aliases = payload, payload, map[string]string{payload: payload}
	cfg.Models.Routes[0].Match, cfg.Models.Routes[0].To = payload, []string{payload}
	cfg.Upstreams[0].Name, cfg.Keys[0].Name = payload, payload
}

// Everything that clients, providers and files say is text on every page, whatever it says.
func TestHostileTexts(t *testing.T) {
	rig := newRig(t, func(r *rig, o *Options) { hostileRig{r}.set(o) })
	w := rig.hub.Watch(&rig.calls[0], nil)
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: payload})
	w.Event(&perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: payload}})
	b := rig.signIn(t)
	id := rig.calls[0].ID
	for path, shown := range map[string]int{ // at least that often
		"/": 15, "/dashboard/calls": 7, "/dashboard/calls/" + id: 31, "/dashboard/accounts": 20, "/dashboard/usage": 7, "/dashboard/models": 17, "/dashboard/setup": 15,
		"/dashboard/upstreams": 7, "/dashboard/upstreams/" + url.PathEscape(payload): 14, "/dashboard/upstreams/" + url.PathEscape("x"+payload): 1,
		"/dashboard/system": 24, "/dashboard/config": 7, "/dashboard/calls?model=" + url.QueryEscape(payload): 8,
		"/dashboard/calls/" + url.PathEscape(payload): 2, "/dashboard/" + url.PathEscape(payload): 2, "/dashboard/calls?since=" + url.QueryEscape(payload): 2,
		"/dashboard/calls/" + id + "/files/" + url.PathEscape("x"+payload): 2,
	} {
		answer := b.do("GET", path, nil)
		if answer.StatusCode >= 500 {
			t.Errorf("%s: %s", path, answer.Status)
		}
		checkHostile(t, path, answer.text, shown)
	}
	file := b.do("GET", "/dashboard/calls/"+id+"/files/"+url.PathEscape(payload), nil)
	if file.text != payload || file.Header.Get("Content-Type") != "text/plain; charset=utf-8" || file.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a file: %s %v\n%s", file.Status, file.Header, file.text)
	}

	// The address of a form leads to the account, and the notice about it is text as well.
	action := regexp.MustCompile(`action="(/dashboard/accounts/[^"]*/enable)"`).FindStringSubmatch(b.get("/dashboard/accounts"))
	if action == nil {
		t.Fatal("there is no form for the account")
	}
	if answer := b.do("POST", action[1], url.Values{"token": {b.token()}, "upstream": {payload}}); answer.StatusCode != http.StatusSeeOther || !rig.accounts[0].Enabled {
		t.Errorf("the form leads to %s: %s", action[1], answer.Status)
	}
	page := b.get("/dashboard/accounts")
	if checkHostile(t, "a notice", page, 20); !strings.Contains(page, "javascript:alert(1) is enabled.") {
		t.Error("there is no notice")
	}
	checkHostile(t, "the account in trouble", b.get("/"), 17)
}

// checkHostile checks that a page has the payload as text so many times at least, and never as anything else.
func checkHostile(t *testing.T, path, page string, shown int) {
	t.Helper()
	for _, bad := range []string{"<script>", "<img", "onerror=alert(1)>", `href="javascript:`, "</title></textarea>"} {
		if strings.Contains(page, bad) {
			t.Errorf("%s has %q", path, bad)
		}
	}
	if n := strings.Count(page, "&lt;script&gt;"); n < shown {
		t.Errorf("%s shows the text %d times, not %d", path, n, shown)
	}
	checkMarkup(t, path, page)
}

var (
	inline = regexp.MustCompile(`(?i)\s(style|on[a-z]+)=|<style|<script(>| [^s])|href="https?:|src="https?:`)
	quoted = regexp.MustCompile(`\s[a-z-]+="[^"]*"`) // attributes
	ids    = regexp.MustCompile(`\sid="([^"]*)"`)
)

// checkMarkup checks that a page is well-formed, has nothing that the policy forbids, and each id once.
func checkMarkup(t *testing.T, path, page string) {
	t.Helper()
	for _, tag := range regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(page, -1) {
		for _, attribute := range quoted.FindAllString(tag, -1) {
			if name, _, _ := strings.Cut(attribute, "="); inline.MatchString(name+"=") || inline.MatchString(attribute[1:]) && strings.Contains(" href src", name) {
				t.Errorf("%s: %s", path, attribute)
			}
		}
		if found := inline.FindString(quoted.ReplaceAllString(tag, "")); found != "" && !strings.HasPrefix(tag, "<script src=") {
			t.Errorf("%s: %q in %s", path, found, tag)
		}
	}
	seen := map[string]bool{}
	for _, m := range ids.FindAllStringSubmatch(page, -1) {
		if seen[m[1]] {
			t.Errorf("%s: two elements have the id %s", path, m[1])
		}
		seen[m[1]] = true
	}
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := decoder.Token(); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("%s: %v", path, err)
			}
			return
		}
	}
}

func TestPagesAreWellFormedAndAccessible(t *testing.T) {
	rig := newRig(t, func(r *rig, _ *Options) { r.files["meta.json"] = "{}" })
	b := rig.signIn(t)
	for _, path := range allPages {
		page := b.do("GET", path, nil)
		if page.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			continue
		}
		checkMarkup(t, path, page.text)
		for _, want := range []string{`<html lang="en">`, `<a class="skip" href="#main">`, `<nav aria-label="Dashboard"`, `<main id="main"`,
			`name="viewport"`, `<h1>`} {
			if strings.Count(page.text, want) != 1 {
				t.Errorf("%s has %d of %s", path, strings.Count(page.text, want), want)
			}
		}
		if tables := strings.Count(page.text, "<table"); tables != strings.Count(page.text, "<caption") {
			t.Errorf("%s: a table has no caption", path)
		}
		for _, button := range regexp.MustCompile(`(?s)<button[^>]*>.*?</button>`).FindAllString(page.text, -1) {
			if !strings.Contains(button, "aria-label=") && regexp.MustCompile(`(?s)<[^>]*>`).ReplaceAllString(button, "") == "" {
				t.Errorf("%s: a button has no name: %s", path, button)
			}
		}
	}
}

func TestCallsAreFilteredAndPaged(t *testing.T) {
	rig := newRig(t)
	b := rig.signIn(t)
	first := b.get("/dashboard/calls")
	if n := strings.Count(first, `<tr id="call-`); n != pageRows {
		t.Errorf("%d rows", n)
	}
	older := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(first)
	if older == nil {
		t.Fatal("there is no next page")
	}
	second := b.get(older[1])
	if strings.Contains(second, rig.calls[pageRows-1].ID) || !strings.Contains(second, rig.calls[pageRows].ID) {
		t.Error("the next page does not follow the first")
	}
	failed := b.get("/dashboard/calls?errors=true&since=24h")
	if strings.Contains(failed, `class="pill ok"`) || !strings.Contains(failed, `class="pill bad">429`) || !strings.Contains(failed, `checked`) ||
		!strings.Contains(failed, `<option value="24h" selected>`) {
		t.Error("errors are not filtered")
	}
	if none := b.get("/dashboard/calls?model=nothing"); !strings.Contains(none, "No call matches") {
		t.Error("an empty list says nothing")
	}
	if answer := b.do("GET", "/dashboard/calls?since=yesterday", nil); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong time: %s", answer.Status)
	}
}

// Failures that follow each other and are the same are one row, with the rest behind it.
func TestRepeatedFailuresAreOneRow(t *testing.T) {
	rig := newRig(t, func(r *rig, _ *Options) {
		r.calls = r.calls[:9]
		for i := range r.calls {
			c := &r.calls[i]
			c.Client, c.Model, c.Outcome, c.Class, c.ClientStatus = perigee.Client{Name: "codex"}, "gemini-3-pro", perigee.OutcomeFailed, perigee.ClassInvalid, 400
		}
		r.calls[6].Class, r.calls[6].ClientStatus = perigee.ClassExhausted, 429
		r.calls[7].Outcome, r.calls[7].Class, r.calls[7].ClientStatus = perigee.OutcomeDone, "", 200
		r.calls[8].Outcome, r.calls[8].Class, r.calls[8].ClientStatus = perigee.OutcomeDone, "", 200
	})
	page := rig.signIn(t).get("/dashboard/calls")
	bodies := strings.Split(page, "<tbody")[1:]
	var rows []int
	for _, body := range bodies {
		rows = append(rows, strings.Count(body, `<tr id="call-`))
	}
	if !slices.Equal(rows, []int{6, 1, 1, 1}) {
		t.Errorf("the parts of the table have %d rows", rows)
	}
	for _, want := range []string{`<small class="bad">invalid ×6</small>`, "<summary>5 more since 14:19:19</summary>"} {
		if strings.Count(bodies[0], want) != 1 {
			t.Errorf("not one %q in %s", want, bodies[0])
		}
	}
	checkMarkup(t, "calls", page)
}

func TestTheStoryOfACall(t *testing.T) {
	rig := newRig(t, func(r *rig, _ *Options) {
		r.files = map[string]string{
			"client_request.json": `{"contents":[{"role":"user","parts":[{"text":"the question"},{"inlineData":{"data":"AAAA"}}]},{"parts":[{"functionCall":{"name":"look","args":{"at":"stars"}}}]}],
				"tools":[{"functionDeclarations":[{"name":"look"}]}]}`,
			"events.jsonl":              `{"ms":5,"kind":"text","text":"the "}` + "\n" + `{"ms":9,"kind":"text","text":"answer"}` + "\nbroken\n" + `{"ms":12,"kind":"text","text":"."}`,
			"upstream_response.77.json": strings.Repeat("x", 2<<20),
			"meta.json":                 `{"replay_of":"01OTHER","tries":[{"status":429,"started_ms":1,"first_byte_ms":20},{"status":200,"started_ms":21,"first_byte_ms":80}]}`,
		}
	})
	b := rig.signIn(t)
	failed := rig.calls[1]
	page := b.get("/dashboard/calls/" + failed.ID)
	for _, want := range []string{failed.Error, "Wait for the reset", "perigee quota", "the question", "[inlineData]", "→ look {&#34;at&#34;:&#34;stars&#34;}", "the answer.",
		"01OTHER", "RESOURCE_EXHAUSTED", "dropped logprobs", "events.jsonl", "Send again", "<polyline", "perigee trace show " + failed.ID} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if _, was := filesRead.Load("upstream_response.77.json"); was || !strings.Contains(page, "2.0 MiB") && !strings.Contains(page, "2 MiB") {
		t.Errorf("a file is read for its size: %v", was)
	}
	if got := b.do("GET", "/dashboard/calls/"+failed.ID+"/files/events.jsonl", nil); !strings.HasPrefix(got.text, `{"ms":5`) {
		t.Errorf("the file: %s", got.text)
	}
	if got := b.do("GET", "/dashboard/calls/"+failed.ID+"/files/"+url.PathEscape("../../secret"), nil); got.StatusCode != http.StatusNotFound {
		t.Errorf("another file: %s", got.Status)
	}
	var audited []string
	for _, e := range rig.audited {
		if e.Action == perigee.AuditTraceRead {
			audited = append(audited, e.Object+" "+e.Detail)
		}
	}
	if strings.Join(audited, "; ") != failed.ID+" ; "+failed.ID+" events.jsonl" {
		t.Errorf("audited %q", audited)
	}
}

// Client and key stand under the title, where a long name is cut and has its whole text as a title, and not among the numbers.
func TestLongNamesOnThePageOfACall(t *testing.T) {
	key, account := strings.Repeat("key-of-the-build-", 4), strings.Repeat("ada.lovelace.", 5)+"@example.com"
	rig := newRig(t, func(r *rig, _ *Options) {
		r.calls[0].Client.Key, r.calls[0].Upstream, r.calls[0].Account = key, "studio", account
	})
	page := rig.signIn(t).get("/dashboard/calls/" + rig.calls[0].ID)
	for _, want := range []string{`<p class="from" id="from"><span title="claude-cli 2.1.0">claude-cli 2.1.0</span><span title="key ` + key + `">`, `<dd class="words" title="studio ` + account + `">`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	_, facts, _ := strings.Cut(page, `id="facts"`)
	if facts, _, _ = strings.Cut(facts, "</dl>"); facts == "" || strings.Contains(facts, "claude-cli") || strings.Contains(facts, key) {
		t.Errorf("among the numbers: %s", facts)
	}
}

// The story of an answer that broke off says so once, and does not say that there was no answer.
func TestTheStoryOfACallThatBrokeOff(t *testing.T) {
	const said = "the provider closed the connection in the middle"
	rig := newRig(t, func(r *rig, _ *Options) {
		c := &r.calls[0]
		c.Outcome, c.Class, c.Error, c.FirstByte, c.Duration = perigee.OutcomeCutOff, perigee.ClassUnavailable, said, time.Second, 3*time.Second
		c.Upstream, c.Account = "antigravity", "ada@example.com"
		c.Attempts = []perigee.Attempt{
			{Upstream: "studio", Class: perigee.ClassRateLimited, Error: "slow down", Took: 100 * time.Millisecond},
			{Upstream: "antigravity", Account: "ada@example.com", Class: perigee.ClassUnavailable, Error: said, Took: 2 * time.Second},
		}
	})
	page := rig.signIn(t).get("/dashboard/calls/" + rig.calls[0].ID)
	for text, count := range map[string]int{said: 1, "antigravity ada@example.com broke off": 1, "antigravity ada@example.com did not answer": 0,
		"studio did not answer": 1, "First byte from antigravity": 1} {
		if n := strings.Count(page, text); n != count {
			t.Errorf("%q is there %d times, want %d", text, n, count)
		}
	}
}

// Every page says how many calls are open, and a warning about a call leads to it.
func TestOpenCallsAndWarningsOnOtherPages(t *testing.T) {
	rig := newRig(t, func(r *rig, o *Options) {
		o.Warnings = func() []Warning {
			return []Warning{{Time: rigNow, Level: "WARN", Text: "call failed, invalid", Call: r.calls[0].ID}}
		}
	})
	b := rig.signIn(t)
	if page := b.get("/dashboard/system"); strings.Contains(page, "badge") || !strings.Contains(page, "<title>System") ||
		!strings.Contains(page, `<a href="/dashboard/calls/`+rig.calls[0].ID+`">call failed, invalid</a>`) {
		t.Error(page)
	}
	rig.hub.Watch(&rig.calls[0], nil)
	if page := b.get("/dashboard/system"); !strings.Contains(page, `loaded">1</span>`) || !strings.Contains(page, "<title>(1) System") {
		t.Error(page)
	}
}

// The numbers of the day begin at midnight in the zone of the daemon, and say so.
func TestTodayNamesItsMidnight(t *testing.T) {
	for _, test := range []struct {
		zone        *time.Location
		want, since string
	}{
		{time.UTC, "since midnight, UTC", "2026-11-16T00:00:00Z"},
		{time.FixedZone("NZDT", 13*3600), "since midnight, NZDT", "2026-11-16T11:00:00Z"},
		{time.FixedZone("+0530", 5*3600+1800), "since midnight, UTC+05:30", "2026-11-15T18:30:00Z"},
	} {
		usage := &usageSince{}
		rig := newRig(t, func(r *rig, o *Options) { usage.UsageReader, o.Usage, o.Zone = r, usage, test.zone })
		if page := rig.signIn(t).get("/"); !strings.Contains(page, test.want) || !strings.Contains(page, "Last 14 days, UTC") {
			t.Errorf("no %q in %s", test.want, page)
		}
		if got := usage.since.Load().UTC().Format(time.RFC3339); got != test.since {
			t.Errorf("%s: the day begins at %s", test.want, got)
		}
	}
}

// A usageSince keeps since when usage by model was asked for.
type usageSince struct {
	perigee.UsageReader
	since atomic.Pointer[time.Time]
}

func (u *usageSince) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	if q.By == perigee.ByModel {
		u.since.Store(&q.Since)
	}
	return u.UsageReader.Usage(ctx, q)
}

// The last day is drawn by hour.
func TestUsageOfTheLastHours(t *testing.T) {
	rig := newRig(t)
	page := rig.signIn(t).get("/dashboard/usage")
	for _, want := range []string{"Last 24 hours", "Calls by hour", "Time to first byte", "First byte, median", `class="s-done"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
}

// The page of an upstream has its last hour, its errors with the newest call of each class, its keys and its models.
func TestUpstreamPages(t *testing.T) {
	rig := newRig(t)
	b := rig.signIn(t)
	list := b.get("/dashboard/upstreams")
	for _, want := range []string{`<a href="/dashboard/upstreams/studio">studio</a><small>gemini</small>`, "gemini-3-pro: its quota is used up, back in 1 min",
		`<span class="tone bad">no account is signed in</span>`, `<span class="tone ok">ready</span>`} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in %s", want, list)
		}
	}
	page := b.get("/dashboard/upstreams/antigravity")
	for _, want := range []string{"<h1>antigravity</h1>", "Time to first byte", "Total time", `<td class="c-num bad">33</td>`,
		"RESOURCE_EXHAUSTED: quota of 5 hours used up", "/dashboard/calls/" + rig.calls[1].ID, "claude-sonnet-4-6"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if answer := b.do("GET", "/dashboard/upstreams/nosuch", nil); answer.StatusCode != http.StatusNotFound || !strings.Contains(answer.text, "no upstream nosuch") {
		t.Errorf("%s %s", answer.Status, answer.text)
	}
	if page := b.get("/dashboard/upstreams/headless"); !strings.Contains(page, "None in the last hour") || !strings.Contains(page, "no account is signed in") {
		t.Errorf("got %s", page)
	}
}

// The page of models names the upstream that would answer, and why.
func TestModelsPageNamesTheAnswer(t *testing.T) {
	page := newRig(t).signIn(t).get("/dashboard/models")
	for model, want := range map[string]string{
		"gemini-3-flash":       `<a href="/dashboard/upstreams/studio">studio</a><small>models.routes sends * to studio; headless: no account is signed in; then antigravity</small>`,
		"gemini-embedding-001": `<span class="none">none</span><small>headless: no account is signed in</small>`,
		"claude-sonnet-4-6":    `<span class="none">none</span><small>the routing is being replaced</small>`,
	} {
		_, row, _ := strings.Cut(page, "<code>"+model+"</code>")
		if row, _, _ = strings.Cut(row, "</tr>"); !strings.Contains(row, want) {
			t.Errorf("%s: got %s", model, row)
		}
	}
}

// Calls of trace replay and trace shrink are listed if they are asked for, and their page says why they have no trace.
func TestReplaysAreLeftOut(t *testing.T) {
	rig := newRig(t, func(r *rig, o *Options) {
		r.calls[1].ReplayOf = r.calls[0].ID
		o.Trace = func(string) (Trace, error) { return nil, perigee.Errorf(perigee.ClassNotFound, "there is none") }
	})
	b := rig.signIn(t)
	for path, listed := range map[string]bool{"/": false, "/dashboard/calls": false, "/dashboard/calls?replays=true": true} {
		if strings.Contains(b.get(path), "/dashboard/calls/"+rig.calls[1].ID) != listed {
			t.Errorf("%s: the trial is listed, or is not", path)
		}
	}
	page := b.get("/dashboard/calls/" + rig.calls[1].ID)
	for _, want := range []string{"This call repeats", rig.calls[0].ID, "has no trace"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if strings.Contains(page, "traces.keep") {
		t.Error("the page names a reason that is none")
	}
}

func TestReplaying(t *testing.T) {
	rig := newRig(t, func(r *rig, _ *Options) { r.files["meta.json"] = "{}" })
	b := rig.signIn(t)
	form := url.Values{"token": {b.token()}}
	answer := b.do("POST", "/dashboard/calls/"+rig.calls[5].ID+"/replay", form)
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/dashboard/calls/"+rig.calls[0].ID || len(rig.replayed) != 1 {
		t.Errorf("%s %v", answer.Status, answer.Header)
	}
	if page := b.get(answer.Header.Get("Location")); !strings.Contains(page, "The call was sent again.") {
		t.Error("the page does not say so")
	}
	if answer = b.do("POST", "/dashboard/calls/"+failingReplay+"/replay", form); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("%s", answer.Status)
	}
	if page := b.get(answer.Header.Get("Location")); !strings.Contains(page, "the upstream is gone") {
		t.Error("the page does not say why it was not sent")
	}
	if answer := b.do("POST", "/dashboard/calls/unknown/replay", form); answer.StatusCode != http.StatusNotFound {
		t.Errorf("%s", answer.Status)
	}
}

// The page of a call that failed with API keys does not speak of accounts, or of an answer. The request of one that is no JSON cannot
// be shrunk.
func TestPagesOfFailedCalls(t *testing.T) {
	rig := newRig(t, func(r *rig, o *Options) {
		r.files["meta.json"], r.files["client_request.json"] = "{}", `{"contents":[`
		r.calls[10].Error = "the provider has limited its API key"
		malformed := &r.calls[1]
		malformed.Class, malformed.ClientStatus, malformed.Error = perigee.ClassInvalid, 400, "not JSON"
	})
	b := rig.signIn(t)
	page := b.get("/dashboard/calls/" + rig.calls[10].ID)
	for _, want := range []string{"<dt>Asked last</dt>", "The quota of the API keys or accounts of the upstream", "perigee explain gpt-4o"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, wrong := range []string{"Answered by", "every usable account"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page has %q", wrong)
		}
	}
	if page := b.get("/dashboard/calls/" + rig.calls[0].ID); !strings.Contains(page, "<dt>Answered by</dt>") {
		t.Error("the page of a call that was answered does not say by what")
	}
	if page := b.get("/dashboard/calls/" + rig.calls[1].ID); !strings.Contains(page, "Compare the request") || strings.Contains(page, "hrink") {
		t.Error("a malformed request is offered for shrinking")
	}
}

// A search for the smallest request is begun at once, is followed by a page that is loaded again, and ends with the request.
func TestShrinking(t *testing.T) {
	const secret = "canary-secret"
	told, proceed := make(chan bool, 1), make(chan error)
	rig := newRig(t, func(r *rig, o *Options) {
		r.files["meta.json"], r.files["client_request.json"] = "{}", "{}"
		r.calls[1].Class = perigee.ClassInvalid
		o.Redact = func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
		o.Shrink = func(ctx context.Context, id string, progress func(replay.Progress)) (*replay.Shrunk, error) {
			progress(replay.Progress{Calls: 7, Bytes: 2048})
			told <- perigee.ActorOf(ctx).Kind == perigee.ActorCookie && id == r.calls[1].ID
			select {
			case err := <-proceed:
				return &replay.Shrunk{Calls: 31, Before: 200_000, Bytes: 212, Whole: true, Request: `{"model":"` + secret + `"}`}, err
			case <-t.Context().Done():
				return nil, t.Context().Err()
			}
		}
	})
	b := rig.signIn(t)
	call := "/dashboard/calls/" + rig.calls[1].ID
	if page := b.get(call); !strings.Contains(page, `action="`+call+`/shrink"`) || !strings.Contains(page, "perigee trace shrink "+rig.calls[1].ID) {
		t.Error("a failed call has no form for it")
	}
	if page := b.get("/dashboard/calls/" + rig.calls[0].ID); strings.Contains(page, "shrink") {
		t.Error("a call that was answered has one")
	}
	if answer := b.do("GET", call+"/shrink", nil); answer.Header.Get("Location") != call {
		t.Errorf("before a search: %s %v", answer.Status, answer.Header)
	}
	form := url.Values{"token": {b.token()}}
	if answer := b.do("POST", call+"/shrink", url.Values{"token": {"wrong"}}); answer.StatusCode != http.StatusForbidden {
		t.Errorf("with a wrong token: %s", answer.Status)
	}
	for range 2 { // the second form finds the search of the first
		if answer := b.do("POST", call+"/shrink", form); answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != call+"/shrink" {
			t.Errorf("%s %v", answer.Status, answer.Header)
		}
	}
	if !await.Receive(t, told, "the search") {
		t.Error("the search is for another call, or has no actor")
	}
	const again = `<meta http-equiv="refresh" content="2">`
	if page := b.get(call + "/shrink"); !strings.Contains(page, "7 calls so far") || !strings.Contains(page, "2.0 KiB") || !strings.Contains(page, again) {
		t.Errorf("while it searches: %s", page)
	}
	if page := b.get(call); !strings.Contains(page, "is being looked for") {
		t.Error("the page of the call does not say that it searches")
	}
	if answer := b.do("POST", "/dashboard/calls/"+rig.calls[10].ID+"/shrink", form); answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(answer.text, "is being shrunk") {
		t.Errorf("a second search: %s", answer.Status)
	}
	await.Send(t, proceed, nil, "the end of the search")
	await.Until(t, "the result", func() bool { return !strings.Contains(b.get(call+"/shrink"), again) })
	page := b.get(call + "/shrink")
	for _, want := range []string{"<dd>200,000<small>bytes", "<dd>212<small>bytes", "<dd>31<small>nothing more", "{&#34;model&#34;:&#34;[redacted]&#34;}", "Shrink again"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	checkMarkup(t, "the result", page)

	b.do("POST", call+"/shrink", form)
	await.Receive(t, told, "the next search")
	await.Send(t, proceed, error(perigee.Errorf(perigee.ClassUnavailable, "it does not fail any more").WithHint("look again")), "its end")
	await.Until(t, "the reason", func() bool { return strings.Contains(b.get(call+"/shrink"), "it does not fail any more") })
}

// The page of a replay follows it until it has ended.
func TestAReplayIsFollowed(t *testing.T) {
	rig := newRig(t, func(r *rig, _ *Options) { r.calls[0].ReplayOf, r.calls[0].Outcome = r.calls[1].ID, perigee.OutcomeOpen })
	b := rig.signIn(t)
	if page := b.get("/dashboard/calls/" + rig.calls[0].ID); !strings.Contains(page, `http-equiv="refresh"`) || !strings.Contains(page, "This replay is running") {
		t.Error(page)
	}
	b.get("/dashboard/calls/" + rig.calls[0].ID) // as the browser does
	reads := func() (n int) {
		for _, e := range rig.audited {
			if e.Action == perigee.AuditTraceRead {
				n++
			}
		}
		return n
	}
	rig.mu.Lock()
	if n := reads(); n != 1 {
		t.Errorf("a page that loads itself was read %d times", n)
	}
	rig.calls[0].Outcome = perigee.OutcomeDone
	rig.mu.Unlock()
	if page := b.get("/dashboard/calls/" + rig.calls[0].ID); strings.Contains(page, `http-equiv="refresh"`) || strings.Contains(page, "is running") {
		t.Error("the page of a replay that has ended is loaded again")
	}
	rig.mu.Lock()
	defer rig.mu.Unlock()
	if n := reads(); n != 2 {
		t.Errorf("the whole page was not read: %d", n)
	}
}

func TestAccountsAreChanged(t *testing.T) {
	rig := newRig(t)
	b := rig.signIn(t)
	form := url.Values{"token": {b.token()}, "upstream": {"antigravity"}}
	for _, test := range []struct{ act, want string }{{"disable", "is disabled"}, {"enable", "is enabled"}, {"use", "is used first"}} {
		answer := b.do("POST", "/dashboard/accounts/grace%40example.com/"+test.act, form)
		if page := b.get("/dashboard/accounts"); answer.StatusCode != http.StatusSeeOther || !strings.Contains(page, "grace@example.com "+test.want) {
			t.Errorf("%s: %s", test.act, answer.Status)
		}
	}
	if row := rig.accounts[1]; !row.Enabled || !row.Preferred || row.Cooldowns != nil {
		t.Errorf("got %+v", row)
	}
	for path, want := range map[string]int{"/dashboard/accounts/nobody@example.com/use": 404, "/dashboard/accounts/grace@example.com/remove": 404} {
		if answer := b.do("POST", path, form); answer.StatusCode != want {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	page := b.get("/dashboard/accounts")
	for _, want := range []string{"Google asks the owner to verify", "runs out at", "31% left", ">2 h</time>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// Each client has its commands, and what can be set by hand for the address of the browser.
func TestClientsAreSetUp(t *testing.T) {
	rig := newRig(t)
	page := rig.signIn(t).get("/dashboard/setup")
	for _, want := range []string{"perigee run claude-code", "perigee connect codex", "perigee run copilot-cli", "ANTHROPIC_BASE_URL", rig.server.URL + "/v1",
		"YOUR_KEY", "~/.gemini/.env", `id="client-vscode"`, `id="client-zed"`, `id="client-aider"`, "<code>laptop</code>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, c := range Clients("http://127.0.0.1:8741", false) {
		for _, s := range c.Settings {
			if strings.Contains(s.Value, keyPlaceholder) || !strings.Contains(s.Value, "127.0.0.1:8741") && s.Name == "Settings" {
				t.Errorf("%s: %s", c.Name, s.Value)
			}
		}
	}
}

// Clients on this machine come first, with whether they use perigee.
func TestClientsOnThisMachineComeFirst(t *testing.T) {
	rig := newRig(t, func(_ *rig, o *Options) {
		o.ClientStates = func(string) map[string]connect.Status {
			return map[string]connect.Status{"zed": {State: connect.NotConnected, Installed: true}, "codex": {State: connect.Connected, Installed: true},
				"aider": {State: connect.Changed}, "claude-code": {State: connect.NotInstalled}, "copilot-cli": {State: connect.NotConnected, Installed: true}}
		}
	})
	page := rig.signIn(t).get("/dashboard/setup")
	here, others, ok := strings.Cut(page, "Other clients")
	if !ok || !strings.Contains(here, "On the machine where perigee runs") {
		t.Fatal(page)
	}
	for _, want := range []string{`<h3>Codex <span class="pill ok">connected</span>`, `<h3>Zed <span class="pill ">not connected</span>`,
		`<h3>Aider <span class="pill warn">settings changed</span>`, `<h3>GitHub Copilot CLI <span class="pill ">installed</span>`} {
		if !strings.Contains(here, want) {
			t.Errorf("no %q among the first", want)
		}
	}
	if !strings.Contains(others, `id="client-claude-code"`) || strings.Contains(others, `class="pill`) || strings.Index(here, "client-codex") > strings.Index(here, "client-zed") {
		t.Error("another client has a state, or the order of the table is lost")
	}
	checkMarkup(t, "set up", page)
}

// What is on this machine is seen in PATH and in the settings of the user.
func TestClientStates(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE"} {
		t.Setenv(name, home)
	}
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "PATH"} {
		t.Setenv(name, "")
	}
	const base = "http://127.0.0.1:8741"
	dir := filepath.Join(home, ".claude")
	if err := errors.Join(os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "settings.json"), []byte(`{"env":{"ANTHROPIC_BASE_URL":"`+base+`"}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	states := ClientStates(func() string { return home })(base)
	if states["claude-code"].State != connect.Connected || states["codex"].State != connect.NotInstalled {
		t.Errorf("%+v", states)
	}
	if states := ClientStates(func() string { return home })("http://127.0.0.1:1"); states["claude-code"].State != connect.NotInstalled {
		t.Errorf("with another address: %+v", states["claude-code"])
	}
}

// Secrets are replaced in all texts, and are never in the configuration.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "canary-secret+value/1=="
	rig := newRig(t, func(r *rig, o *Options) {
		o.Redact = func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
		c := &r.calls[0]
		c.Error, c.ModelAsked, c.Client.Name, c.Client.Session, c.Notes = "no "+secret, secret, secret, secret, []string{secret}
		c.Class, c.Outcome = perigee.ClassInvalid, perigee.OutcomeFailed
		c.Attempts = []perigee.Attempt{{Error: secret, Why: secret}}
		r.accounts[0].Reason, r.accounts[1].Cooldowns[0].Reason = secret, secret
		r.files = map[string]string{"client_request.json": `{"messages":[{"role":"` + secret + `","content":"` + secret + `"}],"tools":[{"name":"` + secret + `"}]}`,
			"events.jsonl": `{"kind":"text","text":"canary-sec"}` + "\n" + `{"kind":"text","text":"ret+value/1=="}`, "x.txt": secret}
		o.Warnings = func() []Warning { return []Warning{{Time: rigNow, Level: "WARN", Text: secret}} }
		o.Unready = func() []string { return []string{secret} }
	})
	w := rig.hub.Watch(&rig.calls[0], nil)
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: "it is " + secret})
	b := rig.signIn(t)
	for _, path := range append(allPages, "/dashboard/calls/"+rig.calls[0].ID, "/dashboard/calls/"+rig.calls[0].ID+"/files/x.txt") {
		page := b.do("GET", path, nil).text
		for _, bad := range []string{"canary-secret", "client-secret-value", "gemini-secret-value", b.cookie.Value} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	if page := b.get("/dashboard/config"); !strings.Contains(page, "[env:GEMINI_API_KEY]") || !strings.Contains(page, "perigee.yaml:") {
		t.Error("the configuration has no origins")
	}
}

type withoutModels struct{ *rig }

func (withoutModels) Models(context.Context, string, bool) (perigee.ModelList, error) {
	return perigee.ModelList{}, nil
}

func TestEmptyPagesSayWhatToDo(t *testing.T) {
	rig := newRig(t, func(r *rig, o *Options) {
		r.calls, r.accounts = nil, nil
		o.Control = func() perigee.Control {
			return perigee.Control{AccountControl: r, RoutingControl: withoutModels{r}, QuotaControl: r}
		}
		o.Langservers = func() []perigee.LangserverRow { return nil }
		o.Windows = func(context.Context) ([]Window, error) { return nil, nil }
		o.Warnings = func() []Warning { return nil }
		o.Clients = func(string, bool) []Client { return nil }
	})
	b := rig.signIn(t)
	for path, want := range map[string]string{"/": "perigee run claude-code", "/dashboard/calls": "No call yet", "/dashboard/accounts": "perigee login",
		"/dashboard/usage": "Nothing was used", "/dashboard/models": "No upstream has said", "/dashboard/setup": "perigee connect", "/dashboard/system": "No warning since the start"} {
		if page := b.get(path); !strings.Contains(page, want) {
			t.Errorf("%s: no %q in\n%s", path, want, page)
		}
	}
}

// What is not known of a model is a dash, also whether it thinks.
func TestModelsPageDoesNotDenyThinking(t *testing.T) {
	page := newRig(t, func(*rig, *Options) {}).signIn(t).get("/dashboard/models")
	_, row, _ := strings.Cut(page, "<code>gemini-embedding-001</code>")
	if row, _, _ = strings.Cut(row, "</tr>"); strings.Count(row, "–") != 3 {
		t.Errorf("got %s", row)
	}
}

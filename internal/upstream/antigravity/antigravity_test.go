package antigravity

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/simulator"
)

const hello = "start gravity ada@example.com; text hello; finish STOP"

// Errors of the provider, what the caller gets, and which accounts were asked.
func TestTrouble(t *testing.T) {
	stream := func(do string, more ...func(*simulator.Fault)) simulator.Fault {
		f := simulator.Fault{When: simulator.When{Path: "streamGenerateContent"}, Do: do}
		for _, m := range more {
			m(&f)
		}
		return f
	}
	times := func(n int) func(*simulator.Fault) { return func(f *simulator.Fault) { f.Times = n } }
	at := func(host string) func(*simulator.Fault) { return func(f *simulator.Fault) { f.When.Host = host } }
	after := func(n int) func(*simulator.Fault) { return func(f *simulator.Fault) { f.AfterChunks = n } }
	for _, c := range []struct {
		name  string
		fault simulator.Fault
		heard string
		asked string // empty means the provider may still be writing when the caller has heard enough
	}{
		{"trap 15: 404 goes to the next host", stream("not_found", at("daily")), hello, "daily 404, autopush 200"},
		{"a generic 403 goes to the next host", stream("forbidden", at("daily")), hello, "daily 403, autopush 200"},
		{"500 goes to the next host", stream("internal_500", at("daily")), hello, "daily 500, autopush 200"},
		{"503 goes to the next host", stream("capacity", at("daily")), hello, "daily 503, autopush 200"},
		{"a reset goes to the next host", stream("reset", at("daily")), hello, "daily 0, autopush 200"},
		{"an array around an error", stream("array_error", at("daily")), hello, "daily 500, autopush 200"},
		{"HTML", stream("bad_gateway_html", at("daily")), hello, "daily 502, autopush 200"},
		{"trap 71: capacity everywhere", stream("capacity"), "error capacity: the provider has no capacity for this model at the moment", "daily 503, autopush 503, prod 503"},
		{"429 stays on its host", stream("rate_limit", times(1)), "error rate_limited: the account made too many calls in a short time", "daily 429"},
		{"quota stays on its host", stream("quota_exhausted"), "error exhausted: the account has used up its quota for this model", "daily 429"},
		{"trap 79: validation is the account's", stream("validation_required"), "error verification_required: the provider requires the owner of this account to verify it", "daily 403"},
		{"a ban is the account's", stream("banned"), "error forbidden: the provider has disabled this account", "daily 403"},
		{"trap 60: 401 twice", stream("unauthorized"), "error unauthenticated: the provider does not accept the access token of this account", "daily 401, daily 401"},
		{"401 once", stream("unauthorized", times(1)), hello, "daily 401, daily 200"},
		{"an error as the first chunk", stream("error_mid_stream", times(1)), hello, ""},
		{"an error after the first chunk", stream("error_mid_stream", after(1)), "start gravity ada@example.com; text he; error unavailable: the provider is unavailable", ""},
		{"a reset after the first chunk", stream("reset", after(1)), "start gravity ada@example.com; text he; error unavailable: upstream gravity cannot be reached or broke off", ""},
		{"no finish", stream("no_finish"), "start gravity ada@example.com; text hello; error unavailable: upstream gravity", ""},
		{"trap 59: a missing newline", stream("missing_newline"), hello, "daily 200"},
		{"trap 66: late usage", stream("late_usage"), hello, "daily 200"},
		{"a chunk that is not JSON", stream("invalid_json_chunk", times(1)), hello, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil, c.fault)
			if heard := r.hear(prompt(t, "gemini-3-flash", user("[[text: hello]] [[chunks: 2]]"))); heard != c.heard {
				t.Errorf("heard %s\n want %s", heard, c.heard)
			}
			if asked := strings.Join(r.asked(), ", "); c.asked != "" && asked != c.asked {
				t.Errorf("asked %s\n want %s", asked, c.asked)
			}
		})
	}
}

// Trap 64: an answer without anything in it is asked for once more.
func TestEmptyAnswersAreAskedForAgain(t *testing.T) {
	fault := simulator.Fault{When: simulator.When{Path: "streamGenerateContent"}, Do: "empty_200"}
	fault.Times = 1
	r := newRig(t, nil, fault)
	req := prompt(t, "gemini-3-flash", user("[[text: hello]]"))
	req.Log = &perigee.CallLog{}
	if heard := r.hear(req); heard != hello {
		t.Errorf("heard %s", heard)
	}
	if steps := req.Log.Attempts(); len(steps) != 2 || steps[0].Class != perigee.ClassUnavailable || steps[1].Class != "" {
		t.Errorf("on record are %+v", steps)
	}
	fault.Times = 0
	r = newRig(t, nil, fault)
	heard := r.hear(prompt(t, "gemini-3-flash", user("[[text: hello]]")))
	if heard != "error unavailable: the provider sent an answer without anything in it" || len(r.asked()) != 2 {
		t.Errorf("heard %s, asked %v", heard, r.asked())
	}
}

// Trap 64: a stream that opens and never says anything is given up, and the next host asked.
func TestSilentHostIsLeft(t *testing.T) {
	r := newRig(t, func(o *Options) { o.FirstByte = 50 * time.Millisecond },
		simulator.Fault{When: simulator.When{Path: "streamGenerateContent", Host: "daily"}, Do: "hang_after_headers"})
	if heard := r.hear(prompt(t, "gemini-3-flash", user("[[text: hello]]"))); heard != hello {
		t.Errorf("heard %s", heard)
	}
}

func TestLeavingEndsTheCall(t *testing.T) {
	r := newRig(t, nil, simulator.Fault{When: simulator.When{Path: "streamGenerateContent"}, Do: "slow"})
	for range r.Stream(t.Context(), prompt(t, "gemini-3-flash", user("[[text: a b c d e f g]] [[chunks: 7]]"))) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for ev, err := range r.Stream(ctx, prompt(t, "gemini-3-flash", user("[[text: a b c d e f g]] [[chunks: 7]]"))) {
		if ev.Kind == perigee.EventText {
			cancel()
		}
		last = err
	}
	if perigee.AsError(last).Class != perigee.ClassCanceled {
		t.Errorf("got %v", last)
	}
}

// A client of the provider's own dialect gets the provider's chunks, without the envelope.
func TestFramesForGeminiClients(t *testing.T) {
	r := newRig(t, nil)
	req, err := dialect.DecodeRequest(perigee.Origin{ID: "c", Dialect: perigee.DialectGemini, Body: []byte(user("[[text: hello]] [[chunks: 1]]"))}, "gemini-3-flash", true)
	if err != nil {
		t.Fatal(err)
	}
	heard := r.hear(req)
	if !strings.HasPrefix(heard, `start gravity ada@example.com; frame {"candidates":[{"content":{"parts":[{"text":"hello"`) || strings.Contains(heard, "traceId") || !strings.HasSuffix(heard, "; text hello; finish STOP") {
		t.Errorf("heard %s", heard)
	}
}

func TestThoughtsThatRepeatThemselves(t *testing.T) {
	r := newRig(t, nil, simulator.Fault{When: simulator.When{Path: "streamGenerateContent"}, Do: "cumulative_thoughts"})
	const plan = "first look at the file and then change the third line of it before the tests run again"
	heard := r.hear(prompt(t, "gemini-3-flash", `{"contents":[{"role":"user","parts":[{"text":"[[think: `+plan+`]] [[text: done]]"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"low"}}}`))
	if !strings.Contains(heard, "thinking "+plan+";") {
		t.Errorf("heard %s", heard)
	}
}

// Nothing but what the gateway wants to know leaves the house, trap 19; and equal conversations
// give equal bytes, trap 46.
func TestHeadersAndEnvelope(t *testing.T) {
	var headers []http.Header
	var bodies []string
	r := newRig(t, func(o *Options) {
		next := o.Transport
		o.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			headers = append(headers, req.Header.Clone())
			return refusing(next, func(body string) string { bodies = append(bodies, body); return "" }).RoundTrip(req)
		})
	})
	for range 2 {
		heard := r.hear(prompt(t, "claude-opus-4-6-thinking", user("a<b & \"c\" [[text: hello]]")))
		if !strings.HasPrefix(heard, "added thinking; start") || !strings.HasSuffix(heard, "text hello; finish STOP") {
			t.Fatalf("heard %s", heard)
		}
	}
	for name := range headers[0] {
		switch name {
		case "Authorization", "Content-Type", "User-Agent", "Accept":
		default:
			t.Errorf("header %s is sent", name)
		}
	}
	if ua := headers[0].Get("User-Agent"); !strings.HasPrefix(ua, "antigravity/2.9.1 ") || !strings.HasSuffix(ua, " perigee/test") {
		t.Errorf("User-Agent %s", ua)
	}
	if bodies[0] != bodies[1] {
		t.Errorf("the same question in other bytes:\n%s\n%s", bodies[0], bodies[1])
	}
	want := `{"project":"sim-project-ada","model":"claude-opus-4-6-thinking","userAgent":"antigravity","requestType":"agent","requestId":"agent-`
	if !strings.HasPrefix(bodies[0], want) || !strings.Contains(bodies[0], `a\u003cb \u0026 \"c\"`) || !strings.Contains(bodies[0], `"sessionId":"-`) {
		t.Errorf("body %s", bodies[0])
	}
}

func TestModels(t *testing.T) {
	r := newRig(t, nil)
	list, err := r.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]perigee.Model{}
	for _, m := range list {
		found[m.ID] = m
	}
	if m := found["claude-opus-4-6-thinking"]; m.Upstream != "gravity" || m.Context == 0 || m.Output == 0 || !m.Thinking {
		t.Errorf("got %+v", m)
	}
	for id := range found {
		if hidden(id) {
			t.Errorf("%s is listed", id)
		}
	}
}

// Trap 31: counting takes neither model nor project nor settings, so only its own models are
// counted with their own tokenizer.
func TestCountTokens(t *testing.T) {
	r := newRig(t, nil)
	for model, estimate := range map[string]bool{"claude-opus-4-6-thinking": true, "gpt-oss-120b-medium": true, "gemini-3-flash": false, "gemini-2.5-flash": false} {
		count, err := r.CountTokens(t.Context(), prompt(t, model,
			`{"contents":[{"role":"user","parts":[{"text":"one two three"}]}],"systemInstruction":{"parts":[{"text":"be brief"}]},"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","minLength":2}}}}]}],"safetySettings":[],"generationConfig":{"temperature":1}}`))
		if err != nil || count.Total == 0 || count.Upstream != "gravity" || count.Model != model || count.Estimate != estimate {
			t.Errorf("%s: got %+v, %v", model, count, err)
		}
	}
}

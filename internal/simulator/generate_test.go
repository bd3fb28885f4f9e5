package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee/internal/simulator/rules"
)

// Each request breaks its check and all that come after it, so the order of the checks is tested
// too.
func TestChecksComeInOrder(t *testing.T) {
	accounts := []Account{
		{Email: "ada@example.com", Project: "sim-project-ada", Models: []string{"gemini-3-flash"}, Limits: Limits{FiveHour: 1}},
		{Email: "ban@example.com", Project: "p-ban", Banned: true},
		{Email: "val@example.com", Project: "p-val", NeedsValidation: true},
	}
	r := newRig(t, Options{Accounts: accounts, Script: &Script{MinVersion: "2.0.0"}})
	good := envelopeOf("gemini-3-flash", prompt("hi"))
	noContents := `{"contents":[]}`
	for _, c := range []struct {
		name, email, body string
		header            []string
		status            int
		rule              string
	}{
		{"not JSON by its type", "", "{", []string{"Content-Type", "text/plain"}, 400, "body.content_type"},
		{"not JSON", "", "{", nil, 400, ""},
		{"no bearer", "", `{"x":1}`, nil, 401, "auth.bearer"},
		{"banned", "ban@example.com", `{"x":1}`, []string{"x-goog-user-project", "p"}, 403, "account.banned"},
		{"to be verified", "val@example.com", `{"x":1}`, []string{"x-goog-user-project", "p"}, 403, "account.validation"},
		{"user project header", "ada@example.com", `{"x":1}`, []string{"x-goog-user-project", "p"}, 403, "header.user_project"},
		{"unknown field", "ada@example.com", `{"project":"","x":1,"request":` + noContents + `}`, nil, 400, ""},
		{"empty project", "ada@example.com", `{"project":"","model":"m","request":` + noContents + `}`, []string{"User-Agent", "old"}, 400, "project.empty"},
		{"unknown project", "ada@example.com", `{"project":"q","model":"m","userAgent":"antigravity","request":` + noContents + `}`, []string{"User-Agent", "old"}, 404, "project.unknown"},
		{"somebody's project", "ada@example.com", `{"project":"p-ban","model":"m","userAgent":"antigravity","request":` + noContents + `}`, []string{"User-Agent", "old"}, 403, "project.foreign"},
		{"unknown project, tool style", "ada@example.com", `{"project":"q","model":"m","request":` + noContents + `}`, nil, 403, "project.denied"},
		{"old client", "ada@example.com", envelopeOf("m", noContents), []string{"User-Agent", "antigravity/1.9.9 linux/amd64"}, 404, "client.version"},
		{"unknown model", "ada@example.com", envelopeOf("m", noContents), nil, 404, "model.unknown"},
		{"not this account's model", "ada@example.com", envelopeOf("gemini-2.5-pro", noContents), nil, 404, "model.unknown"},
		{"bad request", "ada@example.com", envelopeOf("gemini-3-flash", noContents), nil, 400, ""},
		{"good", "ada@example.com", good, nil, 200, ""},
		{"quota", "ada@example.com", good, nil, 429, "quota.window"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := c.header
			if c.email != "" {
				header = append([]string{"Authorization", "Bearer " + r.token(c.email)}, header...)
			}
			for _, method := range []string{"streamGenerateContent?alt=sse", "generateContent"} {
				if c.status == 200 && method == "generateContent" {
					continue // there is one request in the quota
				}
				a := r.do("POST", "/v1internal:"+method, c.body, header...)
				a.want(t, c.status)
				if a.status != 200 && !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
					t.Errorf("error sent as %s", a.header.Get("Content-Type"))
				}
				calls := r.server.Calls()
				last := calls[len(calls)-1]
				if c.rule != "" && last.Rule != c.rule {
					t.Errorf("refused by %q, want %q", last.Rule, c.rule)
				}
				if c.status == 400 && last.Rule == "" {
					t.Error("no rule logged")
				}
			}
		})
	}
}

func TestOldClientGetsAMessageWhenSwitched(t *testing.T) {
	script, err := LoadScript(strings.NewReader("switches: {min_version_error: message}\nmodels: {gemini-3-flash: {min_version: 3.0.0}}"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Script: script})
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 200, "no longer supported")
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi")), "User-Agent", "antigravity/hub/3.0.0 darwin/arm64").want(t, 200, "You said: hi")
}

func TestNewerModelsNeedANewerClient(t *testing.T) {
	r := newRig(t, Options{})
	body := envelopeOf("gemini-pro-agent", prompt("hi"))
	r.internal("generateContent", body, "User-Agent", "antigravity/2.8.9 linux/amd64").want(t, 404, "Requested entity was not found.")
	r.internal("generateContent", body, "User-Agent", "Antigravity/4.3.0 (Linux) Chrome/1").want(t, 200)
}

func TestToolStyleIsAPoolOfItsOwn(t *testing.T) {
	r := newRig(t, Options{Accounts: []Account{{Email: "ada@example.com", Project: "sim-project-ada", Limits: Limits{FiveHour: 1}}}})
	cli := `{"project":"sim-project-ada","model":"gemini-3-flash","request":` + prompt("hi") + `}`
	r.internal("generateContent", cli, "Host", "daily-cloudcode-pa.sandbox.googleapis.com").want(t, 404)
	r.internal("generateContent", cli).want(t, 200)
	r.internal("generateContent", cli).want(t, 429)
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 200)
	r.internal("retrieveUserQuota", "{}").want(t, 200, `"modelId":"gemini-2.5-pro","remainingAmount":"0","tokenType":"REQUESTS","resetTime":"2026-08-01T15:00:00Z"`)
}

func TestStreamFramings(t *testing.T) {
	r := newRig(t, Options{})
	body := envelopeOf("gemini-3-flash", prompt("[[text: abc]][[chunks: 3]]"))
	sse := r.internal("streamGenerateContent?alt=sse", body)
	if got := events(t, sse.body); len(got) != 3 || said(got) != "abc" || sse.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v %s", sse.header, sse.body)
	}
	if strings.Count(sse.body, "\r\n\r\n") != 3 || strings.Contains(strings.ReplaceAll(sse.body, "\r\n", ""), "\n") {
		t.Errorf("lines do not all end with CRLF: %q", sse.body)
	}
	var array []wrapped
	if r.internal("streamGenerateContent", body).decode(t, &array); len(array) != 3 || said(array) != "abc" {
		t.Errorf("%+v", array)
	}
	if sse.header.Get("X-Cloudaicompanion-Trace-Id") != array[0].TraceID {
		t.Error("trace ids differ")
	}
}

// What the model says can be sent back as history, for every family and on both surfaces: a
// conversation of thinking, parallel calls and answers passes the simulator's own rules.
func TestRepliesAreLegalHistory(t *testing.T) {
	const tools = `"tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}},{"name":"g","description":"d","parameters":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]}]`
	for _, model := range rules.ModelTable() {
		if model.Family == rules.Embedding || model.Family == rules.Image {
			continue
		}
		for _, surface := range []string{"internal", "official"} {
			t.Run(model.ID+"/"+surface, func(t *testing.T) {
				r := newRig(t, Options{})
				config := `{"maxOutputTokens":8000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2048}}`
				if model.MaxBudget == 0 {
					config = `{"maxOutputTokens":8000}`
				}
				var history []string
				ask := func(content string) content2 {
					history = append(history, content)
					request := fmt.Sprintf(`{"contents":[%s],%s,"generationConfig":%s}`, strings.Join(history, ","), tools, config)
					var got struct {
						Response   struct{ Candidates []candidate2 }
						Candidates []candidate2
					}
					a := r.sendTo(surface, model.ID, request)
					a.want(t, 200)
					a.decode(t, &got)
					reply := append(got.Response.Candidates, got.Candidates...)[0].Content
					history = append(history, string(encode(reply)))
					return reply
				}
				reply := ask(`{"role":"user","parts":[{"text":"[[think: one]][[call: f {\"a\":\"b\"}]][[call: g]] [[then]] [[think: two]][[call: f]]"}]}`)
				reply = ask(answerCalls(reply, "first"))
				if calls := callsOf(reply); len(calls) != 1 || string(calls[0].Args) != `{"a":"x"}` {
					t.Fatalf("second round: %s", encode(reply))
				}
				reply = ask(answerCalls(reply, "second"))
				if len(callsOf(reply)) != 0 || !strings.Contains(string(encode(reply)), "The tool f answered: second") {
					t.Fatalf("third round: %s", encode(reply))
				}
				ask(`{"role":"user","parts":[{"text":"thanks"}]}`)
			})
		}
	}
}

type candidate2 struct{ Content content2 }
type content2 struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

func (r *rig) sendTo(surface, model, request string) answer {
	r.t.Helper()
	if surface == "internal" {
		return r.internal("generateContent", envelopeOf(model, request))
	}
	return r.official(model+":generateContent", request)
}

func callsOf(c content2) (calls []functionCall) {
	for _, raw := range c.Parts {
		var p part
		if json.Unmarshal(raw, &p) == nil && p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

func answerCalls(c content2, result string) string {
	var parts []string
	for _, call := range callsOf(c) {
		parts = append(parts, fmt.Sprintf(`{"functionResponse":{"id":%q,"name":%q,"response":{"result":%q}}}`, call.ID, call.Name, result))
	}
	return `{"role":"user","parts":[` + strings.Join(parts, ",") + `]}`
}

func TestSignaturesAreCheckedOnReturn(t *testing.T) {
	r := newRig(t, Options{})
	claude, gemini := r.server.signer.sign(rules.Claude, "x"), r.server.signer.sign(rules.Gemini, "x")
	if claude[0] != 'R' || gemini[0] != 'E' || min(len(claude), len(gemini)) < 50 {
		t.Errorf("shapes %s and %s", claude, gemini)
	}
	other, err := New(Options{Seed: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range []rules.Family{rules.Claude, rules.Gemini, rules.Gemini2} {
		signature := r.server.signer.sign(family, "y")
		if got, ok := r.server.signer.verify(signature); !ok || got != family {
			t.Errorf("%s is read as %q, %v", family, got, ok)
		}
		if _, ok := other.signer.verify(signature); ok {
			t.Errorf("%s of another seed is accepted", family)
		}
		damaged := []byte(signature)
		damaged[40] ^= 1
		if _, ok := r.server.signer.verify(string(damaged)); ok {
			t.Errorf("damaged %s is accepted", family)
		}
	}
	loop := func(signature string) string {
		return `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{},"id":"1"},"thoughtSignature":"` + signature + `"}]},` +
			`{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"result":"ok"}}}]}],"tools":[{"functionDeclarations":[{"name":"f","description":"d"}]}]}`
	}
	r.official("gemini-3-flash:generateContent", loop(gemini)).want(t, 200)
	r.official("gemini-3-flash:generateContent", loop("skip_thought_signature_validator")).want(t, 200)
	r.official("gemini-3-flash:generateContent", loop(claude)).want(t, 400)
	r.official("gemini-3-flash:generateContent", loop(gemini[:60]+"AAAA")).want(t, 400, "Corrupted thought signature")
}

func TestCachedTokensOfASession(t *testing.T) {
	r := newRig(t, Options{})
	usageOf := func(session, contents string) usage {
		var got wrapped
		r.internal("generateContent", envelopeOf("gemini-3-flash", `{"sessionId":"`+session+`","systemInstruction":{"parts":[{"text":"be brief and kind"}]},"contents":[`+contents+`]}`)).decode(t, &got)
		return *got.Response.Usage
	}
	user := func(text string) string { return `{"role":"user","parts":[{"text":"` + text + `"}]}` }
	model := `{"role":"model","parts":[{"text":"well"}]}`
	first := usageOf("s", user("good morning"))
	if first.Cached != 0 {
		t.Errorf("cached at once: %+v", first)
	}
	second := usageOf("s", user("good morning")+","+model+","+user("more"))
	if second.Cached == 0 || second.Cached >= second.Prompt || second.Total != second.Prompt+second.Candidates+second.Thoughts {
		t.Errorf("second: %+v", second)
	}
	if other := usageOf("t", user("good morning")+","+model+","+user("more")); other.Cached != 0 {
		t.Errorf("another session: %+v", other)
	}
}

func TestDeterminism(t *testing.T) {
	run := func(seed string) (out []string) {
		r := newRig(t, Options{Seed: seed})
		token := "Bearer " + r.tokens(refreshForm("sim-refresh-ada")).AccessToken
		out = append(out, token)
		for _, text := range []string{"hello", "[[think: a]][[call: f]][[call: g]]", "[[image]]", "[[ground: q]]", "[[code: 1]]"} {
			for _, model := range []string{"gemini-3-flash", "claude-sonnet-4-6"} {
				for range 2 {
					out = append(out, r.do("POST", "/v1internal:streamGenerateContent?alt=sse", envelopeOf(model, prompt(text)), "Authorization", token).body)
				}
			}
		}
		return append(out, r.official("gemini-embedding-001:embedContent", `{"content":{"parts":[{"text":"a"}]}}`).body)
	}
	one, two, three := run("a"), run("a"), run("b")
	if !slices.Equal(one, two) {
		t.Error("same seed, different bytes")
	}
	for i := range one {
		if one[i] == three[i] {
			t.Errorf("different seeds, same bytes: %.200s", one[i])
		}
		if i > 0 && i%2 == 0 && i < len(one)-1 && one[i] != one[i-1] {
			t.Errorf("same request, different bytes:\n%s\n%s", one[i-1], one[i])
		}
	}
}

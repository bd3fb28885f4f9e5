package api

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/lib/rawjson"
	"perigee/internal/route/thoughtsig"
	"perigee/internal/simulator"
	simulated "perigee/internal/simulator/openai"
	"perigee/internal/store/config"
)

// A capture is a request of a real client.
type capture struct {
	Name    string            `json:"name"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// request decodes the capture, if it asks a model something.
func (c *capture) request(t *testing.T) *perigee.Request {
	t.Helper()
	origin := perigee.Origin{ID: "r", Body: c.Body}
	var req *perigee.Request
	var err error
	switch {
	case c.Path == "/v1/chat/completions":
		var asked *chat.Request
		if asked, err = chat.DecodeRequest(origin); err == nil {
			req = asked.Request
		}
	case c.Path == "/v1/responses":
		var asked *responses.Request
		if asked, err = responses.DecodeRequest(origin, nil); err == nil {
			req = asked.Request
		}
	case strings.HasPrefix(c.Path, "/v1/messages") && !strings.Contains(c.Path, "count_tokens"):
		req, _, err = anthropic.DecodeRequest(origin)
	case strings.Contains(c.Path, "enerateContent"):
		req, err = gemini.DecodeRequest(origin, "x", true)
	}
	if err == nil && req != nil {
		_, err = req.Prompt()
	}
	if err != nil {
		return nil // it asks for something that no other provider has
	}
	return req
}

// captures returns the requests of real clients, by client and name.
func captures(t testing.TB) map[string]*capture {
	t.Helper()
	files, err := filepath.Glob("../../daemon/testdata/captures/*.jsonl.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files with captures: %v", len(files), err)
	}
	all := map[string]*capture{}
	for _, file := range files {
		packed, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(unpacked); ; {
			var c capture
			if err := lines.Decode(&c); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")+"/"+c.Name] = &c
		}
		_ = packed.Close()
	}
	return all
}

// Each server accepts what real clients of all dialects send, with each of its models.
func TestServersAcceptWhatClientsSend(t *testing.T) {
	sent := 0
	for name, c := range captures(t) {
		req := c.request(t)
		if req == nil {
			continue
		}
		prompt, err := req.Prompt()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range profiles {
			s := &openAIServer{profile: &profiles[i]}
			served := simulated.ProfileNamed(s.name)
			for _, model := range served.Models {
				if model.Embeds || model.Draws {
					continue
				}
				if model.Forgets {
					s.learned.Store(model.ID, historyWithout)
				}
				adapted, _, notes := adapt.ForOpenAI(prompt, s.accepts(s.rule(model.ID)), model.ID, nil)
				body := chat.EncodeRequest(adapted, chat.Envelope{Model: model.ID, Stream: req.Stream, Form: s.form, Session: "s"})
				if _, refusal := simulated.CheckChat(simulated.Input{Profile: served, Body: body}); refusal != nil {
					t.Errorf("%s to %s of %s: %s: %s\nnotes: %v", name, model.ID, s.name, refusal.Rule, refusal.Message, notes)
				}
				sent++
			}
		}
	}
	if sent < 1000 {
		t.Errorf("only %d requests were made", sent)
	}
	t.Logf("%d requests", sent)
}

// Each server gets as many stop sequences as it takes.
func TestServersGetTheirStopSequences(t *testing.T) {
	prompt := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("hi")}}}}}
	for i := range 40 {
		prompt.Generation.Stop = append(prompt.Generation.Stop, strings.Repeat("x", i+1))
	}
	want := map[string]int{"deepseek": 16, "vllm": 40, "llamacpp": 40, "lmstudio": 40}
	for i := range profiles {
		s := &openAIServer{profile: &profiles[i]}
		served := simulated.ProfileNamed(s.name)
		model := served.Models[0].ID
		adapted, _, _ := adapt.ForOpenAI(prompt, s.accepts(historyOfProfile), model, nil)
		body := chat.EncodeRequest(adapted, chat.Envelope{Model: model, Form: s.form})
		_, refusal := simulated.CheckChat(simulated.Input{Profile: served, Body: body})
		if got := len(adapted.Generation.Stop); got != cmp.Or(want[s.name], 4) || refusal != nil {
			t.Errorf("%s gets %d stop sequences: %v", s.name, got, refusal)
		}
	}
}

// The table has one entry for each profile of the configuration.
func TestEveryProfileHasAServer(t *testing.T) {
	for _, name := range config.KindOf(config.KindOpenAI).Profiles {
		if got := profileOf(config.Upstream{Profile: name, URL: "http://127.0.0.1:1/v1"}); name != "auto" && got.name != name {
			t.Errorf("profile %s is the server %s", name, got.name)
		}
	}
	for _, c := range []struct{ url, want string }{
		{"https://api.openai.com/v1", "openai"}, {"https://res.openai.azure.com/openai/v1", "azure"}, {"https://openrouter.ai/api/v1", "openrouter"},
		{"https://api.deepseek.com", "deepseek"}, {"https://api.groq.com/openai/v1", "groq"}, {"https://api.mistral.ai/v1", "mistral"},
		{"https://api.x.ai/v1", "xai"}, {"https://api.fireworks.ai/inference/v1", "fireworks"}, {"http://127.0.0.1:8000/v1", "generic"},
		{"https://notapi.openai.com.example/v1", "generic"},
	} {
		if got := profileOf(config.Upstream{Profile: "auto", URL: c.url}).name; got != c.want {
			t.Errorf("%s is %s, want %s", c.url, got, c.want)
		}
	}
}

// A tool loop of clients of other dialects runs at each server, in both of its APIs, streamed and
// not.
func TestToolLoopsAtServers(t *testing.T) {
	for _, s := range profiles {
		apis := []string{"chat"}
		if s.both {
			apis = append(apis, "responses", "auto")
		}
		for _, api := range apis {
			sim, err := simulator.New(simulator.Options{Profile: s.name})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sim.Close() })
			model := simulated.ProfileNamed(s.name).Models[0].ID
			provider := newOpenAI(config.Upstream{Profile: s.name, API: api, URL: "http://simulator/v1"})
			upstream := New(provider, Options{Name: "s", URL: "http://simulator/v1", Transport: sim.Transport(), Keys: []perigee.Secret{perigee.NewSecret("k")}})
			t.Cleanup(func() { _ = upstream.Close() })
			rig := &claudeRig{thoughtsig.NewMemory(thoughtsig.Options{}).Around(upstream), upstream}
			for _, d := range []perigee.Dialect{perigee.DialectOpenAIResponses, perigee.DialectGemini, perigee.DialectAnthropic} {
				if d == perigee.DialectOpenAIResponses && api != "chat" {
					continue // its requests are forwarded
				}
				for _, stream := range []bool{false, true} {
					name := "f.g"
					if d == perigee.DialectAnthropic {
						name = "f"
					}
					say := `[[think: one]][[call: ` + strings.ReplaceAll(name, ".", "_") + ` {"a":1}]][[then]][[think: two]][[text: Done.]]`
					_, calls, message, notes := rig.ask(t, requestIn(t, d, model, stream, say, ""))
					if len(calls) != 1 || calls[0].Name != name || string(calls[0].Args) != `{"a":1}` {
						t.Errorf("%s %s %s %v: calls %+v, notes %s", s.name, api, d, stream, calls, notes)
						continue
					}
					if text, _, _, notes := rig.ask(t, requestIn(t, d, model, stream, say, looped(d, calls[0], message))); !strings.HasSuffix(text, "Done.") {
						t.Errorf("%s %s %s %v: text %q, notes %s", s.name, api, d, stream, text, notes)
					}
				}
			}
		}
	}
}

// rewritten returns the body of a message whose edits are not made yet.
func rewritten(m *message) []byte {
	e := memberEditor{body: joined(m.body)}
	e.object(rawjson.NewCursor(e.body), m.edits)
	return rawjson.Splice(e.body, e.over(m.rewrites)...)
}

// OpenAI's Chat API has no reasoning and refuses members for it, so that none is sent there, also if
// nothing is remembered of it.
func TestOpenAIGetsNoReasoningInMessages(t *testing.T) {
	for profile, want := range map[string]bool{"openai": false, "azure": false, "generic": true} {
		p := &openAIServer{profile: profileOf(config.Upstream{Profile: profile})}
		more := `,{"role":"assistant","content":"a","reasoning_content":"b"},{"role":"user","content":"c"}`
		m, err := p.ownChat(requestIn(t, perigee.DialectOpenAIChat, "m", false, "hi", more), historyOfProfile)
		if err != nil {
			t.Fatal(err)
		}
		body := string(rewritten(&m))
		if got := strings.Contains(body, "reasoning_content"); got != want || len(m.notes) == 0 != want {
			t.Errorf("%s: %s, notes %v", profile, body, m.notes)
		}
	}
}

// Each request that was under way when a model turned out to refuse reasoning is sent once more
// without it, and none twice.
func TestRefusedReasoningOfRequestsAtOnce(t *testing.T) {
	p := &openAIServer{profile: profileOf(config.Upstream{Profile: "deepseek"})}
	req := requestIn(t, perigee.DialectOpenAIChat, "m", false, "hi", `,{"role":"assistant","content":"a","reasoning_content":"b"},{"role":"user","content":"c"}`)
	refused := perigee.Errorf(perigee.ClassInvalid, "The reasoning_content is not allowed in the input messages")
	refused.Status = 400
	sent, err := p.chatMessage(req)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		repaired, ok := p.repairChat(req, &sent, refused)
		repaired.learns()
		if !ok || strings.Contains(string(rewritten(&repaired)), "reasoning_content") {
			t.Fatalf("%v, %s", ok, repaired.body)
		}
		if _, ok := p.repairChat(req, &repaired, refused); ok {
			t.Error("a request without reasoning is sent again")
		}
	}
}

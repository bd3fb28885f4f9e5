package story

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/observe/trace"
)

// call is a call that failed with one account and was answered with another.
func call() perigee.Trace {
	t := perigee.Trace{Operation: perigee.OperationGenerate, Stream: true, Finish: "STOP", CachedTokens: 10, ThinkingTokens: 20, BytesIn: 412,
		ClientVersion: "2.0.1", Notes: []string{"dropped logprobs"}}
	t.ID, t.Dialect, t.ModelAsked, t.Model, t.Upstream, t.Account = "c1", perigee.DialectAnthropic, "gpt-4o", "gemini-3-flash", "gravity", "bob@example.com"
	t.Time = time.Date(2026, 11, 15, 14, 20, 4, 88e6, time.UTC)
	t.Status, t.Outcome, t.InputTokens, t.OutputTokens, t.FirstByteMS, t.DurationMS, t.ClientName, t.Key, t.Session = 200, perigee.OutcomeDone, 100, 50, 130.5, 2400, "claude-cli", "laptop", "s1"
	t.CostUSD = perigee.USD(0.0123)
	t.Attempts = []perigee.Attempt{
		{Upstream: "gravity", Account: "ada@example.com", Why: "sticky: first usable account", Class: perigee.ClassExhausted, Error: "used up", Took: 30 * time.Millisecond},
		{Upstream: "gravity", Account: "bob@example.com", Why: "sticky: moved", Took: 2 * time.Second}}
	return t
}

// plant writes a trace directory.
func plant(t *testing.T, m trace.Meta, files map[string]string) *trace.Trace {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "2026-11-15", "142004.088-c1")
	meta, err := json.Marshal(m)
	if err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	files[trace.MetaName] = string(meta)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(path, name), []byte(text), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	opened, err := trace.Open(dir, "c1")
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func tell(t *testing.T, s Story) string {
	t.Helper()
	s.Zone = time.UTC
	same := func(text string) string { return text }
	if s.Redact == nil {
		s.Redact = same
	}
	if s.Hint == nil {
		s.Hint = same
	}
	var b strings.Builder
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestStoryOfACall(t *testing.T) {
	m := trace.Meta{Method: "POST", Path: "/v1/messages?beta=true", Tries: []trace.Try{
		{Upstream: "gravity", Account: "ada@example.com", Status: 429, Class: perigee.ClassExhausted, StartedMS: 2.5, FirstByteMS: 30, Why: "sticky: first usable account", Error: "used up"},
		{Upstream: "gravity", Account: "bob@example.com", Status: 200, StartedMS: 31, FirstByteMS: 130.5, Why: "sticky: moved"}}}
	m.ID = "c1"
	replay := call()
	replay.ReplayOf = "c0"
	s := Story{Call: replay, Trace: plant(t, m, map[string]string{
		trace.ClientRequestName: `{"model":"gpt-4o","max_tokens":4096,"stream":true,"system":[{"type":"text","text":"You are an agent."}],
			"tools":[{"name":"read"},{"name":"write"}],
			"messages":[{"role":"user","content":"read\n it"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"read","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]},{"role":"assistant","content":"done"},
				{"role":"user","content":[{"type":"image","source":{}},{"type":"text","text":"and my-secret now"}]}]}`,
		trace.EventsName: `{"ms":120,"kind":"start","upstream":"gravity"}
{"ms":130.5,"kind":"thinking","text":"The user "}
{"ms":1330.5,"kind":"thinking","text":"wants my-"}
{"ms":1340,"kind":"thinking","text":"secret"}
{"ms":1400,"kind":"text","text":"Here"}
{"ms":1500,"kind":"call","name":"write","args":{"path":"a.go"}}
{"ms":1600,"kind":"usage","input":100}
{"ms":2300,"kind":"finish","reason":"STOP"}
{"ms":2301,"ki`,
	}), Redact: func(text string) string { return strings.ReplaceAll(text, "my-secret", "[redacted]") }}
	want := `call      c1
time      2026-11-15T14:20:04.088Z
replay of c0
request   anthropic, generate, gpt-4o, 412 bytes
          POST /v1/messages, streamed
          system prompt, 17 B: "You are an agent."
          4 messages (2 assistant, 2 user), 1 tool result, 1 attachment
          last user message: "and [redacted] now"
          2 tools: read, write
          max_tokens 4096, stream true
client    claude-cli 2.0.1, key laptop, session s1
note      dropped logprobs
try 1     gravity, ada@example.com, exhausted: used up (sticky: first usable account; 429, at +2.5ms, first byte at +30ms)
try 2     gravity, bob@example.com, answered (sticky: moved; 200, at +31ms, first byte at +130ms)
answered  gemini-3-flash, gravity, bob@example.com
answer    +130ms   thinking, 24 B in 1.2s: "The user wants [redacted]"
          +1.4s    text, 4 B: "Here"
          +1.5s    calls write {"path":"a.go"}
          +2.3s    finishes STOP
tokens    100 in (10 cached, hit rate 10%), 50 out (20 thinking)
cost      $0.0123 (list price)
duration  2400.0 ms, first byte after 130.5 ms
status    200 OK
result    done, STOP
trace     DIR (3 files)
`
	got := strings.ReplaceAll(tell(t, s), s.Trace.Dir, "DIR")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Without a directory the story is what the database knows.
func TestStoryWithoutADirectory(t *testing.T) {
	got := tell(t, Story{Call: call()})
	for _, line := range []string{
		"try 1     gravity, ada@example.com, exhausted: used up (sticky: first usable account; 30ms)\n",
		"try 2     gravity, bob@example.com, answered (sticky: moved; 2s)\n",
		"trace     none: it was not written, because traces are off or perigee was busy, or it is gone\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}

// nextOf is the next step of a call that has failed with a class.
func nextOf(t *testing.T, class perigee.Class, change func(*Story)) string {
	t.Helper()
	s := Story{Call: call()}
	s.Call.Outcome, s.Call.Class, s.Call.Error, s.Call.Status, s.Call.FirstByteMS = perigee.OutcomeFailed, class, "unknown name", 400, 0
	change(&s)
	found := regexp.MustCompile(`(?m)^result    failed, STOP, \w+, unknown name\n(?:next      (.*)\n)?trace `).FindStringSubmatch(tell(t, s))
	if found == nil {
		t.Fatal(tell(t, s))
	}
	return found[1]
}

// Every class of errors has a next step, but for the client that went away.
func TestFailuresHaveANextStep(t *testing.T) {
	for class := range perigee.ClassStatus {
		if next := nextOf(t, class, func(*Story) {}); (next == "") != (class == perigee.ClassCanceled) {
			t.Errorf("%s: %q", class, next)
		} else if strings.Contains(next, "replay") {
			t.Errorf("%s: %q, although there is no trace", class, next)
		}
	}
}

// A request can be shrunk if it is there and is JSON.
func TestOnlyRequestsThatCouldBeDecodedAreShrunk(t *testing.T) {
	for body, want := range map[string]bool{`{"contents":[]}`: true, `{"contents":[`: false, "": false} {
		next := nextOf(t, perigee.ClassInvalid, func(s *Story) {
			m := trace.Meta{}
			m.ID = "c1"
			s.Trace = plant(t, m, map[string]string{trace.ClientRequestName: body})
		})
		if strings.Contains(next, "perigee trace shrink c1") != want {
			t.Errorf("%q: %q", body, next)
		}
	}
	if next := nextOf(t, perigee.ClassInvalid, func(*Story) {}); strings.Contains(next, "shrink") {
		t.Errorf("without a directory: %q", next)
	}
}

// Limits, permissions and sign-ins belong to an account, to an API key of an upstream or to a key
// of perigee.
func TestNextStepsNameKeysAndAccounts(t *testing.T) {
	withKey := func(s *Story) { s.Call.Upstream, s.Call.Account = "studio", "" }
	withAccount := func(*Story) {}
	for _, c := range []struct {
		class    perigee.Class
		with     func(*Story)
		commands []string
	}{
		{perigee.ClassUnauthenticated, withAccount, []string{"perigee account list", "perigee login"}},
		{perigee.ClassUnauthenticated, withKey, []string{"perigee config show", "studio", "perigee login"}},
		{perigee.ClassForbidden, withAccount, []string{"perigee account list", "bob@example.com"}},
		{perigee.ClassForbidden, withKey, []string{"perigee config show"}},
		{perigee.ClassExhausted, withKey, []string{"perigee explain gpt-4o", "perigee usage --by key"}},
		{perigee.ClassRateLimited, withAccount, []string{"perigee explain gpt-4o", "perigee quota"}},
		{perigee.ClassExhausted, func(s *Story) { s.Call.ModelAsked = "$(date)" }, []string{"perigee explain MODEL"}},
		{perigee.ClassExhausted, func(s *Story) {
			s.Hint = func(text string) string {
				return strings.ReplaceAll(text, "perigee quota", "perigee quota --config f.yaml")
			}
		}, []string{"perigee quota --config f.yaml"}},
	} {
		for _, command := range c.commands {
			if next := nextOf(t, c.class, c.with); !strings.Contains(next, command) {
				t.Errorf("%s: %q does not name %s", c.class, next, command)
			}
		}
	}
}

// The values of a story are folded beside their names.
func TestStoriesFitATerminal(t *testing.T) {
	failed := call()
	failed.Error, failed.Notes = "the quota of this model is used up until tomorrow", []string{"mapped max_tokens to the limit of the model"}
	failed.Outcome, failed.Class, failed.Finish, failed.Attempts = perigee.OutcomeFailed, perigee.ClassExhausted, "", nil
	got := tell(t, Story{Call: failed, Width: 40})
	for _, want := range []string{
		"note      mapped max_tokens to the limit\n          of the model\n",
		"result    failed, exhausted, the quota\n          of this model is used up until\n          tomorrow\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestRequestsOfAllDialects(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"chat": {`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url"}]},
			{"role":"assistant","tool_calls":[]},{"role":"tool","content":"1"}],"tools":[{"type":"function","function":{"name":"f"}}],"temperature":0.5}`,
			`"be brief" "hi" 2 messages (1 assistant, 1 user), 1 tool result, 1 attachment [f] [temperature 0.5]`},
		"responses": {`{"instructions":"be brief","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","name":"f"},
			{"type":"function_call_output","output":"1"}],"tools":[{"type":"web_search"}],"store":false}`,
			`"be brief" "hi" 1 message (1 user), 1 tool result [web_search] [store false]`},
		"responses, short": {`{"input":"hi"}`, `"" "hi" 1 message (1 user) [] []`},
		"gemini": {`{"systemInstruction":{"parts":[{"text":"be brief"}]},"contents":[{"parts":[{"text":"hi"},{"inlineData":{}}]},{"role":"model","parts":[{"functionCall":{}}]},
			{"role":"user","parts":[{"functionResponse":{}}]}],"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]},{"googleSearch":{}}],"generationConfig":{"topK":3}}`,
			`"be brief" "hi" 2 messages (1 model, 1 user), 1 tool result, 1 attachment [f g googleSearch] [topK 3]`},
		"embeddings": {`{"input":["a","b"]}`, `"" "" 2 messages (2 input) [] []`},
	} {
		var body map[string]any
		if err := json.Unmarshal([]byte(test.body), &body); err != nil {
			t.Fatal(err)
		}
		r := readRequest(body)
		if got := fmt.Sprintf("%q %q %s %v %v", r.system, r.last, r.conversation(), r.tools, r.settings); got != test.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, test.want)
		}
	}
}

// Pieces of the same kind that follow each other are one part. Empty ones and the line that was cut
// off are none.
func TestPhases(t *testing.T) {
	list := phases([]byte(`{"ms":0,"kind":"start","model":"m"}
{"ms":1,"kind":"thinking","text":"hm"}
{"ms":2,"kind":"text","text":"a"}
{"ms":3,"kind":"text"}
{"ms":4,"kind":"text","text":"b"}
{"ms":4,"kind":"call","name":"f","args":{}}
{"ms":4,"kind":"blob","mime":"image/png","base64_bytes":4}
{"ms":5,"kind":"blob","mime":"image/png","base64_bytes":4096,"candidate":1}
{"ms":6,"kind":"finish","reason":"STOP","trouble":"short"}
{"ms":7,"kind":"te`))
	const want = "[{thinking 0 1 1 2 hm} {text 0 2 4 2 ab} {calls 0 4 4 4 f {}} {sends 0 4 4 14 image/png, 3 B} " +
		"{sends 1 5 5 16 image/png, 3 KiB} {finishes 0 6 6 11 STOP, short}]"
	if got := fmt.Sprint(list); got != want {
		t.Error(got)
	}
}

// A call that has not ended says so, and a try without a choice gives no reason.
func TestStoryOfAnOpenCall(t *testing.T) {
	open := call()
	open.Outcome, open.Finish, open.Status, open.FirstByteMS, open.Attempts = perigee.OutcomeOpen, "", 0, 0, nil
	m := trace.Meta{Tries: []trace.Try{{Upstream: "simulator", StartedMS: 1.5}}, Truncated: map[string]string{trace.EventsName: trace.TruncatedLate}}
	m.ID = "c1"
	s := Story{Call: open, Trace: plant(t, m, map[string]string{})}
	got := strings.ReplaceAll(tell(t, s), s.Trace.Dir, "DIR")
	for _, want := range []string{"try 1     simulator, no answer yet (at +1.5ms)\n",
		"result    open: the call has not ended, or perigee ended before it\ntrace     DIR (1 file)\n          events.jsonl is not complete: late\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "duration") {
		t.Error(got)
	}
}

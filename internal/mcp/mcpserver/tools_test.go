package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/perigeetest/await"
)

// filesIn returns file tools for a directory of the test, and the directory.
func filesIn(t *testing.T, write bool) (*filetool.Tools, string) {
	t.Helper()
	dir := t.TempDir()
	tools, err := filetool.New(filetool.Options{Roots: []string{dir}, Write: write})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tools.Close() })
	return tools, dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func toolNames(t *testing.T, c *mcp.ClientSession) []string {
	t.Helper()
	list, err := c.ListTools(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

func TestAskReturnsTextAndStructure(t *testing.T) {
	b := &backendRig{}
	s := newServer(t, Options{Backend: b})
	for name, c := range map[string]*mcp.ClientSession{"stdio": pipes(t, s, nil, nil), "http": overHTTP(t, s).connect(t, "team", nil)} {
		t.Run(name, func(t *testing.T) {
			var out askResult
			r := callTool(t, c, "ask_antigravity", map[string]any{"prompt": "hello"}, &out)
			if r.IsError || textOf(t, r) != "echo: hello" || out.Text != "echo: hello" || out.Status != ask.Done || out.Source != "simulator" {
				t.Errorf("got %+v, %+v", r, out)
			}
			if out.Usage == nil || *out.Usage != (askUsage{3, 1, 2, 1}) {
				t.Errorf("usage %+v", out.Usage)
			}
			if got := b.lastAsk(t).Client; got.Name != "test-client" || got.Version != "9" {
				t.Errorf("client %+v", got)
			}
		})
	}
}

func TestEveryArgumentOfAnAskIsPassedOn(t *testing.T) {
	b := &backendRig{}
	c := pipes(t, newServer(t, Options{Backend: b}), nil, nil)
	callTool(t, c, "ask_antigravity", map[string]any{"prompt": "p", "model": "m", "workspace": "/w", "conversation": "c",
		"timeout_seconds": 7, "read_only": true, "decision": map[string]any{"allow": true, "text": "yes"}}, nil)
	r := b.lastAsk(t)
	if r.Prompt != "p" || r.Model != "m" || r.Workspace != "/w" || r.Conversation != "c" || r.Timeout != 7*time.Second || !r.ReadOnly ||
		r.Decision == nil || *r.Decision != (ask.Decision{Allow: true, Text: "yes"}) {
		t.Errorf("got %+v", r)
	}
	callTool(t, c, "ask_antigravity", map[string]any{"conversation": "c"}, nil)
	if r := b.lastAsk(t); r.Prompt != "" || r.Conversation != "c" || r.Decision != nil || r.ReadOnly {
		t.Errorf("got %+v", r)
	}
}

func TestStatusesOfAnAsk(t *testing.T) {
	for _, c := range []struct {
		answer ask.Answer
		err    error
		texts  []string // what each text has in it
		failed bool
		class  perigee.Class
	}{
		{answer: ask.Answer{Text: "part", Status: ask.Timeout, Conversation: "c7", Source: "ide"},
			texts: []string{"part", `"c7" and an empty prompt`}},
		{answer: ask.Answer{Text: "part", Status: ask.Timeout, Conversation: ask.ModelConversation + "7", Source: "studio"},
			texts: []string{"part", `7" and a prompt such as "continue"`}},
		{answer: ask.Answer{Text: "may I?", Status: ask.Waiting, WaitingFor: "run rm -r build", Conversation: "c7", Source: "ide"},
			texts: []string{"may I?", "run rm -r build"}},
		{answer: ask.Answer{Text: "part", Status: ask.Cancelled, Source: "ide"}, texts: []string{"part", "cancelled"}},
		{answer: ask.Answer{Text: "part", Status: ask.Failed, Source: "ide", Error: &ask.Failure{Class: "exhausted", Message: "no quota", Hint: "wait"}},
			texts: []string{"part", "no quota; wait"}, failed: true, class: "exhausted"},
		{answer: ask.Answer{Status: ask.Failed, Source: "ide"}, texts: []string{"without a reason"}, failed: true, class: "internal"},
		{err: ask.Declined(perigee.ClassUnavailable, "no window is open").WithHint("open one"), texts: []string{"no window is open; open one"},
			failed: true, class: "unavailable"},
	} {
		b := &backendRig{answer: func(context.Context, ask.Request, func(ask.Progress)) (ask.Answer, error) { return c.answer, c.err }}
		session := pipes(t, newServer(t, Options{Backend: b}), nil, nil)
		var out askResult
		r := callTool(t, session, "ask_antigravity", map[string]any{"prompt": "p"}, &out)
		if r.IsError != c.failed || len(r.Content) != len(c.texts) {
			t.Errorf("%+v: %+v", c.answer, r)
			continue
		}
		for i, want := range c.texts {
			if got := r.Content[i].(*mcp.TextContent).Text; !strings.Contains(got, want) {
				t.Errorf("%+v: text %d is %q", c.answer, i, got)
			}
		}
		if (out.Error != nil) != c.failed || out.Error != nil && out.Error.Class != c.class || out.Status == "" {
			t.Errorf("%+v: %+v, %+v", c.answer, out, out.Error)
		}
	}
}

// TestWrongArgumentsAreResultsForTheModel checks that each error names what is wrong, and is no
// error of the protocol.
func TestWrongArgumentsAreResultsForTheModel(t *testing.T) {
	tools, _ := filesIn(t, true)
	c := pipes(t, newServer(t, Options{Files: func(Caller) *filetool.Tools { return tools }}), nil, nil)
	for _, w := range []struct {
		tool, args, want string
	}{
		{"ask_antigravity", `{}`, "the prompt is empty"},
		{"ask_antigravity", `{"prompt":" \n"}`, "the prompt is empty"},
		{"ask_antigravity", `{"prompt":5}`, "prompt is a number"},
		{"ask_antigravity", `{"prompt":"p","timeout_seconds":0}`, "between 1 and 3600"},
		{"ask_antigravity", `{"prompt":"p","timeout_seconds":3601}`, "between 1 and 3600"},
		{"ask_antigravity", `{"prompt":"p","timeout_seconds":1.5}`, "timeout_seconds is a number 1.5"},
		{"ask_antigravity", `{"prompt":"p","timeout_seconds":"10"}`, "timeout_seconds is a string"},
		{"ask_antigravity", `{"prompt":"p","decision":{"allow":true}}`, "a decision needs the conversation"},
		{"ask_antigravity", `{"prompt":"p","promt":"q"}`, `no argument "promt"`},
		{"ask_antigravity", `[1]`, "not an object"},
		{"list_models", `{"all":true}`, `no argument "all"`},
		{"usage", `{"by":"hour"}`, "by is one of model, account"},
		{"usage", `{"since":"soon"}`, "neither a time nor a duration"},
		{"usage", `{"since":"-5h"}`, "neither a time nor a duration"},
		{"read_file", `{}`, `"path" is missing`},
		{"read_file", `{"path":null}`, `"path" is missing`},
		{"read_file", `{"path":"missing.txt"}`, "missing.txt"},
		{"read_file", `{"path":"../x"}`, "root"},
		{"write_file", `{"path":"a"}`, `"content" is missing`},
	} {
		r, err := c.CallTool(soon(t), &mcp.CallToolParams{Name: w.tool, Arguments: json.RawMessage(w.args)})
		if err != nil {
			t.Errorf("%s %s: an error of the protocol: %v", w.tool, w.args, err)
			continue
		}
		if text := textOf(t, r); !r.IsError || !strings.Contains(text, w.want) {
			t.Errorf("%s %s: %v, %q, want %q", w.tool, w.args, r.IsError, text, w.want)
		}
	}
	long := map[string]any{"prompt": strings.Repeat("x", maxPrompt+1)}
	if r := callTool(t, c, "ask_antigravity", long, nil); !r.IsError || !strings.Contains(textOf(t, r), "at most") {
		t.Errorf("a long prompt: %q", textOf(t, r))
	}
	if _, err := c.CallTool(soon(t), &mcp.CallToolParams{Name: "no_such_tool"}); err == nil {
		t.Error("an unknown tool is no error of the protocol")
	}
}

func TestListsHaveTheShapesOfTheContract(t *testing.T) {
	now := time.Date(2026, 11, 16, 13, 0, 0, 0, time.UTC)
	b := &backendRig{}
	s := newServer(t, Options{Backend: b, Now: func() time.Time { return now }})
	c := pipes(t, s, nil, nil)
	for name, want := range map[string]string{
		"list_models": `{"models":[{"id":"gemini-3-flash","upstream":"google","context":1000,"output":100,"thinking":true,"default":true},` +
			`{"id":"secret","upstream":"google","context":0,"output":0,"thinking":false}]}`,
		"quota": `{"quota":[{"account":"a@example.org","upstream":"google","model":"gemini-3-flash","pool":"p","remaining":0.5,` +
			`"resets_at":"2026-11-16T12:00:00Z","windows":[{"window":"5h","remaining":0.5}]}]}`,
		"usage": `{"usage":[{"group":"gemini-3-flash","calls":2,"input_tokens":10,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":5,"thinking_tokens":0,"errors":0,"unpriced_calls":0}]}`,
	} {
		if got := textOf(t, callTool(t, c, name, nil, nil)); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := textOf(t, callTool(t, c, "quota", map[string]any{"model": "none"}, nil)); got != `{"quota":[]}` {
		t.Errorf("no quota: %s", got)
	}
	callTool(t, c, "usage", map[string]any{"by": "day", "since": "7d"}, nil)
	callTool(t, c, "usage", map[string]any{"since": "90m"}, nil)
	callTool(t, c, "usage", map[string]any{"since": "2026-11-01T00:00:00Z"}, nil)
	var since []string
	for _, q := range b.queries {
		since = append(since, q.By+" "+q.Since.UTC().Format(time.RFC3339)+q.Key)
	}
	want := []string{"model 0001-01-01T00:00:00Z", "day 2026-11-09T13:00:00Z", "model 2026-11-16T11:30:00Z", "model 2026-11-01T00:00:00Z"}
	if !slices.Equal(since, want) {
		t.Errorf("queries %q", since)
	}
	b.err = perigee.Errorf(perigee.ClassUnavailable, "the daemon does not answer").WithHint("start it")
	for _, name := range []string{"list_models", "quota", "usage", "explain_last_error"} {
		if r := callTool(t, c, name, nil, nil); !r.IsError || textOf(t, r) != "the daemon does not answer; start it" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestAKeySeesItsOwnOnly(t *testing.T) {
	b := &backendRig{}
	h := overHTTP(t, newServer(t, Options{Backend: b}))
	c := h.connect(t, "team", nil)
	callTool(t, c, "usage", nil, nil)
	callTool(t, c, "ask_antigravity", map[string]any{"prompt": "x"}, nil)
	callTool(t, c, "explain_last_error", nil, nil)
	if b.queries[0].Key != "team" || b.lastAsk(t).Client.Key != "team" || b.failures[0] != "team false" {
		t.Errorf("queried %+v and %q, asked %+v", b.queries[0], b.failures, b.lastAsk(t))
	}
	// Details of the machine are for its user only.
	e := perigee.Errorf(perigee.ClassInternal, "/home/me/.perigee is full")
	e.Public = "the store does not work"
	b.err = e
	if got := textOf(t, callTool(t, c, "list_models", nil, nil)); got != "the store does not work" {
		t.Errorf("the key sees %q", got)
	}
	b.answer = func(context.Context, ask.Request, func(ask.Progress)) (ask.Answer, error) { return ask.Answer{}, e }
	if r := callTool(t, c, "ask_antigravity", map[string]any{"prompt": "p"}, nil); strings.Contains(fmt.Sprint(r.StructuredContent, textOf(t, r)), "/home") {
		t.Errorf("the key sees %+v", r)
	}
	own := pipes(t, h.s, nil, nil)
	if got := textOf(t, callTool(t, own, "list_models", nil, nil)); got != e.Message {
		t.Errorf("the user sees %q", got)
	}
}

func TestModelsOfAKey(t *testing.T) {
	s := newServer(t, Options{})
	in := strings.NewReader(strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_models"}}`}, "\n"))
	var out strings.Builder
	ctx := WithCaller(context.Background(), Caller{AllowsModel: func(m string) bool { return m != "secret" }})
	if err := s.ServeStdio(ctx, in, &out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "secret") || !strings.Contains(out.String(), "gemini-3-flash") {
		t.Errorf("got %s", out.String())
	}
}

func TestExplainLastError(t *testing.T) {
	b := &backendRig{}
	c := pipes(t, newServer(t, Options{Backend: b}), nil, nil)
	if got := textOf(t, callTool(t, c, "explain_last_error", nil, nil)); got != `{"found":false}` {
		t.Errorf("nothing has failed: %s", got)
	}
	b.found = true
	for class := range perigee.ClassStatus {
		b.trace = perigee.Trace{TraceRow: perigee.TraceRow{ID: "7", Time: time.Date(2026, 11, 16, 14, 0, 0, 0, time.FixedZone("", 3600)),
			Class: class, Upstream: "google"}, Error: "what happened"}
		var out explainResult
		callTool(t, c, "explain_last_error", nil, &out)
		if !out.Found || out.Call != "7" || out.Time != "2026-11-16T13:00:00Z" || out.Class != class || out.Message != "what happened" ||
			out.Upstream != "google" || out.Explanation == "" || out.Next == "" {
			t.Errorf("%s: %+v", class, out)
		}
		if class == perigee.ClassInvalid && !strings.Contains(out.Next, "`perigee trace show 7`") {
			t.Errorf("the next step is %q", out.Next)
		}
		if _, ok := advices[class]; !ok {
			t.Errorf("no advice for class %s", class)
		}
	}
	b.trace = perigee.Trace{TraceRow: perigee.TraceRow{Outcome: perigee.OutcomeCutOff}}
	var out explainResult
	callTool(t, c, "explain_last_error", nil, &out)
	if out.Explanation != cutOff.explanation {
		t.Errorf("got %+v", out)
	}
}

func TestDetailsOfTheMachineAreKeptFromClients(t *testing.T) {
	b := &backendRig{found: true, answer: func(context.Context, ask.Request, func(ask.Progress)) (ask.Answer, error) {
		return ask.Answer{Text: "a part", Status: ask.Failed,
			Error:   &ask.Failure{Class: perigee.ClassUnavailable, Message: "dial tcp 10.0.0.7:443", Public: "it cannot be reached"},
			Skipped: []ask.Skipped{{Source: "ide", Reason: "read /home/user/x", Public: "no window"}}}, nil
	}}
	s := newServer(t, Options{Backend: b})
	owner, client := pipes(t, s, nil, nil), overHTTP(t, s).connect(t, "team", nil)
	all := func(c *mcp.ClientSession, name string) string {
		data, err := json.Marshal(callTool(t, c, name, map[string]any{}, nil))
		if name == "ask_antigravity" {
			data, err = json.Marshal(callTool(t, c, name, map[string]any{"prompt": "hello"}, nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := all(owner, "ask_antigravity"); !strings.Contains(got, "10.0.0.7") || !strings.Contains(got, "/home/user") {
		t.Errorf("the owner gets %s", got)
	}
	if got := all(client, "ask_antigravity"); strings.Contains(got, "10.0.0.7") || strings.Contains(got, "/home/user") ||
		!strings.Contains(got, "it cannot be reached") || !strings.Contains(got, "no window") {
		t.Errorf("a client gets %s", got)
	}
	for message, private := range map[string]bool{
		"upstream g: dial tcp 127.0.0.1:9: refused":  true,
		"lookup proxy.corp on [fe80::1]:53: no such": true,
		"open /home/user/x: permission denied":       true,
		"Post \"http://internal/v1\": EOF":           true,
		"The model is overloaded. Try 1/2 later.":    false,
	} {
		b.trace = perigee.Trace{TraceRow: perigee.TraceRow{ID: "7", Class: perigee.ClassUnavailable}, Error: message}
		var out explainResult
		if callTool(t, owner, "explain_last_error", nil, &out); out.Message != message {
			t.Errorf("the owner gets %q", out.Message)
		}
		if callTool(t, client, "explain_last_error", nil, &out); (out.Message != message) != private {
			t.Errorf("%q: a client gets %q", message, out.Message)
		}
	}
}

func TestFileTools(t *testing.T) {
	tools, dir := filesIn(t, true)
	s := newServer(t, Options{Files: func(c Caller) *filetool.Tools {
		if c.Key == "" && !c.Trusted {
			return nil
		}
		return tools
	}})
	h := overHTTP(t, s)
	for name, c := range map[string]*mcp.ClientSession{"stdio": pipes(t, s, nil, nil), "http": h.connect(t, "team", nil)} {
		t.Run(name, func(t *testing.T) {
			var written filetool.WriteResult
			r := callTool(t, c, "write_file", map[string]any{"path": name + "/a.txt", "content": "one\ntwo\n", "create_dirs": true}, &written)
			if r.IsError || !written.Created || written.Bytes != 8 {
				t.Fatalf("write: %+v %s", written, textOf(t, r))
			}
			var read filetool.ReadResult
			r = callTool(t, c, "read_file", map[string]any{"path": name + "/a.txt"}, &read)
			if textOf(t, r) != "one\ntwo\n" || len(r.Content) != 1 || read.SHA256 != written.SHA256 || read.Lines != 2 {
				t.Errorf("read: %+v %q", read, textOf(t, r))
			}
			r = callTool(t, c, "read_file", map[string]any{"path": name + "/a.txt", "limit": 1}, &read)
			if textOf(t, r) != "one\n" || !read.Truncated || len(r.Content) != 2 || !strings.Contains(r.Content[1].(*mcp.TextContent).Text, "offset 2") {
				t.Errorf("read: %+v %q", read, r.Content)
			}
			r = callTool(t, c, "read_file", map[string]any{"path": name + "/a.txt", "offset": 9}, &read)
			if r.IsError || read.Content != "" || !strings.Contains(textOf(t, r), "ends with line 2") {
				t.Errorf("read past the end: %+v %q", read, textOf(t, r))
			}
			r = callTool(t, c, "write_file", map[string]any{"path": name + "/a.txt", "content": "x", "expected_sha256": strings.Repeat("0", 64)}, nil)
			if !r.IsError || !strings.Contains(textOf(t, r), written.SHA256) {
				t.Errorf("write with another hash: %q", textOf(t, r))
			}
			var list filetool.ListResult
			callTool(t, c, "list_files", map[string]any{"recursive": true, "glob": "*.txt"}, &list)
			if !slices.ContainsFunc(list.Entries, func(e filetool.Entry) bool { return e.Path == name+"/a.txt" }) {
				t.Errorf("list: %+v", list)
			}
			put(t, filepath.Join(dir, "b.bin"), "\x00\x01\xff")
			r = callTool(t, c, "read_file", map[string]any{"path": "b.bin"}, &read)
			if read.Encoding != "base64" || read.Content != "AAH/" || !strings.Contains(textOf(t, r), "not a text file") {
				t.Errorf("binary: %+v %q", read, textOf(t, r))
			}
		})
	}
	keyless := h.connect(t, "", nil)
	if names := toolNames(t, keyless); slices.Contains(names, "read_file") || slices.Contains(names, "write_file") || slices.Contains(names, "list_files") {
		t.Errorf("without a key: %v", names)
	}
	if r := callTool(t, keyless, "read_file", map[string]any{"path": "stdio/a.txt"}, nil); !r.IsError || !strings.Contains(textOf(t, r), "mcp.roots") {
		t.Errorf("without a key: %q", textOf(t, r))
	}
}

func TestReadOnly(t *testing.T) {
	tools, dir := filesIn(t, true)
	readOnly := false
	var mu sync.Mutex
	b := &backendRig{}
	c := pipes(t, newServer(t, Options{Backend: b, Files: func(Caller) *filetool.Tools { return tools }, ReadOnly: func() bool {
		mu.Lock()
		defer mu.Unlock()
		return readOnly
	}}), nil, nil)
	if !slices.Contains(toolNames(t, c), "write_file") {
		t.Error("write_file is not listed")
	}
	mu.Lock()
	readOnly = true
	mu.Unlock()
	if names := toolNames(t, c); slices.Contains(names, "write_file") || !slices.Contains(names, "read_file") {
		t.Errorf("read-only: %v", names)
	}
	if r := callTool(t, c, "write_file", map[string]any{"path": "a", "content": "b"}, nil); !r.IsError || !strings.Contains(textOf(t, r), "read-only") {
		t.Errorf("got %q", textOf(t, r))
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("the file was written")
	}
	callTool(t, c, "ask_antigravity", map[string]any{"prompt": "p"}, nil)
	if !b.lastAsk(t).ReadOnly {
		t.Error("the ask is not read-only")
	}
	// Tools that cannot write are enough.
	only, _ := filesIn(t, false)
	c = pipes(t, newServer(t, Options{Files: func(Caller) *filetool.Tools { return only }}), nil, nil)
	if names := toolNames(t, c); slices.Contains(names, "write_file") {
		t.Errorf("tools that cannot write: %v", names)
	}
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	started, proceed := make(chan struct{}, maxCalls), make(chan struct{})
	b := &backendRig{answer: func(ctx context.Context, r ask.Request, _ func(ask.Progress)) (ask.Answer, error) {
		if r.Prompt == "wait" {
			started <- struct{}{}
			select {
			case <-proceed:
			case <-ctx.Done():
			}
		}
		return ask.Answer{Text: r.Prompt, Status: ask.Done}, nil
	}}
	c := pipes(t, newServer(t, Options{Backend: b}), nil, nil)
	var calls sync.WaitGroup
	for range maxCalls {
		calls.Go(func() {
			r, err := c.CallTool(soon(t), &mcp.CallToolParams{Name: "ask_antigravity", Arguments: map[string]any{"prompt": "wait"}})
			if err != nil || r.IsError {
				t.Errorf("%v, %+v", err, r)
			}
		})
	}
	for range maxCalls {
		await.Receive(t, started, "a call")
	}
	if r := callTool(t, c, "ask_antigravity", map[string]any{"prompt": "more"}, nil); !r.IsError || !strings.Contains(textOf(t, r), "32 calls") {
		t.Errorf("got %q", textOf(t, r))
	}
	close(proceed)
	await.Return(t, calls.Wait, "all calls")
	if r := callTool(t, c, "ask_antigravity", map[string]any{"prompt": "more"}, nil); r.IsError {
		t.Errorf("got %q", textOf(t, r))
	}
}

func TestAPanicIsAResult(t *testing.T) {
	b := &backendRig{answer: func(context.Context, ask.Request, func(ask.Progress)) (ask.Answer, error) { panic("oops") }}
	c := pipes(t, newServer(t, Options{Backend: b}), nil, nil)
	for range 2 * maxCalls { // none of them is counted forever
		if r := callTool(t, c, "ask_antigravity", map[string]any{"prompt": "p"}, nil); !r.IsError || !strings.Contains(textOf(t, r), "internal error") {
			t.Fatalf("got %q", textOf(t, r))
		}
	}
}

// TestSchemas checks the keywords of all schemas, and that results fit them.
func TestSchemas(t *testing.T) {
	tools, dir := filesIn(t, true)
	put(t, filepath.Join(dir, "a.txt"), "text\n")
	b := &backendRig{found: true, trace: perigee.Trace{TraceRow: perigee.TraceRow{ID: "1", Class: "invalid"}}}
	b.answer = func(_ context.Context, r ask.Request, _ func(ask.Progress)) (ask.Answer, error) {
		return ask.Answer{Text: "t", Conversation: "c", Status: ask.Failed, WaitingFor: "w", Source: "ide", Model: "m", Usage: &perigee.Usage{Input: 1},
			Error: &ask.Failure{Class: "invalid", Message: "m", Hint: "h"}, Skipped: []ask.Skipped{{Source: "ide", Reason: "r"}}}, nil
	}
	c := pipes(t, newServer(t, Options{Backend: b, Files: func(Caller) *filetool.Tools { return tools }}), nil, nil)
	list, err := c.ListTools(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{
		"ask_antigravity": map[string]any{"prompt": "p"}, "read_file": map[string]any{"path": "a.txt"},
		"write_file": map[string]any{"path": "b.txt", "content": "x"},
	}
	if len(list.Tools) != 8 {
		t.Fatalf("%d tools", len(list.Tools))
	}
	for _, tool := range list.Tools {
		a := tool.Annotations
		if tool.Title == "" || tool.Description == "" || a == nil {
			t.Errorf("%s has no title, description or annotations", tool.Name)
			continue
		}
		if readOnly := tool.Name != "write_file" && tool.Name != "ask_antigravity"; a.ReadOnlyHint != readOnly {
			t.Errorf("%s: readOnlyHint %v", tool.Name, a.ReadOnlyHint)
		}
		if *a.OpenWorldHint != (tool.Name == "ask_antigravity") || tool.Name == "write_file" && (!*a.DestructiveHint || !a.IdempotentHint) {
			t.Errorf("%s: %+v", tool.Name, a)
		}
		checkKeywords(t, tool.Name+" input", tool.InputSchema, true)
		checkKeywords(t, tool.Name+" output", tool.OutputSchema, false)

		data, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := callTool(t, c, tool.Name, args[tool.Name], nil)
		if err := resolved.Validate(r.StructuredContent); err != nil {
			t.Errorf("%s: %v in %v", tool.Name, err, r.StructuredContent)
		}
		for member := range r.StructuredContent.(map[string]any) {
			if schema.Properties[member] == nil {
				t.Errorf("%s: the schema has no %s", tool.Name, member)
			}
		}
	}
}

// checkKeywords fails for keywords that clients or the models behind them refuse.
func checkKeywords(t *testing.T, where string, schema any, strict bool) {
	t.Helper()
	m, ok := schema.(map[string]any)
	if !ok {
		t.Errorf("%s is %T", where, schema)
		return
	}
	for key, value := range m {
		switch key {
		case "type":
			if _, ok := value.(string); !ok {
				t.Errorf("%s: type is %v", where, value)
			}
		case "description", "required", "enum", "minimum", "maximum":
		case "properties":
			for name, p := range value.(map[string]any) {
				if p.(map[string]any)["description"] == nil && strict {
					t.Errorf("%s: %s has no description", where, name)
				}
				checkKeywords(t, where+" "+name, p, strict)
			}
		case "items":
			checkKeywords(t, where+" items", value, strict)
		case "additionalProperties":
			if value != false || !strict {
				t.Errorf("%s: additionalProperties is %v", where, value)
			}
		default:
			t.Errorf("%s has the keyword %s", where, key)
		}
	}
	if m["type"] == nil {
		t.Errorf("%s has no type", where)
	}
}

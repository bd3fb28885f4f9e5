package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/observe/trace"
	"perigee/internal/testing/perigeetest/await"
)

// A rig is a Store over a directory of its own.
type rig struct {
	*trace.Store
	dir string
	log *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newRig(t *testing.T, change func(*trace.Options)) *rig {
	t.Helper()
	log := &syncBuffer{}
	opts := trace.Options{Dir: filepath.Join(t.TempDir(), "traces"), Keep: 100 << 20, Bodies: true, Share: 1,
		Now: time.Now, Logger: slog.New(slog.NewTextHandler(log, nil)), Redactor: func() *redact.Redactor { return nil }}
	if change != nil {
		change(&opts)
	}
	r := &rig{trace.New(opts), opts.Dir, log}
	t.Cleanup(func() { r.close(t) })
	return r
}

func (r *rig) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

var moment = time.Date(2026, 11, 15, 14, 20, 4, 88e6, time.UTC)

// begin begins a call.
func (r *rig) begin(t *testing.T, id string, origin *perigee.Origin) perigee.Watcher {
	t.Helper()
	call := perigee.Call{ID: id, Time: moment, Operation: perigee.OperationGenerate, Dialect: perigee.DialectOpenAIChat, Stream: true,
		ModelAsked: "gpt-4o", Outcome: perigee.OutcomeOpen, Client: perigee.Client{Name: "codex", Key: "laptop"}}
	if origin == nil {
		origin = &perigee.Origin{Method: "POST", Path: "/v1/chat/completions"}
	}
	w := r.Watch(&call, origin)
	if w == nil {
		t.Fatal("the call is not traced")
	}
	return w
}

// end ends a call as done, or with an error.
func end(w perigee.Watcher, id string, failure *perigee.Error) {
	call := perigee.Call{ID: id, Time: moment, Operation: perigee.OperationGenerate, Dialect: perigee.DialectOpenAIChat, Stream: true,
		ModelAsked: "gpt-4o", Model: "gemini-3-flash", Upstream: "studio", Account: "ada@example.com", Outcome: perigee.OutcomeDone,
		ClientStatus: 200, FirstByte: 5 * time.Millisecond, Duration: 9 * time.Millisecond, Client: perigee.Client{Name: "codex", Key: "laptop"}}
	if failure != nil {
		call.Outcome, call.Class, call.Error, call.Status, call.ClientStatus = perigee.OutcomeFailed, failure.Class, failure.Message, failure.Status, 502
	}
	w.Ended(&call)
	w.Done()
}

// read returns the trace of a call that has ended, once it is complete.
func (r *rig) read(t *testing.T, id string) *trace.Trace {
	t.Helper()
	var got *trace.Trace
	await.Until(t, "the trace of "+id, func() bool {
		var err error
		got, err = trace.Open(r.dir, id)
		return err == nil && got.Meta.Outcome != perigee.OutcomeOpen
	})
	return got
}

func content(t *testing.T, tr *trace.Trace, name string) string {
	t.Helper()
	data, err := tr.Read(name)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return string(data)
}

// follow shows all that a call with two tries shows.
func follow(w perigee.Watcher) {
	tap := w.(perigee.AttemptTap)
	w.Body(perigee.TapClientRequest, []byte(`{"model":`), []byte(`"gpt-4o"}`))
	w.Body(perigee.TapProviderRequest, []byte(`{"try":1}`))
	tap.ProviderEndpoint("https://daily.example")
	tap.ProviderStatus(429)
	w.Body(perigee.TapProviderAnswer, []byte(`{"error":{}}`))
	tap.Attempted(&perigee.Attempt{Upstream: "antigravity", Account: "ada@example.com", Class: perigee.ClassRateLimited, Error: "slow down", Why: "first"})
	w.Body(perigee.TapProviderRequest, []byte(`{"try":`), []byte(`2}`))
	tap.ProviderStatus(200)
	w.Body(perigee.TapProviderAnswer, []byte("data: {\"a\":1}\n\n"))
	w.Event(&perigee.Event{Kind: perigee.EventStart, Upstream: "studio", Model: "gemini-3-flash"})
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: "hel\"lo"})
	w.Body(perigee.TapClientAnswer, []byte("data: hel"))
	w.Body(perigee.TapProviderAnswer, []byte("data: {\"b\":\n2}\n\n"))
	w.Event(&perigee.Event{Kind: perigee.EventFrame, Frame: []byte("{\"b\":\n2}")})
	w.Event(&perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}})
	w.Body(perigee.TapClientAnswer, []byte("lo\n\n"))
}

// What a model spells over several events is found when the call has ended, also beside the
// provider's own chunks.
func TestSecretsSpelledOverEventsAreRedacted(t *testing.T) {
	r := newRig(t, func(o *trace.Options) {
		o.Redactor = func() *redact.Redactor { return redact.New(perigee.NewSecret("the-secret-key")) }
	})
	for id, frames := range map[string]bool{"events": false, "frames": true} {
		w := r.begin(t, id, nil)
		w.Body(perigee.TapClientRequest, []byte(`{"model":"gpt-4o"}`))
		w.Body(perigee.TapProviderRequest, []byte(`{}`))
		for _, text := range []string{"it is the-", "secret", "-key."} {
			chunk := fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text": %q}]}}]}`, text)
			w.Body(perigee.TapProviderAnswer, []byte("data: "+chunk+"\r\n\r\n"))
			if frames {
				w.Event(&perigee.Event{Kind: perigee.EventFrame, Frame: []byte(chunk)})
			}
			w.Event(&perigee.Event{Kind: perigee.EventText, Text: text})
			w.Body(perigee.TapClientAnswer, []byte(fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", text)))
		}
		end(w, id, nil)
		got := r.read(t, id)
		for _, name := range []string{"events.jsonl", "client_response.txt", "upstream_response.sse"} {
			var text string
			await.Until(t, name, func() bool { text = content(t, got, name); return strings.Contains(text, "it is [redacted]") })
			if strings.Contains(text, "secret") || !strings.Contains(text, `"."`) || strings.Count(text, "[redacted]") != 1 {
				t.Errorf("%s of %s: %s", name, id, text)
			}
		}
		if files, _ := os.ReadDir(got.Dir); len(files) != 6 {
			t.Errorf("files %v", files)
		}
	}
}

func TestACallHasItsFiles(t *testing.T) {
	r := newRig(t, nil)
	w := r.begin(t, "c1", &perigee.Origin{Method: "POST", Path: "/v1/chat/completions?key=anything&x=1", Replay: perigee.Replay{Of: "c0"},
		Header: http.Header{"Authorization": {"Bearer whatever"}, "User-Agent": {"codex/1.0"}, "X-Api-Key": {"whatever"}}})
	follow(w)
	end(w, "c1", nil)
	got := r.read(t, "c1")
	if want := filepath.Join(r.dir, "2026-11-15", "142004.088-c1"); got.Dir != want {
		t.Errorf("directory %s, want %s", got.Dir, want)
	}
	for name, want := range map[string]string{
		"client_request.json": `{"model":"gpt-4o"}`, "upstream_request.json": `{"try":1}`, "upstream_response.json": `{"error":{}}`,
		"upstream_request.2.json": `{"try":2}`, "upstream_response.2.sse": "data: {\"a\":1}\n\ndata: {\"b\":\n2}\n\n", "client_response.txt": "data: hello\n\n",
	} {
		if data := content(t, got, name); data != want {
			t.Errorf("%s: %q, want %q", name, data, want)
		}
	}
	if names := got.Files(); len(names) != 8 || slices.Contains(names, "error.json") || slices.Contains(names, "notes.json") {
		t.Errorf("files %q", names)
	}
	lines := strings.Split(strings.TrimSpace(content(t, got, "events.jsonl")), "\n")
	var texts []string
	for _, line := range lines {
		var e struct {
			MS         *float64
			Kind, Text string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.MS == nil {
			t.Errorf("%s: %v", line, err)
		}
		texts = append(texts, e.Kind+e.Text)
	}
	if want := []string{"start", `texthel"lo`, "finish"}; !slices.Equal(texts, want) {
		t.Errorf("events %q, want %q", texts, want)
	}
	m := got.Meta
	if m.ID != "c1" || m.Model != "gemini-3-flash" || m.Status != 200 || m.ClientName != "codex" || m.Key != "laptop" || !m.Bodies || m.ReplayOf != "c0" ||
		m.Path != "/v1/chat/completions?key=[redacted]&x=1" || m.Headers.Get("Authorization") != "[redacted]" || m.Headers.Get("X-Api-Key") != "[redacted]" ||
		m.Headers.Get("User-Agent") != "codex/1.0" || m.Truncated != nil {
		t.Errorf("%+v", m)
	}
	if len(m.Tries) != 2 {
		t.Fatalf("%+v", m.Tries)
	}
	one, two := m.Tries[0], m.Tries[1]
	if one.Upstream != "antigravity" || one.Account != "ada@example.com" || one.Status != 429 || one.Class != "rate_limited" || one.Error != "slow down" ||
		one.Request != "upstream_request.json" || one.Response != "upstream_response.json" {
		t.Errorf("%+v", one)
	}
	if one.Endpoint != "https://daily.example" || two.Endpoint != "" {
		t.Errorf("endpoints %q and %q", one.Endpoint, two.Endpoint)
	}
	if two.Upstream != "studio" || two.Status != 200 || two.Class != "" || two.Response != "upstream_response.2.sse" || two.FirstByteMS <= 0 || two.StartedMS < one.StartedMS {
		t.Errorf("%+v", two)
	}
}

// The names of meta.json are part of the contract.
func TestMembersOfMeta(t *testing.T) {
	r := newRig(t, nil)
	w := r.begin(t, "c1", nil)
	follow(w)
	end(w, "c1", nil)
	var members map[string]any
	if err := json.Unmarshal([]byte(content(t, r.read(t, "c1"), "meta.json")), &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"id", "time", "dialect", "model", "upstream", "account", "status", "class", "first_byte_ms", "duration_ms",
		"input_tokens", "output_tokens", "outcome", "client", "key", "bodies", "method", "path", "headers", "tries"} {
		if _, ok := members[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	try := members["tries"].([]any)[0].(map[string]any)
	for _, name := range []string{"upstream", "account", "endpoint", "status", "class", "started_ms", "first_byte_ms"} {
		if _, ok := try[name]; !ok {
			t.Errorf("tries: %s is missing", name)
		}
	}
}

// The directory is there while the call runs, with what has flowed so far, and only the owner can
// read it.
func TestFilesAreWrittenWhileTheCallRuns(t *testing.T) {
	r := newRig(t, nil)
	w := r.begin(t, "c1", nil)
	w.Body(perigee.TapClientRequest, []byte("{}"))
	w.Body(perigee.TapClientAnswer, []byte("first "))
	await.Until(t, "the first piece", func() bool {
		got, err := trace.Open(r.dir, "c1")
		if err != nil {
			return false
		}
		data, _ := got.Read("client_response.txt")
		return got.Meta.Outcome == perigee.OutcomeOpen && string(data) == "first "
	})
	w.Body(perigee.TapClientAnswer, []byte("second"))
	end(w, "c1", nil)
	got := r.read(t, "c1")
	if data := content(t, got, "client_response.txt"); data != "first second" {
		t.Errorf("%q", data)
	}
	if runtime.GOOS == "windows" {
		return
	}
	seen := 0
	_ = filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		info, _ := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if seen++; err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if seen < 5 {
		t.Errorf("%d files", seen)
	}
}

func TestErrorAndNotes(t *testing.T) {
	for _, bodies := range []bool{true, false} {
		r := newRig(t, func(o *trace.Options) { o.Bodies = bodies })
		w := r.begin(t, "c1", nil)
		follow(w)
		call := perigee.Call{ID: "c1", Time: moment, Outcome: perigee.OutcomeFailed, Class: perigee.ClassInvalid, Error: `bad value "of the body"`,
			ClientStatus: 400, Notes: []string{"dropped logprobs"}, Upstream: "studio"}
		w.Ended(&call)
		w.Done()
		got := r.read(t, "c1")
		if data := content(t, got, "notes.json"); !strings.Contains(data, `"dropped logprobs"`) {
			t.Errorf("notes %s", data)
		}
		var failure trace.Failure
		if err := json.Unmarshal([]byte(content(t, got, "error.json")), &failure); err != nil || failure.Class != perigee.ClassInvalid ||
			failure.Status != 400 || (failure.Message != "") != bodies {
			t.Errorf("%+v, %v", failure, err)
		}
		if got.Meta.Bodies != bodies {
			t.Errorf("bodies: %v", got.Meta.Bodies)
		}
		if bodies {
			continue
		}
		if names := got.Files(); !slices.Equal(names, []string{"meta.json", "notes.json", "error.json"}) {
			t.Errorf("files %q", names)
		}
		for _, name := range got.Files() {
			if data := content(t, got, name); strings.Contains(data, "of the body") || strings.Contains(data, "slow down") {
				t.Errorf("%s quotes a body: %s", name, data)
			}
		}
		if len(trace.Has(r.dir, "c1")) != 0 || len(got.Meta.Tries) != 2 {
			t.Errorf("%+v", got.Meta)
		}
	}
}

func TestWithoutKeepThereAreNoDirectories(t *testing.T) {
	r := newRig(t, func(o *trace.Options) { o.Keep = 0 })
	call := perigee.Call{ID: "c1", Time: moment}
	if w := r.Watch(&call, &perigee.Origin{}); w != nil {
		t.Errorf("the call is traced: %v", w)
	}
	r.close(t)
	if _, err := os.Stat(r.dir); err == nil {
		t.Error("there is a directory")
	}
}

// Secrets are replaced in every file, also where a piece of a stream ends within one, and if they
// become known during the call.
func TestSecretsAreReplaced(t *testing.T) {
	const key, token = "client-key-of-ada/1", "ya29.access-token-of-the-call"
	var mu sync.Mutex
	known := []perigee.Secret{perigee.NewSecret(key)}
	r := newRig(t, func(o *trace.Options) {
		o.Redactor = func() *redact.Redactor {
			mu.Lock()
			defer mu.Unlock()
			return redact.New(known...)
		}
	})
	w := r.begin(t, "c1", &perigee.Origin{Method: "POST", Path: "/v1/" + key, Header: http.Header{"X-Title": {"by " + key}}})
	w.Body(perigee.TapClientRequest, []byte(`{"a":"`+key+`"}`))
	await.Until(t, "the request", func() bool { return len(trace.Has(r.dir, "c1")) == 1 })
	mu.Lock()
	known = append(known, perigee.NewSecret(token))
	mu.Unlock()
	w.Body(perigee.TapProviderRequest, []byte(token))
	for i := range len(token) {
		w.Body(perigee.TapProviderAnswer, []byte(token[i:i+1]))
		w.Body(perigee.TapClientAnswer, []byte(token[i:i+1]))
	}
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: "it is " + token})
	end(w, "c1", &perigee.Error{Class: perigee.ClassInvalid, Message: "refused " + token + " and " + key})
	got := r.read(t, "c1")
	names := got.Files()
	for _, name := range names {
		data := content(t, got, name)
		if strings.Contains(data, key) || strings.Contains(data, token) {
			t.Errorf("%s: %s", name, data)
		}
		if !strings.Contains(data, "[redacted]") {
			t.Errorf("%s has no mark: %s", name, data)
		}
	}
	if len(names) != 7 {
		t.Errorf("files %q", names)
	}
}

// The ring removes the oldest calls that have ended, also those of a Store before this one.
func TestTheRingKeepsItsSize(t *testing.T) {
	const keep = 200 << 10
	body := bytes.Repeat([]byte("x"), 10<<10)
	r := newRig(t, func(o *trace.Options) { o.Keep = keep })
	plant(t, r.dir, "2026-11-13", "000000.000-ancient", map[string]string{"client_request.json": string(body)})
	r.close(t)
	r = newRig(t, func(o *trace.Options) { o.Dir, o.Keep = r.dir, keep })
	first := r.begin(t, "open", nil)
	first.Body(perigee.TapClientRequest, body)
	for i := range 50 {
		w := r.begin(t, fmt.Sprintf("c%02d", i), nil)
		w.Body(perigee.TapClientRequest, body)
		end(w, fmt.Sprintf("c%02d", i), nil)
	}
	end(first, "open", nil)
	await.Until(t, "the limit", func() bool {
		calls, size := trace.Size(r.dir)
		return size <= keep && calls > 0 && len(trace.Has(r.dir, "c49")) == 1
	})
	r.close(t)
	calls, size := trace.Size(r.dir)
	if size > keep || size < keep/2 || calls < 5 {
		t.Errorf("%d calls of %d bytes are kept", calls, size)
	}
	has := trace.Has(r.dir, "ancient", "c00", "c49")
	if len(has) != 1 || !has["c49"] {
		t.Errorf("%v", has)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "2026-11-13")); err == nil {
		t.Error("the empty directory of a day is still there")
	}
}

// With keep 0 from a reload on, everything goes.
func TestSetLimitsRemovesAll(t *testing.T) {
	r := newRig(t, nil)
	w := r.begin(t, "c1", nil)
	w.Body(perigee.TapClientRequest, []byte("{}"))
	end(w, "c1", nil)
	r.read(t, "c1")
	r.SetLimits(0, true)
	await.Until(t, "the removal", func() bool { calls, _ := trace.Size(r.dir); return calls == 0 })
}

func TestAHugeBodyIsTruncated(t *testing.T) {
	r := newRig(t, func(o *trace.Options) { o.Keep = 1 << 20 })
	w := r.begin(t, "c1", nil)
	w.Body(perigee.TapClientRequest, bytes.Repeat([]byte("x"), 1<<20))
	w.Body(perigee.TapClientAnswer, []byte("short"))
	end(w, "c1", nil)
	got := r.read(t, "c1")
	if data := content(t, got, "client_request.json"); len(data) != 256<<10 || len(got.Meta.Truncated) != 1 ||
		got.Meta.Truncated["client_request.json"] != trace.TruncatedSize {
		t.Errorf("%d bytes, truncated %v", len(data), got.Meta.Truncated)
	}
}

// What the disk refuses does not reach the call, and is logged once.
func TestADirectoryThatCannotBeWritten(t *testing.T) {
	r := newRig(t, nil)
	if err := os.WriteFile(r.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		id := fmt.Sprint("c", i)
		w := r.begin(t, id, nil)
		follow(w)
		end(w, id, nil)
	}
	await.Until(t, "the warning", func() bool { return strings.Contains(r.log.String(), "trace not written") })
	r.close(t)
	if n := strings.Count(r.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, r.log)
	}
}

func TestADirectoryThatIsRemoved(t *testing.T) {
	r := newRig(t, nil)
	w := r.begin(t, "c1", nil)
	w.Body(perigee.TapClientRequest, []byte("{}"))
	await.Until(t, "the request", func() bool { return len(trace.Has(r.dir, "c1")) == 1 })
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	w.Body(perigee.TapClientAnswer, []byte("answer"))
	end(w, "c1", nil)
	next := r.begin(t, "c2", nil)
	next.Body(perigee.TapClientRequest, []byte("{}"))
	end(next, "c2", nil)
	r.read(t, "c2")
}

// A link in place of a file is not followed.
func TestLinksAreNotFollowed(t *testing.T) {
	r := newRig(t, nil)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := r.begin(t, "c1", nil)
	w.Body(perigee.TapClientRequest, []byte("{}"))
	await.Until(t, "the request", func() bool { return len(trace.Has(r.dir, "c1")) == 1 })
	dir := filepath.Join(r.dir, "2026-11-15", "142004.088-c1")
	if err := os.Symlink(outside, filepath.Join(dir, "client_response.txt")); err != nil {
		t.Skip(err)
	}
	w.Body(perigee.TapClientAnswer, []byte("answer"))
	end(w, "c1", nil)
	got := r.read(t, "c1")
	if data, err := os.ReadFile(outside); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
	if got.Meta.Truncated["client_response.txt"] != trace.TruncatedDisk {
		t.Errorf("%+v", got.Meta)
	}
	if _, err := got.Read("client_response.txt"); err == nil {
		t.Error("the link is read")
	}
}

// Calls beyond the share of the processor are not traced, and the log says how many.
func TestCallsBeyondTheShareAreNotTraced(t *testing.T) {
	r := newRig(t, func(o *trace.Options) { o.Share = 1e-9 })
	body := bytes.Repeat([]byte(`{"text":"abc"}`), 100<<10)
	for i := 0; i < 100_000 && r.Skipped() == 0; i++ {
		id := fmt.Sprint("c", i)
		w := r.begin(t, id, nil)
		w.Body(perigee.TapClientRequest, body)
		end(w, id, nil)
	}
	if r.Skipped() == 0 {
		t.Fatal("every call is traced")
	}
	await.Until(t, "the warning", func() bool { return strings.Contains(r.log.String(), "too much of the processor") })
}

func TestAfterCloseNothingIsTraced(t *testing.T) {
	r := newRig(t, nil)
	w := r.begin(t, "c1", nil)
	r.close(t)
	w.Body(perigee.TapClientAnswer, []byte("late"))
	end(w, "c1", nil)
	call := perigee.Call{ID: "c2", Time: moment}
	if w := r.Watch(&call, &perigee.Origin{}); w != nil {
		t.Errorf("%v", w)
	}
	if got, err := trace.Open(r.dir, "c1"); err != nil || got.Meta.Outcome != perigee.OutcomeOpen {
		t.Errorf("%+v, %v", got, err)
	}
}

// IDs that could lead to another directory have no trace.
func TestNamesOfDirectories(t *testing.T) {
	r := newRig(t, nil)
	for _, id := range []string{"", "../x", "a/b", `a\b`, ".", strings.Repeat("x", 200)} {
		if w := r.Watch(&perigee.Call{ID: id, Time: moment}, &perigee.Origin{}); w != nil {
			t.Errorf("%q is traced", id)
		}
	}
}

// Many calls at once, from several goroutines each.
func TestManyCallsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			id := fmt.Sprint("c", i)
			w := r.begin(t, id, nil)
			w.Body(perigee.TapClientRequest, []byte("{}"))
			w.Body(perigee.TapProviderRequest, []byte("{}"))
			var parts sync.WaitGroup
			for range 3 {
				parts.Go(func() {
					for range 100 {
						w.Body(perigee.TapProviderAnswer, []byte("data: x\n\n"))
						w.Body(perigee.TapClientAnswer, []byte("data: y\n\n"))
						w.Event(&perigee.Event{Kind: perigee.EventText, Text: "x"})
					}
				})
			}
			parts.Wait()
			end(w, id, nil)
		})
	}
	await.Return(t, calls.Wait, "the calls")
	for i := range 50 {
		got := r.read(t, fmt.Sprint("c", i))
		for name, want := range map[string]int{"upstream_response.sse": 300 * len("data: x\n\n"), "client_response.txt": 300 * len("data: y\n\n")} {
			if data := content(t, got, name); len(data) != want {
				t.Errorf("c%d: %s has %d bytes, want %d", i, name, len(data), want)
			}
		}
	}
}

// The record of a call may be complete long before a slow client has read its answer.
func TestAClientThatReadsSlowly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.begin(t, "c1", nil)
	w.Body(perigee.TapClientRequest, []byte("{}"))
	w.Body(perigee.TapClientAnswer, []byte("first "))
	w.Ended(&perigee.Call{ID: "c1", Time: moment, Outcome: perigee.OutcomeDone})
	r.read(t, "c1")
	w.Body(perigee.TapClientAnswer, []byte("second"))
	w.Done()
	await.Until(t, "the rest", func() bool {
		got, err := trace.Open(r.dir, "c1")
		return err == nil && content(t, got, "client_response.txt") == "first second"
	})
}

// A replay is traced with the call that it repeats; one of the many calls that shrink a request is
// not traced.
func TestTrialsAreNotTraced(t *testing.T) {
	r := newRig(t, nil)
	call := perigee.Call{ID: "trial", Time: moment}
	if w := r.Watch(&call, &perigee.Origin{Replay: perigee.Replay{Of: "c0", Trial: true}}); w != nil {
		t.Errorf("a trial is traced: %v", w)
	}
	end(r.begin(t, "replay", &perigee.Origin{Replay: perigee.Replay{Of: "c0"}}), "replay", nil)
	r.close(t)
	if m := r.read(t, "replay").Meta; m.ReplayOf != "c0" {
		t.Errorf("replay_of is %q", m.ReplayOf)
	}
}

// A listing right after a call finds its trace.
func TestFlushWritesWhatWasShown(t *testing.T) {
	r := newRig(t, nil)
	for i := range 20 {
		id := fmt.Sprint("c", i)
		w := r.begin(t, id, nil)
		follow(w)
		end(w, id, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r.Flush(ctx)
		cancel()
		if got, err := trace.Open(r.dir, id); err != nil || got.Meta.Outcome != perigee.OutcomeDone || !trace.Has(r.dir, id)[id] {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	r.close(t)
	r.Flush(t.Context()) // returns at once
}

// A reader of calls says which of them have bodies.
func TestReaderTellsOfBodies(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "2026-11-15", "142004.088-c1", map[string]string{"client_request.json": "{}"})
	calls, err := trace.Reader{CallReader: twoCalls{}, Dir: func() string { return dir }}.Calls(t.Context(), perigee.CallQuery{})
	if err != nil || len(calls) != 2 || !calls[0].TraceRow().Bodies || calls[1].TraceRow().Bodies {
		t.Errorf("%+v, %v", calls, err)
	}
}

type twoCalls struct{}

func (twoCalls) Calls(context.Context, perigee.CallQuery) ([]perigee.Call, error) {
	return []perigee.Call{{ID: "c1"}, {ID: "c2"}}, nil
}

// The oldest traces make room for the database; when none is left to remove, calls are not traced,
// and those that are open get no more bodies.
func TestTracesMakeRoom(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	dir := t.TempDir()
	options := func(o *trace.Options) {
		o.Dir = dir
		o.Free = func(string) (int64, bool) { return free.Load(), true }
	}
	r := newRig(t, options)
	for i := range 10 {
		id := fmt.Sprint("c", i)
		w := r.begin(t, id, nil)
		w.Body(perigee.TapClientRequest, bytes.Repeat([]byte("x"), 10_000))
		end(w, id, nil)
		r.read(t, id)
	}
	open := r.begin(t, "open", nil)
	open.Body(perigee.TapClientAnswer, []byte("first"))
	flush(t, r)

	free.Store(trace.Reserve / 2) // by something else: no trace could make up for it
	early := 0
	await.Until(t, "tracing to stop", func() bool {
		early++
		id := fmt.Sprint("early", early)
		w := r.Watch(&perigee.Call{ID: id, Time: moment}, &perigee.Origin{})
		if w != nil {
			end(w, id, nil)
		}
		return w == nil
	})
	if calls, _ := trace.Size(dir); calls < 11 {
		t.Errorf("%d traces are left", calls)
	}
	skipped := r.Skipped()
	free.Store(trace.Reserve - 25_000) // the removed ones are not counted at once, as on some file systems
	await.Until(t, "traces to be removed", func() bool { _, err := trace.Open(dir, "c2"); return err != nil })
	for _, id := range []string{"c0", "c1", "c2"} {
		if _, err := trace.Open(dir, id); err == nil {
			t.Errorf("%s is there", id)
		}
	}
	free.Store(0)
	await.Until(t, "all traces to be removed", func() bool { calls, _ := trace.Size(dir); return calls == 1 })
	if r.Watch(&perigee.Call{ID: "late", Time: moment}, &perigee.Origin{}) != nil || r.Skipped() != skipped+1 {
		t.Errorf("%d calls were skipped", r.Skipped()-skipped)
	}
	open.Body(perigee.TapClientAnswer, []byte(" second"))
	flush(t, r)
	free.Store(1 << 40)
	end(open, "open", nil)
	if got := r.read(t, "open"); content(t, got, "client_response.txt") != "first" || got.Meta.Truncated["client_response.txt"] != trace.TruncatedDisk {
		t.Errorf("%+v", got.Meta)
	}
	await.Until(t, "calls to be traced again", func() bool { return r.Watch(&perigee.Call{ID: "again", Time: moment}, &perigee.Origin{}) != nil })
	if log := r.log.String(); !strings.Contains(log, "removed the oldest traces") || !strings.Contains(log, `reason="the disk is almost full"`) {
		t.Errorf("the log is %s", log)
	}
}

func flush(t *testing.T, r *rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.Flush(ctx)
}

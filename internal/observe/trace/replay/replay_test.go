package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/observe/trace"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/route"
	"perigee/internal/route/record"
	"perigee/internal/server"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/upstream/api"
)

// A rig is a server whose calls are answered by the simulator, and traces that are written by hand.
type rig struct {
	*testing.T
	dir    string
	packed bool // traces are one file each
	server *server.Server

	mu    sync.Mutex
	calls map[string]perigee.Call
	acts  []perigee.AuditEntry
	seen  []perigee.Replay // of the calls that were recorded
	sent  []string         // to the provider
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir(), calls: map[string]perigee.Call{}}
	sim, err := simulator.New(simulator.Options{Seed: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	upstream := api.New(api.Gemini, api.Options{Name: "studio", URL: "http://simulator", Transport: sim.Transport(),
		Keys: []perigee.Secret{perigee.NewSecret("simulator")}})
	t.Cleanup(func() { _ = upstream.Close() })
	router, err := route.New(route.Options{Targets: []route.Target{{Name: "studio", Upstream: upstream}, {Name: "broken", Upstream: broken{}}}})
	if err != nil {
		t.Fatal(err)
	}
	recorder := record.New(router, record.Options{Store: r, Watch: []func(*perigee.Call, *perigee.Origin) perigee.Watcher{r.watch}})
	t.Cleanup(func() { _ = recorder.Close(context.Background()) })
	service := replay.New(replay.Options{
		Open: trace.In(r.dir), Calls: func() perigee.CallReader { return record.Reader{Recorder: recorder, Store: r} },
		Handler: func() http.Handler { return r.server.Trusted() }, Recorder: func() *record.Recorder { return recorder },
		NewID: func() string { return perigee.NewCallID(time.Now()) }, Audit: func() replay.AuditLog { return r },
	})
	r.server = server.New(server.Options{Upstream: recorder, Refused: recorder.Refused, Mounts: service.Points(),
		Admin: func(offer string) (bool, error) { return offer == "owner", nil },
	}, server.Settings{MaxBody: 64 << 20, Keys: []server.Key{{Name: "laptop", Secret: perigee.NewSecret("laptop-secret"), RPM: 1}}})
	t.Cleanup(r.server.Close)
	return r
}

// eachForm runs a test with traces that have a file for each body, and with traces of one file.
func eachForm(t *testing.T, test func(t *testing.T, r *rig)) {
	for name, packed := range map[string]bool{"files": false, "one file": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.packed = packed
			test(t, r)
		})
	}
}

// A broken upstream answers nothing, and sends no recorded requests.
type broken struct{ perigee.Upstream }

func (r *rig) SaveCalls(_ context.Context, calls []perigee.Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range calls {
		r.calls[c.ID] = c
	}
	return nil
}

func (r *rig) Calls(_ context.Context, q perigee.CallQuery) (found []perigee.Call, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.calls {
		if q.ID == id || q.ID == "" && strings.HasPrefix(id, q.Prefix) {
			found = append(found, c)
		}
	}
	return found, nil
}

func (r *rig) Usage(context.Context, perigee.UsageQuery) ([]perigee.UsageRow, error) { return nil, nil }

func (r *rig) Record(_ context.Context, e perigee.AuditEntry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts = append(r.acts, e)
	return nil
}

func (r *rig) watch(_ *perigee.Call, origin *perigee.Origin) perigee.Watcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := origin.Replay
	seen.Watcher = nil
	r.seen = append(r.seen, seen)
	return &tap{rig: r}
}

// A tap keeps what is sent to the provider.
type tap struct{ rig *rig }

func (w *tap) Body(at perigee.TapPoint, pieces ...[]byte) {
	if at == perigee.TapProviderRequest {
		w.rig.mu.Lock()
		defer w.rig.mu.Unlock()
		w.rig.sent = append(w.rig.sent, string(bytes.Join(pieces, nil)))
	}
}

func (w *tap) Done()                {}
func (w *tap) Event(*perigee.Event) {}
func (w *tap) Ended(*perigee.Call)  {}

// plant writes the trace of a call.
func (r *rig) plant(m trace.Meta, files map[string]string) {
	r.Helper()
	m.Time = time.Date(2026, 11, 15, 14, 20, 4, 0, time.UTC)
	dir := filepath.Join(r.dir, "2026-11-15", "142004.000-"+m.ID)
	meta, err := json.Marshal(m)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if files == nil {
		files = map[string]string{}
	}
	files[trace.MetaName] = string(meta)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	if err == nil && r.packed {
		err = perigeetest.PackTrace(dir)
	}
	if err != nil {
		r.Fatal(err)
	}
	call := perigee.Call{ID: m.ID, Time: m.Time, Dialect: m.Dialect, Outcome: m.Outcome, Class: m.Class, ClientStatus: m.Status}
	var failure trace.Failure
	if json.Unmarshal([]byte(files[trace.ErrorName]), &failure) == nil {
		call.Error = failure.Message
	}
	_ = r.SaveCalls(r.Context(), []perigee.Call{call})
}

// meta describes a call.
func meta(id string, dialect perigee.Dialect, path string) trace.Meta {
	m := trace.Meta{Method: http.MethodPost, Path: path, Operation: perigee.OperationGenerate, Headers: http.Header{"User-Agent": {"claude-cli/2.0 (x)"}}}
	m.ID, m.Dialect, m.Outcome, m.Status = id, dialect, perigee.OutcomeDone, http.StatusOK
	return m
}

// post makes a request as the owner.
func (r *rig) post(target string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(r.Context(), http.MethodPost, target, nil)
	req.Header.Set("Authorization", "Bearer owner")
	w := httptest.NewRecorder()
	r.server.ServeHTTP(w, req)
	return w
}

const hello = `{"model":"gemini-3-flash","messages":[{"role":"user","content":"[[text: hello]]"}],"max_tokens":100}`

// A replay has the shape of the call that it repeats, in every dialect, streamed or not.
func TestReplayAnswersAsTheCallWas(t *testing.T) { eachForm(t, replayAnswersAsTheCallWas) }

func replayAnswersAsTheCallWas(t *testing.T, r *rig) {
	for i, test := range []struct {
		dialect           perigee.Dialect
		path, body, query string
		want              string // in the body
		kind              string
	}{
		{perigee.DialectOpenAIChat, "/v1/chat/completions", hello, "", `"content":"hello"`, "application/json"},
		{perigee.DialectOpenAIChat, "/v1/chat/completions", strings.Replace(hello, "{", `{"stream":true,`, 1), "", "data: [DONE]", "text/event-stream"},
		{perigee.DialectAnthropic, "/v1/messages?beta=true", hello, "", `"type":"message"`, "application/json"},
		{perigee.DialectOpenAIResponses, "/v1/responses", `{"model":"gemini-3-flash","input":"[[text: hello]]","store":false}`, "", `"object":"response"`, "application/json"},
		{perigee.DialectGemini, "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse&key=[redacted]",
			`{"contents":[{"role":"user","parts":[{"text":"[[text: hello]]"}]}]}`, "", `"candidates"`, "text/event-stream"},
		{perigee.DialectOpenAIChat, "/v1/chat/completions", hello, "&model=gemini-2.5-pro", `"model":"gemini-2.5-pro"`, "application/json"},
		{perigee.DialectOpenAIChat, "/v1/chat/completions", `{"messages":[{"role":"user","content":"[[text: hello]]"}]}`, "&model=gemini-2.5-pro", `"model":"gemini-2.5-pro"`, "application/json"},
		{perigee.DialectGemini, "/v1beta/models/gemini-3-flash:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"[[text: hello]]"}]}]}`, "&model=gemini-2.5-pro", `"modelVersion":"gemini-2.5-pro"`, "application/json"},
	} {
		id := fmt.Sprint("call", i)
		r.plant(meta(id, test.dialect, test.path), map[string]string{trace.ClientRequestName: test.body})
		w := r.post("/v1/replay/" + id + "?upstream=studio" + test.query)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "hello") || !strings.Contains(w.Body.String(), test.want) ||
			!strings.HasPrefix(w.Header().Get("Content-Type"), test.kind) {
			t.Errorf("%s%s: %d %v\n%s", test.path, test.query, w.Code, w.Header(), w.Body)
		}
		if w.Header().Get(replay.OfHeader) != id || w.Header().Get("X-Perigee-Upstream") != "studio" || w.Header().Get(replay.WarningHeader) != "" {
			t.Errorf("%s: %v", test.path, w.Header())
		}
		if last := r.seen[len(r.seen)-1]; last != (perigee.Replay{Of: id, Upstream: "studio"}) {
			t.Errorf("recorded as %+v", last)
		}
	}
	if len(r.acts) != 8 || r.acts[0].Action != perigee.AuditTraceReplay || r.acts[0].Object != "call0" || r.acts[5].Detail != "upstream studio, model gemini-2.5-pro" {
		t.Errorf("%+v", r.acts)
	}
}

// The limits of keys do not count for the owner, and no key is needed.
func TestReplaysAreTheOwners(t *testing.T) {
	r := newRig(t)
	r.plant(meta("c1", perigee.DialectOpenAIChat, "/v1/chat/completions"), map[string]string{trace.ClientRequestName: hello})
	for range 3 {
		if w := r.post("/v1/replay/c1?upstream=studio"); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	for offer, want := range map[string]int{"": 401, "laptop-secret": 403} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/replay/c1", nil)
		req.Header.Set("Authorization", "Bearer "+offer)
		w := httptest.NewRecorder()
		if r.server.ServeHTTP(w, req); w.Code != want {
			t.Errorf("%q: %d %s", offer, w.Code, w.Body)
		}
	}
}

func TestReplaysThatCannotBe(t *testing.T) { eachForm(t, replaysThatCannotBe) }

func replaysThatCannotBe(t *testing.T, r *rig) {
	body := map[string]string{trace.ClientRequestName: hello}
	r.plant(meta("whole", perigee.DialectOpenAIChat, "/v1/chat/completions"), body)
	r.plant(meta("bodiless", perigee.DialectOpenAIChat, "/v1/chat/completions"), nil)
	raw := meta("raw", perigee.DialectOpenAIChat, "/v1/chat/completions")
	raw.ReplayOf = "whole"
	r.plant(raw, nil)
	r.plant(meta("ask", perigee.DialectMCP, ""), body)
	cut := meta("cut", perigee.DialectOpenAIChat, "/v1/chat/completions")
	cut.Truncated = map[string]string{trace.ClientRequestName: trace.TruncatedSize}
	r.plant(cut, body)
	_ = r.SaveCalls(t.Context(), []perigee.Call{{ID: "gone"}})
	r.plant(meta("partial", perigee.DialectOpenAIChat, "/v1/chat/completions"), body)
	dir := filepath.Join(r.dir, "2026-11-15", "142004.000-partial")
	if err := os.Remove(filepath.Join(dir, trace.MetaName)); errors.Is(err, fs.ErrNotExist) { // the last part of the packed file
		path := filepath.Join(dir, trace.PackedName)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{
		"partial":                   "404 the trace of call partial is not complete",
		"whole?upstream=nowhere":    `400 there is no upstream "nowhere"; the upstreams are studio, broken`,
		"whole?raw=true":            "404 call whole has no recorded request to a provider",
		"whole?raw=true&model=x":    "400 raw sends the recorded request as it is",
		"whole?upstraem=studio":     `400 no parameter "upstraem"`,
		"bodiless?upstream=studio":  "404 call bodiless has no recorded request",
		"raw":                       "404 call raw has no recorded request: it cannot be sent again; it repeats call whole: replay that one",
		"ask":                       "501 call ask is an ask of an MCP client",
		"cut":                       "503 client_request.json of call cut is not complete (size)",
		"gone":                      "404 the trace directory of call gone is gone",
		"never":                     `404 there is no call "never"`,
		"whole?raw=perhaps":         `400 raw is "perhaps"`,
		"cut?raw=true":              "404 call cut has no recorded request to a provider",
		"bodiless?raw=1&upstream=x": "404 call bodiless",
	} {
		w := r.post("/v1/replay/" + target)
		if got := fmt.Sprintf("%d %s", w.Code, message(w.Body.Bytes())); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
		if sent := w.Header().Get(replay.OfHeader) != ""; sent != (target == "whole?upstream=nowhere") {
			t.Errorf("%s: %v", target, w.Header())
		}
	}
}

// The path of a recorded call is read from a file. Whatever it says, a replay calls a model and
// does nothing else.
func TestAReplayReachesModelsOnly(t *testing.T) {
	r := newRig(t)
	body := map[string]string{trace.ClientRequestName: `{}`}
	for id, path := range map[string]string{"itself": "/v1/replay/itself", "other": "/v1//shrink/itself", "status": "/v1/status", "compact": "/v1/store/compact"} {
		r.plant(meta(id, perigee.DialectOpenAIChat, path), body)
		w := r.post("/v1/replay/" + id)
		if got := message(w.Body.Bytes()); w.Code != http.StatusBadRequest && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d %s", path, w.Code, got)
		}
	}
	if n := len(r.acts); n != 4 {
		t.Errorf("%d replays were recorded, want one for each request", n)
	}
}

func message(body []byte) string {
	var e struct{ Error struct{ Message string } }
	_ = json.Unmarshal(body, &e)
	return e.Error.Message
}

func TestRedactedRequestsAreSentWithAWarning(t *testing.T) {
	r := newRig(t)
	r.plant(meta("c1", perigee.DialectOpenAIChat, "/v1/chat/completions"), map[string]string{
		trace.ClientRequestName: strings.Replace(hello, "[[text", "the key is [redacted] [[text", 1)})
	if w := r.post("/v1/replay/c1?upstream=studio"); w.Code != 200 || !strings.Contains(w.Header().Get(replay.WarningHeader), "[redacted]") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestRawReplay(t *testing.T) { eachForm(t, rawReplay) }

func rawReplay(t *testing.T, r *rig) {
	const sent = `{"contents":[{"role":"user","parts":[{"text":"[[text: hello]]"}]}]}`
	m := meta("c1", perigee.DialectOpenAIChat, "/v1/chat/completions")
	m.Model, m.ModelAsked, m.Stream = "gemini-3-flash", "gpt-4o", true
	m.Tries = []trace.Try{{Upstream: "broken", Request: "upstream_request.json"}, {Upstream: "studio", Request: "upstream_request.2.json"}, {Upstream: "broken"}}
	r.plant(m, map[string]string{trace.ClientRequestName: hello, "upstream_request.json": "{}", "upstream_request.2.json": sent})
	w := r.post("/v1/replay/c1?raw=true")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `data: {"candidates"`) || w.Header().Get("X-Perigee-Upstream") != "studio" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if len(r.sent) != 1 || r.sent[0] != sent {
		t.Errorf("sent %q", r.sent)
	}
	// The call is recorded with what it cost.
	recorded := r.row(w.Header().Get("X-Perigee-Call"))
	if recorded.Outcome != perigee.OutcomeDone || recorded.Usage.Output == 0 || recorded.Upstream != "studio" || recorded.ModelAsked != "gpt-4o" || recorded.ClientStatus != 200 {
		t.Errorf("%+v", recorded)
	}
	m.ID = "c2"
	r.plant(m, map[string]string{"upstream_request.2.json": `{"contents":[]}`})
	w = r.post("/v1/replay/c2?raw=true")
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"INVALID_ARGUMENT"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if recorded := r.row(w.Header().Get("X-Perigee-Call")); recorded.Outcome != perigee.OutcomeFailed || recorded.Class != perigee.ClassInvalid {
		t.Errorf("%+v", recorded)
	}
	if w := r.post("/v1/replay/c1?raw=true&upstream=broken"); w.Code != 501 || !strings.Contains(w.Body.String(), "upstream broken does not send recorded requests") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// row waits for the record of a call, which is written in the background.
func (r *rig) row(id string) perigee.Call {
	r.Helper()
	var found []perigee.Call
	await.Until(r, "the record of "+id, func() bool {
		found, _ = r.Calls(r.Context(), perigee.CallQuery{ID: id})
		return len(found) == 1 && found[0].Outcome != perigee.OutcomeOpen
	})
	return found[0]
}

// A large request has one bad schema among forty tools. Its cause is found in fewer calls than are
// allowed.
func TestShrinkFindsTheCauseOfALargeFailure(t *testing.T) {
	r := newRig(t)
	body := largeRequest(t)
	first := r.call("/v1beta/models/gemini-3-flash:generateContent", body)
	if first.Code != 400 {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	m := meta("c1", perigee.DialectGemini, "/v1beta/models/gemini-3-flash:generateContent")
	m.Outcome, m.Class, m.Status = perigee.OutcomeFailed, perigee.ClassInvalid, 400
	failure, _ := json.Marshal(trace.Failure{Message: r.row(first.Header().Get("X-Perigee-Call")).Error})
	r.plant(m, map[string]string{trace.ClientRequestName: body, trace.ErrorName: string(failure), "upstream_request.json": body})
	r.seen = nil
	w := r.post("/v1/shrink/c1")
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	var end replay.Line
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil || w.Code != 200 || end.Result == nil {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	t.Logf("%s", failure)
	t.Logf("%d bytes became %d in %d calls:\n%s", end.Result.Before, end.Result.Bytes, end.Result.Calls, end.Result.Request)
	if len(r.seen) != end.Result.Calls || r.seen[0] != (perigee.Replay{Of: "c1", Trial: true}) || len(r.acts) != 1 || r.acts[0].Detail != "shrink" {
		t.Errorf("%d calls were recorded, the first as %+v, with %+v", len(r.seen), r.seen[0], r.acts)
	}
	if want := `{"exclusiveMinimum":0}`; !strings.Contains(end.Result.Request, want) {
		t.Errorf("no %s", want)
	}
	if end.Result.Before < 200_000 || end.Result.Bytes > 400 || end.Result.Calls >= 200 || !end.Result.Whole {
		t.Errorf("%+v", end.Result)
	}
}

// A provider has refused a request also if the request was too large to be kept.
func TestShrinkWithoutTheRequestToTheProvider(t *testing.T) {
	r := newRig(t)
	body := largeRequest(t)
	first := r.call("/v1beta/models/gemini-3-flash:generateContent", body)
	m := meta("c1", perigee.DialectGemini, "/v1beta/models/gemini-3-flash:generateContent")
	m.Outcome, m.Class, m.Status = perigee.OutcomeFailed, perigee.ClassInvalid, 400
	m.Truncated = map[string]string{"upstream_request.json": trace.TruncatedLate}
	failure, _ := json.Marshal(trace.Failure{Message: r.row(first.Header().Get("X-Perigee-Call")).Error})
	r.plant(m, map[string]string{trace.ClientRequestName: body, trace.ErrorName: string(failure)})
	if w := r.post("/v1/shrink/c1"); !strings.Contains(w.Body.String(), `{"result":`) {
		t.Errorf("%d %.500s", w.Code, w.Body)
	}
}

func (r *rig) call(path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.server.Trusted().ServeHTTP(w, httptest.NewRequestWithContext(r.Context(), http.MethodPost, path, strings.NewReader(body)))
	return w
}

// largeRequest is a conversation of an agent in which one property of one tool has a keyword that
// the provider does not know.
func largeRequest(t *testing.T) string {
	t.Helper()
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 30)
	var tools, contents []any
	for i := range 40 {
		properties := map[string]any{}
		for j := range 8 {
			properties[fmt.Sprint("option_", j)] = map[string]any{"type": "string", "description": text[:200]}
		}
		if i == 27 {
			properties["option_5"] = map[string]any{"type": "object", "description": "odd", "properties": map[string]any{
				"range": map[string]any{"type": "integer", "exclusiveMinimum": 0}}}
		}
		tools = append(tools, map[string]any{"name": fmt.Sprint("tool_", i), "description": text,
			"parameters": map[string]any{"type": "object", "properties": properties, "required": []string{"option_1", "option_5"}}})
	}
	for i := range 30 {
		contents = append(contents,
			map[string]any{"role": "user", "parts": []any{map[string]any{"text": text}}},
			map[string]any{"role": "model", "parts": []any{map[string]any{"functionCall": map[string]any{"name": "tool_1", "args": map[string]any{"option_1": text}}}}},
			map[string]any{"role": "user", "parts": []any{map[string]any{"functionResponse": map[string]any{"name": "tool_1", "response": map[string]any{"n": i}}}}},
			map[string]any{"role": "model", "parts": []any{map[string]any{"text": text}}})
	}
	contents = append(contents, map[string]any{"role": "user", "parts": []any{map[string]any{"text": "go on"}}})
	body, err := json.Marshal(map[string]any{"contents": contents, "tools": []any{map[string]any{"functionDeclarations": tools}},
		"systemInstruction": map[string]any{"parts": []any{map[string]any{"text": strings.Repeat(text, 10)}}},
		"generationConfig":  map[string]any{"temperature": 1, "maxOutputTokens": 1000, "thinkingConfig": map[string]any{"includeThoughts": true}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A request that perigee itself refuses is shrunk to what it refuses, and not to another request
// that it refuses as well.
func TestShrinkOfWhatPerigeeRefuses(t *testing.T) { eachForm(t, shrinkOfWhatPerigeeRefuses) }

func shrinkOfWhatPerigeeRefuses(t *testing.T, r *rig) {
	const body = `{"model":"gemini-3-flash","temperature":0.5,"messages":[{"role":"user","content":"hello"},{"role":"user","content":[{"type":"input_image","x":1}]},{"role":"user","content":"more"}]}`
	first := r.call("/v1/chat/completions", body)
	m := meta("c1", perigee.DialectOpenAIChat, "/v1/chat/completions")
	m.Outcome, m.Class, m.Status = perigee.OutcomeFailed, perigee.Class(first.Header().Get("X-Perigee-Class")), first.Code
	recorded := r.row(first.Header().Get("X-Perigee-Call"))
	failure, _ := json.Marshal(trace.Failure{Message: recorded.Error})
	if recorded.BytesIn != int64(len(body)) {
		t.Errorf("the request is recorded with %d bytes", recorded.BytesIn)
	}
	r.plant(m, map[string]string{trace.ClientRequestName: body, trace.ErrorName: string(failure)})
	w := r.post("/v1/shrink/c1")
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	var end replay.Line
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil || end.Result == nil || len(end.Result.Request) > 100 || !strings.Contains(end.Result.Request, "input_image") {
		t.Errorf("%s: %s, %v", failure, w.Body, err)
	}
}

func TestCallsThatCannotBeShrunk(t *testing.T) { eachForm(t, callsThatCannotBeShrunk) }

func callsThatCannotBeShrunk(t *testing.T, r *rig) {
	plant := func(id string, outcome perigee.Outcome, class perigee.Class, text string) {
		m := meta(id, perigee.DialectOpenAIChat, "/v1/chat/completions")
		m.Outcome, m.Class = outcome, class
		failure, _ := json.Marshal(trace.Failure{Message: text})
		r.plant(m, map[string]string{trace.ClientRequestName: hello, trace.ErrorName: string(failure)})
	}
	plant("done", perigee.OutcomeDone, "", "")
	plant("open", perigee.OutcomeOpen, "", "")
	plant("quota", perigee.OutcomeFailed, perigee.ClassExhausted, "used up")
	plant("passed", perigee.OutcomeFailed, perigee.ClassInvalid, "temperature: want less than 2")
	_ = r.SaveCalls(t.Context(), []perigee.Call{{ID: "gone", Class: perigee.ClassInvalid}})
	for id, want := range map[string]string{
		"done":   "400 call done did not fail",
		"open":   "400 call open has not ended",
		"quota":  "400 call quota failed with exhausted, which is not about its request",
		"passed": "503 call passed does not fail in the same way any more: it was 200 invalid (temperature: want less than #), and is answered now",
		"gone":   "404 the trace directory of call gone is gone",
		"never":  `404 there is no call "never"`,
	} {
		w := r.post("/v1/shrink/" + id)
		if got := fmt.Sprintf("%d %s", w.Code, message(w.Body.Bytes())); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
}

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/lib/sse"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// An ollamaRig is a server of Ollama with one model, which counts its calls by their paths and has the
// contexts that it was asked for.
type ollamaRig struct {
	*Upstream
	now time.Time

	mu       sync.Mutex
	limit    int // of the model
	loaded   int // what the model is loaded with
	calls    map[string]int
	contexts []int

	// fails, if it is set, answers a request in place of the server, or returns nil.
	fails func(req *http.Request) (*http.Response, error)
}

func newOllamaRig(t *testing.T, entry config.Upstream) *ollamaRig {
	t.Helper()
	r := &ollamaRig{now: time.Unix(1e9, 0), limit: 32768, calls: map[string]int{}}
	entry.Name, entry.Kind = "local", config.KindOllama
	r.Upstream = New(newOllama(entry), Options{Name: "local", URL: "http://ollama", Transport: r, Now: func() time.Time { return r.now }})
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// RoundTrip answers as the server does, and refuses a chat that could be cut.
func (r *ollamaRig) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	var body struct {
		Truncate, Shift *bool
		Options         struct {
			Context int `json:"num_ctx"`
		}
	}
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		if err != nil || json.Unmarshal(raw, &body) != nil {
			return nil, fmt.Errorf("not JSON: %.100s: %v", raw, err)
		}
	}
	if r.fails != nil {
		if resp, err := r.fails(req); resp != nil || err != nil {
			return resp, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[req.URL.Path]++
	switch req.URL.Path {
	case ollamaShow:
		fmt.Fprintf(w, `{"model_info":{"x.context_length":%d},"capabilities":["completion","tools"]}`, r.limit)
	case ollamaTasks:
		fmt.Fprintf(w, `{"models":[{"name":"m:latest","context_length":%d}]}`, r.loaded)
	case ollamaChat:
		if body.Truncate == nil || *body.Truncate || body.Shift == nil || *body.Shift {
			w.WriteHeader(http.StatusTeapot)
			break
		}
		r.contexts = append(r.contexts, body.Options.Context)
		fmt.Fprint(w, `{"model":"m","message":{"content":"ok"},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}`)
	}
	return w.Result(), nil
}

// ask sends a prompt of about so many tokens and returns the error.
func (r *ollamaRig) ask(t *testing.T, tokens, output int) *perigee.Error {
	t.Helper()
	for _, err := range r.Stream(t.Context(), ollamaRequest(t, strings.Repeat("a bc", tokens), output)) {
		if err != nil {
			return perigee.AsError(err)
		}
	}
	return nil
}

func ollamaRequest(t *testing.T, say string, output int) *perigee.Request {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, output, say)
	req, err := chat.DecodeRequest(perigee.Origin{ID: "r", Body: []byte(body), Log: &perigee.CallLog{}})
	if err != nil {
		t.Fatal(err)
	}
	return req.Request
}

// The context grows in steps, then by doubling, up to the limit; it never shrinks while the model is
// loaded.
func TestOllamaGrowsTheContext(t *testing.T) {
	r := newOllamaRig(t, config.Upstream{Context: 24576, KeepAlive: 30 * time.Minute})
	for _, step := range []struct {
		tokens, output, loaded, want int
		later                        time.Duration
	}{
		{tokens: 10, output: 100, want: 4096},
		{tokens: 4000, output: 100, want: 8192},                 // twice as much
		{tokens: 10, output: 100, want: 8192},                   // not less
		{tokens: 10, output: 9000, loaded: 4096, want: 16384},   // the output counts, too
		{tokens: 20000, output: 100, want: 24576},               // not beyond the limit
		{tokens: 20000, output: 90000, want: 24576},             // whatever the client allows
		{tokens: 10, output: 100, later: time.Hour, want: 4096}, // unloaded since
		{tokens: 10, output: 100, loaded: 32768, want: 32768},   // loaded by another program
		{tokens: 10, output: 100, loaded: 1e9, want: 32768},     // not beyond the model's own limit
		{tokens: 10, output: 100, later: time.Hour, loaded: -8192, want: 4096},
	} {
		r.now, r.loaded = r.now.Add(step.later), step.loaded
		if err := r.ask(t, step.tokens, step.output); err != nil {
			t.Fatalf("%+v: %v", step, err)
		}
		if got := r.contexts[len(r.contexts)-1]; got != step.want {
			t.Errorf("%+v: got %d", step, got)
		}
	}
}

// A prompt that does not fit is refused without a call, once the model is known.
func TestOllamaRefusesPromptsThatDoNotFit(t *testing.T) {
	r := newOllamaRig(t, config.Upstream{Context: 65536, KeepAlive: time.Minute})
	if err := r.ask(t, 200_000, 100); err == nil || r.calls[ollamaShow] != 1 {
		t.Fatalf("got %v after %v", err, r.calls)
	}
	e := r.ask(t, 200_000, 100)
	if e == nil || e.Class != perigee.ClassInvalid || e.Status != http.StatusBadRequest {
		t.Fatalf("got %v", e)
	}
	for dialect, body := range map[string][]byte{
		`"code":"context_length_exceeded"`:                       openai.EncodeError(400, e),
		`maximum context length is 32768 tokens`:                 openai.EncodeError(400, e),
		`"message":"prompt is too long: 200000 tokens > 32768 m`: anthropic.EncodeError(400, e, "req_1"),
		`The input token count (200000) exceeds the maximum num`: gemini.EncodeError(400, e),
	} {
		if !strings.Contains(string(body), dialect) {
			t.Errorf("%s is not in %s", dialect, body)
		}
	}
	if r.calls[ollamaShow] != 1 || r.calls[ollamaTasks] != 0 || r.calls[ollamaChat] != 0 {
		t.Errorf("calls: %v", r.calls)
	}
	r.now, r.limit = r.now.Add(describedFor), 262144 // another model has the name now
	if e := r.ask(t, 60_000, 100); e != nil || r.calls[ollamaShow] != 2 {
		t.Errorf("after the change: %v, calls %v", e, r.calls)
	}
	if e := r.ask(t, 70_000, 100); e == nil || !strings.Contains(e.Message, "65536") {
		t.Errorf("beyond the configured context: %v", e)
	}
}

// After calls at the same time, the context is the largest of theirs.
func TestOllamaContextsOfConcurrentCalls(t *testing.T) {
	r := newOllamaRig(t, config.Upstream{Context: 32768, KeepAlive: time.Minute})
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			if err := r.ask(t, 100*i+1, 1000*i+1); err != nil {
				t.Error(err)
			}
		})
	}
	await.Return(t, wait.Wait, "the calls")
	for _, n := range r.contexts {
		if n%contextStep != 0 || n < contextStep || n > 32768 {
			t.Errorf("contexts: %v", r.contexts)
		}
	}
	if err := r.ask(t, 1, 1); err != nil || r.contexts[20] != slices.Max(r.contexts) {
		t.Errorf("%v, contexts: %v", err, r.contexts)
	}
}

// answerOf returns an answer of the server.
func answerOf(status int, body string) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	return w.Result(), nil
}

// A call needs neither the description of its model nor the list of loaded models. A server that does
// not answer about them delays one call in a minute.
func TestOllamaCallsWithoutDescription(t *testing.T) {
	const silent = -1
	for _, c := range []struct {
		path   string
		status int
		body   string
		took   time.Duration
		class  perigee.Class
	}{
		{ollamaShow, 500, `{"error":"boom"}`, 0, ""},
		{ollamaShow, 503, `{"error":"busy"}`, 0, ""},
		{ollamaShow, 200, `nope`, 0, ""},
		{ollamaShow, 200, `{"capabilities":"completion"}`, 0, ""},
		{ollamaShow, silent, "", maxAskTime, ""},
		{ollamaShow, 404, `{"error":"model 'm' not found"}`, 0, perigee.ClassNotFound},
		{ollamaShow, 401, `{"error":"unauthorized","signin_url":"https://ollama.com"}`, 0, perigee.ClassForbidden},
		{ollamaTasks, 500, `{"error":"boom"}`, 0, ""},
		{ollamaTasks, 200, `[[[`, 0, ""},
		{ollamaTasks, silent, "", maxAskTime, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newOllamaRig(t, config.Upstream{Context: 16384, KeepAlive: time.Minute})
			asked := 0
			r.fails = func(req *http.Request) (*http.Response, error) {
				switch {
				case req.URL.Path != c.path:
					return nil, nil
				case c.status == silent:
					asked++
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				asked++
				return answerOf(c.status, c.body)
			}
			for i, want := range []time.Duration{c.took, 0, c.took} {
				if i == 2 {
					r.now = r.now.Add(askAgain)
				}
				began := time.Now()
				e := r.ask(t, 10, 100)
				if took := time.Since(began); took != want || (e == nil) != (c.class == "") || e != nil && e.Class != c.class {
					t.Errorf("%s %d: call %d took %v, want %v: %v", c.path, c.status, i, took, want, e)
				}
			}
			chats, often := 3, 3
			if c.class != "" {
				chats = 0
			} else if c.path == ollamaShow || c.status == silent {
				often = 2
			}
			if len(r.contexts) != chats || asked != often {
				t.Errorf("%s %d: contexts %v, asked %d times", c.path, c.status, r.contexts, asked)
			}
		})
	}
}

// A client that leaves while the server is asked about the model says nothing about the server.
func TestOllamaClientLeavesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOllamaRig(t, config.Upstream{Context: 16384, KeepAlive: time.Minute})
		asked := 0
		r.fails = func(req *http.Request) (*http.Response, error) {
			asked++
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := ask(ctx, r.Upstream, ollamaRequest(t, "hi", 10))
			cancel()
			if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassCanceled {
				t.Errorf("got %v", err)
			}
		}
		if asked != 2 || len(r.contexts) > 0 {
			t.Errorf("asked %d times, contexts %v", asked, r.contexts)
		}
	})
}

// The names of a list count before the models are described. The descriptions come in parallel, for
// at most maxDetailsTime; the next list has further ones, and keeps the earlier.
func TestOllamaDescribesLongListsInParts(t *testing.T) {
	const models, takes, each = 5000, 50 * time.Millisecond, describers * int(maxDetailsTime/(50*time.Millisecond))
	synctest.Test(t, func(t *testing.T) {
		r := newOllamaRig(t, config.Upstream{Context: 65536})
		var tags []string
		for i := range models {
			tags = append(tags, fmt.Sprintf(`{"name":"m%d:latest"}`, i))
		}
		r.fails = func(req *http.Request) (*http.Response, error) {
			if req.URL.Path != ollamaShow {
				return answerOf(200, `{"models":[`+strings.Join(tags, ",")+`]}`)
			}
			select {
			case <-time.After(takes): // Real time: the time of the bubble
				return nil, nil
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
		}
		for i := range 2 {
			r.now = r.now.Add(describedFor)
			began, named := time.Now(), 0
			list, err := r.Models(perigee.OnNames(t.Context(), func(list []perigee.Model) {
				if named = len(list); time.Since(began) != 0 {
					t.Errorf("the names came after %v", time.Since(began))
				}
			}))
			if took := time.Since(began); err != nil || took != maxDetailsTime || named != models || len(list) != models {
				t.Fatalf("%d names, then %d models after %v: %v", named, len(list), took, err)
			}
			described := 0
			for _, m := range list {
				if m.Context == 32768 && *m.Tools {
					described++
				}
			}
			// Of the requests that end with the time, each may be in time.
			if most := (i + 1) * each; described > most || described < most-(i+1)*describers {
				t.Errorf("list %d: %d models are described", i, described)
			}
		}
	})
}

// A call needs no description of a model that the list describes, with or without its tag.
func TestOllamaListDescribesModels(t *testing.T) {
	r := newOllamaRig(t, config.Upstream{Context: 65536, KeepAlive: time.Minute})
	r.fails = func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/api/tags" {
			return answerOf(200, `{"models":[{"name":"m:latest","details":{"context_length":2048},"capabilities":["completion"]}]}`)
		}
		return nil, nil
	}
	if list, err := r.Models(t.Context()); err != nil || len(list) != 1 || list[0].Context != 2048 {
		t.Fatal(list, err)
	}
	if e := r.ask(t, 3000, 10); e == nil || !strings.Contains(e.Message, "2048") || r.calls[ollamaShow] != 0 {
		t.Errorf("got %v, calls %v", e, r.calls)
	}
	r.now = r.now.Add(describedFor)
	if e := r.ask(t, 3000, 10); e != nil || r.calls[ollamaShow] != 1 {
		t.Errorf("later: got %v, calls %v", e, r.calls)
	}
}

// A line is at most as long as an event of other streams, also where it is the whole answer.
func TestOllamaLinesAreLimited(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		r := newOllamaRig(t, config.Upstream{Context: 16384, KeepAlive: time.Minute})
		line := &endless{}
		r.fails = func(req *http.Request) (*http.Response, error) {
			if req.URL.Path != ollamaChat {
				return nil, nil
			}
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/x-ndjson"}}, Body: io.NopCloser(line), Request: req}, nil
		}
		req := ollamaRequest(t, "hi", 10)
		req.Stream = streamed
		_, err := ask(t.Context(), r.Upstream, req)
		e := perigee.AsError(err)
		if e == nil || e.Class != perigee.ClassUnavailable || !strings.Contains(e.Message, "64 MiB") || line.read > 3*sse.MaxLine {
			t.Errorf("streamed %t: %v after %d bytes", streamed, err, line.read)
		}
	}
}

// An endless reader has no end of a line.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

// A server without models is reachable, and cannot answer.
func TestOllamaHasNoModels(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"models":[]}`) }))
	defer server.Close()
	u := New(newOllama(config.Upstream{Name: "local", URL: server.URL}), Options{Name: "local", URL: server.URL})
	defer u.Close()
	list, err := u.Models(t.Context())
	if err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	want := "OLLAMA_HOST=" + server.URL + " ollama pull qwen3:8b"
	if e := perigee.AsError(u.Probe(t.Context(), list)); e == nil || e.Fix != want {
		t.Errorf("got %+v", e)
	}
	if err := u.Probe(t.Context(), make([]perigee.Model, 1)); err != nil {
		t.Errorf("with a model: %v", err)
	}
}

// Only the server at the default address can be started with the command alone.
func TestOllamaIsStartedAtItsAddress(t *testing.T) {
	for url, want := range map[string]string{"": "ollama serve", defaultOllama: "ollama serve", "http://127.0.0.1:9": ""} {
		e := &perigee.Error{Class: perigee.ClassUnavailable, Cause: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
		if ollamaHint(e, "", config.Upstream{URL: url}); e.Fix != want {
			t.Errorf("%q: the fix is %q", url, e.Fix)
		}
	}
}

// The hint of a server that does not run is the command that starts it, for clients as well.
func TestOllamaIsNotRunning(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	u := New(newOllama(config.Upstream{Name: "local"}), Options{Name: "local", URL: server.URL})
	defer u.Close()
	_, err := ask(t.Context(), u, ollamaRequest(t, "hi", 10))
	e := perigee.AsError(err)
	if e == nil || e.Class != perigee.ClassUnavailable || !strings.Contains(e.Hint, "ollama serve") || e.PublicHint != e.Hint || !strings.Contains(e.Public, "refused") {
		t.Errorf("got %#v", e)
	}
	if _, err := u.Models(t.Context()); err == nil || !strings.Contains(err.Error(), "ollama serve") {
		t.Errorf("the list: %v", err)
	}
}

// Only names that a shell takes as one word are in a command.
func TestOllamaHint(t *testing.T) {
	for model, want := range map[string]string{
		"qwen3:8b": "ollama pull qwen3:8b downloads it", "hf.co/a/b:Q4_K_M": "ollama pull hf.co/a/b:Q4_K_M downloads it",
		"a;rm -r b": "ollama list shows the models of the server", "$(b)": "ollama list shows the models of the server",
	} {
		if got := ollamaHint(perigee.Errorf(perigee.ClassNotFound, "no"), model, config.Upstream{}); got != want {
			t.Errorf("%s: got %q", model, got)
		}
	}
}

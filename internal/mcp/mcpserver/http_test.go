package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/perigeetest/await"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// request sends a request and returns the response. Headers are pairs; an empty value removes a
// header.
func (h *httpRig) request(t *testing.T, ctx context.Context, method, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	response, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// open opens a session and returns its id.
func (h *httpRig) open(t *testing.T, headers ...string) string {
	t.Helper()
	r := h.request(t, soon(t), "POST", initialize, headers...)
	id := r.Header.Get("Mcp-Session-Id")
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 200 || id == "" {
		t.Fatalf("initialize: %v, status %d, session %q", err, r.StatusCode, id)
	}
	return id
}

// readMessage reads the next message of a stream.
func readMessage(t *testing.T, lines *bufio.Reader) reply {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream has ended: %v", err)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || strings.TrimSpace(data) == "" {
			continue
		}
		var m reply
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		return m
	}
}

// readEvents reads messages of a stream until one of them is an answer.
func readEvents(t *testing.T, body io.Reader) []reply {
	t.Helper()
	var all []reply
	for lines := bufio.NewReader(body); ; {
		m := readMessage(t, lines)
		if all = append(all, m); m.Method == "" {
			return all
		}
	}
}

func TestRefusalsAreJSONRPCErrors(t *testing.T) {
	h := overHTTP(t, newServer(t, Options{}))
	id := h.open(t, "Key", "team")
	for _, c := range []struct {
		name, method, body string
		headers            []string
		status, code       int
		class              perigee.Class
	}{
		{"no JSON", "POST", "hello", nil, 400, -32700, "invalid"},
		{"deep nesting", "POST", strings.Repeat("[", 1<<20), nil, 400, -32700, "invalid"},
		{"many small values", "POST", manyValues, nil, 400, -32600, "invalid"},
		{"a batch of many messages", "POST", batchOf(101), nil, 400, -32600, "invalid"},
		{"a batch of many things", "POST", "[" + strings.Repeat("0,", 100) + "0]", nil, 400, -32600, "invalid"},
		{"no message", "POST", `{"a":1}`, []string{"Key", "team", "Mcp-Session-Id", id}, 400, -32700, "invalid"},
		{"another content type", "POST", ping, []string{"Content-Type", "text/plain"}, 415, codeRefused, "invalid"},
		{"no content type", "POST", ping, []string{"Content-Type", ""}, 415, codeRefused, "invalid"},
		{"accepts no stream", "POST", ping, []string{"Accept", "application/json"}, 400, -32600, "invalid"},
		{"unknown session", "POST", ping, []string{"Mcp-Session-Id", "nothing"}, 404, codeRefused, "not_found"},
		{"unknown session to GET", "GET", "", []string{"Mcp-Session-Id", "nothing"}, 404, codeRefused, "not_found"},
		{"unknown session to DELETE", "DELETE", "", []string{"Mcp-Session-Id", "nothing"}, 404, codeRefused, "not_found"},
		{"GET without a session", "GET", "", nil, 400, -32600, "invalid"},
		{"a call without a session", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 400, -32600, "invalid"},
		{"another method", "PUT", "", nil, 405, codeRefused, "invalid"},
		{"GET of a version without sessions", "GET", "", []string{"Mcp-Protocol-Version", "2026-07-28"}, 405, codeRefused, "invalid"},
		{"unknown old version", "POST", ping, []string{"Mcp-Protocol-Version", "2020-01-01"}, 400, -32600, "invalid"},
		{"another host", "POST", initialize, []string{"Host", "example.org"}, 403, codeRefused, "forbidden"},
		{"another key's session", "POST", ping, []string{"Key", "other", "Mcp-Session-Id", id}, 404, codeRefused, "not_found"},
		{"another key's session to GET", "GET", "", []string{"Key", "other", "Mcp-Session-Id", id}, 404, codeRefused, "not_found"},
		{"another key's session to DELETE", "DELETE", "", []string{"Key", "other", "Mcp-Session-Id", id}, 404, codeRefused, "not_found"},
		{"a session without its key", "POST", ping, []string{"Mcp-Session-Id", id}, 404, codeRefused, "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := h.refused(t, c.method, c.body, c.headers)
			if r.status != c.status || r.header.Get("x-perigee-class") != string(c.class) || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, headers %v", r.status, r.header)
			}
			if e := r.message.Error; e == nil || e.Code != c.code || r.message.ID != nil || e.Message == "" || !strings.Contains(r.body, `"class":"`+string(c.class)) {
				t.Errorf("got %s", r.body)
			}
			if c.status == 405 && r.header.Get("Allow") == "" {
				t.Error("no Allow header")
			}
		})
	}
	if r := h.request(t, soon(t), "POST", ping, "Key", "team", "Mcp-Session-Id", id); r.StatusCode != 200 {
		t.Errorf("the session is gone: %d", r.StatusCode)
	}
}

// The gateway bounds bodies by its own settings, and its errors have their own status.
func TestBodyThatTheGatewayRefuses(t *testing.T) {
	tooLarge := perigee.Errorf(perigee.ClassInvalid, "the body is larger than 10 bytes")
	tooLarge.Status = http.StatusRequestEntityTooLarge
	for err, want := range map[error]int{tooLarge: http.StatusRequestEntityTooLarge, io.ErrUnexpectedEOF: http.StatusBadRequest} {
		r := httptest.NewRequest("POST", "/mcp", iotest.ErrReader(err))
		w := httptest.NewRecorder()
		newServer(t, Options{}).ServeHTTP(w, r.WithContext(WithCaller(r.Context(), Caller{Key: "team"})))
		if w.Code != want || w.Header().Get("x-perigee-class") != "invalid" {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

type refusedRig struct {
	status  int
	header  http.Header
	body    string
	message reply
}

func (h *httpRig) refused(t *testing.T, method, body string, headers []string) refusedRig {
	t.Helper()
	ctx := soon(t)
	r, err := http.NewRequestWithContext(ctx, method, h.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := refusedRig{status: response.StatusCode, header: response.Header, body: string(data)}
	_ = json.Unmarshal(data, &out.message)
	return out
}

func TestAHostThatIsConfiguredIsAccepted(t *testing.T) {
	s := newServer(t, Options{})
	h := overHTTP(t, s)
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), Caller{HostChecked: r.Host == "host.docker.internal"})))
	})
	if r := h.refused(t, "POST", initialize, []string{"Host", "host.docker.internal"}); r.status != 200 {
		t.Errorf("status %d, %s", r.status, r.body)
	}
	if r := h.refused(t, "POST", initialize, []string{"Host", "example.org"}); r.status != 403 {
		t.Errorf("status %d, %s", r.status, r.body)
	}
}

// TestProgressInASession reads the stream of a call of a version with sessions.
func TestProgressInASession(t *testing.T) {
	b := &backendRig{answer: func(_ context.Context, _ ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
		progress(ask.Progress{Text: "half"})
		return ask.Answer{Text: "half and half", Status: ask.Done}, nil
	}}
	h := overHTTP(t, newServer(t, Options{Backend: b}))
	id := h.open(t)
	body := strings.Replace(askLine(3, "p"), `"params":{`, `"params":{"_meta":{"progressToken":7},`, 1)
	all := readEvents(t, h.request(t, soon(t), "POST", body, "Mcp-Session-Id", id).Body)
	if len(all) != 2 || all[0].Method != "notifications/progress" || !strings.Contains(string(all[0].Params), `"progressToken":7`) || all[1].ID != 3.0 {
		t.Errorf("got %+v", all)
	}
}

func TestWriteErrorOfABadKey(t *testing.T) {
	e := perigee.Errorf(perigee.ClassUnauthenticated, "no key: %w", perigee.ErrBadKey)
	h := overHTTP(t, newServer(t, Options{}))
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { WriteError(w, e) })
	r := h.refused(t, "POST", ping, nil)
	if r.status != 401 || r.header.Get("WWW-Authenticate") != "Bearer" || r.message.Error.Code != codeRefused {
		t.Errorf("status %d, %v, %s", r.status, r.header, r.body)
	}
}

// A client that would wait for an hour is told not to.
func TestWriteErrorOfAUsedUpLimit(t *testing.T) {
	e := &perigee.Error{Class: perigee.ClassExhausted, Message: "used up", Retry: time.Hour}
	w := httptest.NewRecorder()
	WriteError(w, e)
	if w.Code != 429 || w.Header().Get("Retry-After") != "3600" || w.Header().Get("X-Should-Retry") != "false" {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}

// TestVersionHeaderIsOptional is what Gemini CLI does: it never sends the header.
func TestVersionHeaderIsOptional(t *testing.T) {
	h := overHTTP(t, newServer(t, Options{}))
	id := h.open(t)
	if r := h.request(t, soon(t), "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id); r.StatusCode != 202 {
		t.Errorf("initialized: %d", r.StatusCode)
	}
	r := h.request(t, soon(t), "POST", askLine(3, "hello"), "Mcp-Session-Id", id)
	all := readEvents(t, r.Body)
	if m := all[len(all)-1]; m.ID != 3.0 || !strings.Contains(string(m.Result), "echo: hello") {
		t.Errorf("got %+v %s", m, m.Result)
	}
}

func modernCall(id int, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`+
		`"io.modelcontextprotocol/clientInfo":{"name":"modern","version":"3"}}}}`, id, name, args)
}

func modernHeaders(name string) []string {
	return []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name}
}

func TestRequestsWithoutASession(t *testing.T) {
	b := &backendRig{}
	h := overHTTP(t, newServer(t, Options{Backend: b}))
	body := modernCall(4, "ask_antigravity", `{"prompt":"hello"}`)
	r := h.request(t, soon(t), "POST", body, modernHeaders("ask_antigravity")...)
	all := readEvents(t, r.Body)
	if m := all[len(all)-1]; m.ID != 4.0 || !strings.Contains(string(m.Result), "echo: hello") || !strings.Contains(string(m.Result), `"resultType":"complete"`) {
		t.Errorf("got %+v %s", m, m.Result)
	}
	if r.Header.Get("Mcp-Session-Id") != "" {
		t.Error("there is a session")
	}
	if c := b.lastAsk(t).Client; c.Name != "modern" || c.Version != "3" {
		t.Errorf("client %+v", c)
	}
	// Without the header it is the body that says so, and the header is missing.
	if r := h.refused(t, "POST", body, nil); r.status != 400 || !strings.Contains(r.body, "header") {
		t.Errorf("status %d, %s", r.status, r.body)
	}
}

func TestCancellationReachesTheAsk(t *testing.T) {
	cancelled := make(chan error, 1)
	started := make(chan struct{}, 1)
	b := &backendRig{answer: func(ctx context.Context, r ask.Request, p func(ask.Progress)) (ask.Answer, error) {
		started <- struct{}{}
		return untilCancelled(cancelled)(ctx, r, p)
	}}
	h := overHTTP(t, newServer(t, Options{Backend: b}))
	wait := func(t *testing.T) {
		t.Helper()
		if err := await.Receive(t, cancelled, "the end of the ask"); errors.Is(err, ask.ErrTimeout) {
			t.Errorf("the cause is %v", err)
		}
	}
	t.Run("notification", func(t *testing.T) {
		id := h.open(t)
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		go func() {
			r, err := http.NewRequestWithContext(ctx, "POST", h.URL, strings.NewReader(askLine(5, "work")))
			if err == nil {
				r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "Mcp-Session-Id": {id}}
				if response, err := h.Client().Do(r); err == nil {
					response.Body.Close()
				}
			}
		}()
		await.Receive(t, started, "the ask")
		h.request(t, soon(t), "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, "Mcp-Session-Id", id)
		wait(t)
	})
	t.Run("end of the session", func(t *testing.T) {
		id := h.open(t)
		r := h.request(t, soon(t), "POST", askLine(5, "work"), "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
		await.Receive(t, started, "the ask")
		if d := h.request(t, soon(t), "DELETE", "", "Mcp-Session-Id", id); d.StatusCode != 204 {
			t.Errorf("DELETE: %d", d.StatusCode)
		}
		wait(t)
		r.Body.Close()
		if d := h.request(t, soon(t), "POST", ping, "Mcp-Session-Id", id); d.StatusCode != 404 {
			t.Errorf("after DELETE: %d", d.StatusCode)
		}
	})
	t.Run("closed connection", func(t *testing.T) {
		ctx, cancel := context.WithCancel(soon(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := http.NewRequestWithContext(ctx, "POST", h.URL, strings.NewReader(modernCall(4, "ask_antigravity", `{"prompt":"hello"}`)))
			if err != nil {
				return
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "Mcp-Protocol-Version": {"2026-07-28"},
				"Mcp-Method": {"tools/call"}, "Mcp-Name": {"ask_antigravity"}}
			if response, err := h.Client().Do(r); err == nil {
				response.Body.Close()
			}
		}()
		await.Receive(t, started, "the ask")
		cancel()
		wait(t)
		await.Receive(t, done, "the end of the request")
	})
}

// TestResumption cuts the connection of a call, and fetches its result with the id of the last
// event.
func TestResumption(t *testing.T) {
	proceed := make(chan struct{})
	b := &backendRig{answer: func(ctx context.Context, _ ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return ask.Answer{Text: "late", Status: ask.Done, Source: "ide", Conversation: "c"}, nil
	}}
	h := overHTTP(t, newServer(t, Options{Backend: b}))
	id := h.open(t)
	ctx, cut := context.WithCancel(soon(t))
	r := h.request(t, ctx, "POST", askLine(5, "work"), "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	lines := bufio.NewReader(r.Body)
	var last string
	for last == "" { // the event that opens the stream
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			last = strings.TrimSpace(rest)
		}
	}
	cut()
	close(proceed)
	for { // until the server has noticed that the connection is cut
		r = h.request(t, soon(t), "GET", "", "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25", "Last-Event-ID", last)
		if r.StatusCode != http.StatusConflict {
			break
		}
	}
	if r.StatusCode != 200 {
		t.Fatalf("status %d", r.StatusCode)
	}
	all := readEvents(t, r.Body)
	if m := all[len(all)-1]; m.ID != 5.0 || !strings.Contains(string(m.Result), "late") {
		t.Errorf("got %+v %s", m, m.Result)
	}
	if r := h.refused(t, "GET", "", []string{"Mcp-Session-Id", id, "Last-Event-ID", "nonsense"}); r.status != 400 {
		t.Errorf("nonsense as Last-Event-ID: %d %s", r.status, r.body)
	}
}

func (w *web) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions) + w.opening
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		h := overPipes(t, s)
		// An open stream keeps a session.
		kept := h.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := h.request(t, ctx, "GET", "", "Mcp-Session-Id", kept)
		if stream.StatusCode != 200 {
			t.Fatalf("status %d", stream.StatusCode)
		}
		go func() { _, _ = io.Copy(io.Discard, stream.Body) }() // which has comments
		id := h.open(t)
		time.Sleep(idleSession - time.Second)
		if got := s.web.count(); got != 2 {
			t.Errorf("%d sessions before the time", got)
		}
		time.Sleep(2 * time.Second)
		if got := s.web.count(); got != 1 {
			t.Errorf("%d sessions after the time", got)
		}
		if r := h.request(t, soon(t), "POST", ping, "Mcp-Session-Id", id); r.StatusCode != 404 {
			t.Errorf("status %d", r.StatusCode)
		}
		if r := h.request(t, soon(t), "POST", ping, "Mcp-Session-Id", kept); r.StatusCode != 200 {
			t.Errorf("status %d", r.StatusCode)
		}
	})
}

func TestTheNumberOfSessionsIsBounded(t *testing.T) {
	s := newServer(t, Options{})
	s.web.limit = 2
	h := overHTTP(t, s)
	first := h.open(t)
	second := h.open(t)
	// Both are in use: the third is refused.
	for _, id := range []string{first, second} {
		if r := h.request(t, soon(t), "GET", "", "Mcp-Session-Id", id); r.StatusCode != 200 {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	if r := h.refused(t, "POST", initialize, nil); r.status != 503 || r.header.Get("x-perigee-class") != "capacity" || r.header.Get("Retry-After") == "" {
		t.Errorf("status %d, %v, %s", r.status, r.header, r.body)
	}
	h.request(t, soon(t), "DELETE", "", "Mcp-Session-Id", first)
	third := h.open(t)
	// The third is idle: the fourth takes its place.
	for { // until the server has seen the end of the request that has opened it
		if r := h.request(t, soon(t), "POST", initialize); r.StatusCode == 200 {
			break
		}
	}
	if r := h.request(t, soon(t), "POST", ping, "Mcp-Session-Id", third); r.StatusCode != 404 {
		t.Errorf("status %d", r.StatusCode)
	}
	if n := s.web.count(); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

// A key that opens sessions without end does not end the sessions of another key.
func TestTheKeyWithTheMostSessionsMakesRoom(t *testing.T) {
	s := newServer(t, Options{})
	s.web.limit = 3
	h := overHTTP(t, s)
	first := h.request(t, soon(t), "POST", initialize, "Key", "quiet").Header.Get("Mcp-Session-Id")
	for opened := 0; opened < 5; { // one is refused until the server has seen the end of the request that has opened the one before
		if r := h.request(t, soon(t), "POST", initialize, "Key", "greedy"); r.StatusCode == 200 {
			opened++
		}
	}
	if r := h.request(t, soon(t), "POST", ping, "Key", "quiet", "Mcp-Session-Id", first); r.StatusCode != 200 {
		t.Errorf("the session of another key has ended: status %d", r.StatusCode)
	}
	if n := s.web.count(); n > 3 {
		t.Errorf("%d sessions", n)
	}
}

func TestRequestsThatOpenNoSessionLeaveNone(t *testing.T) {
	s := newServer(t, Options{})
	h := overHTTP(t, s)
	for range 5 {
		h.refused(t, "POST", ping, []string{"Content-Type", "text/plain"})
		h.refused(t, "POST", ping, nil)
		h.refused(t, "POST", askLine(1, "x"), nil)
		h.refused(t, "GET", "", nil)
		h.refused(t, "POST", strings.Replace(initialize, `"2025-11-25"`, "5", 1), nil)
	}
	await.Until(t, "the end of all sessions", func() bool { return s.web.count() == 0 })
}

func TestStreamsAreKeptAlive(t *testing.T) {
	proceed := make(chan struct{})
	b := &backendRig{answer: func(ctx context.Context, _ ask.Request, _ func(ask.Progress)) (ask.Answer, error) {
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return ask.Answer{Text: "done", Status: ask.Done, Source: "ide"}, nil
	}}
	s := newServer(t, Options{Backend: b})
	s.web.keepAlive = 10 * time.Millisecond
	h := overHTTP(t, s)
	r := h.request(t, soon(t), "POST", modernCall(4, "ask_antigravity", `{"prompt":"hello"}`), modernHeaders("ask_antigravity")...)
	lines := bufio.NewReader(r.Body)
	for comments := 0; comments < 3; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ": keep-alive") {
			comments++
		}
	}
	close(proceed)
	all := readEvents(t, lines)
	if m := all[len(all)-1]; m.ID != 4.0 || m.Error != nil {
		t.Errorf("got %+v", m)
	}
}

func TestCloseEndsSessionsAndCalls(t *testing.T) {
	cancelled := make(chan error, 2)
	started := make(chan struct{}, 2)
	b := &backendRig{answer: func(ctx context.Context, r ask.Request, p func(ask.Progress)) (ask.Answer, error) {
		started <- struct{}{}
		return untilCancelled(cancelled)(ctx, r, p)
	}}
	s := newServer(t, Options{Backend: b})
	h := overHTTP(t, s)
	id := h.open(t)
	h.request(t, soon(t), "POST", askLine(5, "work"), "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	stream := h.request(t, soon(t), "GET", "", "Mcp-Session-Id", id)
	await.Receive(t, started, "the ask")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	await.Receive(t, cancelled, "the end of the ask")
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream of the session: %v", err)
	}
	if r := h.refused(t, "POST", initialize, nil); r.status != 503 {
		t.Errorf("status %d", r.status)
	}
}

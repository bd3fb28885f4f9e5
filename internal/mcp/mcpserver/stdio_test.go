package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/mcp/ask"
	"perigee/internal/testing/perigeetest/await"
)

// A rawRig speaks to a server line by line.
type rawRig struct {
	t      *testing.T
	in     *io.PipeWriter
	lines  chan string
	served chan error
}

func raw(t *testing.T, s *Server, ctx context.Context) *rawRig {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	r := &rawRig{t: t, in: in, lines: make(chan string, 100), served: make(chan error, 1)}
	go func() {
		r.served <- s.ServeStdio(ctx, toServer, fromServer)
		fromServer.Close()
	}()
	go func() {
		defer close(r.lines)
		for scan := bufio.NewReader(out); ; {
			line, err := scan.ReadString('\n')
			if err != nil {
				return
			}
			r.lines <- line
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range r.lines {
		}
	})
	return r
}

func (r *rawRig) send(lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(r.in, line+"\n"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A reply is a message of the server.
type reply struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (r *rawRig) receive() reply {
	r.t.Helper()
	line := await.Receive(r.t, r.lines, "a message")
	var m reply
	if err := json.Unmarshal([]byte(line), &m); err != nil { // empty means the output has ended
		r.t.Fatalf("%v in %q", err, line)
	}
	return m
}

func (r *rawRig) end() error {
	r.t.Helper()
	r.in.Close()
	return await.Receive(r.t, r.served, "the end of ServeStdio")
}

func (r *rawRig) initialize(version string) {
	r.t.Helper()
	r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`, version))
	if m := r.receive(); m.ID != "init" || m.Error != nil || !strings.Contains(string(m.Result), version) {
		r.t.Fatalf("initialize: %+v %s", m, m.Result)
	}
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// manyValues is a message that is cut into more values than its size allows.
var manyValues = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[` + strings.Repeat("0,", 100_000) + `0]}}`

// batchOf is a batch of pings.
func batchOf(n int) string { return "[" + strings.Repeat(ping+",", n-1) + ping + "]" }

// TestMalformedLinesLeaveTheConnectionOpen sends lines that are no messages. Each gets an error
// without an id, or nothing, and the ping after it is answered.
func TestMalformedLinesLeaveTheConnectionOpen(t *testing.T) {
	r := raw(t, newServer(t, Options{}), context.Background())
	r.initialize("2025-11-25")
	deep := strings.Repeat("[", 1<<20)
	for _, c := range []struct {
		name, line string
		code       int // 0 means no answer
	}{
		{"text", "hello", -32700},
		{"half an object", `{"jsonrpc":"2.0","id":1`, -32700},
		{"two messages", ping + " " + ping, -32700},
		{"deep nesting", deep, -32700},
		{"deep nesting in params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + deep, -32700},
		{"a number", "7", -32600},
		{"null", "null", -32600},
		{"no version", `{"id":1,"method":"ping"}`, -32600},
		{"old version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600},
		{"a fraction as id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600},
		{"an id that is too large", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, -32600},
		{"a number as method", `{"jsonrpc":"2.0","id":1,"method":5}`, -32600},
		{"a batch", "[" + ping + "]", -32600},
		{"a batch of many messages", batchOf(101), -32600},
		{"many small values", manyValues, -32600},
		{"an empty batch", "[]", -32600},
		{"an empty line", "", 0},
		{"spaces and a carriage return", "  \r", 0},
		{"an answer that nothing waits for", `{"jsonrpc":"2.0","id":99,"result":{}}`, 0},
		{"an unknown notification", `{"jsonrpc":"2.0","method":"notifications/unknown"}`, 0},
		{"a cancellation of nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`, 0},
		{"a cancellation without params", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, 0},
	} {
		r.send(c.line)
		if c.code != 0 {
			if m := r.receive(); m.ID != nil || m.Error == nil || m.Error.Code != c.code {
				t.Errorf("%s: got %+v, want code %d", c.name, m, c.code)
			}
		}
		r.send(ping)
		if m := r.receive(); m.ID != 1.0 || m.Error != nil {
			t.Fatalf("%s: ping got %+v", c.name, m)
		}
	}
	r.send(`{"jsonrpc":"2.0","id":2,"method":"no/such"}`)
	if m := r.receive(); m.ID != 2.0 || m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("unknown method: %+v", m)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestRequestsBeforeInitialize(t *testing.T) {
	r := raw(t, newServer(t, Options{}), context.Background())
	r.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if m := r.receive(); m.ID != 3.0 || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("got %+v", m)
	}
	r.initialize("2025-11-25")
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestLongLines(t *testing.T) {
	r := raw(t, newServer(t, Options{}), context.Background())
	r.initialize("2025-11-25")
	go func() {
		block := strings.Repeat("x", 1<<20)
		for range 65 {
			_, _ = io.WriteString(r.in, block)
		}
		_, _ = io.WriteString(r.in, "\n"+ping+"\n")
	}()
	if m := r.receive(); m.ID != nil || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("got %+v", m)
	}
	if m := r.receive(); m.ID != 1.0 || m.Error != nil {
		t.Errorf("ping got %+v", m)
	}
}

func TestBatchesOfTheOldProtocol(t *testing.T) {
	r := raw(t, newServer(t, Options{}), context.Background())
	r.initialize("2025-03-26")
	r.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/unknown"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`)
	line := await.Receive(t, r.lines, "the answers")
	var answers []reply
	if err := json.Unmarshal([]byte(line), &answers); err != nil || len(answers) != 2 {
		t.Fatalf("%v in %q", err, line)
	}
	r.send(ping)
	if m := r.receive(); m.ID != 1.0 {
		t.Errorf("got %+v", m)
	}
}

func TestAnIDInUseIsRefused(t *testing.T) {
	b := &backendRig{answer: untilCancelled(nil)}
	r := raw(t, newServer(t, Options{Backend: b}), context.Background())
	r.initialize("2025-11-25")
	r.send(askLine(5, "first"), askLine(5, "second"))
	if m := r.receive(); m.ID != nil || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("got %+v", m)
	}
	r.send(ping)
	if m := r.receive(); m.ID != 1.0 {
		t.Errorf("got %+v", m)
	}
}

func askLine(id int, prompt string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask_antigravity","arguments":{"prompt":%q}}}`, id, prompt)
}

// untilCancelled is an ask that ends when it is cancelled. It sends the cause to cancelled, if that
// is not nil.
func untilCancelled(cancelled chan<- error) func(context.Context, ask.Request, func(ask.Progress)) (ask.Answer, error) {
	return func(ctx context.Context, _ ask.Request, _ func(ask.Progress)) (ask.Answer, error) {
		<-ctx.Done()
		if cancelled != nil {
			cancelled <- context.Cause(ctx)
		}
		return ask.Answer{Status: ask.Cancelled, Source: "ide"}, nil
	}
}

func TestACancelledCallGetsNoAnswer(t *testing.T) {
	cancelled := make(chan error, 1)
	started := make(chan struct{}, 1)
	b := &backendRig{answer: func(ctx context.Context, r ask.Request, p func(ask.Progress)) (ask.Answer, error) {
		started <- struct{}{}
		return untilCancelled(cancelled)(ctx, r, p)
	}}
	r := raw(t, newServer(t, Options{Backend: b}), context.Background())
	r.initialize("2025-11-25")
	r.send(askLine(5, "work"))
	await.Receive(t, started, "the ask")
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"no longer needed"}}`)
	if err := await.Receive(t, cancelled, "the end of the ask"); errors.Is(err, ask.ErrTimeout) {
		t.Errorf("the cause is %v", err)
	}
	r.send(ping)
	if m := r.receive(); m.ID != 1.0 {
		t.Errorf("got %+v", m)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	for line := range r.lines {
		t.Errorf("unexpected %s", line)
	}
}

func TestEndOfInputCancelsOpenCalls(t *testing.T) {
	cancelled := make(chan error, 1)
	started := make(chan struct{}, 1)
	b := &backendRig{answer: func(ctx context.Context, r ask.Request, p func(ask.Progress)) (ask.Answer, error) {
		started <- struct{}{}
		return untilCancelled(cancelled)(ctx, r, p)
	}}
	r := raw(t, newServer(t, Options{Backend: b}), context.Background())
	r.initialize("2025-11-25")
	r.send(askLine(5, "work"))
	await.Receive(t, started, "the ask")
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if err := await.Receive(t, cancelled, "the end of the ask"); err != errSessionEnded {
		t.Errorf("the cause is %v", err)
	}
}

// TestInputThatEndsAtOnce is `printf … | perigee mcp`: all requests are answered before the end.
func TestInputThatEndsAtOnce(t *testing.T) {
	in := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		askLine(3, "hello"), // without a newline at the end
	}, "\n")
	for range 20 {
		var out bytes.Buffer
		if err := newServer(t, Options{}).ServeStdio(context.Background(), strings.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		got := map[any]bool{}
		for line := range strings.Lines(out.String()) {
			var m reply
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Error != nil {
				t.Fatalf("%v, %+v in %s", err, m.Error, line)
			}
			got[m.ID] = true
		}
		if len(got) != 3 {
			t.Fatalf("answers to %v:\n%s", got, out.String())
		}
	}
}

func TestServeStdioEndsWithItsContext(t *testing.T) {
	cancelled := make(chan error, 1)
	started := make(chan struct{}, 1)
	b := &backendRig{answer: func(ctx context.Context, r ask.Request, p func(ask.Progress)) (ask.Answer, error) {
		started <- struct{}{}
		return untilCancelled(cancelled)(ctx, r, p)
	}}
	ctx, cancel := context.WithCancel(context.Background())
	r := raw(t, newServer(t, Options{Backend: b}), ctx)
	r.initialize("2025-11-25")
	r.send(askLine(5, "work"))
	await.Receive(t, started, "the ask")
	cancel()
	if err := await.Receive(t, r.served, "the end of ServeStdio"); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	await.Receive(t, cancelled, "the end of the ask")
}

// A client that does not read what it is answered does not keep the process from ending.
func TestStdioEndsWhileTheClientDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		toServer, in := io.Pipe()
		out, fromServer := io.Pipe()
		served := make(chan error, 1)
		s := newServer(t, Options{})
		go func() { served <- s.ServeStdio(ctx, toServer, fromServer) }()
		if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // the rest of the line is being written
			t.Fatal(err)
		}
		begun := time.Now()
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) || time.Since(begun) > abortTime {
			t.Errorf("it ended with %v after %v", err, time.Since(begun))
		}
		out.Close()
		in.Close()
	})
}

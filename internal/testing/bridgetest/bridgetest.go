// Package bridgetest is an editor window for tests: it announces itself and answers like perigee's
// extension, and rejects what that rejects. It shares no code with package bridge.
package bridgetest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"perigee/internal/testing/perigeetest/await"
)

const maxMessage = 16 << 20

// Capabilities are all capabilities of a window.
func Capabilities() map[string]bool {
	return map[string]bool{"llm": true, "fs": true, "state": true, "ui": true, "follow": true}
}

// Options describe a window. Zero values mean defaults.
type Options struct {
	Dir          string // of announcements; empty means none is written
	PID          int    // default: one that no process has
	Workspace    []string
	Capabilities map[string]bool // default: Capabilities()
	// LanguageServer is what hello names; 0 means none.
	LanguageServerPort int
	CSRFToken          string
	Busy               bool
	Version            int // of the protocol; default 1

	// Ask answers llm/ask. Default: the text "answer: " and the prompt.
	Ask func(ctx context.Context, a *Ask) (Result, *Error)
	// Submit answers llm/submit. Default: the error -32002.
	Submit func(ctx context.Context, a *Ask) (any, *Error)
	// Conversations are what state/recent lists.
	Conversations []map[string]any
}

// An Ask is a call of llm/ask or llm/submit.
type Ask struct {
	ID             string   `json:"id"`
	Prompt         string   `json:"prompt"`
	Model          *string  `json:"model"`
	Workspace      *string  `json:"workspace"`
	Conversation   *string  `json:"conversation"`
	TimeoutSeconds *float64 `json:"timeout_seconds"`
	ReadOnly       *bool    `json:"read_only"`

	// Cancelled is closed by llm/cancel.
	Cancelled chan struct{} `json:"-"`
	client    *client
}

// Progress sends llm/progress.
func (a *Ask) Progress(text string, steps int) {
	a.client.notify("llm/progress", map[string]any{"id": a.ID, "text": text, "steps": steps})
}

// ProgressIn is Progress with the conversation.
func (a *Ask) ProgressIn(conversation, text string) {
	a.client.notify("llm/progress", map[string]any{"id": a.ID, "text": text, "conversation": conversation})
}

// Stop makes the window read nothing more from the connection, like a process that is stopped.
func (a *Ask) Stop() { a.client.raw.stopped.Store(true) }

// Raw sends any message.
func (a *Ask) Raw(message string) { a.client.send([]byte(message)) }

// A Result is the result of llm/ask.
type Result struct {
	Text         string `json:"text"`
	Conversation string `json:"conversation"`
	Status       string `json:"status"`
	WaitingFor   string `json:"waiting_for,omitempty"`
	Usage        any    `json:"usage,omitempty"`
	Error        any    `json:"error,omitempty"`
}

// An Error is the error of a reply.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// A Window is a running one.
type Window struct {
	Options
	Port  int
	Token string
	Path  string // of the announcement

	server *http.Server
	ctx    context.Context
	wait   sync.WaitGroup
	frozen atomic.Bool

	mu         sync.Mutex
	clients    map[*client]bool
	dials      int
	violations []string
}

var pids atomic.Int64

// Start starts a window, which ends with the test. What the real extension would reject fails the
// test.
func Start(t testing.TB, o Options) *Window {
	t.Helper()
	if o.PID == 0 {
		o.PID = int(5_000_000 + pids.Add(1)) // more than Linux gives to processes
	}
	if o.Capabilities == nil {
		o.Capabilities = Capabilities()
	}
	if o.Version == 0 {
		o.Version = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Window{Options: o, Token: rand.Text(), ctx: ctx, clients: map[*client]bool{}}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.Port = listener.Addr().(*net.TCPAddr).Port
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: time.Minute}
	w.wait.Go(func() { _ = w.server.Serve(listener) })
	if o.Dir != "" {
		w.announce(t)
	}
	t.Cleanup(func() {
		cancel()
		w.Kill()
		await.Return(t, w.wait.Wait, "the end of the window")
		for _, v := range w.Violations() {
			t.Errorf("window %d: the client did what the extension rejects: %s", w.PID, v)
		}
	})
	return w
}

// announce writes the announcement as the extension does.
func (w *Window) announce(t testing.TB) {
	t.Helper()
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Path = filepath.Join(w.Dir, strconv.Itoa(w.PID)+".json")
	if err := os.WriteFile(w.Path+".tmp", w.Announcement(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.Path+".tmp", w.Path); err != nil {
		t.Fatal(err)
	}
}

// Announcement is the content of the announcement.
func (w *Window) Announcement() []byte {
	workspace := w.Workspace
	if workspace == nil {
		workspace = []string{}
	}
	data, err := json.Marshal(map[string]any{
		"version": 1, "port": w.Port, "token": w.Token, "workspace": workspace, "ide": map[string]string{"name": "Antigravity", "version": "1.20.5"}, "pid": w.PID,
	})
	if err != nil {
		panic(err)
	}
	return data
}

// Kill ends the listener and all connections at once, as the end of the process does. The
// announcement stays.
func (w *Window) Kill() {
	_ = w.server.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.clients {
		_ = c.raw.Close()
	}
}

// Freeze makes the window answer nothing more, as a process that is stopped: connections are still
// made, by the system.
func (w *Window) Freeze() { w.frozen.Store(true) }

// Violations returns what the extension would reject, and forgets it.
func (w *Window) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.violations
	w.violations = nil
	return v
}

// Dials returns how many connections were made, and Open how many are open.
func (w *Window) Dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}

// Open returns how many connections are open.
func (w *Window) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.clients)
}

func (w *Window) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// ServeHTTP checks the request and serves the connection.
func (w *Window) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	if w.frozen.Load() {
		select {
		case <-w.ctx.Done():
		case <-r.Context().Done():
		}
		return
	}
	switch {
	case r.Header.Get("Origin") != "":
		w.violation("Origin %s", r.Header.Get("Origin"))
		http.Error(answer, "no origins", http.StatusForbidden)
		return
	case subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+w.Token)) != 1:
		http.Error(answer, "wrong token", http.StatusUnauthorized)
		return
	case r.URL.String() != "/" || r.Method != http.MethodGet:
		w.violation("%s %s", r.Method, r.URL)
		http.NotFound(answer, r)
		return
	}
	hijacked := &hijacker{ResponseWriter: answer}
	ws, err := websocket.Accept(hijacked, r, nil)
	if err != nil {
		w.violation("%v", err)
		return
	}
	ws.SetReadLimit(maxMessage)
	c := &client{w: w, ws: ws, raw: hijacked.conn, asks: map[string]*Ask{}}
	w.mu.Lock()
	w.clients[c] = true
	w.dials++
	w.mu.Unlock()
	c.serve()
	w.mu.Lock()
	delete(w.clients, c)
	w.mu.Unlock()
}

// A hijacker keeps the connection, so that it can be cut.
type hijacker struct {
	http.ResponseWriter
	conn *rawConn
}

// Hijack takes the connection over.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = &rawConn{Conn: conn, closed: make(chan struct{})}
	return h.conn, buffered, nil
}

// A rawConn can be stopped.
type rawConn struct {
	net.Conn
	stopped atomic.Bool
	once    sync.Once
	closed  chan struct{}
}

// Read returns nothing after the connection was stopped. It runs in the goroutine of the server.
func (c *rawConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.stopped.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Close closes the connection.
func (c *rawConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A client is a connection.
type client struct {
	w   *Window
	ws  *websocket.Conn
	raw *rawConn

	write sync.Mutex
	mu    sync.Mutex
	asks  map[string]*Ask
	wait  sync.WaitGroup
}

type request struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// serve answers requests until the connection ends, in a goroutine of its own.
func (c *client) serve() {
	ctx, cancel := context.WithCancel(c.w.ctx)
	defer func() {
		cancel()
		c.wait.Wait()
		_ = c.ws.CloseNow()
	}()
	greeted := false
	for {
		kind, data, err := c.ws.Read(c.w.ctx)
		if err != nil {
			if status := websocket.CloseStatus(err); !slices.Contains([]websocket.StatusCode{-1, websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusMessageTooBig}, status) {
				c.w.violation("closed with %v", err)
			}
			return
		}
		var r request
		if err := strict(data, &r); err != nil || kind != websocket.MessageText || r.JSONRPC != "2.0" || r.Method == "" || !validID(r.ID) {
			c.w.violation("no request: %.200s (%v)", data, err)
			c.reply(r.ID, nil, &Error{Code: -32600, Message: "no request"})
			return
		}
		if !greeted {
			if r.Method != "hello" {
				c.w.violation("%s before hello", r.Method)
				c.reply(r.ID, nil, &Error{Code: -32600, Message: "hello first"})
				return
			}
			result, failure := c.hello(r.Params)
			greeted = failure == nil
			c.reply(r.ID, result, failure)
			continue
		}
		c.handle(ctx, r)
	}
}

func validID(id json.RawMessage) bool {
	var text string
	var number int64
	return json.Unmarshal(id, &text) == nil || json.Unmarshal(id, &number) == nil
}

// strict decodes without unknown members.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more follows")
	}
	return nil
}

func (c *client) hello(params json.RawMessage) (any, *Error) {
	var p struct {
		Version int `json:"version"`
		Client  *struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"client"`
	}
	if err := strict(params, &p); err != nil || p.Client == nil || p.Client.Name == "" || p.Client.Version == "" {
		c.w.violation("hello %s", params)
		return nil, &Error{Code: -32602, Message: "bad parameters"}
	}
	if p.Version != c.w.Version {
		return nil, &Error{Code: -32001, Message: fmt.Sprintf("this is version %d", c.w.Version)}
	}
	workspace := c.w.Workspace
	if workspace == nil {
		workspace = []string{}
	}
	hello := map[string]any{
		"version": c.w.Version, "ide": map[string]string{"name": "Antigravity", "version": "1.20.5"}, "workspace": workspace, "pid": c.w.PID,
		"capabilities": c.w.Capabilities,
	}
	if c.w.Busy {
		hello["busy"] = true
	}
	if c.w.LanguageServerPort != 0 {
		hello["language_server"] = map[string]any{"port": c.w.LanguageServerPort, "csrf_token": c.w.CSRFToken}
	}
	return hello, nil
}

// handle answers a request after hello.
func (c *client) handle(ctx context.Context, r request) {
	bad := func(err error) {
		c.w.violation("%s %.200s (%v)", r.Method, r.Params, err)
		c.reply(r.ID, nil, &Error{Code: -32602, Message: "bad parameters"})
	}
	switch r.Method {
	case "llm/ask", "llm/submit":
		a := &Ask{client: c, Cancelled: make(chan struct{})}
		if err := strict(r.Params, a); err != nil || a.ID == "" || a.Prompt == "" && a.Conversation == nil {
			bad(err)
			return
		}
		c.mu.Lock()
		c.asks[a.ID] = a
		c.mu.Unlock()
		c.wait.Go(func() { c.ask(ctx, r, a) })
	case "llm/cancel":
		var p struct {
			ID string `json:"id"`
		}
		err := strict(r.Params, &p)
		c.mu.Lock()
		a := c.asks[p.ID]
		delete(c.asks, p.ID)
		c.mu.Unlock()
		if err != nil || a == nil {
			bad(err)
			return
		}
		close(a.Cancelled)
		c.reply(r.ID, struct{}{}, nil)
	case "state/recent":
		var p struct {
			Limit int `json:"limit"`
		}
		if err := strict(r.Params, &p); err != nil {
			bad(err)
			return
		}
		list := slices.Clone(c.w.Conversations)
		if p.Limit > 0 && len(list) > p.Limit {
			list = list[:p.Limit]
		}
		c.reply(r.ID, map[string]any{"conversations": append([]map[string]any{}, list...)}, nil)
	default:
		c.w.violation("%s", r.Method)
		c.reply(r.ID, nil, &Error{Code: -32601, Message: "no method " + r.Method})
	}
}

func (c *client) ask(ctx context.Context, r request, a *Ask) {
	var result any
	var failure *Error
	switch {
	case r.Method == "llm/submit" && c.w.Submit != nil:
		result, failure = c.w.Submit(ctx, a)
	case r.Method == "llm/submit":
		failure = &Error{Code: -32002, Message: "no agent here"}
	case c.w.Ask != nil:
		result, failure = c.w.Ask(ctx, a)
	default:
		result = Result{Text: "answer: " + a.Prompt, Conversation: "conversation-" + a.ID, Status: "done"}
	}
	c.reply(r.ID, result, failure)
}

func (c *client) reply(id json.RawMessage, result any, failure *Error) {
	reply := map[string]any{"jsonrpc": "2.0", "id": id}
	if failure != nil {
		reply["error"] = failure
	} else {
		reply["result"] = result
	}
	c.encode(reply)
}

func (c *client) notify(method string, params any) {
	c.encode(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

func (c *client) encode(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		c.w.violation("%v", err)
		return
	}
	c.send(data)
}

func (c *client) send(data []byte) {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.ws.Write(context.Background(), websocket.MessageText, data)
}

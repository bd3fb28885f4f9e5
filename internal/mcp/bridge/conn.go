package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/lib/peeruser"
	"perigee/internal/lib/redact"
	"perigee/internal/mcp/ask"
)

// Limits of a connection.
const (
	maxMessage = 16 << 20 // bytes of a message, either way
	dialTime   = 5 * time.Second
	writeTime  = 10 * time.Second
	closeTime  = 250 * time.Millisecond
	pingEvery  = 20 * time.Second
	maxText    = 500 // bytes of a message of the extension that an error quotes
)

// ErrUnclear is in the chain of an error after which the window may have received the request: it
// was sent, and its answer is missing.
var ErrUnclear = errors.New("the request was sent, and its answer is missing")

// ErrOpen is in the chain of an error of Dial if there is a window, although it cannot be used: it
// is stuck or busy, or uses another version of the protocol. Without it, the announcement no
// longer belongs to a window.
var ErrOpen = errors.New("the window is open")

// Why a window cannot be used.
var (
	errRefused      = errors.New("the window refuses the token")
	errIncompatible = fmt.Errorf("%w and has another version of the protocol", ErrOpen)
	errBusy         = fmt.Errorf("%w and busy", ErrOpen)
	errForeign      = errors.New("the port belongs to another user")
	errSilent       = fmt.Errorf("%w and does not answer", ErrOpen)
	errClosed       = errors.New("the connection was closed")
)

// A Hello is a window's description of itself.
type Hello struct {
	Version        int             `json:"version"`
	IDE            IDE             `json:"ide"`
	Workspace      []string        `json:"workspace"`
	Busy           bool            `json:"busy"` // its panel has a prompt of perigee
	Capabilities   Capabilities    `json:"capabilities"`
	LanguageServer *LanguageServer `json:"language_server"` // nil if unknown
}

// Capabilities are the capabilities of a window that perigee uses.
type Capabilities struct {
	LLM   bool `json:"llm"`
	State bool `json:"state"`
	// llm/ask returns the answer; otherwise only llm/submit works. By default the same as llm
	Follow bool `json:"follow"`
}

// UnmarshalJSON reads the member capabilities. The protocol itself has llm/ask only, and no member
// follow.
func (c *Capabilities) UnmarshalJSON(data []byte) error {
	type plain Capabilities
	wire := struct {
		plain
		Follow *bool `json:"follow"`
	}{}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*c = Capabilities(wire.plain)
	c.Follow = c.LLM && (wire.Follow == nil || *wire.Follow)
	return nil
}

// A LanguageServer is the language server of a window.
type LanguageServer struct {
	Port, HTTPSPort int // one of them may be 0
	CSRF            perigee.Secret
}

// UnmarshalJSON reads the member language_server.
func (l *LanguageServer) UnmarshalJSON(data []byte) error {
	var wire struct {
		Port      int    `json:"port"`
		HTTPSPort int    `json:"https_port"`
		CSRF      string `json:"csrf_token"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	valid := func(port int) int {
		if port < 0 || port > 65535 {
			return 0
		}
		return port
	}
	*l = LanguageServer{valid(wire.Port), valid(wire.HTTPSPort), perigee.NewSecret(wire.CSRF)}
	return nil
}

// A Conn is a connection to a window. Its methods can be called concurrently.
type Conn struct {
	Hello Hello

	ws       *websocket.Conn
	raw      net.Conn // below ws
	redactor *redact.Redactor
	ended    chan struct{} // the reader has ended

	mu      sync.Mutex
	next    int
	replies map[string]chan message // by the ID of the request
	asks    map[string]*mailbox     // by the ID of the ask
	// err is the reason why the connection no longer works. It does not change after failed is
	// closed.
	err    error
	failed chan struct{} // closed when err is set
}

// Dial connects to a window and exchanges hello with it, with the version of perigee. Errors wrap
// ask.ErrDeclined: nothing was handed over.
func Dial(ctx context.Context, w Window, perigeeVersion string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c := &Conn{
		redactor: redact.New(w.Token), ended: make(chan struct{}), failed: make(chan struct{}),
		replies: map[string]chan message{}, asks: map[string]*mailbox{},
	}
	ws, response, err := websocket.Dial(ctx, "ws://"+w.address()+"/", &websocket.DialOptions{
		HTTPClient: newHTTPClient(w.address(), func(conn net.Conn) { c.raw = conn }),
		HTTPHeader: http.Header{"Authorization": {"Bearer " + w.Token.Reveal()}, "User-Agent": {"perigee"}},
	})
	if err != nil {
		return nil, c.dialError(ctx, w, response, err)
	}
	c.ws = ws
	ws.SetReadLimit(maxMessage)
	go c.read()
	go c.ping(pingEvery)
	if err := c.hello(ctx, w, perigeeVersion); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ownUsers checks which user a connection belongs to. After a window was killed, a program of
// another user may get its port: it must not get the token.
var ownUsers = sync.OnceValue(func() *peeruser.Check { return peeruser.NewCheck(context.Background()) })

// newHTTPClient returns a client for one connection to a server of this user on this machine. It
// uses no proxy and follows no redirect.
func newHTTPClient(address string, dialed func(net.Conn)) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
			if err != nil {
				return nil, err
			}
			if !ownUsers().OwnServer(conn) {
				_ = conn.Close()
				return nil, errForeign
			}
			dialed(conn)
			return conn, nil
		},
		DisableKeepAlives: true, DisableCompression: true,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// String returns a description of the window for error messages.
func (w Window) String() string {
	name := w.IDE.Name
	if name == "" {
		name = "editor"
	}
	return fmt.Sprintf("%s window %d", perigee.Clip(name, 40), w.PID)
}

// declined returns an error from before the prompt was handed over.
func declined(class perigee.Class, cause error, format string, args ...any) *perigee.Error {
	e := ask.Declined(class, format, args...)
	if cause != nil {
		e.Cause = errors.Join(e.Cause, cause)
	}
	return e
}

// dialError returns the error of a connection that was not made.
func (c *Conn) dialError(ctx context.Context, w Window, response *http.Response, err error) error {
	switch {
	case response != nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden):
		return declined(perigee.ClassUnavailable, errRefused, "%s refuses the token of its announcement (status %d)", w, response.StatusCode).
			WithHint("run the command \"perigee: Stop the Bridge\" and then \"perigee: Start the Bridge\" in that window")
	case response != nil && response.StatusCode == http.StatusServiceUnavailable:
		return declined(perigee.ClassCapacity, errBusy, "%s has too many connections", w).WithHint("try again later")
	case response != nil:
		return declined(perigee.ClassUnavailable, nil, "the port of %s does not speak the protocol of the extension (status %d)", w, response.StatusCode)
	case errors.Is(err, errForeign):
		return declined(perigee.ClassUnavailable, errForeign, "the port of %s belongs to another user", w).WithHint("reload the window")
	case errors.Is(err, context.Canceled):
		return declined(perigee.ClassCanceled, err, "the call was canceled")
	case ctx.Err() != nil:
		return declined(perigee.ClassUnavailable, errSilent, "%s does not answer", w).WithHint("reload the window")
	}
	return declined(perigee.ClassUnavailable, nil, "%s cannot be reached: %s", w, c.clean(err.Error())).WithHint("reload the window")
}

// hello exchanges hello with the window.
func (c *Conn) hello(ctx context.Context, w Window, perigeeVersion string) error {
	err := c.call(ctx, "hello", object{"version": version, "client": object{"name": "perigee", "version": perigeeVersion}}, &c.Hello)
	switch e := (*RPCError)(nil); {
	case errors.As(err, &e) && e.Code == codeVersion:
		return declined(perigee.ClassUnavailable, errIncompatible, "the extension in %s has another version of the protocol: %s", w, e.Message).
			WithHint("update perigee or the extension, so that both have the same version")
	case errors.As(err, &e) && e.Code == codeBusy:
		return declined(perigee.ClassCapacity, errBusy, "%s is busy: %s", w, e.Message).WithHint("try again later")
	case errors.Is(err, context.Canceled):
		return declined(perigee.ClassCanceled, err, "the call was canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return declined(perigee.ClassUnavailable, errSilent, "%s does not answer", w).WithHint("reload the window")
	case err != nil:
		return declined(perigee.ClassUnavailable, errSilent, "%s did not answer hello: %s", w, c.clean(err.Error())).WithHint("reload the window")
	case c.Hello.Version != version:
		return declined(perigee.ClassUnavailable, errIncompatible, "the extension in %s speaks version %d of the protocol", w, c.Hello.Version).
			WithHint("update perigee or the extension, so that both have the same version")
	}
	if ls := c.Hello.LanguageServer; ls != nil {
		c.mu.Lock()
		c.redactor = redact.New(w.Token, ls.CSRF)
		c.mu.Unlock()
	}
	c.Hello.IDE.Name, c.Hello.IDE.Version = c.plain(c.Hello.IDE.Name), c.plain(c.Hello.IDE.Version)
	return nil
}

// clean returns a text of the extension in the form in which errors quote it.
func (c *Conn) clean(text string) string {
	c.mu.Lock()
	redactor := c.redactor
	c.mu.Unlock()
	return perigee.Clip(redactor.Text(text), maxText)
}

// plain returns a name of the extension in the form of errors and listings.
func (c *Conn) plain(name string) string {
	return c.clean(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, name))
}

// Close ends the connection. Waiting calls fail.
func (c *Conn) Close() {
	c.fail(errClosed)
	// The closing handshake waits for the window, which may be stuck.
	timer := time.AfterFunc(closeTime, func() { _ = c.raw.Close() })
	defer timer.Stop()
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	<-c.ended
}

// fail ends all calls with an error. The first one counts.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.failed)
	}
}

// ping checks the connection until it ends: the process of a window may be stopped, and its
// connection then stays open.
func (c *Conn) ping(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), every)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil {
			c.fail(errors.New("the window no longer answers"))
			_ = c.ws.CloseNow()
			return
		}
	}
}

// read handles messages until the connection ends.
func (c *Conn) read() {
	defer close(c.ended)
	for {
		kind, data, err := c.ws.Read(context.Background())
		if err == nil && kind != websocket.MessageText {
			err = errors.New("the window sent a binary message")
		}
		if err == nil {
			err = c.handle(data)
		}
		if err != nil {
			c.fail(err)
			_ = c.ws.CloseNow()
			return
		}
	}
}

// handle handles a message of the window: a reply, a notification or a request. perigee has no
// methods, so requests are refused. Replies without a waiting call, and unknown notifications, are
// ignored.
func (c *Conn) handle(data []byte) error {
	var m message
	if err := json.Unmarshal(data, &m); err != nil || m.JSONRPC != "2.0" {
		return errors.New("the window sent something that is no JSON-RPC message")
	}
	id := string(m.ID)
	switch {
	case m.Method == "llm/progress" && id == "":
		c.progress(m.Params)
	case m.Method != "" && id == "":
	case m.Method != "":
		return c.write(message{ID: m.ID, Error: &RPCError{Code: codeNoMethod, Message: "perigee has no methods"}})
	case id == "" || id == "null":
		return errors.New("the window did not understand a request")
	default:
		c.mu.Lock()
		reply := c.replies[id]
		delete(c.replies, id)
		c.mu.Unlock()
		if reply != nil {
			reply <- m // has room for one
		}
	}
	return nil
}

// request sends a request. The caller waits for the reply, and removes it. An error means that the
// window has not received the request.
func (c *Conn) request(method string, params any) (id string, reply chan message, err error) {
	body, err := json.Marshal(params)
	if err != nil {
		return "", nil, perigee.Errorf(perigee.ClassInternal, "%s: %w", method, err)
	}
	reply = make(chan message, 1)
	c.mu.Lock()
	c.next++
	id = strconv.Itoa(c.next)
	if err = c.err; err == nil {
		c.replies[id] = reply
	}
	c.mu.Unlock()
	if err == nil {
		err = c.write(message{ID: json.RawMessage(id), Method: method, Params: body})
	}
	if err != nil {
		c.forget(id)
		return "", nil, err
	}
	return id, reply, nil
}

func (c *Conn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.replies, id)
}

// write sends a message. It uses its own time limit instead of the call's, because a message that
// is cut off ends the connection.
func (c *Conn) write(m message) error {
	m.JSONRPC = "2.0"
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return perigee.Errorf(perigee.ClassInvalid, "the message has %d MiB; a window takes at most %d MiB", len(data)>>20, maxMessage>>20).
			WithHint("send a shorter prompt")
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, data)
}

// call makes a request and reads its result.
func (c *Conn) call(ctx context.Context, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, reply, err := c.request(method, params)
	if err != nil {
		return err
	}
	defer c.forget(id)
	select {
	case m := <-reply:
		return c.result(m, result)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnclear, ctx.Err())
	case <-c.failed:
	}
	select {
	case m := <-reply: // it came before the end
		return c.result(m, result)
	default:
		return fmt.Errorf("%w: %w", ErrUnclear, c.err)
	}
}

// result reads a reply.
func (c *Conn) result(m message, into any) error {
	if m.Error != nil {
		e := *m.Error
		e.Message = c.clean(e.Message)
		return &e
	}
	if err := json.Unmarshal(m.Result, into); err != nil {
		return fmt.Errorf("%w: the window answered with something else", ErrUnclear)
	}
	return nil
}

type object = map[string]any

// A message is a request, a notification or a reply.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *RPCError       `json:"error,omitempty"`
}

// An RPCError is the error of a reply.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Class perigee.Class `json:"class"`
	} `json:"data,omitzero"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// UnmarshalJSON reads an error. Members of data with another type are ignored.
func (e *RPCError) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	e.Code, e.Message = wire.Code, wire.Message
	if json.Unmarshal(wire.Data, &e.Data) != nil || !slices.Contains(classes, e.Data.Class) {
		e.Data.Class = ""
	}
	return nil
}

// classes are the classes that a window may name.
var classes = []perigee.Class{
	perigee.ClassInvalid, perigee.ClassUnauthenticated, perigee.ClassForbidden, perigee.ClassNotFound, perigee.ClassExhausted,
	perigee.ClassRateLimited, perigee.ClassCapacity, perigee.ClassIdentity, perigee.ClassVerification, perigee.ClassCanceled,
	perigee.ClassUnavailable, perigee.ClassUnimplemented, perigee.ClassInternal,
}

// The codes of errors.
const (
	codeVersion   = -32001
	codeNoAgent   = -32002
	codeBusy      = -32003
	codeCancelled = -32004
	codeOutside   = -32005
	codeNoMethod  = -32601
	codeParams    = -32602
)

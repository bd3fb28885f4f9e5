// Package responsesapi has the parts of the Responses API that outlive a request. A Socket is its
// transport over WebSockets: handshake, order of requests, keep-alives, draining, and the answers
// that are kept for the next request. API reads, replays, cancels and deletes stored responses;
// Runs has those that are being made in the background. The server decodes, makes and stores
// responses.
package responsesapi

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/server/membudget"
	"perigee/internal/server/reqbody"
)

// maxInvalid is the number of consecutive invalid messages after which a socket is closed.
const maxInvalid = 16

// A Socket is a WebSocket on which a client sends one request after the other. Every message of the
// client's is a body of POST /v1/responses with a type; every event of an answer is a message. Each
// request is a call of its own, admitted and recorded like any other. The socket adds the order in
// which they are answered (see take), and it keeps the last answers in memory, so that clients can
// continue from them although they are not stored.
type Socket struct {
	hub     *Hub
	opening Opening
	conn    *websocket.Conn
	raw     net.Conn // under conn

	ctx    context.Context // of the answers; see Context
	cancel context.CancelCauseFunc
	leave  chan struct{}  // closed when the daemon is stopping
	over   chan struct{}  // closed when nothing more is read
	idle   chan struct{}  // signaled when an answer has ended
	group  sync.WaitGroup // of everything that was started for this socket

	invalid int // messages in a row, see maxInvalid

	writing atomic.Int32
	wrote   atomic.Int64 // when something was written last, in Unix nanoseconds

	lease membudget.Lease // for the socket and the messages that wait for their answer

	queue queue
}

// Settings may change while sockets are open.
type Settings struct {
	MaxMessage     int64  // bytes
	MaxMessageFrom string // the setting that it comes from
	MaxWaiting     int64  // bytes of requests that wait for their turn
	KeepAlive      time.Duration
}

// An Opening is the handshake of a socket, and the handlers of its messages.
type Opening struct {
	Context context.Context
	ID      string // of the call that has opened it
	Path    string
	Source  string // the key or the address that it counts for
	Trusted bool

	Answer func(s *Socket, m *responses.Message) // answers a request as a call of its own
	// Reject answers a message that is not a request, which also counts as a call.
	Reject func(s *Socket, stream string, err error)
}

// Open reserves the memory of a socket. The caller must call Serve or Close.
func (h *Hub) Open(o Opening) (*Socket, error) {
	s := &Socket{hub: h, opening: o, leave: make(chan struct{}), over: make(chan struct{}), idle: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(o.Context)
	if err := s.lease.Open(h.Memory, o.Trusted); err != nil {
		s.cancel(nil)
		return nil, err
	}
	if err := h.enter(s); err != nil {
		s.lease.Close()
		s.cancel(nil)
		return nil, err
	}
	return s, nil
}

// Serve does the handshake and answers messages until the socket is closed. It returns when
// everything that it has started has ended.
func (s *Socket) Serve(w http.ResponseWriter, r *http.Request) {
	defer s.cancel(nil)
	defer s.lease.Close()
	defer s.hub.quit(s)
	hijacked := &hijacker{ResponseWriter: w}
	// The server has checked the origin, and does not for the owner.
	conn, err := websocket.Accept(hijacked, r, &websocket.AcceptOptions{InsecureSkipVerify: true,
		CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		s.hub.Logger.Debug("a socket could not be opened", "call", s.opening.ID, "error", err)
		return // the client has got the error
	}
	s.conn, s.raw = conn, hijacked.conn
	start := time.Now()
	s.hub.Logger.Debug("socket opened", "call", s.opening.ID)
	s.serve()
	s.hub.Logger.Debug("socket closed", "call", s.opening.ID, "duration", time.Since(start))
}

// Context ends when the client leaves, or when the server stops waiting for answers.
func (s *Socket) Context() context.Context { return s.ctx }

// Find returns a remembered answer of the socket, or nil if there is none with that id.
func (s *Socket) Find(id string) *perigee.StoredResponse { return s.hub.recent.find(s, id) }

// Keep keeps an answer in place of the last one of its stream.
func (s *Socket) Keep(stream string, answer *perigee.StoredResponse) {
	s.hub.recent.put(recentAnswer{s, stream, answer}, s.hub.Memory)
}

// Release releases the memory of a message of this size.
func (s *Socket) Release(bytes int) { s.lease.Shrink(int64(bytes)) }

// Abort closes the socket after an answer that was cut off, because the client cannot determine
// which part it has received.
func (s *Socket) Abort() { _ = s.conn.Close(websocket.StatusInternalError, "internal error") }

// CheckHandshake refuses a request that cannot become a socket. Clients that get 426 continue with
// POST.
func CheckHandshake(w http.ResponseWriter, r *http.Request) error {
	_, able := w.(http.Hijacker)
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.Header.Get("Sec-WebSocket-Key")))
	problem := ""
	switch {
	case !able || !r.ProtoAtLeast(1, 1):
		problem = "there are no WebSockets over " + r.Proto
	case !HasToken(r.Header, "Connection", "Upgrade"):
		problem = "the handshake lacks Connection: Upgrade"
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		w.Header().Set("Sec-WebSocket-Version", "13")
		problem = "the handshake is not of version 13"
	case err != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1:
		problem = "the handshake has no proper Sec-WebSocket-Key"
	default:
		return nil
	}
	e := perigee.Errorf(perigee.ClassInvalid, "%s", problem).WithHint("use POST /v1/responses, with stream: true")
	e.Status = http.StatusUpgradeRequired
	return e
}

// HasToken reports whether a header with a list of tokens contains one.
func HasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		if slices.ContainsFunc(strings.Split(line, ","), func(word string) bool {
			return strings.EqualFold(strings.TrimSpace(word), token)
		}) {
			return true
		}
	}
	return false
}

// A hijacker keeps the connection that was taken over, so that it can be closed without a
// handshake.
type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = conn
	return conn, rw, err
}

// serve reads messages until the socket is closed.
func (s *Socket) serve() {
	defer s.hub.recent.forget(s)
	defer s.group.Wait()
	defer func() { _ = s.conn.CloseNow() }()
	defer close(s.over)
	s.conn.SetReadLimit(-1) // read has one of its own
	context.AfterFunc(s.ctx, s.hangUp)
	s.group.Go(s.watch)
	for {
		message, err := s.read()
		if e, ok := errors.AsType[*perigee.Error](err); ok {
			s.opening.Reject(s, "", e)
			if errors.Is(e, perigee.ErrNoMemory) {
				_ = s.conn.Close(websocket.StatusTryAgainLater, "see limits.memory")
			} else {
				_ = s.conn.Close(websocket.StatusMessageTooBig, "see limits.body")
			}
		}
		if err != nil {
			break
		}
		if message != nil {
			s.take(message)
		}
		if s.invalid >= maxInvalid {
			_ = s.conn.Close(websocket.StatusPolicyViolation, "too many invalid messages")
			break
		}
	}
	s.queue.close(closeReason{})
	s.cancel(nil)
}

// read returns the next message, or nil for one that is not a text. The error is a perigee.Error
// when the message is too large; otherwise the connection is closed.
//
// A message that has begun must arrive as fast as any body. Between messages there is no limit.
func (s *Socket) read() ([]byte, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kind, message, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	late := time.AfterFunc(s.hub.BodyGrace, cancel)
	defer late.Stop()
	settings := s.hub.Settings()
	limit, setting := settings.MaxMessage, settings.MaxMessageFrom
	reserved := int64(0)
	body, err := reqbody.Read(message, -1, limit, func(size int64) error {
		err := s.lease.Grow(size - reserved)
		if err == nil {
			reserved = max(size, reserved)
		}
		return err
	}, func(received int) {
		late.Reset(time.Until(start.Add(s.hub.BodyGrace + reqbody.Time(received))))
	})
	s.lease.Shrink(reserved - int64(len(body))) // the message itself counts until it is answered
	if errors.Is(err, reqbody.ErrTooLarge) {
		return nil, reqbody.TooLarge(limit, setting)
	}
	if err == nil && kind != websocket.MessageText {
		s.lease.Shrink(int64(len(body)))
		reqbody.Release(body)
		s.valid(false)
		s.opening.Reject(s, "", perigee.Errorf(perigee.ClassInvalid, "messages are texts here").
			WithHint("send the event as a text message"))
		return nil, nil
	}
	return body, err
}

// valid counts consecutive messages that are not requests, and returns ok.
func (s *Socket) valid(ok bool) bool {
	if s.invalid++; ok {
		s.invalid = 0
	}
	return ok
}

// send writes one message. A client that does not read for too long is given up.
func (s *Socket) send(message []byte, deadline time.Time) error {
	s.writing.Add(1)
	defer s.writing.Add(-1)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	err := s.conn.Write(ctx, websocket.MessageText, message)
	s.wrote.Store(time.Now().UnixNano())
	return err
}

// WriteLimit is how long a client may take to read more of its answer before its connection is
// given up.
const WriteLimit = 2 * time.Minute

// Writer returns a ResponseWriter that sends each write as a message of an answer.
func (s *Socket) Writer(header http.Header) http.ResponseWriter {
	return &writer{socket: s, header: header}
}

// A writer sends an answer that was made for HTTP as messages.
type writer struct {
	socket   *Socket
	header   http.Header
	deadline time.Time
}

func (w *writer) Header() http.Header                  { return w.header }
func (w *writer) WriteHeader(int)                      {}
func (w *writer) FlushError() error                    { return nil }
func (w *writer) SetWriteDeadline(end time.Time) error { w.deadline = end; return nil }

func (w *writer) Write(p []byte) (int, error) {
	if w.deadline.IsZero() {
		w.deadline = time.Now().Add(WriteLimit)
	}
	for rest := p; len(rest) > 0; {
		var message []byte
		message, rest = responses.CutMessage(rest)
		if err := w.socket.send(message, w.deadline); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

package httpapi

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
	"perigee/internal/membudget"
)

// maxInvalid is after how many invalid messages in a row a socket is closed.
const maxInvalid = 16

// A socket is a WebSocket on which a client asks for one answer after the other. Every message of the client's is a body
// of POST /v1/responses with a type; every event of an answer is a message. Each of them is a call of its own, let in and
// recorded like any other; what is the socket's own is the order in which they are answered (see take), and that it
// remembers the last answers, so that clients can go on from them although nothing is stored.
type socket struct {
	*Server
	shake *call // the request that opened it; its headers and its context hold for all that follow
	conn  *websocket.Conn
	raw   net.Conn // under conn

	ctx    context.Context // of the answers: ended when the client leaves, or the daemon stops waiting for them
	cancel context.CancelCauseFunc
	leave  chan struct{}  // closed: the daemon wants to end
	over   chan struct{}  // closed: nothing is read any more
	idle   chan struct{}  // told when an answer has ended
	group  sync.WaitGroup // of everything that was started for this socket

	invalid int // messages in a row, see maxInvalid

	writing atomic.Int32
	wrote   atomic.Int64 // when something was written last, in Unix nanoseconds

	lease membudget.Lease // for the socket and the messages that wait for their answer

	queue socketQueue
	kept  map[string]*recentAnswer // by the stream, guarded by recentAnswers
}

// responsesSocket answers GET /v1/responses, which is how a client asks for a socket.
func (c *call) responsesSocket() error {
	if !hasToken(c.r.Header, "Upgrade", "websocket") || c.r.Method != http.MethodGet {
		c.w.Header().Set("Allow", http.MethodPost)
		e := perigee.Errorf(perigee.ClassInvalid, "there is no list of responses").WithNext("use POST, or GET /v1/responses/{id}")
		e.Status = http.StatusMethodNotAllowed
		return e
	}
	if err := c.checkHandshake(); err != nil {
		return err
	}
	s := &socket{
		Server: c.Server, shake: c,
		leave: make(chan struct{}), over: make(chan struct{}), idle: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancelCause(c.r.Context())
	defer s.cancel(nil)
	if err := s.lease.Open(c.opts.Memory, c.trusted); err != nil {
		return err
	}
	defer s.lease.Close()
	if err := c.sockets.enter(s); err != nil {
		return err
	}
	defer c.sockets.quit(s)
	// A socket is not a call, only what is asked over it is.
	c.leave()
	defer c.enter()
	c.wrote = true
	w := &hijacker{ResponseWriter: c.w}
	// Who asks was checked already, and differently for the owner.
	conn, err := websocket.Accept(w, c.r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		c.opts.Logger.Debug("a socket could not be opened", "call", c.id, "error", err)
		return nil // the client was told
	}
	s.conn, s.raw = conn, w.conn
	start := time.Now()
	c.opts.Logger.Debug("socket opened", "call", c.id)
	s.serve()
	c.opts.Logger.Debug("socket closed", "call", c.id, "duration", time.Since(start))
	return nil
}

// checkHandshake refuses, in the dialect's shape, what could not become a socket. Clients that are told to upgrade
// differently go on with POST.
func (c *call) checkHandshake() error {
	_, able := c.w.(http.Hijacker)
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(c.r.Header.Get("Sec-WebSocket-Key")))
	problem := ""
	switch {
	case !able || !c.r.ProtoAtLeast(1, 1):
		problem = "there are no WebSockets over " + c.r.Proto
	case !hasToken(c.r.Header, "Connection", "Upgrade"):
		problem = "the handshake lacks Connection: Upgrade"
	case c.r.Header.Get("Sec-WebSocket-Version") != "13":
		c.w.Header().Set("Sec-WebSocket-Version", "13")
		problem = "the handshake is not of version 13"
	case err != nil || len(key) != 16 || len(c.r.Header.Values("Sec-WebSocket-Key")) != 1:
		problem = "the handshake has no proper Sec-WebSocket-Key"
	default:
		return nil
	}
	e := perigee.Errorf(perigee.ClassInvalid, "%s", problem).WithNext("use POST /v1/responses, with stream: true")
	e.Status = http.StatusUpgradeRequired
	return e
}

// hasToken looks for a word in a header that is a list of them.
func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		if slices.ContainsFunc(strings.Split(line, ","), func(word string) bool {
			return strings.EqualFold(strings.TrimSpace(word), token)
		}) {
			return true
		}
	}
	return false
}

// A hijacker remembers the connection that was taken over, to be able to end it without asking the other side.
type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = conn
	return conn, rw, err
}

// serve reads messages until the socket is closed, by whomever. It returns when everything it began has ended.
func (s *socket) serve() {
	defer s.recent.forget(s)
	defer s.group.Wait()
	defer func() { _ = s.conn.CloseNow() }()
	defer close(s.over)
	s.conn.SetReadLimit(-1) // read has one of its own
	context.AfterFunc(s.ctx, s.hangUp)
	s.group.Go(s.watch)
	for {
		message, err := s.read()
		if e, ok := errors.AsType[*perigee.Error](err); ok {
			s.reject("", e)
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
	s.queue.close(farewell{})
	s.cancel(nil)
}

// read returns the next message, or nil for one that is no text. The error is a perigee.Error when the message is too
// large; otherwise the connection is closed.
//
// A message that has begun must arrive as fast as any body. One that has not may be waited for: the agent is at work.
func (s *socket) read() ([]byte, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kind, message, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	late := time.AfterFunc(s.opts.BodyGrace, cancel)
	defer late.Stop()
	limit, setting := s.maxBody()
	reserved := int64(0)
	body, err := readAll(message, -1, limit, func(size int64) error {
		err := s.lease.Grow(size - reserved)
		if err == nil {
			reserved = max(size, reserved)
		}
		return err
	}, func(received int) {
		late.Reset(time.Until(start.Add(s.opts.BodyGrace + bodyTime(received))))
	})
	s.lease.Shrink(reserved - int64(len(body))) // the message itself counts until it is answered
	if errors.Is(err, errTooLarge) {
		return nil, tooLarge(limit, setting)
	}
	if err == nil && kind != websocket.MessageText {
		s.lease.Shrink(int64(len(body)))
		releaseBody(body)
		s.valid(false)
		s.reject("", perigee.Errorf(perigee.ClassInvalid, "messages are texts here").WithNext("send the event as a text message"))
		return nil, nil
	}
	return body, err
}

// valid counts the messages in a row that are no requests, and returns ok.
func (s *socket) valid(ok bool) bool {
	if s.invalid++; ok {
		s.invalid = 0
	}
	return ok
}

// send writes one message. A client that does not read for too long is given up.
func (s *socket) send(message []byte, deadline time.Time) error {
	s.writing.Add(1)
	defer s.writing.Add(-1)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	err := s.conn.Write(ctx, websocket.MessageText, message)
	s.wrote.Store(time.Now().UnixNano())
	return err
}

package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
)

// A session is a connection that lasts longer than a request: stdio, or a session over HTTP.
type session struct {
	ctx    context.Context // ends with the session; calls of tools end with it
	cancel context.CancelCauseFunc
	stdio  bool

	mu     sync.Mutex
	caller Caller             // of the last request; always the same key
	server *mcp.ServerSession // nil before initialize
	calls  int                // of tools that are running
	roots  *roots             // roots of the client; nil if not requested yet

	web webState // of a session over HTTP
}

var errSessionEnded = errors.New("the session has ended")

func newSession(server *Server, c Caller) *session {
	s := &session{caller: c, web: webState{timeout: server.web.idle, now: server.o.Now}}
	s.ctx, s.cancel = context.WithCancelCause(server.ctx)
	return s
}

func withSession(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey, s)
}

// sessionOf returns the session of a request, or nil if it has none.
func sessionOf(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey).(*session)
	return s
}

func (s *session) bind(server *mcp.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = server
}

// begin counts a tool call. It returns false if there are too many.
func (s *session) begin(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls >= limit {
		return false
	}
	s.calls++
	s.web.use()
	return true
}

func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.web.unuse()
}

// close ends the calls of tools, and then the session.
func (s *session) close() {
	s.cancel(errSessionEnded)
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	if server != nil {
		_ = server.Close()
	}
}

// caller returns the caller of a request, with the name that the client has given itself.
func (s *Server) caller(ctx context.Context, client *mcp.ServerSession) Caller {
	c := callerOf(ctx)
	if session := sessionOf(ctx); session != nil {
		session.mu.Lock()
		c = session.caller
		session.mu.Unlock()
	}
	c.Client.Key = c.Key
	if p := client.InitializeParams(); p != nil && p.ClientInfo != nil && p.ClientInfo.Name != "" {
		c.Client.Name, c.Client.Version = perigee.Clip(p.ClientInfo.Name, 64), perigee.Clip(p.ClientInfo.Version, 64)
	}
	return c
}

// webState is the state of a session over HTTP: an ID, and a timer while it is idle. It is guarded
// by the mutex of the session.
type webState struct {
	id      string
	users   int         // requests and calls of tools that are running
	idle    *time.Timer // ends the session
	timeout time.Duration
	since   time.Time // when it became idle
	now     func() time.Time
}

func (w *webState) use() {
	w.users++
	if w.idle != nil {
		w.idle.Stop()
	}
}

func (w *webState) unuse() {
	w.users--
	if w.users == 0 && w.idle != nil {
		w.since = w.now()
		w.idle.Reset(w.timeout)
	}
}

package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
)

// stateless is the first version of the protocol without sessions.
const stateless = "2026-07-28"

// web handles the connections over HTTP: requests without a session, and sessions.
type web struct {
	server    *Server
	stateless http.Handler
	stateful  http.Handler
	limit     int           // of sessions
	idle      time.Duration // after which a session ends
	keepAlive time.Duration // between comments on an event stream

	mu       sync.Mutex
	sessions map[string]*session
	opening  int // sessions that are in no map yet
	streams  map[string]*streamWriter
	last     uint64 // of the keys of streams

	draining context.Context // ends when the server is drained
	drain    context.CancelFunc
}

func (w *web) init(s *Server) {
	w.server, w.sessions, w.streams = s, map[string]*session{}, map[string]*streamWriter{}
	w.draining, w.drain = context.WithCancel(s.ctx)
	w.limit, w.idle, w.keepAlive = maxSessions, idleSession, keepAlive
	get := func(*http.Request) *mcp.Server { return s.mcp() }
	logger := slog.New(quiet{s.o.Logger.Handler()})
	w.stateless = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: logger, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
	})
	w.stateful = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Logger: logger, MaxRequestBodyBytes: maxMessage,
		EventStore: &eventStore{sessions: map[string]*eventLog{}, opened: w.opened, closed: w.ended},
	})
}

// ServeHTTP serves POST, GET and DELETE of one path. The caller is in the context of the request
// (WithCaller). Requests of version 2026-07-28 and later have no session. A session of an earlier
// version belongs to the key that has opened it, and ends when it was not used for 30 minutes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.ctx.Err() != nil {
		WriteError(w, perigee.Errorf(perigee.ClassUnavailable, "the server is closing").WithHint("try again in a moment"))
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	out := &streamWriter{w: w, pause: s.web.keepAlive}
	defer out.close()
	r, forget := s.web.mark(r, out)
	defer forget()
	if isStateless(r, body) {
		s.web.stateless.ServeHTTP(out, r)
		return
	}
	if lacksSession(r, body) {
		writeRefusal(w, http.StatusBadRequest, refusal{jsonrpc.CodeInvalidRequest,
			"the request names no session; send initialize first, and its Mcp-Session-Id with each request after it", perigee.ClassInvalid})
		return
	}
	session, err := s.web.enter(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	defer s.web.leave(session)
	if r.Method == http.MethodGet {
		var stop context.CancelFunc
		r, stop = s.web.untilDrained(r)
		defer stop()
	}
	if r.Method == http.MethodDelete {
		session.cancel(errSessionEnded) // the SDK waits for calls that are running
	}
	s.web.stateful.ServeHTTP(out, r.WithContext(withSession(r.Context(), session)))
}

// Drain ends the event streams that are open between calls, because an http.Server that is shut
// down would wait for them. Tool calls continue.
func (s *Server) Drain(context.Context) error {
	s.web.drain()
	return nil
}

// untilDrained returns a request with a context that ends when the server is drained.
func (w *web) untilDrained(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(w.draining, cancel)
	return r.WithContext(ctx), func() { stop(); cancel() }
}

// streamHeader identifies the stream of a request for the methods that it calls, because in a
// session their context is not the request's.
const streamHeader = "Perigee-Stream"

// mark returns the request with the header that identifies its stream.
func (w *web) mark(r *http.Request, out *streamWriter) (*http.Request, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	key := strconv.FormatUint(w.last, 10)
	w.streams[key] = out
	r = r.Clone(r.Context())
	r.Header.Set(streamHeader, key)
	if callerOf(r.Context()).HostChecked {
		r.Host = "localhost" // which the SDK accepts
	}
	return r, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.streams, key)
	}
}

// markToolCall is called when a tool is called.
func (w *web) markToolCall(req mcp.Request) {
	extra := req.GetExtra()
	if extra == nil || extra.Header == nil {
		return
	}
	w.mu.Lock()
	out := w.streams[extra.Header.Get(streamHeader)]
	w.mu.Unlock()
	if out != nil {
		out.setReady()
	}
}

// readBody returns the body of a POST, which can be read again, or nil for another method. It
// returns false after it has answered a request with a body that cannot be read, is too large, or
// is refused by checkMessage.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if r.Method != http.MethodPost {
		return nil, true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isTooLarge:
		e := perigee.Errorf(perigee.ClassInvalid, "the request has more than %d bytes", tooLarge.Limit).WithHint("send less in one message")
		e.Status = http.StatusRequestEntityTooLarge
		WriteError(w, e)
		return nil, false
	case err != nil:
		e, ok := errors.AsType[*perigee.Error](err) // the gateway's own limits come first
		if !ok {
			e = perigee.Errorf(perigee.ClassInvalid, "the request could not be read: %w", err)
		}
		WriteError(w, e)
		return nil, false
	}
	if refused := checkMessage(body); refused != nil && isJSON(r) {
		writeRefusal(w, http.StatusBadRequest, refusal{int(refused.Code), refused.Message, perigee.ClassInvalid})
		return nil, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, true
}

// isJSON reports whether a request declares a JSON body. The SDK refuses all other requests.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// isStateless reports whether a request has a version without sessions, by its header or its body.
func isStateless(r *http.Request, body []byte) bool {
	if r.Header.Get("Mcp-Protocol-Version") >= stateless {
		return true
	}
	if !bytes.Contains(body, []byte(mcp.MetaKeyProtocolVersion)) {
		return false
	}
	var m struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	var version string
	return json.Unmarshal(body, &m) == nil && json.Unmarshal(m.Params.Meta[mcp.MetaKeyProtocolVersion], &version) == nil && version >= stateless
}

// lacksSession reports whether a request neither belongs to a session nor opens one. Bodies that
// are not a single message are left to the SDK.
func lacksSession(r *http.Request, body []byte) bool {
	if body == nil || r.Header.Get("Mcp-Session-Id") != "" || !isJSON(r) {
		return false
	}
	var m struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &m) == nil && m.Method != "" && m.Method != "initialize"
}

// enter returns the session of a request, or creates one for a request that may open one.
func (w *web) enter(r *http.Request) (*session, *perigee.Error) {
	caller := callerOf(r.Context())
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		return w.open(caller)
	}
	w.mu.Lock()
	s := w.sessions[id]
	w.mu.Unlock()
	if s == nil {
		return nil, noSession()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.caller.Key != caller.Key || s.caller.Trusted != caller.Trusted || s.ctx.Err() != nil {
		return nil, noSession()
	}
	s.caller = caller
	s.web.use()
	return s, nil
}

func noSession() *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "there is no such session").WithHint("it may have ended: send initialize without Mcp-Session-Id")
}

// open makes room for a session. If there are too many, it ends one that is not in use.
func (w *web) open(c Caller) (*session, *perigee.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sessions)+w.opening >= w.limit {
		oldest := w.oldestIdle(c.Key)
		if oldest == nil {
			e := perigee.Errorf(perigee.ClassCapacity, "%d sessions are open and in use", w.limit).WithHint("end one, or try again later")
			e.Retry = time.Minute
			return nil, e
		}
		delete(w.sessions, oldest.web.id)
		go oldest.close()
	}
	s := newSession(w.server, c)
	s.web.users = 1
	w.opening++
	return s, nil
}

// oldestIdle returns the session to end for a new one of a key: the least recently used one of the
// key with the most sessions. A key never ends sessions of a key that has fewer. It returns nil if
// there is none to end. The mutex must be locked.
func (w *web) oldestIdle(key string) *session {
	type idle struct {
		count  int // of all sessions
		oldest *session
		since  time.Time
	}
	keys := map[string]*idle{}
	for _, s := range w.sessions {
		s.mu.Lock()
		k := keys[s.caller.Key]
		if k == nil {
			k = &idle{}
			keys[s.caller.Key] = k
		}
		k.count++
		if s.web.users == 0 && (k.oldest == nil || s.web.since.Before(k.since)) {
			k.oldest, k.since = s, s.web.since
		}
		s.mu.Unlock()
	}
	var most idle
	for _, k := range keys {
		if k.oldest != nil && k.count > most.count {
			most = *k
		}
	}
	if own := keys[key]; own != nil && own.count > most.count {
		return nil
	}
	return most.oldest
}

// opened is called when the SDK has assigned the ID of a session.
func (w *web) opened(ctx context.Context, id string) {
	s := sessionOf(ctx)
	if s == nil {
		return
	}
	w.mu.Lock()
	w.sessions[id] = s
	w.opening--
	w.mu.Unlock()
	s.mu.Lock()
	s.web.id = id
	s.web.idle = time.AfterFunc(w.idle, s.close)
	s.web.idle.Stop() // until the request that has opened it is over
	s.mu.Unlock()
}

// ended is called when the SDK has ended a session.
func (w *web) ended(id string) {
	w.mu.Lock()
	s := w.sessions[id]
	delete(w.sessions, id)
	w.mu.Unlock()
	if s == nil {
		return
	}
	s.cancel(errSessionEnded)
	s.mu.Lock()
	s.web.idle.Stop()
	s.web.idle = nil
	s.mu.Unlock()
}

func (w *web) leave(s *session) {
	s.mu.Lock()
	if s.web.id == "" { // the request has not opened a session
		s.mu.Unlock()
		w.mu.Lock()
		w.opening--
		w.mu.Unlock()
		s.cancel(errSessionEnded)
		return
	}
	s.web.unuse()
	s.mu.Unlock()
}

func (w *web) close() {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.sessions))
	w.mu.Unlock()
	for _, s := range all {
		s.close()
	}
}

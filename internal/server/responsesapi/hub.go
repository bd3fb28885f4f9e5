package responsesapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/server/membudget"
)

// socketLife is how long a socket may be open, as in the API that this follows.
const socketLife = time.Hour

// maxSockets is how many sockets one key, or one address where there are no keys, may have open. An
// idle socket counts 80 KiB in the memory budget, so that this is 20 MiB: without a bound, a single
// key could take all of it. An agent has one for each session.
const maxSockets = 256

// closeTime is how long a client may take to answer a close frame.
const closeTime = time.Second

// A Hub has all open sockets. Shutdown of net/http neither closes connections that were hijacked
// nor waits for them. The zero value is ready once its exported fields are set.
type Hub struct {
	Logger    *slog.Logger
	Memory    *membudget.Budget // nil if memory is not counted
	BodyGrace time.Duration     // how long a small message may take to arrive
	Settings  func() Settings
	Stopping  *perigee.Error // the error of requests while sockets are drained

	recent recentAnswers
	mu     sync.Mutex
	open   map[*Socket]bool
	by     map[string]int // the number of sockets of each key or address
	ending bool
	empty  chan struct{} // closed when there are no more, while ending
}

func (h *Hub) enter(s *Socket) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending {
		return h.Stopping
	}
	if h.open == nil {
		h.open, h.by = map[*Socket]bool{}, map[string]int{}
	}
	source := s.opening.Source
	if h.by[source] >= maxSockets && !s.opening.Trusted {
		e := perigee.Errorf(perigee.ClassRateLimited, "%s has %d sockets open", source, maxSockets).
			WithHint("close some, or use POST /v1/responses")
		e.Retry = time.Second
		return e
	}
	h.open[s] = true
	h.by[source]++
	return nil
}

func (h *Hub) quit(s *Socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, s)
	source := s.opening.Source
	if h.by[source]--; h.by[source] == 0 {
		delete(h.by, source)
	}
	if h.ending && len(h.open) == 0 {
		close(h.empty)
	}
}

// Drain closes all sockets as soon as no answer is being made on them, and opens no more. The
// channel is closed when they are.
func (h *Hub) Drain() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ending {
		h.ending, h.empty = true, make(chan struct{})
		for s := range h.open {
			close(s.leave)
		}
		if len(h.open) == 0 {
			close(h.empty)
		}
	}
	return h.empty
}

// CloseNow ends all sockets and the answers that are being made on them, and waits for that.
func (h *Hub) CloseNow() {
	empty := h.Drain()
	h.mu.Lock()
	for s := range h.open {
		s.cancel(h.Stopping)
	}
	h.mu.Unlock()
	<-empty
}

// hangUp closes the connection of a socket some time after its context has ended. A client that
// does not read would otherwise hold up the end of perigee for as long as a write may take.
func (s *Socket) hangUp() { time.AfterFunc(2*closeTime, func() { _ = s.raw.Close() }) }

// watch sends keep-alives and closes the socket.
func (s *Socket) watch() {
	quiet := s.hub.Settings().KeepAlive
	beat := time.NewTicker(quiet)
	defer beat.Stop()
	life := time.NewTimer(socketLife)
	defer life.Stop()
	leave, cut := s.leave, s.ctx.Done()
	for {
		select {
		case <-s.over:
			return
		case <-beat.C:
			s.beat(quiet)
		case <-s.idle:
		case <-life.C:
			s.drain(tooOld)
		case <-leave:
			leave = nil
			s.drain(shuttingDown)
		case <-cut:
			cut = nil
			s.drain(shuttingDown)
		}
		if f, ok := s.queue.closed(); ok {
			s.closeNow(f)
			return
		}
	}
}

// beat sends a ping when nothing else was sent for as long as a socket may be quiet. The pong is
// not insisted on: programs that read only while they wait for an answer send none while they do
// something else. TCP notices a client that is gone.
func (s *Socket) beat(quiet time.Duration) {
	if time.Since(time.Unix(0, s.wrote.Load())) < quiet || s.writing.Load() > 0 {
		return
	}
	s.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), quiet)
		defer cancel()
		_ = s.conn.Ping(ctx)
	})
}

// drain starts no more requests, and refuses the waiting ones.
func (s *Socket) drain(f closeReason) {
	for _, r := range s.queue.close(f) {
		s.refuse(r.Stream, cmp.Or(f.err, s.hub.Stopping))
	}
}

// closeNow closes a socket without running requests, unless it is closed already. A client that has
// used it for too long gets an error first.
func (s *Socket) closeNow(f closeReason) {
	if f == (closeReason{}) {
		return
	}
	if f.err == responses.ErrSocketTooOld {
		s.refuse("", f.err)
	}
	last := time.AfterFunc(closeTime, func() { _ = s.raw.Close() })
	defer last.Stop()
	_ = s.conn.Close(f.code, f.reason)
}

// refuse sends an error that does not belong to a call.
func (s *Socket) refuse(stream string, e *perigee.Error) {
	status := e.HTTPStatus(perigee.DialectOpenAIResponses)
	header := http.Header{"X-Perigee-Class": {string(e.Class)}}
	e.SetRetryHeaders(header, status)
	s.hub.Logger.Info("refused", "call", s.opening.ID, "path", s.opening.Path, "status", status, "class", e.Class, "error",
		e.Message)
	s.SendError(stream, status, e, header)
}

// SendError sends an error with its relevant headers, and returns the message.
func (s *Socket) SendError(stream string, status int, e *perigee.Error, header http.Header) (message []byte) {
	headers := map[string]string{}
	for name, values := range header {
		if name == "Retry-After" || name == "X-Should-Retry" || strings.HasPrefix(name, "X-Perigee-") {
			headers[strings.ToLower(name)] = values[0]
		}
	}
	message = responses.EncodeErrorMessage(status, e, headers, stream)
	_ = s.send(message, time.Now().Add(WriteLimit)) // the client may be gone
	return message
}

package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/dialect/openai/responses"
)

// socketLife is how long a socket may be open, as in the API that this follows.
const socketLife = time.Hour

// maxSockets is how many sockets one key, or one address where there are no keys, may have open. An idle socket counts 80 KiB in the
// memory budget, so that this is 20 MiB: without a bound, a single key could take all of it. An agent has one for each session.
const maxSockets = 256

// closeTime is how long a client may take to say goodbye, too.
const closeTime = time.Second

// sockets keeps account of the open ones. net/http does not: a connection that was taken over is none of its business,
// so its Shutdown neither ends sockets nor waits for them. The zero value is ready.
type sockets struct {
	mu     sync.Mutex
	open   map[*socket]bool
	by     map[string]int // how many each key has, or each address where there are no keys
	ending bool
	empty  chan struct{} // closed when there are no more, while ending
}

func (l *sockets) enter(s *socket) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return ErrShutdown
	}
	if l.open == nil {
		l.open, l.by = map[*socket]bool{}, map[string]int{}
	}
	source := s.shake.source()
	if l.by[source] >= maxSockets && !s.shake.trusted {
		e := perigee.Errorf(perigee.ClassRateLimited, "%s has %d sockets open", source, maxSockets).
			WithNext("close some, or use POST /v1/responses")
		e.Retry = time.Second
		return e
	}
	l.open[s] = true
	l.by[source]++
	return nil
}

func (l *sockets) quit(s *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
	source := s.shake.source()
	if l.by[source]--; l.by[source] == 0 {
		delete(l.by, source)
	}
	if l.ending && len(l.open) == 0 {
		close(l.empty)
	}
}

// end has all sockets closed as soon as they have nothing in the making. What it returns is closed when they are.
func (l *sockets) end() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.ending, l.empty = true, make(chan struct{})
		for s := range l.open {
			close(s.leave)
		}
		if len(l.open) == 0 {
			close(l.empty)
		}
	}
	return l.empty
}

// cut ends all sockets, and the answers that are being made over them, and waits for that.
func (l *sockets) cut() {
	empty := l.end()
	l.mu.Lock()
	for s := range l.open {
		s.cancel(ErrShutdown)
	}
	l.mu.Unlock()
	<-empty
}

// Drain closes the sockets that clients have open: at once where nothing is being made, otherwise after the answers that
// are. No new ones are opened, and what is asked meanwhile is refused. It returns when all are closed, or when ctx ends
// before; what is still being made then goes on until the base context ends, or Close is called.
//
// It belongs beside http.Server.Shutdown, which does not know of sockets.
func (s *Server) Drain(ctx context.Context) error {
	select {
	case <-s.sockets.end():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hangUp closes the connection of a socket some time after its context has ended. A client that does not read would otherwise hold up
// the end of perigee for as long as a write may take.
func (s *socket) hangUp() { time.AfterFunc(2*closeTime, func() { _ = s.raw.Close() }) }

// watch does for a socket what is not an answer to a message: signs of life, and the end.
func (s *socket) watch() {
	quiet := s.settings.Load().KeepAlive
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
			s.retire(retiring)
		case <-leave:
			leave = nil
			s.retire(goingAway)
		case <-cut:
			cut = nil
			s.retire(goingAway)
		}
		if f, ok := s.queue.closed(); ok {
			s.part(f)
			return
		}
	}
}

// beat sends a ping when nothing else was sent for as long as a socket may be quiet. The pong is not insisted on: programs
// that read only while they wait for an answer send none while they do something else. Who is gone for good, TCP finds out.
func (s *socket) beat(quiet time.Duration) {
	if time.Since(time.Unix(0, s.wrote.Load())) < quiet || s.writing.Load() > 0 {
		return
	}
	s.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), quiet)
		defer cancel()
		_ = s.conn.Ping(ctx)
	})
}

// retire begins nothing new, and refuses what was waiting.
func (s *socket) retire(f farewell) {
	for _, r := range s.queue.close(f) {
		s.refuse(r.Stream, f.err)
	}
}

// part closes a socket that has nothing in the making, unless it is closed already. A client that has used it for too long
// is told so first.
func (s *socket) part(f farewell) {
	if f == (farewell{}) {
		return
	}
	if f.err == responses.ErrSocketTooOld {
		s.refuse("", f.err)
	}
	last := time.AfterFunc(closeTime, func() { _ = s.raw.Close() })
	defer last.Stop()
	_ = s.conn.Close(f.code, f.reason)
}

// refuse tells the client of an error that is no call's.
func (s *socket) refuse(stream string, e *perigee.Error) {
	status := statusOf(perigee.DialectOpenAIResponses, e)
	header := http.Header{"X-Perigee-Class": {string(e.Class)}}
	if e.Retry > 0 {
		header.Set("Retry-After", retryAfter(e))
	}
	s.opts.Logger.Info("refused", "call", s.shake.id, "path", s.shake.path, "status", status, "class", e.Class, "error", e.Message)
	s.tell(stream, status, e, header)
}

// tell sends an error, with those of its headers that say something about it.
func (s *socket) tell(stream string, status int, e *perigee.Error, header http.Header) {
	headers := map[string]string{}
	for name, values := range header {
		if name == "Retry-After" || strings.HasPrefix(name, "X-Perigee-") {
			headers[strings.ToLower(name)] = values[0]
		}
	}
	_ = s.send(responses.EncodeErrorMessage(status, e, headers, stream), time.Now().Add(writeLimit)) // who is gone cannot be told
}

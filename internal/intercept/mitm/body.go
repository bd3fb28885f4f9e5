package mitm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// An idleBody is a request body that fails if the client sends nothing for a time while the
// handler reads.
type idleBody struct {
	io.ReadCloser
	watchdog watchdog    // of a Read
	ended    atomic.Bool // the last Read has returned an error
}

func newIdleBody(body io.ReadCloser, w http.ResponseWriter, idle time.Duration) *idleBody {
	return &idleBody{ReadCloser: body, watchdog: watchdog{limit: idle, deadline: http.NewResponseController(w).SetReadDeadline}}
}

func (b *idleBody) Read(p []byte) (int, error) {
	b.watchdog.start()
	defer b.watchdog.pause()
	n, err := b.ReadCloser.Read(p)
	b.ended.Store(err != nil)
	return n, err
}

// stop is called when the handler has returned: the response must not be used any more. net/http
// reads the end of a body, to reuse the connection; that is bounded.
func (b *idleBody) stop(rest time.Duration) {
	b.watchdog.stop()
	if !b.ended.Load() {
		_ = b.watchdog.deadline(time.Now().Add(rest))
	}
}

// A watchdog ends an operation on a connection that takes too long, by a deadline in the past. It
// does nothing after stop.
type watchdog struct {
	limit    time.Duration
	deadline func(time.Time) error // of the operation

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// start is called before an operation, pause after it.
func (d *watchdog) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopped:
	case d.timer == nil:
		d.timer = time.AfterFunc(d.limit, d.expire)
	default:
		d.timer.Reset(d.limit)
	}
}

func (d *watchdog) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *watchdog) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		_ = d.deadline(time.Unix(1, 0))
	}
}

func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
}

// replayLimit is the number of bytes of a request body that are kept until the server answers, so
// that a request can be sent again on another connection when nothing of it was written to the
// first one. It is less than one write of the transport reads.
const replayLimit = 64 << 10

// A source is the body of a client's request. At least one attempt reads it.
type source struct {
	body     io.ReadCloser
	http2    bool
	progress func() // called when bytes arrive

	mu      sync.Mutex
	copied  *[]byte // all bytes that were read, if whole
	whole   bool
	dropped int         // number of bytes that were kept, and are not any more
	err     error       // the end of the body
	reading atomic.Bool // a Read waits for the client
	ended   atomic.Bool // the body was read to its end, without an error
}

func newSource(r *http.Request, progress func()) *source {
	return &source{body: r.Body, http2: r.ProtoMajor == 2, progress: progress, whole: true}
}

// attempt returns a reader of the whole body, if that is possible.
func (s *source) attempt() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.whole {
		return nil, errNoReplay
	}
	return &attempt{source: s}, nil
}

var errNoReplay = errors.New("the request cannot be sent again: its body is not kept")

// ErrBody is in the error of a request with a body that could not be read from the client.
var ErrBody = errors.New("the request body cannot be read")

// An attempt reads the body for one attempt of the transport.
type attempt struct {
	*source
	offset int
	closed atomic.Bool
}

func (a *attempt) Read(p []byte) (int, error) {
	if a.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	s := a.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole && s.copied != nil && a.offset < len(*s.copied) {
		n := copy(p, (*s.copied)[a.offset:])
		a.offset += n
		return n, nil
	}
	if a.offset < s.dropped {
		return 0, errNoReplay
	}
	if s.err != nil {
		return 0, s.err
	}
	s.reading.Store(true)
	n, err := s.body.Read(p)
	s.reading.Store(false)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrBody, err)
	}
	s.err = err
	s.ended.Store(err == io.EOF)
	s.progress()
	if s.whole {
		s.keep(p[:n])
		a.offset += n
	}
	return n, err
}

// keep stores bytes that were read, as long as they are within the limit.
func (s *source) keep(p []byte) {
	if s.copied == nil {
		s.copied = replays.Get().(*[]byte)
	}
	if len(*s.copied)+len(p) > replayLimit {
		s.drop()
		return
	}
	*s.copied = append(*s.copied, p...)
}

func (s *source) drop() {
	s.whole = false
	if s.copied != nil {
		s.dropped, *s.copied = len(*s.copied), (*s.copied)[:0]
		replays.Put(s.copied)
		s.copied = nil
	}
}

// answered records that the request will not be sent again.
func (s *source) answered() {
	if s.mu.TryLock() { // otherwise an attempt is still reading
		s.drop()
		s.mu.Unlock()
	}
}

var replays = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Close ends the attempt, but not the body, which another attempt may read. It ends a Read that
// waits for a client over HTTP/2, because the transport waits for it before it returns an answer
// that came early.
func (a *attempt) Close() error {
	a.closed.Store(true)
	if a.http2 && a.reading.Load() {
		_ = a.body.Close()
	}
	return nil
}

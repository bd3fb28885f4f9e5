package httpapi

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
)

// How fast a body must arrive, in bytes a second, once its grace is used up: minRate for the first smallBody bytes, which is slow
// enough for any connection that works, and largeRate beyond, because a large body holds four times its size of the memory budget
// until it has arrived. 1 Mbit/s is enough. The largest body of the default limits.body, 64 MiB, thus may take 30 s + 64 s + 504 s,
// ten minutes in all, and one of 10 MB takes 170 s at most.
const (
	minRate   = 16 << 10
	largeRate = 128 << 10
)

// bodyTime is how long a body may take, beside its grace, of which so many bytes have been received.
func bodyTime(received int) time.Duration {
	slow := min(received, smallBody)
	return time.Duration(slow/minRate+(received-slow)/largeRate) * time.Second
}

// deadlineStep is after how many bytes the deadline of a body is moved on.
const deadlineStep = 64 << 10

// readBody reads the whole request body within the limits of size and time.
func (c *call) readBody() ([]byte, error) {
	limit, setting := c.maxBody()
	if c.r.ContentLength > limit {
		return nil, tooLarge(limit, setting)
	}
	defer c.arrived()
	if err := c.admitBody(); err != nil {
		return nil, err
	}
	plain := io.Reader(http.MaxBytesReader(c.w, c.r.Body, limit))
	src, err := c.decoded(plain)
	if err != nil {
		return nil, c.bodyError(err, limit, setting)
	}
	control := http.NewResponseController(c.w)
	start := time.Now()
	announced := c.r.ContentLength
	if src != plain {
		announced = -1 // it says how much arrives, not how much comes out of it
	}
	body, err := readAll(src, announced, limit, c.reserveBody, func(received int) {
		_ = control.SetReadDeadline(start.Add(c.opts.BodyGrace + bodyTime(received)))
	})
	if err != nil {
		return nil, c.bodyError(err, limit, setting)
	}
	c.settled()
	if err := c.hold(body); err != nil {
		return nil, err
	}
	return body, nil
}

// expectBody starts the time within which the body of a request must begin to arrive, whoever reads it in the end.
func (c *call) expectBody() {
	if c.r.ProtoMajor == 1 && len(c.r.TransferEncoding) > 0 {
		// It may have had a Content-Length as well, which net/http removes without a trace. RFC 9112, 6.1, has the connection
		// closed then: a proxy that went by the length would take the rest for another request. The price is a new
		// connection after each request in chunks.
		c.w.Header().Set("Connection", "close")
	}
	if c.r.ContentLength != 0 {
		c.unread = true
		// Not every writer can; then there is no limit.
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(c.opts.BodyGrace))
	}
}

// lingerTime is how long the rest of a body is read after an answer to its beginning.
const lingerTime = 5 * time.Second

// linger reads and discards the rest of a body that was refused while it was being sent. The system resets a connection that is closed
// with unread bytes, and a client that is still writing then sees a broken pipe in place of the answer. A client that waits for
// permission to send (100-continue) has not begun. An HTTP/2 stream is reset as soon as the handler returns, and curl 7.88 for one
// drops an answer that it has not read by then.
func (c *call) linger() {
	if !c.unread || c.r.Header.Get("Expect") != "" {
		return
	}
	c.end() // nothing is kept of the call
	control := http.NewResponseController(c.w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	buf := lingerBuffers.Get().(*[]byte)
	defer lingerBuffers.Put(buf)
	for {
		if _, err := c.r.Body.Read(*buf); err != nil {
			return
		}
	}
}

var lingerBuffers = sync.Pool{New: func() any { return new(make([]byte, 4<<10)) }}

// settled ends that time. A deadline that stayed would end the call, because net/http goes on reading to see
// whether the client leaves.
func (c *call) settled() {
	c.unread = false
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
}

// decoded undoes a content encoding. The size limit then counts twice: for what arrives and for what comes
// out of it.
func (c *call) decoded(src io.Reader) (io.Reader, error) {
	switch encoding := strings.ToLower(c.r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return src, nil
	case "gzip":
		z, err := gzip.NewReader(src)
		if errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, perigee.Errorf(perigee.ClassInvalid, "the body is not gzip, although it says so")
		}
		return z, err
	default:
		e := perigee.Errorf(perigee.ClassInvalid, "the content encoding %q is not known here", shorten(encoding)).
			WithNext("send the body as it is, or as gzip")
		e.Status = http.StatusUnsupportedMediaType
		return nil, e
	}
}

var errTooLarge = errors.New("body too large")

// trusted is how much must have arrived before room is made for all that was announced.
const trusted = 256 << 10

// bodies keeps the memory of bodies for the next ones. Agents send hundreds of kilobytes with each call, and
// making room for them anew each time is what would keep the garbage collector busy.
var bodies sync.Pool

// maxPooled is up to which size it does.
const maxPooled = 2 << 20

// largeBody is from which size on a body may have the garbage of its kind collected, see collectFor.
const largeBody = 4 << 20

// leftOver says that a large body was released and that its call may have left much garbage.
var leftOver atomic.Bool

// collectFor runs a full garbage collection, which the caller waits for, if a large body is at least an eighth of what the last one has
// found in use. That keeps the peak of a call at four times its body: left to itself, the collector would wait until as much again
// is in use. And it bounds what marking costs by what the call itself costs: a heap that mostly belongs to other calls is left alone.
func collectFor(body int64, collect func()) {
	if body < largeBody {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Uint64() <= 8*uint64(body) {
		collect()
	}
}

// decodedBody is called when a large body has been decoded and before the conversation is written anew for the provider:
// otherwise what decoding has left over would count towards the peak.
func decodedBody(body []byte) { collectFor(int64(cap(body)), runtime.GC) }

// freeBody gives back the memory of the call's body, once: when the request is released, or when the answer is complete. It is not
// called for a call that panicked or that goes on in the background.
func (c *call) freeBody() { releaseBody(c.drop()) }

// releaseBody gives back the memory of a body. No call waits for a collection at its end: what a large one has left over is collected
// when the next large body arrives, or when there has been no call for a while.
func releaseBody(body []byte) {
	switch {
	case body == nil:
	case cap(body) <= maxPooled:
		body = body[:0]
		bodies.Put(&body)
	case cap(body) >= largeBody:
		leftOver.Store(true)
	}
}

// newBody returns an empty buffer with room for size bytes at least.
func newBody(size int64) []byte {
	if b, ok := bodies.Get().(*[]byte); ok && int64(cap(*b)) >= size {
		return *b
	}
	return make([]byte, 0, size)
}

// readAll reads src into one buffer. A body that announces its size is copied once at most, and none gets room for
// what it has only announced. Reserve is called before that many bytes are received, also where the buffer has room for more.
func readAll(src io.Reader, announced, limit int64, reserve func(size int64) error, progress func(received int)) ([]byte, error) {
	size := int64(4 << 10)
	if announced > 0 {
		size = min(announced, trusted)
	}
	if err := reserve(size); err != nil {
		return nil, err
	}
	room := size + 1 // one byte more, so that the end is seen without growing
	buf := newBody(room)
	told := 0
	for {
		n, err := src.Read(buf[len(buf):room])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, errTooLarge
		}
		if err == io.EOF {
			return buf, reserve(int64(len(buf)))
		}
		if err != nil {
			return nil, err
		}
		if len(buf)-told >= deadlineStep {
			told = len(buf)
			progress(told)
		}
		if int64(len(buf)) < room {
			continue
		}
		if room = min(room*2, limit+1); int64(len(buf)) <= announced {
			room = announced + 1
		}
		if err := reserve(room - 1); err != nil {
			return nil, err
		}
		buf = enlarged(buf, room)
	}
}

// enlarged returns a buffer with the bytes of buf, and room for that many.
func enlarged(buf []byte, room int64) []byte {
	if room <= int64(cap(buf)) {
		return buf
	}
	if room >= largeBody && leftOver.Swap(false) {
		collectFor(room, runtime.GC)
	}
	return append(make([]byte, 0, room), buf...)
}

// tooLarge is the error for a body beyond the limit, which comes from that setting.
func tooLarge(limit int64, setting string) error {
	e := perigee.Errorf(perigee.ClassInvalid, "the body is larger than %d bytes", limit).
		WithNext("send less, or raise %s", setting)
	e.Status = http.StatusRequestEntityTooLarge
	return e
}

// bodyError says what was wrong with a body that could not be read. The rest of it is not waited for, so the
// connection cannot be used again.
func (c *call) bodyError(err error, limit int64, setting string) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		return e
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, errTooLarge) {
		return tooLarge(limit, setting)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e := perigee.Errorf(perigee.ClassInvalid, "the body did not arrive in time").
			WithNext("send it faster than %d KiB a second, and what is beyond 1 MiB faster than %d KiB a second", minRate>>10, largeRate>>10)
		e.Status = http.StatusRequestTimeout
		return e
	}
	// A client that has only stopped writing still reads, and nobody can tell it from one that is gone.
	if c.r.Context().Err() != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return c.r.Context().Err()
	}
	return perigee.Errorf(perigee.ClassInvalid, "the body broke off: %v", err).WithNext("send all of it")
}

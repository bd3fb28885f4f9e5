// Package reqbody reads bodies and messages into pooled buffers, bounds how slowly they may arrive,
// and runs the garbage collector for large ones.
package reqbody

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
)

// How fast a body must arrive, in bytes a second, once its grace is used up: MinRate for the first
// Small bytes, which is slow enough for any connection that works, and LargeRate beyond, because a
// large body holds four times its size of the memory budget until it has arrived. 1 Mbit/s is
// enough. The largest body of the default limits.body, 64 MiB, thus may take 30 s + 64 s + 504 s,
// ten minutes in all, and one of 10 MB takes 170 s at most.
const (
	MinRate   = 16 << 10
	LargeRate = 128 << 10
)

// Time returns how long a body may take, in addition to its grace period, if this many bytes have
// been received.
func Time(received int) time.Duration {
	slow := min(received, Small)
	return time.Duration(slow/MinRate+(received-slow)/LargeRate) * time.Second
}

// deadlineStep is the number of bytes after which the deadline of a body is extended.
const deadlineStep = 64 << 10

// Small is the size up to which a body may arrive slowly, and counts once in the memory budget
// while it does. Larger ones count in full from the moment they are announced, so that none of them
// is refused after it was sent.
const Small = 1 << 20

// Factor is the number of bytes that a byte of a body counts in the memory budget. A body is held
// unchanged, decoded into a prompt that mostly refers to it, and encoded for the provider: 1.0 to
// 2.1 times its size in measurements with an agent's bodies, and up to four with many small values.
// Its trace counts by itself.
const Factor = 4

// Weight returns the number of bytes that a body counts: Factor times its size, but at most
// maxCall, and at least its size.
func Weight(size, maxCall int64) int64 { return min(Factor*size, max(maxCall, size)) }

// ErrTooLarge is the error about a body beyond its limit.
var ErrTooLarge = errors.New("body too large")

// announcedFrom is the number of bytes after which memory is allocated for the announced size.
const announcedFrom = 256 << 10

// bodies pools the buffers of bodies. Agents send hundreds of kilobytes with each call, and
// allocating a buffer for each would keep the garbage collector busy.
var bodies sync.Pool

// MaxPooled is the largest buffer that is pooled.
const MaxPooled = 2 << 20

// Large is the size from which on a body may cause garbage collections, see CollectFor.
const Large = 4 << 20

// garbageLeft is set if a large body was released and its call may have left much garbage.
var garbageLeft atomic.Bool

// CollectFor runs a full garbage collection, which the caller waits for, if a large body is at
// least an eighth of the live heap after the last collection. That keeps the peak of a call at four
// times its body: left to itself, the collector would wait until as much again is in use. It also
// bounds the cost of marking by the cost of the call itself: a heap that mostly belongs to other
// calls is not collected.
func CollectFor(body int64, collect func()) {
	if body < Large {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Uint64() <= 8*uint64(body) {
		collect()
	}
}

// CollectDecoded calls CollectFor for a body that has been decoded, before the conversation is
// encoded for the provider: otherwise garbage of the decoder would count towards the peak.
func CollectDecoded(body []byte) { CollectFor(int64(cap(body)), runtime.GC) }

// Release recycles the memory of a body. No call waits for a collection at its end: garbage of a
// large body is collected when the next large body arrives, or when there has been no call for a
// while.
func Release(body []byte) {
	switch {
	case body == nil:
	case cap(body) <= MaxPooled:
		body = body[:0]
		bodies.Put(&body)
	case cap(body) >= Large:
		garbageLeft.Store(true)
	}
}

// newBuffer returns an empty buffer with a capacity of at least size bytes.
func newBuffer(size int64) []byte {
	if b, ok := bodies.Get().(*[]byte); ok && int64(cap(*b)) >= size {
		return *b
	}
	return make([]byte, 0, size)
}

// Read reads src into one buffer. A body that announces its size is copied at most once, and no
// memory is allocated for bytes that are only announced. reserve is called before that many bytes
// are received, even if the buffer has room for more.
func Read(src io.Reader, announced, limit int64, reserve func(size int64) error, progress func(received int)) ([]byte, error) {
	size := int64(4 << 10)
	if announced > 0 {
		size = min(announced, announcedFrom)
	}
	if err := reserve(size); err != nil {
		return nil, err
	}
	room := size + 1 // one byte more, so that the end is seen without growing
	buf := newBuffer(room)
	reported := 0
	for {
		n, err := src.Read(buf[len(buf):room])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return buf, reserve(int64(len(buf)))
		}
		if err != nil {
			return nil, err
		}
		if len(buf)-reported >= deadlineStep {
			reported = len(buf)
			progress(reported)
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
		buf = grow(buf, room)
	}
}

// grow returns a buffer with the content of buf and a capacity of at least room bytes.
func grow(buf []byte, room int64) []byte {
	if room <= int64(cap(buf)) {
		return buf
	}
	if room >= Large && garbageLeft.Swap(false) {
		CollectFor(room, runtime.GC)
	}
	return append(make([]byte, 0, room), buf...)
}

// TooLarge returns the error for a body beyond the limit, which comes from that setting.
func TooLarge(limit int64, setting string) error {
	e := perigee.Errorf(perigee.ClassInvalid, "the body is larger than %d bytes", limit).
		WithHint("send less, or raise %s", setting)
	e.Status = http.StatusRequestEntityTooLarge
	return e
}

// LeaveGarbage records that a large body was dropped: the next one runs a collection.
func LeaveGarbage() { garbageLeft.Store(true) }

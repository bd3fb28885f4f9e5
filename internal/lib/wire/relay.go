package wire

import (
	"bytes"
	"errors"
	"io"
	"time"

	"perigee"
	"perigee/internal/lib/sse"
)

// An Answer makes events of a provider's chunks, and sends them with the Relay that passes it the
// chunks.
type Answer interface {
	// Chunk takes one chunk, which it may use only until it returns. more is true if the next one
	// has arrived.
	Chunk(data []byte, more bool) error
	// End checks an answer that has come to its end: it may have been cut short.
	End() error
}

// A BlockAnswer is an Answer that gets a stream byte for byte, if the reader of the stream does.
type BlockAnswer interface {
	Answer
	// Block takes one event in place of Chunk: its data, and all of its bytes. An event without an
	// answer in it, such as a comment, has no data.
	Block(data, block []byte, more bool) error
}

// Done is the data of the event with which some APIs end a stream. It is no chunk.
const Done = "[DONE]"

// A Relay passes the answer of a provider on to the caller as it arrives. The caller yields the
// error of Stream or Whole, unless its own caller has left. A Relay is for one goroutine and
// outlasts answers that are tried again.
type Relay struct {
	origin *perigee.Origin
	yield  func(perigee.Event, error) bool
	left   bool // the caller went away
	owed   bool // the last chunk was sent with more set
}

// NewRelay returns a relay that passes events to yield. The memory that answers take is reserved
// for origin.
func NewRelay(origin *perigee.Origin, yield func(perigee.Event, error) bool) Relay {
	return Relay{origin: origin, yield: yield}
}

// Left reports whether the caller went away.
func (r *Relay) Left() bool { return r.left }

// Send passes an event on, and reports whether the caller is still there. A caller that has left
// gets no more events.
func (r *Relay) Send(ev perigee.Event) bool {
	if !r.left {
		r.owed = ev.More
		r.left = !r.yield(ev, nil)
	}
	return !r.left
}

// Stream reads a stream of chunks to its end, or until the caller leaves. The provider may be quiet
// for idle between two of them, or between keep-alives. The wait for the first chunk began when the
// watchdog was started, and no keep-alive ends it.
func (r *Relay) Stream(src *sse.Reader, watchdog *Watchdog, idle time.Duration, answer Answer) error {
	buffer := int64(0)
	src.Reserve = func(bytes int64) error {
		if bytes < 0 {
			r.origin.Unreserve(-bytes)
		} else if err := r.origin.Reserve(bytes); err != nil {
			return err
		}
		buffer += bytes
		return nil
	}
	defer func() { r.origin.Unreserve(buffer) }()
	src.Comment = func() { watchdog.Again(idle, ErrIdle) }
	for {
		watchdog.Busy(false)
		ev, err := src.Next()
		if err == io.EOF {
			return answer.End()
		}
		if errors.Is(err, sse.ErrTooLong) {
			return perigee.Errorf(perigee.ClassUnavailable, "the provider sent a line or event of more than %d MiB", sse.MaxLine>>20)
		}
		if err != nil {
			return err
		}
		watchdog.Busy(true)
		more := src.Ready()
		// Either is sent to keep a connection alive, by a gateway in between or by the provider.
		keepAlive := string(ev.Data) == "{}" || ev.Data == nil
		switch {
		case keepAlive:
			watchdog.Again(idle, ErrIdle)
			ev.Data = nil
		case !more: // with more at hand there is nothing to wait for
			watchdog.Reset(idle, ErrIdle)
		}
		var block []byte
		if src.Raw {
			block = src.Block()
		}
		if block != nil || len(ev.Data) > 0 && string(ev.Data) != Done {
			if err := r.chunk(answer, ev.Data, block, more); err != nil || r.left {
				return err
			}
		}
		if r.owed && !more && !r.Send(perigee.Event{Kind: perigee.EventFlush}) {
			return nil
		}
	}
}

// Whole reads an answer that comes in one piece, which is its only chunk.
func (r *Relay) Whole(src io.Reader, limit int64, answer Answer) error {
	body, reserved, err := readAll(src, limit, r.origin)
	defer r.origin.Unreserve(reserved)
	if err != nil {
		return err
	}
	if err := r.chunk(answer, body, nil, false); err != nil || r.left {
		return err
	}
	return answer.End()
}

// The memory of a large chunk while it is decoded, beside the buffer that it is in: its content
// once more, encoded for the client or held back, and an event for each JSON object in it. An
// answer may consist of nothing but empty parts, 11 bytes each.
const (
	largeChunk = 64 << 10
	pieceSize  = 512 // of an event, in a slice that grows
)

// chunk passes a chunk to the answer, with the block that it came in if there is one. The memory of a
// small one is included in the amount that every call counts.
func (r *Relay) chunk(answer Answer, data, block []byte, more bool) error {
	if len(data) >= largeChunk {
		weight := int64(len(data)) + pieceSize*int64(bytes.Count(data, []byte("{")))
		if err := r.origin.Reserve(weight); err != nil {
			return err
		}
		defer r.origin.Unreserve(weight)
	}
	if block != nil {
		return answer.(BlockAnswer).Block(data, block, more)
	}
	return answer.Chunk(data, more)
}

// ReadAll reads an answer that is not a stream. More than limit bytes, which should be whole MiB,
// are an error. The memory stays reserved for origin, which may be nil.
func ReadAll(src io.Reader, limit int64, origin *perigee.Origin) ([]byte, error) {
	body, reserved, err := readAll(src, limit, origin)
	if err != nil {
		origin.Unreserve(reserved)
	}
	return body, err
}

// firstRoom is where the buffer of readAll begins.
const firstRoom = 16 << 10

// readAll reserves memory before its buffer grows, and returns how much it has reserved in the end.
func readAll(src io.Reader, limit int64, origin *perigee.Origin) (body []byte, reserved int64, err error) {
	body = make([]byte, 0, firstRoom)
	for {
		n, err := src.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, reserved, perigee.Errorf(perigee.ClassUnavailable, "the provider's answer is larger than %d MiB", limit>>20)
		case err == io.EOF:
			return body, reserved, nil
		case err != nil:
			return nil, reserved, err
		case len(body) < cap(body):
			continue
		}
		room := min(int64(cap(body))*3/2, limit+1)
		if err := origin.Reserve(room); err != nil { // beside the old one, until it is copied
			return nil, reserved, err
		}
		body = append(make([]byte, 0, room), body...)
		origin.Unreserve(reserved)
		reserved = room
	}
}

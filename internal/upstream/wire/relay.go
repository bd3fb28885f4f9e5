package wire

import (
	"io"
	"time"

	"perigee"
	"perigee/internal/sse"
)

// An Answer makes events of a provider's chunks, and sends them with the Relay that brings the chunks.
type Answer interface {
	// Chunk takes one chunk, whose bytes are its own until it returns. More says that the next one is at hand.
	Chunk(data []byte, more bool) error
	// End judges an answer that has come to its end: it may have been cut short.
	End() error
}

// A Relay passes on to the caller what a provider answers, as it comes. The error that Stream or Whole return is for the
// caller to yield, unless the caller has left. A Relay is for one goroutine and outlasts answers that are tried again.
type Relay struct {
	yield func(perigee.Event, error) bool
	left  bool // the caller went away
	owed  bool // what was sent last said that more would follow
}

// NewRelay returns a relay to the caller who has this yield function.
func NewRelay(yield func(perigee.Event, error) bool) Relay { return Relay{yield: yield} }

// Left says whether the caller went away.
func (r *Relay) Left() bool { return r.left }

// Send passes an event on, and says whether the caller is still there. Who has left gets nothing more.
func (r *Relay) Send(ev perigee.Event) bool {
	if !r.left {
		r.owed = ev.More
		r.left = !r.yield(ev, nil)
	}
	return !r.left
}

// Stream reads a stream of chunks to its end, or until the caller leaves. The provider may be quiet between two of them for
// as long as idle says. The wait for the first one was begun by whoever set the dog to watch.
func (r *Relay) Stream(src *sse.Reader, dog *Watchdog, idle time.Duration, answer Answer) error {
	for {
		dog.Busy(false)
		ev, err := src.Next()
		if err == io.EOF {
			return answer.End()
		}
		if err != nil {
			return err
		}
		dog.Busy(true)
		more := src.Ready()
		keepAlive := string(ev.Data) == "{}" // of a gateway in between; counts as little as a comment
		if !more && !keepAlive {             // with more at hand there is nothing to wait for
			dog.Reset(idle, ErrIdle)
		}
		if len(ev.Data) > 0 && !keepAlive && string(ev.Data) != "[DONE]" {
			if err := answer.Chunk(ev.Data, more); err != nil || r.left {
				return err
			}
		}
		if r.owed && !more && !r.Send(perigee.Event{Kind: perigee.EventNothing}) {
			return nil
		}
	}
}

// Whole reads an answer that comes in one piece, which is its only chunk.
func (r *Relay) Whole(src io.Reader, limit int64, answer Answer) error {
	body, err := ReadAll(src, limit)
	if err != nil {
		return err
	}
	if err := answer.Chunk(body, false); err != nil || r.left {
		return err
	}
	return answer.End()
}

// ReadAll reads what a provider says in one piece. More than limit bytes, which should be whole MiB, are an error.
func ReadAll(src io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(src, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the provider's answer is larger than %d MiB", limit>>20)
	}
	return body, nil
}

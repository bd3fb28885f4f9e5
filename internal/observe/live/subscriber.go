package live

import (
	"context"
	"sync"

	"perigee"
)

// A Kind is the kind of an Update.
type Kind uint8

// The kinds of updates, in the order in which a call has them. All but Began and Ended may be
// missing, and Thinking, Text and Tool come in any order.
const (
	Began    Kind = iota // Call, open
	Started              // Call, with the upstream, the model and the account that answer
	Thinking             // Text: a further piece of thinking
	Text                 // Text: a further piece of the answer
	Tool                 // Text: the name of a function that the answer calls
	Ended                // Call, complete
)

var kindNames = [...]string{"began", "started", "thinking", "text", "tool", "ended"}

func (k Kind) String() string { return kindNames[k] }

// An Update is a change of a call. Call has only the ID unless the kind states more. Subscribers
// share it and must not change it, so that updates that wait to be read take little memory.
type Update struct {
	Kind Kind
	Call *perigee.Call
	Text string
}

// Bounds of the queue of one subscriber.
const (
	maxQueuedText = 64 << 10 // bytes of text and thinking; the rest is lost
	maxPieces     = 1024     // updates; no text is added to that many
	maxQueued     = 8192     // updates; a subscriber that is further behind is given up
	maxPiece      = 8 << 10  // pieces of the same call are joined up to that
)

// A subscriber is a queue of updates with one reader. Writers never wait.
type subscriber struct {
	wake chan struct{} // has an element when there may be something to read

	mu    sync.Mutex
	queue []Update
	text  int // bytes of pieces in queue
	lost  bool
}

func newSubscriber() *subscriber { return &subscriber{wake: make(chan struct{}, 1)} }

func (s *subscriber) put(u Update) {
	s.mu.Lock()
	s.add(u)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) add(u Update) {
	if s.lost {
		return
	}
	if u.Kind == Text || u.Kind == Thinking {
		if s.text+len(u.Text) > maxQueuedText || len(s.queue) >= maxPieces {
			return
		}
		s.text += len(u.Text)
		if last := len(s.queue) - 1; last >= 0 && s.queue[last].Kind == u.Kind && s.queue[last].Call.ID == u.Call.ID &&
			len(s.queue[last].Text)+len(u.Text) <= maxPiece {
			s.queue[last].Text += u.Text
			return
		}
	}
	if len(s.queue) == maxQueued {
		s.lost, s.queue = true, nil
		return
	}
	s.queue = append(s.queue, u)
}

// next waits for updates. ok is false if these are the last ones.
func (s *subscriber) next(ctx context.Context) (updates []Update, ok bool) {
	for {
		s.mu.Lock()
		updates, lost := s.queue, s.lost
		s.queue, s.text = nil, 0
		s.mu.Unlock()
		if len(updates) > 0 || lost {
			return updates, !lost && ctx.Err() == nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// A Growing is a text that comes in pieces. It holds back the end that could be a part of a secret,
// so that secrets can be replaced in its output: the characters after the last space, or after the
// last one that is not ASCII. The zero value is empty.
type Growing struct{ pending string }

// maxPending is how many bytes are held back at most. Secrets are shorter.
const maxPending = 4 << 10

// Add adds a piece, and returns the text that is complete.
func (g *Growing) Add(piece string) string {
	text := g.pending + piece
	cut := len(text)
	for cut > 0 && text[cut-1] > ' ' && text[cut-1] < 0x80 {
		cut--
	}
	if len(text)-cut > maxPending {
		cut = len(text)
	}
	g.pending = text[cut:]
	return text[:cut]
}

// End returns the rest. The Growing is empty afterwards.
func (g *Growing) End() (rest string) {
	rest, g.pending = g.pending, ""
	return rest
}

package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/sse"
	"perigee/internal/server/membudget"
)

const mb = 1 << 20

// leased is a request with a lease in a budget of that size.
func leased(t *testing.T, size int64) (*perigee.Origin, *membudget.Budget) {
	t.Helper()
	budget := membudget.New(size, nil)
	lease := &membudget.Lease{}
	if err := lease.Open(budget, false); err != nil {
		t.Fatal(err)
	}
	return &perigee.Origin{Memory: lease}, budget
}

// A swallow takes chunks and makes nothing of them.
type swallow struct{ chunks, bytes int }

func (s *swallow) Chunk(data []byte, _ bool) error {
	s.chunks++
	s.bytes += len(data)
	return nil
}
func (s *swallow) End() error { return nil }

// counted reads as much as is asked of it, up to a limit, and says how much that was.
type counted struct{ left, read int }

func (c *counted) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), c.left)
	copy(p, bytes.Repeat([]byte{'x'}, n))
	c.left -= n
	c.read += n
	return n, nil
}

func TestAnswersInOnePieceStayWithinTheBudget(t *testing.T) {
	for _, test := range []struct {
		name string
		size int
		fits bool
	}{{"small", 10 << 10, true}, {"fits", 6 * mb, true}, {"does not fit", 200 * mb, false}} {
		origin, budget := leased(t, 64*mb)
		relay := NewRelay(origin, func(perigee.Event, error) bool { return true })
		src, answer := &counted{left: test.size}, &swallow{}
		err := relay.Whole(src, 256*mb, answer)
		if test.fits && (err != nil || answer.bytes != test.size) {
			t.Errorf("%s: %d bytes, %v", test.name, answer.bytes, err)
		}
		if !test.fits && (!errors.Is(err, perigee.ErrNoMemory) || perigee.AsError(err).Class != perigee.ClassCapacity || answer.chunks != 0) {
			t.Errorf("%s: %d chunks, %v", test.name, answer.chunks, err)
		}
		if !test.fits && src.read > 40*mb {
			t.Errorf("%s: %d bytes were read into 64 MiB", test.name, src.read)
		}
		if budget.Used() != membudget.Base {
			t.Errorf("%s: %d bytes are still reserved", test.name, budget.Used())
		}
	}
}

// Each empty part becomes an event, which is twenty times as large.
func TestAnswersOfManyPiecesCountTheirPieces(t *testing.T) {
	origin, budget := leased(t, 64*mb)
	relay := NewRelay(origin, func(perigee.Event, error) bool { return true })
	answer := &swallow{}
	err := relay.Whole(strings.NewReader(strings.Repeat(`{"text":""},`, 200_000)), 256*mb, answer) // 2.4 MB
	if !errors.Is(err, perigee.ErrNoMemory) || answer.chunks != 0 || budget.Used() != membudget.Base {
		t.Errorf("%d chunks, %d bytes reserved, %v", answer.chunks, budget.Used(), err)
	}
}

func TestStreamsWithLongEventsStayWithinTheBudget(t *testing.T) {
	for _, test := range []struct {
		size int
		fits bool
	}{{1 << 10, true}, {4 * mb, true}, {60 * mb, false}} {
		origin, budget := leased(t, 64*mb)
		relay := NewRelay(origin, func(perigee.Event, error) bool { return true })
		answer := &swallow{}
		_, watchdog := Watch(context.Background(), time.Hour)
		src := io.MultiReader(strings.NewReader("data: "), &counted{left: test.size}, strings.NewReader("\n\ndata: x\n\n"))
		err := relay.Stream(sse.NewReader(src), watchdog, time.Hour, answer)
		watchdog.Stop()
		if test.fits && (err != nil || answer.chunks != 2) || !test.fits && (!errors.Is(err, perigee.ErrNoMemory) || answer.chunks != 0) {
			t.Errorf("%d bytes: %d chunks, %v", test.size, answer.chunks, err)
		}
		if budget.Used() != membudget.Base {
			t.Errorf("%d bytes: %d are still reserved", test.size, budget.Used())
		}
	}
}

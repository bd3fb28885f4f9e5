package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/lib/sse"
)

var (
	errBad = errors.New("a bad chunk")
	errCut = errors.New("cut short")
)

// A words answer says each word of a chunk as an event, but for those in parentheses, which it
// keeps to itself. One that has never said "stop" is cut short.
type words struct {
	relay   Relay
	stopped bool
	ended   int
}

func (w *words) Chunk(data []byte, more bool) error {
	all := strings.Fields(string(data))
	if len(all) == 0 {
		return errBad
	}
	for i, word := range all {
		switch {
		case word == "bad":
			return errBad
		case strings.HasPrefix(word, "("):
			continue
		case word == "stop":
			w.stopped = true
		}
		if !w.relay.Send(perigee.Event{Kind: perigee.EventText, Text: word, More: more || i < len(all)-1}) {
			return nil
		}
	}
	return nil
}

func (w *words) End() error {
	w.ended++
	if !w.stopped {
		return errCut
	}
	return nil
}

// A listener writes down what it hears, with a plus where more is promised, and leaves after a
// number of events.
type listener struct {
	heard  []string
	leaves int // after so many; 0 means never
}

func (l *listener) hear(ev perigee.Event, _ error) bool {
	word := ev.Text
	if ev.Kind == perigee.EventFlush {
		word = "NOTHING"
	}
	if ev.More {
		word += "+"
	}
	l.heard = append(l.heard, word)
	return len(l.heard) != l.leaves
}

func TestRelayPassesAStreamOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream string // events, divided by " / " where they arrive apart
		leaves int
		heard  string
		err    error
		ended  int
	}{
		{name: "one by one", stream: "data: a b\n\n / data: stop\n\n", heard: "a+ b stop", ended: 1},
		{name: "at once", stream: "data: a b\n\ndata: c\n\ndata: stop\n\n", heard: "a+ b+ c+ stop", ended: 1},
		{name: "nothing at all", stream: "", err: errCut, ended: 1},
		{name: "an end without a finish", stream: "data: a\n\n", heard: "a", err: errCut, ended: 1},
		{name: "an end without its blank line", stream: "data: a\n\n / data: stop", heard: "a stop", ended: 1},
		{name: "DONE is no chunk", stream: "data: stop\n\n / data: [DONE]\n\n", heard: "stop", ended: 1},
		{name: "DONE at hand was promised", stream: "data: stop\n\ndata: [DONE]\n\n", heard: "stop+ NOTHING", ended: 1},
		{name: "DONE is not the end", stream: "data: [DONE]\n\n / data: stop\n\n", heard: "stop", ended: 1},
		{name: "a keep-alive is no chunk", stream: "data: {}\n\n / data: stop\n\n", heard: "stop", ended: 1},
		{name: "a keep-alive at hand was promised", stream: "data: a\n\ndata: {}\n\n / data: stop\n\n", heard: "a+ NOTHING stop", ended: 1},
		{name: "empty data", stream: "data:\n\n / data: stop\n\ndata:\n\ndata:\n\n", heard: "stop+ NOTHING", ended: 1},
		{name: "silence nobody was promised anything else than", stream: "data: a\n\n / data: (b)\n\ndata: (c)\n\n / data: stop\n\n", heard: "a stop", ended: 1},
		{name: "silence after a promise", stream: "data: a\n\ndata: (b)\n\n / data: stop\n\n", heard: "a+ NOTHING stop", ended: 1},
		{name: "silence after a promise, in several chunks", stream: "data: a\n\ndata: (b)\n\ndata: (c)\n\n / data: stop\n\n", heard: "a+ NOTHING stop", ended: 1},
		{name: "silence after a promise inside a chunk", stream: "data: a (b)\n\n / data: stop\n\n", heard: "a+ NOTHING stop", ended: 1},
		{name: "a promise kept late", stream: "data: a\n\ndata: (b)\n\ndata: stop\n\n", heard: "a+ stop", ended: 1},
		{name: "the caller leaves in the middle of a chunk", stream: "data: a b c\n\n / data: stop\n\n", leaves: 2, heard: "a+ b+"},
		{name: "the caller leaves with the last chunk", stream: "data: a\n\n", leaves: 1, heard: "a"},
		{name: "the caller leaves when nothing came", stream: "data: a\n\ndata: (b)\n\n / data: stop\n\n", leaves: 2, heard: "a+ NOTHING"},
		{name: "an error in the middle", stream: "data: a bad c\n\n / data: stop\n\n", heard: "a+", err: errBad},
		{name: "an error at the start", stream: "data: bad\n\n", err: errBad},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pieces []io.Reader // each read returns one
			for piece := range strings.SplitSeq(c.stream, " / ") {
				pieces = append(pieces, strings.NewReader(piece))
			}
			l := listener{leaves: c.leaves}
			w := words{relay: NewRelay(nil, l.hear)}
			ctx, watchdog := Watch(t.Context(), 0)
			defer watchdog.Stop()
			err := w.relay.Stream(sse.NewReader(io.MultiReader(pieces...)), watchdog, time.Hour, &w)
			if ctx.Err() != nil {
				t.Error("the watchdog barked")
			}
			if heard := strings.Join(l.heard, " "); heard != c.heard || err != c.err || w.ended != c.ended || w.relay.Left() != (c.leaves > 0) {
				t.Errorf("heard %q, want %q; error %v, want %v; ended %d times, want %d; left %v", heard, c.heard, err, c.err, w.ended, c.ended, w.relay.Left())
			}
		})
	}
}

// A connection that breaks is not the end of an answer, and what came before it was passed on.
func TestRelayReportsABrokenStream(t *testing.T) {
	broken := errors.New("connection reset")
	body := io.MultiReader(strings.NewReader("data: stop\n\ndata: half of"), failing{broken})
	l := listener{}
	w := words{relay: NewRelay(nil, l.hear)}
	_, watchdog := Watch(t.Context(), 0)
	defer watchdog.Stop()
	err := w.relay.Stream(sse.NewReader(body), watchdog, 0, &w)
	if err != broken || w.ended != 0 || strings.Join(l.heard, " ") != "stop" {
		t.Errorf("%v; ended %d times; heard %q", err, w.ended, l.heard)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A caller that has left gets no more events, whatever an answer sends.
func TestRelaySendsNothingToWhoHasLeft(t *testing.T) {
	l := listener{leaves: 1}
	r := NewRelay(nil, l.hear)
	for range 3 {
		if r.Send(perigee.Event{Kind: perigee.EventText, Text: "a"}) {
			t.Error("the caller is said to be there")
		}
	}
	if len(l.heard) != 1 || !r.Left() {
		t.Errorf("heard %q, left %v", l.heard, r.Left())
	}
}

// A provider that falls silent is given up after the idle time, which each event starts anew. What
// the caller takes does not count, and neither does the wait for the first event, which has its own
// limit.
func TestRelayGivesUpASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, idle = time.Minute, 10 * time.Second
		ctx, watchdog := Watch(t.Context(), first)
		defer watchdog.Stop()
		body, provider := io.Pipe()
		go func() {
			time.Sleep(first - time.Second)
			fmt.Fprint(provider, "data: a\n\n")
			time.Sleep(idle - time.Second)
			fmt.Fprint(provider, "data: slow\n\n")
			<-ctx.Done() // as the transport does it
			_ = provider.CloseWithError(ctx.Err())
		}()
		var slow time.Time
		w := words{relay: NewRelay(nil, func(ev perigee.Event, _ error) bool {
			if ev.Text == "slow" {
				time.Sleep(3*idle + idle/2)
				slow = time.Now()
			}
			return true
		})}
		err := w.relay.Stream(sse.NewReader(body), watchdog, idle, &w)
		if !errors.Is(err, context.Canceled) || context.Cause(ctx) != ErrIdle || w.ended != 0 {
			t.Errorf("%v because of %v; ended %d times", err, context.Cause(ctx), w.ended)
		}
		// The timer goes on while the caller is busy, so that the rest of its last round is all
		// that is waited for.
		if waited := time.Since(slow); waited <= 0 || waited > idle {
			t.Errorf("waited %v after the caller was done", waited)
		}
	})
}

// Keep-alives do not count as an answer.
func TestRelayGivesUpAStreamOfKeepAlives(t *testing.T) {
	for _, keepAlive := range []string{": PROCESSING\n\n", "data: {}\n\n"} {
		t.Run(keepAlive, func(t *testing.T) { giveUp(t, keepAlive) })
	}
}

func giveUp(t *testing.T, keepAlive string) {
	synctest.Test(t, func(t *testing.T) {
		const first = time.Minute
		ctx, watchdog := Watch(t.Context(), first)
		defer watchdog.Stop()
		body, provider := io.Pipe()
		go func() {
			for ctx.Err() == nil {
				fmt.Fprint(provider, keepAlive)
				select {
				case <-time.After(first / 4):
				case <-ctx.Done():
				}
			}
			_ = provider.CloseWithError(ctx.Err())
		}()
		start := time.Now()
		w := words{relay: NewRelay(nil, func(perigee.Event, error) bool { return true })}
		err := w.relay.Stream(sse.NewReader(body), watchdog, time.Hour, &w)
		if waited := time.Since(start); err == nil || context.Cause(ctx) != ErrFirstByte || waited != first {
			t.Errorf("%v because of %v after %v", err, context.Cause(ctx), waited)
		}
	})
}

// Keep-alives in the middle of an answer count as signs of life, as comments and as empty objects.
// When they stop, the idle time is over.
func TestRelayWaitsWhileThereAreKeepAlives(t *testing.T) {
	for _, keepAlive := range []string{": PROCESSING\n\n", ":\n", "data: {}\n\n"} {
		for _, raw := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				const idle = 10 * time.Second
				ctx, watchdog := Watch(t.Context(), time.Minute)
				defer watchdog.Stop()
				body, provider := io.Pipe()
				go func() {
					fmt.Fprint(provider, "data: a\n\n")
					for range 20 {
						time.Sleep(idle - time.Second)
						fmt.Fprint(provider, keepAlive)
					}
					<-ctx.Done()
					_ = provider.CloseWithError(ctx.Err())
				}()
				start := time.Now()
				w := blocks{words{relay: NewRelay(nil, func(perigee.Event, error) bool { return true })}}
				reader := sse.NewReader(body)
				reader.Raw = raw
				err := w.relay.Stream(reader, watchdog, idle, &w)
				if waited, want := time.Since(start), 20*(idle-time.Second)+idle; err == nil || context.Cause(ctx) != ErrIdle || waited != want {
					t.Errorf("%q, raw %v: %v because of %v after %v, want %v", keepAlive, raw, err, context.Cause(ctx), waited, want)
				}
			})
		}
	}
}

// A blocks answer is a words answer that takes the stream byte for byte.
type blocks struct{ words }

func (b *blocks) Block(data, _ []byte, more bool) error {
	if len(data) == 0 {
		return nil
	}
	return b.Chunk(data, more)
}

func TestRelayPassesAWholeAnswerOn(t *testing.T) {
	const limit = 1 << 20
	for _, c := range []struct {
		name, body string
		leaves     int
		heard      string
		err        string
		ended      int
	}{
		{name: "finished", body: "a stop", heard: "a+ stop", ended: 1},
		{name: "unfinished", body: "a", heard: "a", err: "cut short", ended: 1},
		{name: "empty", err: "a bad chunk"},
		{name: "bad", body: "a bad", heard: "a+", err: "a bad chunk"},
		{name: "left", body: "a b stop", leaves: 1, heard: "a+"},
		{name: "as large as it may be", body: "stop" + strings.Repeat(" ", limit-4), heard: "stop", ended: 1},
		{name: "too large", body: "stop" + strings.Repeat(" ", limit-3), err: "the provider's answer is larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listener{leaves: c.leaves}
			w := words{relay: NewRelay(nil, l.hear)}
			said := ""
			if err := w.relay.Whole(strings.NewReader(c.body), limit, &w); err != nil {
				said = err.Error()
			}
			if heard := strings.Join(l.heard, " "); heard != c.heard || said != c.err || w.ended != c.ended {
				t.Errorf("heard %q, want %q; error %q, want %q; ended %d times, want %d", heard, c.heard, said, c.err, w.ended, c.ended)
			}
		})
	}
}

// A counting answer sends each chunk as it is, and costs next to nothing itself.
type counting struct {
	relay Relay
	n     int
}

func (c *counting) Chunk(data []byte, more bool) error {
	c.n++
	c.relay.Send(perigee.Event{Kind: perigee.EventFrame, Frame: data, More: more})
	return nil
}

func (c *counting) End() error { return nil }

// BenchmarkRelay reads a stream of twenty chunks that have arrived at once.
func BenchmarkRelay(b *testing.B) {
	stream := bytes.Repeat([]byte(`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"a few words"}]}}]}`+"\r\n\r\n"), 20)
	_, watchdog := Watch(b.Context(), time.Hour)
	defer watchdog.Stop()
	b.ReportAllocs()
	for b.Loop() {
		c := &counting{relay: NewRelay(nil, func(perigee.Event, error) bool { return true })}
		if err := c.relay.Stream(sse.NewReader(bytes.NewReader(stream)), watchdog, time.Hour, c); err != nil || c.n != 20 {
			b.Fatal(c.n, err)
		}
	}
}

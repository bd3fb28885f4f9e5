package route

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/route/hold"
)

// tries is an upstream that plays one source after the other.
type tries struct {
	list []*source
	n    int
}

func (t *tries) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	next := t.list[min(t.n, len(t.list)-1)]
	t.n++
	return next.Stream(ctx, req)
}

// An answer in one piece whose stream breaks off is asked for once more, and a streamed one, of
// which the client has seen the beginning, is not.
func TestAnswersThatBreakOff(t *testing.T) {
	cut := func(class perigee.Class, cause error) *source {
		s := says("half of")
		s.events, s.err = s.events[:2], &perigee.Error{Class: class, Message: "broke off", Cause: cause}
		return s
	}
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	short := &source{err: &perigee.Error{Class: perigee.ClassUnavailable, Message: "cut", Cause: io.ErrUnexpectedEOF}}
	for _, test := range []struct {
		name   string
		stream bool
		tries  []*source
		want   string
		asked  int
		steps  []string
	}{
		{"in one piece", false, []*source{cut(perigee.ClassUnavailable, io.ErrUnexpectedEOF), says("all")}, "all", 2, []string{"first unavailable: retried: nothing was passed on yet", "first : upstream 1 of 2 for m"}},
		{"in one piece, cut before anything was read", false, []*source{short, says("all")}, "all", 2, []string{"first unavailable: retried: nothing was passed on yet", "first : upstream 1 of 2 for m"}},
		{"in one piece, reset", false, []*source{cut(perigee.ClassUnavailable, reset), says("all")}, "all", 2, []string{"first unavailable: retried: nothing was passed on yet", "first : upstream 1 of 2 for m"}},
		{"in one piece, twice", false, []*source{cut(perigee.ClassUnavailable, reset)}, "next", 2,
			[]string{"first unavailable: retried: nothing was passed on yet", "first unavailable: upstream 1 of 2 for m", "second : upstream 2 of 2 for m"}},
		{"in one piece, and not by chance", false, []*source{cut(perigee.ClassExhausted, nil)}, "next", 1, []string{"first exhausted: upstream 1 of 2 for m", "second : upstream 2 of 2 for m"}},
		{"in one piece, and complete, but odd", false, []*source{cut(perigee.ClassUnavailable, nil)}, "next", 1, []string{"first unavailable: upstream 1 of 2 for m", "second : upstream 2 of 2 for m"}},
		{"in one piece, and nothing came", false, []*source{fails(perigee.ClassUnavailable)}, "next", 1, []string{"first unavailable: upstream 1 of 2 for m", "second : upstream 2 of 2 for m"}},
		{"streamed", true, []*source{cut(perigee.ClassUnavailable, io.ErrUnexpectedEOF)}, "half of, then broke off", 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := &tries{list: test.tries}
			r := router(t, Options{Targets: []Target{{"first", first}, {"second", says("next")}}})
			req := perigee.NewRequest(perigee.Origin{ID: "c", Log: &perigee.CallLog{}}, "m", test.stream, func() (*perigee.Prompt, error) { return &perigee.Prompt{}, nil })
			var got strings.Builder
			for ev, err := range r.Stream(t.Context(), req) {
				if err != nil {
					fmt.Fprintf(&got, ", then %v", err)
				}
				got.WriteString(ev.Text)
			}
			var steps []string
			for _, s := range req.Log.Attempts() {
				steps = append(steps, fmt.Sprintf("%s %s: %s", s.Upstream, s.Class, s.Why))
			}
			if got.String() != test.want || first.n != test.asked || !slices.Equal(steps, test.steps) {
				t.Errorf("got %q after asking %d times, steps %q; want %q, %d, %q", got.String(), first.n, steps, test.want, test.asked, test.steps)
			}
		})
	}
}

// Frames are valid until the next event only, so copies of them are held back.
func TestFramesOfAnAnswerInOnePieceAreKept(t *testing.T) {
	buffer := []byte("....")
	frames := func(yield func(perigee.Event, error) bool) {
		for _, text := range []string{"one ", "two ", "end."} {
			copy(buffer, text)
			if !yield(perigee.Event{Kind: perigee.EventFrame, Dialect: perigee.DialectGemini, Frame: buffer}, nil) {
				return
			}
		}
	}
	a := attempt{call: &call{req: &perigee.Request{}}}
	var got string
	a.yield = func(ev perigee.Event, _ error) bool {
		got += string(ev.Frame)
		return true
	}
	if err := a.run(frames); err != nil || got != "one two end." {
		t.Errorf("got %q, %v", got, err)
	}
}

// What a discarded answer cost is told all the same: with the error, and with the answer that came
// in its place.
func TestCostOfAnAnswerThatBrokeOff(t *testing.T) {
	half := func(err error) *source {
		return &source{events: []perigee.Event{
			{Kind: perigee.EventStart, Account: "ada@example.com", Model: "m-001"},
			{Kind: perigee.EventText, Text: "half"},
			{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 100, Output: 5}},
		}, err: err}
	}
	all := says("all")
	all.events = append(all.events, perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 100, Output: 20, Thinking: 2}})
	cut := &perigee.Error{Class: perigee.ClassUnavailable, Message: "cut", Cause: io.ErrUnexpectedEOF}
	for _, test := range []struct {
		name  string
		tries []*source
		want  string
	}{
		{"answered then", []*source{half(cut), all}, "start u real-all, usage 100 5 0, text all, usage 200 25 2"},
		{"answered then, without a word of its cost", []*source{half(cut), says("all")}, "start u real-all, usage 100 5 0, text all"},
		{"cut again", []*source{half(cut)}, "error cut of ada@example.com, usage 200 10 0"},
		{"the client leaves", []*source{half(perigee.Errorf(perigee.ClassCanceled, "gone"))}, "error gone of ada@example.com, usage 100 5 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := router(t, Options{Targets: []Target{{"u", &tries{list: test.tries}}}})
			var got []string
			for ev, err := range r.Stream(t.Context(), perigee.NewRequest(perigee.Origin{ID: "c"}, "m", false, func() (*perigee.Prompt, error) { return &perigee.Prompt{}, nil })) {
				switch {
				case err != nil:
					e := perigee.AsError(err)
					got = append(got, fmt.Sprintf("error %s of %s, usage %d %d %d", e.Message, e.Account, e.Usage.Input, e.Usage.Output, e.Usage.Thinking))
				case ev.Kind == perigee.EventStart:
					got = append(got, strings.TrimSpace("start "+ev.Upstream+" "+ev.Model+" "+ev.Account))
				case ev.Kind == perigee.EventText:
					got = append(got, "text "+ev.Text)
				case ev.Kind == perigee.EventUsage:
					got = append(got, fmt.Sprintf("usage %d %d %d", ev.Usage.Input, ev.Usage.Output, ev.Usage.Thinking))
				}
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

// Answers come in thousands of pieces; held back, they are a few.
func TestPiecesOfTextAreHeldTogether(t *testing.T) {
	stream := func(yield func(perigee.Event, error) bool) {
		for range 1000 {
			yield(perigee.Event{Kind: perigee.EventThinking, Text: "hm "}, nil)
		}
		yield(perigee.Event{Kind: perigee.EventThinking, Text: "so", Signature: "sealed"}, nil)
		yield(perigee.Event{Kind: perigee.EventThinking, Text: "again"}, nil)
		for range 1000 {
			yield(perigee.Event{Kind: perigee.EventText, Text: "word "}, nil)
			yield(perigee.Event{Kind: perigee.EventText, Text: "Wort ", Candidate: 1}, nil)
		}
		for range 1000 {
			yield(perigee.Event{Kind: perigee.EventText, Text: "x"}, nil)
		}
		yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}, nil)
	}
	var got, want [2]strings.Builder
	write := func(into *[2]strings.Builder, ev perigee.Event) {
		fmt.Fprintf(&into[ev.Candidate], "%s%s", ev.Text, ev.Signature)
	}
	a := attempt{call: &call{req: &perigee.Request{}}, pending: hold.Events{Join: true}}
	a.yield = func(ev perigee.Event, _ error) bool { write(&got, ev); return true }
	if err := a.run(stream); err != nil {
		t.Fatal(err)
	}
	stream(func(ev perigee.Event, _ error) bool { write(&want, ev); return true })
	for i := range got {
		if got[i].String() != want[i].String() {
			t.Errorf("candidate %d says something else", i)
		}
	}
	if n := len(a.pending.All()); n > 2004 {
		t.Errorf("%d events are held", n)
	}
}

package hold

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"perigee"
)

// show writes events as one line.
func show(list []perigee.Event) string {
	var b strings.Builder
	for _, ev := range list {
		fmt.Fprintf(&b, "[%d %s%s%s]", ev.Candidate, ev.Text, ev.Signature, ev.Frame)
		if ev.Usage != nil {
			fmt.Fprintf(&b, "(%d)", ev.Usage.Output)
		}
	}
	return b.String()
}

func TestPiecesOfATextAreJoined(t *testing.T) {
	other := text("c")
	other.Candidate = 1
	signed := text("e")
	signed.Signature = "S"
	for join, want := range map[bool]string{true: "[0 ab][1 c][0 deS][0 f]", false: "[0 a][0 b][1 c][0 d][0 eS][0 f]"} {
		h := Events{Join: join}
		for _, ev := range []perigee.Event{text("a"), text("b"), other, text("d"), signed, text("f")} {
			if err := h.Add(ev); err != nil {
				t.Fatal(err)
			}
		}
		if got := show(h.All()); got != want {
			t.Errorf("join %v: got %s, want %s", join, got, want)
		}
		if got := show(h.Take()); got != want || len(h.All()) != 0 || h.Size() != 0 {
			t.Errorf("join %v: took %s, and %d are left", join, got, len(h.All()))
		}
	}
}

func TestTheLastOfSeveralUsagesIsHeld(t *testing.T) {
	var h Events
	for i := range 3 {
		_ = h.Add(perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Output: int64(i)}})
	}
	if got := show(h.All()); got != "[0 ](2)" {
		t.Errorf("got %s", got)
	}
}

func TestFramesAreCopied(t *testing.T) {
	var h Events
	frame := []byte("one")
	_ = h.Add(perigee.Event{Kind: perigee.EventFrame, Frame: frame})
	copy(frame, "two")
	if got := show(h.All()); got != "[0 one]" {
		t.Errorf("got %s", got)
	}
}

// A lease counts what is reserved, up to a limit.
type lease struct{ used, limit int64 }

func (l *lease) Grow(n int64) error {
	if l.used+n > l.limit {
		return errors.New("no memory")
	}
	l.used += n
	return nil
}

func (l *lease) Shrink(n int64) { l.used -= n }

func TestEventsCountAgainstTheMemoryBudget(t *testing.T) {
	memory := &lease{limit: 1 << 20}
	h := Events{Origin: &perigee.Origin{Memory: memory}, Join: true}
	var err error
	for n := 0; n < 100 && err == nil; n++ {
		err = h.Add(text(strings.Repeat("x", 32<<10)))
	}
	if err == nil || memory.used < 1<<19 {
		t.Errorf("%d bytes are reserved: %v", memory.used, err)
	}
	if h.Unreserve(); memory.used != 0 {
		t.Errorf("%d bytes stay reserved", memory.used)
	}
}

// The response has a frame or its events, never both.
func TestEventsOfAFrameCountOnce(t *testing.T) {
	weight := func(list ...perigee.Event) int64 {
		memory := &lease{limit: 1 << 30}
		h := Events{Origin: &perigee.Origin{Memory: memory}, Join: true}
		for _, ev := range list {
			if err := h.Add(ev); err != nil {
				t.Fatal(err)
			}
		}
		return memory.used
	}
	const size = 10 << 20
	frame, said := perigee.Event{Kind: perigee.EventFrame, Frame: make([]byte, size)}, text(strings.Repeat("x", size))
	alone, both := weight(frame), weight(frame, said)
	if alone < copies*size || both < alone+size || both > alone+size+size/10 {
		t.Errorf("a frame counts %d, with its text %d", alone, both)
	}
}

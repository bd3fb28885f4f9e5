package record_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/route/record"
)

// A watchRig notes what it is shown.
type watchRig struct {
	mu   sync.Mutex
	seen []string
}

func (w *watchRig) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf(format, args...))
}

func (w *watchRig) Body(at perigee.TapPoint, pieces ...[]byte) {
	w.note("body %d %s", at, slices.Concat(pieces...))
}
func (w *watchRig) Done()                  { w.note("done") }
func (w *watchRig) Event(e *perigee.Event) { w.note("event %s", e.Text) }
func (w *watchRig) Ended(c *perigee.Call)  { w.note("ended %s %s", c.ID, c.Outcome) }

// Every watcher, that of a replay among them, sees the call from its body to its end, also where a
// function between returns none.
func TestWatchersFollowACall(t *testing.T) {
	var first, second, replay watchRig
	watch := func(w perigee.Watcher) func(*perigee.Call, *perigee.Origin) perigee.Watcher {
		return func(call *perigee.Call, origin *perigee.Origin) perigee.Watcher {
			if call.ID != "c1" || call.ModelAsked != "m" || string(origin.Body) != "{}" {
				t.Errorf("%+v", call)
			}
			return w
		}
	}
	none := func(*perigee.Call, *perigee.Origin) perigee.Watcher { return nil }
	r := record.New(nil, record.Options{Store: discard{},
		Watch: []func(*perigee.Call, *perigee.Origin) perigee.Watcher{watch(&first), none, watch(&second)}})
	defer func() { _ = r.Close(context.Background()) }()
	o := r.Begin(record.Operation{Name: perigee.OperationGenerate, Model: "m"},
		&perigee.Origin{ID: "c1", Body: []byte("{}"), Replay: perigee.Replay{Of: "c0", Watcher: &replay}})
	o.Observe(&perigee.Event{Kind: perigee.EventText, Text: "hello"})
	o.Observe(&perigee.Event{Kind: perigee.EventFinish})
	o.End(t.Context())
	want := []string{"body 0 {}", "event hello", "event ", "ended c1 done", "done"}
	if !slices.Equal(first.seen, want) || !slices.Equal(second.seen, want) || !slices.Equal(replay.seen, want) {
		t.Errorf("%q\n%q\n%q", first.seen, second.seen, replay.seen)
	}
}

type discard struct{}

func (discard) SaveCalls(context.Context, []perigee.Call) error { return nil }

package record

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee"
)

// A call that does not go through Stream is recorded with Begin, Observe and End.
func TestACallOutsideStreamIsRecorded(t *testing.T) {
	var store memory
	r := New(nil, Options{Store: &store})
	origin := perigee.Origin{ID: "intercepted", Dialect: perigee.DialectGemini, Body: []byte(`{}`),
		Client: perigee.Client{Key: "laptop"}}
	o := r.Begin(Operation{Name: perigee.OperationGenerate, Model: "asked", Stream: true}, &origin)
	origin.Note(noted)
	origin.Log.AddAttempt(perigee.Attempt{Upstream: "studio"})
	origin.Log.SetStatus(203)
	for _, event := range []perigee.Event{start, text, usage, finish} {
		o.Observe(&event)
	}
	o.End(t.Context())
	mustClose(t, r)
	got := store.calls()["intercepted"]
	if got.Outcome != perigee.OutcomeDone || got.ModelAsked != "asked" || got.Model != "gemini-3-flash" ||
		got.Upstream != "studio" ||
		got.Usage != *usage.Usage || got.Finish != "STOP" || got.ClientStatus != 203 || !got.Stream || got.BytesIn != 2 ||
		!slices.Equal(got.Notes, []string{noted.String()}) || len(got.Attempts) != 1 {
		t.Errorf("got %+v", got)
	}
	if ended, _ := r.Spent("laptop", got.Time.UTC().Truncate(24*3600e9)); ended.Tokens != usage.Usage.Total() {
		t.Errorf("the key has spent %v", ended)
	}
}

// A client can put a key into any field, also where a name is cut off.
func TestNamesOfClientsAreRecordedWithoutSecrets(t *testing.T) {
	var store memory
	r := New(nil, Options{Store: &store, Redact: func(text string) string { return strings.ReplaceAll(text, "the-secret", "[redacted]") }})
	long := strings.Repeat("x", maxName-4) + "the-secret"
	origin := perigee.Origin{ID: "call", Client: perigee.Client{Name: "GeminiCLI-the-secret", Version: "1 the-secret", Session: long, Key: "laptop"}}
	r.Begin(Operation{Name: perigee.OperationGenerate, Model: "a the-secret"}, &origin).End(t.Context())
	mustClose(t, r)
	got := store.calls()["call"]
	want := perigee.Client{Name: "geminicli-[redacted]", Version: "1 [redacted]", Key: "laptop", Session: got.Client.Session}
	if got.Client != want || got.ModelAsked != "a [redacted]" || strings.Contains(got.Client.Session, "the") {
		t.Errorf("got %+v of the model %q", got.Client, got.ModelAsked)
	}
	if origin.Client.Name != "GeminiCLI-the-secret" {
		t.Error("the request itself was changed")
	}
}

// Providers quote requests in their errors.
func TestErrorsAndNotesAreRecordedWithoutSecrets(t *testing.T) {
	var store memory
	r := New(nil, Options{Store: &store, Redact: func(text string) string { return strings.ReplaceAll(text, "the-secret", "[redacted]") }})
	origin := perigee.Origin{ID: "call"}
	o := r.Begin(Operation{Name: perigee.OperationGenerate}, &origin)
	origin.Log.AddAttempt(perigee.Attempt{Upstream: "studio", Error: "no the-secret"})
	o.Fail(perigee.Errorf(perigee.ClassInvalid, "%sthe-secret", strings.Repeat("x", maxText-4)))
	o.End(t.Context())
	mustClose(t, r)
	got := store.calls()["call"]
	if got.Attempts[0].Error != "no [redacted]" || len(got.Error) < 100 || strings.Contains(got.Error, "the") {
		t.Errorf("got %+v", got)
	}
}

func TestAnObservationThatFailsOrIsAbandoned(t *testing.T) {
	var store memory
	r := New(nil, Options{Store: &store})
	observe := func(ctx context.Context, id string, with func(*Observation)) {
		o := r.Begin(Operation{Name: perigee.OperationGenerate}, &perigee.Origin{ID: id})
		defer o.End(ctx)
		with(o)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	observe(t.Context(), "failed", func(o *Observation) { o.Fail(capacity) })
	observe(t.Context(), "cut off", func(o *Observation) { o.Observe(&text) })
	observe(canceled, "canceled", func(o *Observation) { o.Observe(&start) })
	func() {
		defer func() { _ = recover() }()
		observe(t.Context(), "panic", func(*Observation) { panic("broken") })
	}()
	mustClose(t, r)
	for id, want := range map[string]perigee.Outcome{"failed": perigee.OutcomeFailed, "cut off": perigee.OutcomeCutOff,
		"canceled": perigee.OutcomeCanceled, "panic": perigee.OutcomeFailed} {
		if got := store.calls()[id]; got.Outcome != want {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

// Observe gets each call once, when it has ended, with everything that its row has.
func TestFinishedCallsAreObserved(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]perigee.Call{}
	var store memory
	r := New(script{noted, start, text, usage, finish}, Options{Store: &store, Observe: func(c *perigee.Call) {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := seen[c.ID]; twice {
			t.Errorf("%s is observed twice", c.ID)
		}
		seen[c.ID] = *c
	}})
	for _, id := range []string{"a", "b"} {
		for range r.Stream(t.Context(), request(id)) {
			if len(seen) > 0 && id == "a" {
				t.Error("it is observed before its end")
			}
		}
	}
	r.Refused(t.Context(), perigee.OperationCount, perigee.Origin{ID: "c"}, "m", capacity)
	mustClose(t, r)
	rows := store.calls()
	if len(seen) != 3 || len(rows) != 3 {
		t.Fatalf("%d observed, %d rows", len(seen), len(rows))
	}
	for id, row := range rows {
		if got := seen[id]; got.Outcome != row.Outcome || got.Usage != row.Usage || !slices.Equal(got.Notes, row.Notes) ||
			got.ClientStatus != row.ClientStatus {
			t.Errorf("%s: observed %+v, stored %+v", id, got, row)
		}
	}
}

package record

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"perigee"
)

// What a call costs that ends before the provider has said it: about as much as was asked and
// received.
func TestBrokenOffAnswersAreEstimated(t *testing.T) {
	long := perigee.Event{Kind: perigee.EventText, Text: strings.Repeat("word ", 80)}
	thinking := perigee.Event{Kind: perigee.EventThinking, Text: strings.Repeat("word ", 40)}
	picture := perigee.Event{Kind: perigee.EventBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "aGVsbG8="}}
	early := perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 7, Output: 3}}
	tests := []struct {
		name    string
		script  script
		consume consumer
		want    perigee.Usage
		note    bool
	}{
		{"the client goes before the answer", script{start, untilCanceled{}}, cancelAt(perigee.EventStart, nil),
			perigee.Usage{Input: 5}, true},
		{"the client goes during the answer", script{start, long, untilCanceled{}}, cancelAt(perigee.EventText, nil),
			perigee.Usage{Input: 5, Output: 100}, true},
		{"and during thinking", script{start, thinking, untilCanceled{}}, cancelAt(perigee.EventThinking, nil),
			perigee.Usage{Input: 5, Output: 50, Thinking: 50}, true},
		{"and after a picture", script{start, picture, untilCanceled{}}, cancelAt(perigee.EventBlob, nil),
			perigee.Usage{Input: 5, Output: perigee.EstimateTokens(0, 1)}, true},
		{"and after two pictures", script{start, picture, picture, text, untilCanceled{}}, cancelAt(perigee.EventText, nil),
			perigee.Usage{Input: 5, Output: perigee.EstimateTokens(len(text.Text), 2)}, true},
		{"and after frames, whose events count", script{start, frame, long, frame, thinking, untilCanceled{}}, cancelAt(perigee.EventThinking, nil),
			perigee.Usage{Input: 5, Output: 150, Thinking: 50}, true},
		{"the provider has named a part", script{start, early, long, untilCanceled{}}, cancelAt(perigee.EventText, nil),
			perigee.Usage{Input: 7, Output: 100}, true},
		{"and all of it", script{start, text, early, untilCanceled{}}, cancelAt(perigee.EventUsage, nil),
			perigee.Usage{Input: 7, Output: 3}, false},
		{"the provider breaks off", script{start, long, capacity}, readAll, perigee.Usage{Input: 5, Output: 100}, true},
		{"the provider refuses", script{start, capacity}, readAll, perigee.Usage{}, false},
		{"a whole answer whose cost is not named", script{start, long, finish}, readAll, perigee.Usage{}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store memory
				r := New(test.script, Options{Store: &store})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				test.consume(ctx, cancel, r.Stream(ctx, request("c")))
				mustClose(t, r)
				got := store.calls()["c"]
				if got.Usage != test.want || (len(got.Notes) == 1 && got.Notes[0] == "estimated usage") != test.note {
					t.Errorf("recorded %+v with notes %q, want %+v", got.Usage, got.Notes, test.want)
				}
			})
		})
	}
}

// A call that ends before a provider has got it costs nothing.
func TestCallsThatReachNoProviderCostNothing(t *testing.T) {
	for reached, want := range map[bool]perigee.Usage{false: {}, true: {Input: 5}} {
		synctest.Test(t, func(t *testing.T) {
			var store memory
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			req := request("c")
			leave := func() {
				if reached {
					req.Log.SetReached()
				}
				cancel(nil)
			}
			price := func(c *perigee.Call) perigee.Cost { return perigee.Cost{USD: float64(c.Usage.Total())} }
			r := New(script{leave, untilCanceled{}}, Options{Store: &store, Price: price})
			readAll(ctx, cancel, r.Stream(ctx, req))
			mustClose(t, r)
			got := store.calls()["c"]
			if got.Outcome != perigee.OutcomeCanceled || got.Usage != want || got.Cost.USD != float64(want.Total()) || (len(got.Notes) > 0) != reached {
				t.Errorf("reached %t: recorded %+v, %+v with notes %q, outcome %s", reached, got.Usage, got.Cost, got.Notes, got.Outcome)
			}
		})
	}
}

// The prompt is gone by the time a released request ends.
func TestReleasedRequestsAreEstimated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		req := request("c")
		r := New(script{start, text, untilCanceled{}}, Options{Store: &store})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		for event := range r.Stream(ctx, req) {
			if event.Kind == perigee.EventText {
				req.Release() // as routing does
				cancel(nil)
			}
		}
		mustClose(t, r)
		if got := store.calls()["c"]; got.Usage != (perigee.Usage{Input: 5, Output: 2}) {
			t.Errorf("recorded %+v", got.Usage)
		}
	})
}

package record

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// A consumer reads a stream its own way.
type consumer func(ctx context.Context, cancel context.CancelCauseFunc, events func(yield func(perigee.Event, error) bool))

func readAll(_ context.Context, _ context.CancelCauseFunc, events func(func(perigee.Event, error) bool)) {
	for range events {
	}
}

// leaveAt leaves the loop at an event of a kind.
func leaveAt(kind perigee.EventKind) consumer {
	return func(_ context.Context, _ context.CancelCauseFunc, events func(func(perigee.Event, error) bool)) {
		for event := range events {
			if event.Kind == kind {
				return
			}
		}
	}
}

// cancelAt ends the ctx at an event of a kind and reads on.
func cancelAt(kind perigee.EventKind, cause error) consumer {
	return func(_ context.Context, cancel context.CancelCauseFunc, events func(func(perigee.Event, error) bool)) {
		for event := range events {
			if event.Kind == kind {
				cancel(cause)
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	stopping := perigee.Errorf(perigee.ClassUnavailable, "perigee is stopping")
	const done, failed, cutOff, canceled = perigee.OutcomeDone, perigee.OutcomeFailed, perigee.OutcomeCutOff, perigee.OutcomeCanceled
	tests := []struct {
		name    string
		script  script
		consume consumer
		outcome perigee.Outcome
		class   perigee.Class
	}{
		{"a whole answer", script{start, text, usage, finish}, readAll, done, ""},
		{"usage after the finish", script{start, text, finish, usage}, readAll, done, ""},
		{"a finish without content", script{start, finish}, readAll, done, ""},
		{"an error at once", script{capacity}, readAll, failed, perigee.ClassCapacity},
		{"an error after the start", script{noted, start, capacity}, readAll, failed, perigee.ClassCapacity},
		{"an error after usage only", script{start, usage, capacity}, readAll, failed, perigee.ClassCapacity},
		{"an error after text", script{start, text, capacity}, readAll, cutOff, perigee.ClassCapacity},
		{"an error after a frame", script{start, frame, capacity}, readAll, cutOff, perigee.ClassCapacity},
		{"an error after the finish", script{start, text, finish, capacity}, readAll, cutOff, perigee.ClassCapacity},
		{"a wrapped error", script{fmt.Errorf("route: %w", capacity)}, readAll, failed, perigee.ClassCapacity},
		{"an error nobody thought of", script{errors.New("boom")}, readAll, failed, perigee.ClassInternal},
		{"a deadline of the upstream's own", script{context.DeadlineExceeded}, readAll, failed, perigee.ClassUnavailable},
		{"no finish", script{start, text}, readAll, cutOff, perigee.ClassUnavailable},
		{"nothing at all", script{}, readAll, cutOff, perigee.ClassUnavailable},

		{"the consumer leaves during the answer", script{start, text, finish}, leaveAt(perigee.EventText), canceled,
			perigee.ClassCanceled},
		{"the consumer leaves before the answer", script{start, text, finish}, leaveAt(perigee.EventStart), canceled,
			perigee.ClassCanceled},
		{"the consumer has what it wants", script{start, text, finish, usage}, leaveAt(perigee.EventFinish), done, ""},
		{"the client goes and the upstream says canceled", script{start, text, untilCanceled{}}, cancelAt(perigee.EventText, nil),
			canceled, perigee.ClassCanceled},
		{"the client goes before the answer", script{start, untilCanceled{}}, cancelAt(perigee.EventStart, nil), canceled,
			perigee.ClassCanceled},
		{"the client goes and the upstream just stops", script{start, text}, cancelAt(perigee.EventText, nil), canceled,
			perigee.ClassCanceled},
		{"the client goes for a reason of its own", script{start, text, untilCanceled{}},
			cancelAt(perigee.EventText, errors.New("reset")), canceled, perigee.ClassCanceled},
		{"the client goes, other trouble before the answer", script{start, capacity}, cancelAt(perigee.EventStart, nil), canceled,
			perigee.ClassCapacity},
		{"the client goes, other trouble during the answer", script{start, text, capacity}, cancelAt(perigee.EventText, nil),
			cutOff, perigee.ClassCapacity},
		{"the client goes after a whole answer", script{start, text, finish}, cancelAt(perigee.EventFinish, nil), done, ""},
		{"we stop it during the answer", script{start, text, untilCanceled{}}, cancelAt(perigee.EventText, stopping), cutOff,
			perigee.ClassUnavailable},
		{"we stop it before the answer", script{start, untilCanceled{}}, cancelAt(perigee.EventStart, stopping), failed,
			perigee.ClassUnavailable},
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
				if got.Outcome != test.outcome || got.Class != test.class || (got.Error == "") != (test.class == "") {
					t.Errorf("got %s, class %q, error %q; want %s, class %q", got.Outcome, got.Class, got.Error, test.outcome, test.class)
				}
			})
		})
	}
}

func TestEveryContentKindBeginsTheAnswer(t *testing.T) {
	content := map[perigee.EventKind]bool{perigee.EventFrame: true, perigee.EventText: true, perigee.EventThinking: true, perigee.EventRedacted: true,
		perigee.EventCallPart: true, perigee.EventCall: true, perigee.EventBlob: true, perigee.EventPart: true}
	for kind := perigee.EventStart; kind <= perigee.EventFinish; kind++ {
		var store memory
		r := New(script{perigee.Event{Kind: kind}, capacity}, Options{Store: &store})
		for range r.Stream(t.Context(), request("c")) {
		}
		mustClose(t, r)
		got := store.calls()["c"]
		want := perigee.OutcomeFailed
		if content[kind] {
			want = perigee.OutcomeCutOff
		}
		if got.Outcome != want {
			t.Errorf("an error after kind %d: got %s, want %s", kind, got.Outcome, want)
		}
		if silent := kind == perigee.EventStart; (got.FirstByte == 0) != silent {
			t.Errorf("first byte after kind %d: got %v", kind, got.FirstByte)
		}
	}
}

func TestDeadlineIsNotTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		r := New(script{start, untilCanceled{}}, Options{Store: &store})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range r.Stream(ctx, request("c")) {
		}
		mustClose(t, r)
		if got := store.calls()["c"]; got.Outcome != perigee.OutcomeFailed || got.Class != perigee.ClassUnavailable {
			t.Errorf("got %s, %s", got.Outcome, got.Class)
		}
	})
}

func TestPanicIsRecordedAndGoesOn(t *testing.T) {
	var store memory
	r := New(script{start, func() { panic("broken upstream") }}, Options{Store: &store})
	func() {
		defer func() {
			if p := recover(); p != "broken upstream" {
				t.Errorf("recovered %v", p)
			}
		}()
		for range r.Stream(t.Context(), request("c")) {
		}
	}()
	mustClose(t, r)
	got := store.calls()["c"]
	if got.Outcome != perigee.OutcomeFailed || got.Class != perigee.ClassInternal ||
		!strings.Contains(got.Error, "broken upstream") {
		t.Errorf("got %+v", got)
	}
}

func TestRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		wait := func(d time.Duration) func() { return func() { time.Sleep(d) } } // fake time
		blocked := perigee.Event{Kind: perigee.EventFinish, Candidate: 1, Finish: &perigee.Finish{Reason: "SAFETY"}}
		early := perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 10}}
		r := New(script{noted, wait(time.Second), start, wait(time.Second), text, early, wait(time.Second), finish, blocked, usage},
			Options{Store: &store})
		req := request("c")
		req.Note(perigee.Note{Action: "dropped", Subject: "logprobs"})
		began := time.Now()
		for range r.Stream(t.Context(), req) {
		}
		mustClose(t, r)
		want := perigee.Call{
			ID: "c", Time: began, Operation: perigee.OperationGenerate, Dialect: perigee.DialectOpenAIChat, Stream: true,
			Client: req.Client, ModelAsked: "gpt-4o", Model: "gemini-3-flash", Upstream: "studio",
			Outcome: perigee.OutcomeDone, ClientStatus: 200, Finish: "STOP", FirstByte: 2 * time.Second, Duration: 3 * time.Second,
			Usage: *usage.Usage, BytesIn: int64(len(req.Body)), Notes: []string{"dropped logprobs", "renamed tool 1mcp.read"},
		}
		if got := store.calls()["c"]; !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestStepsAreRecordedWithoutSecrets(t *testing.T) {
	var store memory
	r := New(trying{}, Options{Store: &store})
	for range r.Stream(t.Context(), request("c")) {
	}
	mustClose(t, r)
	want := []perigee.Attempt{{Upstream: "u", Account: "ada@example.com", Why: "the first", Class: perigee.ClassUnavailable,
		Error: "Get /?key=[redacted]"}, {Upstream: "u", Why: "the next"}}
	if got := store.calls()["c"].Attempts; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// trying is an upstream that says what it tries.
type trying struct{}

func (trying) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		req.Log.AddAttempt(perigee.Attempt{Upstream: "u", Account: "ada@example.com", Why: "the first",
			Class: perigee.ClassUnavailable, Error: "Get /?key=geheim123"})
		req.Log.AddAttempt(perigee.Attempt{Upstream: "u", Why: "the next"})
		yield(perigee.Event{Kind: perigee.EventFinish}, nil)
	}
}

// The encoder of an answer may add notes until the stream ends.
func TestNotesOfTheEncoderAreRecorded(t *testing.T) {
	var store memory
	r := New(script{noted, start, text, finish}, Options{Store: &store})
	req := request("c")
	for event := range r.Stream(t.Context(), req) {
		if event.Kind == perigee.EventFinish {
			req.Log.NoteOnce(perigee.Note{Action: perigee.NoteMapped, Subject: "image to a link"})
		}
	}
	mustClose(t, r)
	if got, want := store.calls()["c"].Notes, []string{"renamed tool 1mcp.read",
		"mapped image to a link"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestErrorNamesUpstreamAndStatus(t *testing.T) {
	var store memory
	r := New(script{capacity}, Options{Store: &store})
	for range r.Stream(t.Context(), request("c")) {
	}
	mustClose(t, r)
	got := store.calls()["c"]
	if got.Upstream != "antigravity" || got.Model != "claude" || got.Status != 503 || got.Error != "no capacity" {
		t.Errorf("got %+v", got)
	}
}

func TestEventsPassUntouched(t *testing.T) {
	in := script{start, frame, text, usage, finish}
	r := New(in, Options{Store: &memory{}})
	defer mustClose(t, r)
	i := 0
	for event, err := range r.Stream(t.Context(), request("c")) {
		if err != nil || !reflect.DeepEqual(event, in[i]) {
			t.Errorf("event %d: got %+v, %v", i, event, err)
		}
		if want := in[i].(perigee.Event).Frame; len(want) > 0 && &event.Frame[0] != &want[0] {
			t.Error("the frame was copied")
		}
		i++
	}
	if i != len(in) {
		t.Errorf("got %d events, want %d", i, len(in))
	}
}

func TestNamelessCallsAreTwo(t *testing.T) {
	var store memory
	r := New(script{start, finish}, Options{Store: &store})
	for range 2 {
		for range r.Stream(t.Context(), request("")) {
		}
	}
	mustClose(t, r)
	if got := store.calls(); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestRowsStaySmallAndFreeOfSecrets(t *testing.T) {
	var store memory
	trouble := errors.New(`Get "https://host.example/v1?key=hunter2&x=1": authorization: Bearer hunter2hunter2 ` +
		strings.Repeat("ü", 5000))
	long := strings.Repeat("m", 1<<20)
	r := New(script{&perigee.Error{Message: trouble.Error(), Model: long}}, Options{Store: &store})
	req := request("c").WithModel(long)
	for range r.Stream(t.Context(), req) {
	}
	mustClose(t, r)
	got := store.calls()["c"]
	if strings.Contains(got.Error, "hunter2") || !strings.Contains(got.Error, "host.example") ||
		!strings.Contains(got.Error, "x=1") {
		t.Errorf("got %.200q", got.Error)
	}
	if len(got.Error) > maxText+100 || !strings.HasSuffix(got.Error, "ü…") {
		t.Errorf("the error has %d bytes and ends in %q", len(got.Error), got.Error[len(got.Error)-8:])
	}
	if len(got.ModelAsked) > maxName || len(got.Model) > maxName {
		t.Errorf("the model has %d bytes as it was asked, and %d as it was reported", len(got.ModelAsked), len(got.Model))
	}
}

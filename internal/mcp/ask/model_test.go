package ask

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/upstream/api"
)

// A modelRig is a ModelAsker over the Gemini API of the simulator, and a real store.
type modelRig struct {
	*ModelAsker
	now   time.Time
	store *sqlstore.Store
}

func newModelRig(t *testing.T, change func(*ModelOptions)) *modelRig {
	t.Helper()
	sim, err := simulator.New(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	r := &modelRig{now: time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)}
	r.store, err = sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(t.TempDir(), "perigee.db"), Now: func() time.Time { return r.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
	upstream := api.New(api.Gemini, api.Options{Name: "studio", URL: "http://simulator", Transport: sim.Transport(), Keys: []perigee.Secret{perigee.NewSecret("k")}})
	t.Cleanup(func() { _ = upstream.Close() })
	opts := ModelOptions{Upstream: upstream, Model: constant("gemini-3-flash-preview"), Names: func(_ context.Context, name string) []string { return []string{name} }, Simulated: constant(false),
		Store: r.store, Now: func() time.Time { return r.now }, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&opts)
	}
	r.ModelAsker = NewModelAsker(opts)
	return r
}

func (r *modelRig) must(t *testing.T, q Request) Answer {
	t.Helper()
	answer, err := r.Ask(t.Context(), q, nil)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return answer
}

func class(err error) perigee.Class {
	if err == nil {
		return ""
	}
	return perigee.AsError(err).Class
}

func TestAModelAnswers(t *testing.T) {
	r := newModelRig(t, nil)
	var seen []string
	got, err := r.Ask(t.Context(), Request{Prompt: "[[text: one two three]] [[chunks: 3]]"}, func(p Progress) { seen = append(seen, p.Text) })
	if err != nil || got.Status != Done || got.Text != "one two three" || got.Source != "studio" || got.Model != "gemini-3-flash-preview" ||
		got.Usage == nil || got.Usage.Output == 0 || !strings.HasPrefix(got.Conversation, "ask_") {
		t.Fatalf("got %+v, %v", got, err)
	}
	if len(seen) != 3 || seen[2] != "one two three" || !strings.HasPrefix(seen[2], seen[0]) {
		t.Errorf("progress %q", seen)
	}
	if other := r.must(t, Request{Prompt: "hello", Model: "gemini-2.5-pro"}); other.Model != "gemini-2.5-pro" || other.Conversation == got.Conversation {
		t.Errorf("another model: %+v", other)
	}
}

func TestAConversationIsContinued(t *testing.T) {
	r := newModelRig(t, nil)
	team := perigee.Client{Key: "team"}
	first := r.must(t, Request{Prompt: "[[text: My name is Ada.]]", Client: team})
	for i, want := range []int{3, 5} { // messages in the request: what was said before, and the prompt
		asked := 0
		counting := r.ModelAsker.opts.Upstream
		r.ModelAsker.opts.Upstream = stream(func(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
			prompt, err := req.Prompt()
			if err != nil {
				t.Error(err)
			}
			asked = len(prompt.Contents)
			if text := prompt.Contents[1].Parts[0].Text; prompt.Contents[1].Role != perigee.RoleModel || text != perigee.Plain("My name is Ada.") {
				t.Errorf("the first answer is %v", text)
			}
			return counting.Stream(ctx, req)
		})
		r.now = r.now.Add(23 * time.Hour) // each prompt keeps it for another day
		next := r.must(t, Request{Prompt: "[[text: again]]", Client: team, Conversation: first.Conversation})
		if asked != want || next.Conversation != first.Conversation || next.Text != "again" {
			t.Errorf("prompt %d: %d messages, want %d; %+v", i+2, asked, want, next)
		}
		r.ModelAsker.opts.Upstream = counting
	}
	for name, q := range map[string]Request{
		"of another key": {Prompt: "x", Client: perigee.Client{Key: "other"}, Conversation: first.Conversation},
		"without a key":  {Prompt: "x", Conversation: first.Conversation},
		"unknown":        {Prompt: "x", Client: team, Conversation: "ask_unknown"},
	} {
		if _, err := r.Ask(t.Context(), q, nil); class(err) != perigee.ClassNotFound || errors.Is(err, ErrDeclined) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.now = r.now.Add(25 * time.Hour)
	if _, err := r.Ask(t.Context(), Request{Prompt: "x", Client: team, Conversation: first.Conversation}, nil); class(err) != perigee.ClassNotFound || !strings.Contains(err.Error(), "24 hours") {
		t.Errorf("after a day: %v", err)
	}
	for name, q := range map[string]Request{
		"no prompt": {Client: team, Conversation: first.Conversation}, "a decision": {Conversation: first.Conversation, Decision: &Decision{Allow: true}},
	} {
		if _, err := r.Ask(t.Context(), q, nil); class(err) != perigee.ClassInvalid || !strings.Contains(err.Error(), "write a prompt") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for conversation, want := range map[string]bool{first.Conversation: true, "00000000-0000-4000-8000-000000000000": false} {
		if has, err := r.Has(t.Context(), conversation); has != want || err != nil {
			t.Errorf("has %s: %t, %v", conversation, has, err)
		}
	}
}

func TestTheSimulatorSaysSo(t *testing.T) {
	r := newModelRig(t, func(o *ModelOptions) { o.Simulated = constant(true) })
	first := r.must(t, Request{Prompt: "[[text: hi]]"})
	if first.Text != "[perigee simulator: no model is configured]\nhi" || first.Source != "simulator" {
		t.Errorf("got %+v", first)
	}
	stored, err := r.store.Response(t.Context(), "", first.Conversation)
	if err != nil || strings.Contains(string(stored.Output), "simulator") || !strings.Contains(string(stored.Output), "hi") {
		t.Errorf("the conversation has %s, %v", stored.Output, err)
	}
}

type stream func(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error]

func (s stream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return s(ctx, req)
}

// breaks yields a start and a text, and then an error; with an empty text the error alone.
func breaks(text string, err func(context.Context) error) stream {
	return func(ctx context.Context, _ *perigee.Request) iter.Seq2[perigee.Event, error] {
		return func(yield func(perigee.Event, error) bool) {
			if text != "" && (!yield(perigee.Event{Kind: perigee.EventStart, Upstream: "u", Model: "m"}, nil) || !yield(perigee.Event{Kind: perigee.EventText, Text: text}, nil)) {
				return
			}
			yield(perigee.Event{}, err(ctx))
		}
	}
}

// What there is when the time is over is a part of the conversation.
func TestAnAnswerThatEndsEarlyIsKept(t *testing.T) {
	untilDone := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for status, cause := range map[Status]error{Timeout: ErrTimeout, Cancelled: context.Canceled} {
		r := newModelRig(t, nil)
		real := r.ModelAsker.opts.Upstream
		r.ModelAsker.opts.Upstream = breaks("half", untilDone)
		ctx, cancel := context.WithCancelCause(t.Context())
		log := &perigee.CallLog{}
		got, err := r.Ask(ctx, Request{Prompt: "a long one", Log: log}, func(Progress) { cancel(cause) })
		if err != nil || got.Status != status || got.Text != "half" || got.Conversation == "" || got.Usage == nil || got.Usage.Input == 0 || len(log.Notes()) != 1 {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
		r.ModelAsker.opts.Upstream = real
		if next := r.must(t, Request{Prompt: "[[text: rest]]", Conversation: got.Conversation}); next.Text != "rest" {
			t.Errorf("%s, then %+v", status, next)
		}
		stored, err := r.store.Response(t.Context(), "", got.Conversation)
		if err != nil || !strings.Contains(string(stored.Input), "half") {
			t.Errorf("%s: the conversation has %s, %v", status, stored.Input, err)
		}
	}
}

func TestFailures(t *testing.T) {
	r := newModelRig(t, nil)
	fails := func(c perigee.Class) func(context.Context) error {
		return func(context.Context) error { return perigee.Errorf(c, "trouble").WithHint("a hint") }
	}
	for c, want := range map[perigee.Class]bool{perigee.ClassExhausted: true, perigee.ClassUnavailable: true, perigee.ClassNotFound: true, perigee.ClassInvalid: false, perigee.ClassForbidden: false} {
		r.ModelAsker.opts.Upstream = breaks("", fails(c))
		if _, err := r.Ask(t.Context(), Request{Prompt: "x"}, nil); class(err) != c || errors.Is(err, ErrDeclined) != want || perigee.AsError(err).Hint != "a hint" {
			t.Errorf("before the answer: %v", err)
		}
	}
	r.ModelAsker.opts.Upstream = breaks("half", fails(perigee.ClassExhausted))
	if got := r.must(t, Request{Prompt: "x"}); got.Status != Failed || got.Text != "half" || got.Error.Class != perigee.ClassExhausted || got.Error.Hint != "a hint" || got.Source != "u" {
		t.Errorf("in the middle: %+v", got)
	}
	r = newModelRig(t, nil)
	if got := r.must(t, Request{Prompt: "[[block: SAFETY]]"}); got.Status != Failed || got.Error.Class != perigee.ClassInvalid || got.Conversation != "" {
		t.Errorf("a refused prompt: %+v", got)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if got := r.must(t, Request{Prompt: "[[text: hi]]"}); got.Status != Done || got.Text != "hi" || got.Conversation != "" {
		t.Errorf("without a store that works: %+v", got)
	}
}

func TestTheKeysModels(t *testing.T) {
	r := newModelRig(t, func(o *ModelOptions) {
		o.Names = func(_ context.Context, name string) []string {
			if name == "small" {
				return []string{name, "gemini-2.5-flash"}
			}
			return []string{name}
		}
	})
	flash := func(model string) bool { return model == "gemini-2.5-flash" }
	if _, err := r.Ask(t.Context(), Request{Prompt: "x", AllowsModel: flash}, nil); class(err) != perigee.ClassForbidden || errors.Is(err, ErrDeclined) {
		t.Errorf("the default model: %v", err)
	}
	if got := r.must(t, Request{Prompt: "x", AllowsModel: flash, Model: "gemini-2.5-flash"}); got.Model != "gemini-2.5-flash" {
		t.Errorf("got %+v", got)
	}
	r.ModelAsker.opts.Upstream = breaks("hi", func(context.Context) error { return errors.New("end") })
	if _, err := r.Ask(t.Context(), Request{Prompt: "x", AllowsModel: flash, Model: "small"}, nil); err != nil {
		t.Errorf("by an alias: %v", err)
	}
}

// Without any name in the configuration, a model of the upstream answers: the key decides which
// ones can.
func TestAModelIsFoundWhereNoneIsNamed(t *testing.T) {
	r := newModelRig(t, func(o *ModelOptions) { o.Model = constant("") })
	if got := r.must(t, Request{Prompt: "[[text: hi]]"}); got.Text != "hi" || !strings.Contains(got.Model, "flash") || strings.Contains(got.Model, "image") || strings.Contains(got.Model, "lite") {
		t.Errorf("got %+v", got)
	}
	pro := func(model string) bool { return strings.Contains(model, "pro") }
	if got := r.must(t, Request{Prompt: "[[text: hi]]", AllowsModel: pro}); got.Text != "hi" || !strings.Contains(got.Model, "pro") {
		t.Errorf("a key for pro: %+v", got)
	}
	if _, err := r.Ask(t.Context(), Request{Prompt: "hi", AllowsModel: func(string) bool { return false }}, nil); class(err) != perigee.ClassNotFound || !strings.Contains(err.Error(), "mcp.model") {
		t.Errorf("a key without models: %v", err)
	}
}

func TestOneAskInAConversationAtATime(t *testing.T) {
	r := newModelRig(t, nil)
	first := r.must(t, Request{Prompt: "hello"})
	running, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.ModelAsker.opts.Upstream = breaks("text", func(ctx context.Context) error {
		close(running)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return errors.New("end")
	})
	go func() {
		defer close(done)
		_, _ = r.Ask(t.Context(), Request{Prompt: "x", Conversation: first.Conversation}, nil)
	}()
	await.Receive(t, running, "the first ask")
	if _, err := r.Ask(t.Context(), Request{Prompt: "y", Conversation: first.Conversation}, nil); class(err) != perigee.ClassUnavailable {
		t.Errorf("a second ask: %v", err)
	}
	close(end)
	await.Receive(t, done, "the end of the first ask")
}

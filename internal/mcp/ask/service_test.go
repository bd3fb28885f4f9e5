package ask

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/route/record"
)

// A script is an Asker that does what a test says.
type script struct {
	asked int
	has   string
	ask   func(ctx context.Context, r Request, progress func(Progress)) (Answer, error)
}

func (s *script) Ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error) {
	s.asked++
	return s.ask(ctx, r, progress)
}

func (s *script) Has(_ context.Context, conversation string) (bool, error) {
	if s.has == "private" {
		return false, &perigee.Error{Class: perigee.ClassUnavailable, Message: "dial tcp 10.0.0.7:443", Public: "it cannot be reached"}
	}
	if s.has == "broken" {
		return false, perigee.Errorf(perigee.ClassUnavailable, "cannot look").WithHint("start it")
	}
	return s.has == conversation, nil
}

func says(text string) *script {
	return &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) {
		return Answer{Text: text, Conversation: "c-" + text, Status: Done, Usage: &perigee.Usage{Input: 3, Output: 2}, Model: "m-" + text}, nil
	}}
}

func fails(err error) *script {
	return &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) { return Answer{}, err }}
}

// lasts answers with the text so far when its time, that of a bubble, is over.
func lasts(steps func(ctx context.Context, progress func(Progress))) *script {
	return &script{ask: func(ctx context.Context, _ Request, progress func(Progress)) (Answer, error) {
		text := ""
		steps(ctx, func(p Progress) { text = p.Text; progress(p) })
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), ErrTimeout) {
			return Answer{Text: text, Conversation: "c", Status: Timeout}, nil
		}
		return Answer{Text: text, Conversation: "c", Status: Cancelled}, nil
	}}
}

func constant[T any](value T) func() T { return func() T { return value } }

func service(opts Options, sources ...Source) *Service {
	opts.Sources = func() []Source { return sources }
	if opts.Idle == nil {
		opts.Idle, opts.Max = constant(50*time.Second), constant(10*time.Minute)
	}
	return NewService(opts)
}

func TestTheFirstSourceThatDoesNotDeclineAnswers(t *testing.T) {
	busy, model, last := fails(Declined(perigee.ClassUnavailable, "busy")), says("model"), says("last")
	s := service(Options{}, Source{Name: "ide", Why: "no upstream of kind ide is configured"}, Source{Name: "langserver", Asker: busy},
		Source{Name: "model", Asker: model}, Source{Name: "last", Asker: last})
	answer, err := s.Ask(t.Context(), Request{Prompt: "hello"}, nil)
	if err != nil || answer.Text != "model" || answer.Source != "model" || busy.asked != 1 || last.asked != 0 {
		t.Errorf("got %+v, %v; busy was asked %d times, last %d times", answer, err, busy.asked, last.asked)
	}
	want := []Skipped{{Source: "ide", Reason: "no upstream of kind ide is configured"}, {Source: "langserver", Reason: "busy"}}
	if len(answer.Skipped) != 2 || answer.Skipped[0] != want[0] || answer.Skipped[1] != want[1] {
		t.Errorf("skipped %+v, want %+v", answer.Skipped, want)
	}
}

// An agent edits files: after the prompt was handed over, or refused for what it is, no other
// source gets it.
func TestOnlyDeclinedAsksGoOn(t *testing.T) {
	for name, first := range map[string]*script{
		"refused": fails(perigee.Errorf(perigee.ClassForbidden, "not this model")),
		"failed": {ask: func(context.Context, Request, func(Progress)) (Answer, error) {
			return Fail(perigee.Errorf(perigee.ClassExhausted, "no quota")), nil
		}},
	} {
		second := says("second")
		answer, err := service(Options{}, Source{Name: "x", Why: "not there"}, Source{Name: "a", Asker: first}, Source{Name: "b", Asker: second}).Ask(t.Context(), Request{Prompt: "hello"}, nil)
		if second.asked != 0 || err == nil && (answer.Status != Failed || answer.Error.Class != perigee.ClassExhausted || answer.Source != "a") {
			t.Errorf("%s: the second was asked %d times; %+v, %v", name, second.asked, answer, err)
		}
		if name == "refused" && (perigee.AsError(err).Class != perigee.ClassForbidden || !strings.Contains(err.Error(), "skipped: x: not there")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAllSourcesDeclineWithOneError(t *testing.T) {
	hinted := Declined(perigee.ClassUnavailable, "no window is open").WithHint("open the project in Antigravity")
	for _, test := range []struct {
		sources []Source
		class   perigee.Class
		want    []string
	}{
		{[]Source{{Name: "ide", Asker: fails(hinted)}, {Name: "langserver", Asker: fails(Declined(perigee.ClassUnavailable, "not configured").WithHint("add an upstream"))}}, perigee.ClassUnavailable,
			[]string{"ide: no window is open", "langserver: not configured", "open the project in Antigravity", "or add an upstream"}},
		{[]Source{{Name: "ide", Asker: fails(Declined(perigee.ClassNotFound, "no such model"))}}, perigee.ClassNotFound, []string{"ide: no such model", "perigee models"}},
		{[]Source{{Name: "ide", Why: "not configured"}, {Name: "model", Asker: fails(Declined(perigee.ClassNotFound, "no such model"))}}, perigee.ClassNotFound,
			[]string{"ide: not configured", "model: no such model"}},
		{[]Source{{Name: "ide", Why: "not configured"}}, perigee.ClassUnavailable, []string{"ide: not configured"}},
		{nil, perigee.ClassUnavailable, []string{"mcp.ask"}},
	} {
		_, err := service(Options{}, test.sources...).Ask(t.Context(), Request{Prompt: "hello"}, nil)
		if err == nil || perigee.AsError(err).Class != test.class {
			t.Errorf("got %v, want class %s", err, test.class)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in %q", part, err)
			}
		}
	}
}

// Errors of sources name addresses and paths of this machine; what a client with a key gets in
// their place stays that way.
func TestDetailsOfTheMachineAreKeptFromClients(t *testing.T) {
	private := Declined(perigee.ClassUnavailable, "dial tcp 10.0.0.7:443: refused")
	private.Public = "it cannot be reached"
	refused := Source{Name: "langserver", Asker: fails(private)}
	publicOf := func(r Request, sources ...Source) string {
		_, err := service(Options{}, sources...).Ask(t.Context(), r, nil)
		if err == nil || !strings.Contains(err.Error(), "10.0.0.7") {
			t.Errorf("the owner gets %v", err)
		}
		return perigee.AsError(err).Public
	}
	looks := &script{has: "private"}
	for name, got := range map[string]string{
		"all decline":       publicOf(Request{Prompt: "hello"}, refused),
		"one is skipped":    publicOf(Request{Prompt: "hello"}, refused, Source{Name: "model", Asker: fails(perigee.Errorf(perigee.ClassInvalid, "too long"))}),
		"a look has failed": publicOf(Request{Prompt: "hello", Conversation: "c"}, Source{Name: "ide", Asker: looks}),
	} {
		if !strings.Contains(got, "it cannot be reached") || strings.Contains(got, "10.0.0.7") {
			t.Errorf("%s: a client gets %q", name, got)
		}
	}
	broken := &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) { return Fail(private), nil }}
	answer, err := service(Options{}, refused, Source{Name: "model", Asker: broken}).Ask(t.Context(), Request{Prompt: "hello"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.ForClient(); got.Error.Message != private.Public || got.Skipped[0].Reason != private.Public {
		t.Errorf("a client gets %+v and %+v", got.Error, got.Skipped)
	}
	if answer.Error.Message != private.Message || answer.Skipped[0].Reason != private.Message {
		t.Errorf("the owner gets %+v and %+v", answer.Error, answer.Skipped)
	}
}

func TestAConversationGoesToItsSource(t *testing.T) {
	ide, model := says("ide"), says("model")
	ide.has, model.has = "of-ide", "of-model"
	s := service(Options{}, Source{Name: "ide", Asker: ide}, Source{Name: "x", Why: "none"}, Source{Name: "model", Asker: model})
	for conversation, want := range map[string]string{"of-ide": "ide", "of-model": "model"} {
		answer, err := s.Ask(t.Context(), Request{Prompt: "go on", Conversation: conversation}, nil)
		if err != nil || answer.Text != want || answer.Source != want || len(answer.Skipped) > 0 {
			t.Errorf("%s: %+v, %v", conversation, answer, err)
		}
	}
	_, err := s.Ask(t.Context(), Request{Prompt: "go on", Conversation: "unknown"}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassNotFound || e.Hint == "" || !strings.Contains(e.Message, "unknown") {
		t.Errorf("an unknown conversation: %v", err)
	}
	if ide.asked+model.asked != 2 {
		t.Errorf("an unknown conversation was given to a source")
	}
	ide.has = "broken"
	_, err = s.Ask(t.Context(), Request{Prompt: "go on", Conversation: "unknown"}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnavailable || !strings.Contains(err.Error(), "ide: cannot look") || e.Hint != "start it" {
		t.Errorf("a source that cannot look: %v", err)
	}
}

// An agent has the conversations of all keys: a key that learns the id of another one's gets
// nowhere with it.
func TestAConversationBelongsToTheKeyThatBeganIt(t *testing.T) {
	agent := says("ide")
	agent.has = "c-ide"
	s := service(Options{}, Source{Name: "ide", Asker: agent})
	resume := func(key string, r Request) error {
		r.Conversation, r.Client.Key = "c-ide", key
		_, err := s.Ask(t.Context(), r, nil)
		return err
	}
	if err := resume("a", Request{Prompt: "go on"}); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("a conversation of the person at the IDE: %v", err)
	}
	if _, err := s.Ask(t.Context(), Request{Prompt: "hello", Client: perigee.Client{Key: "a"}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Request{{Prompt: "go on"}, {}, {Decision: &Decision{Allow: true}}} {
		if err := resume("b", r); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("another key: %v", err)
		}
	}
	if agent.asked != 1 {
		t.Errorf("the agent was asked %d times", agent.asked)
	}
	for _, key := range []string{"a", ""} {
		if err := resume(key, Request{Prompt: "go on"}); err != nil {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestRequestsThatNoSourceCanAnswerAreRefused(t *testing.T) {
	source := says("x")
	s := service(Options{}, Source{Name: "ide", Asker: source})
	only := func(model string) bool { return model == "gemini-3-flash" }
	for name, test := range map[string]struct {
		r     Request
		class perigee.Class
	}{
		"no prompt":                       {Request{Prompt: " \n"}, perigee.ClassInvalid},
		"a decision without conversation": {Request{Decision: &Decision{Allow: true}}, perigee.ClassInvalid},
		"a decision with a prompt":        {Request{Prompt: "x", Conversation: "c", Decision: &Decision{}}, perigee.ClassInvalid},
		"a negative limit":                {Request{Prompt: "x", Timeout: -1}, perigee.ClassInvalid},
		"another model than the key has":  {Request{Prompt: "x", Model: "claude", AllowsModel: only}, perigee.ClassForbidden},
	} {
		if _, err := s.Ask(t.Context(), test.r, nil); err == nil || perigee.AsError(err).Class != test.class {
			t.Errorf("%s: %v", name, err)
		}
	}
	if source.asked > 0 {
		t.Errorf("the source was asked %d times", source.asked)
	}
	s.opts.Names = func(_ context.Context, name string) []string { return []string{name, "gemini-3-flash"} }
	if _, err := s.Ask(t.Context(), Request{Prompt: "x", Model: "alias", AllowsModel: only}, nil); err != nil {
		t.Errorf("an alias of a model that the key has: %v", err)
	}
	if _, err := s.Ask(t.Context(), Request{Prompt: "x", Model: "gemini-3-flash", AllowsModel: only}, nil); err != nil {
		t.Error(err)
	}
}

// Without a limit of its own, an ask goes on as long as something happens, but not for ever. Its
// sources live in a bubble.
func TestProgressExtendsAnAsk(t *testing.T) {
	pace := func(every time.Duration, text func(int) string) *script {
		return lasts(func(ctx context.Context, progress func(Progress)) {
			for i := 0; ctx.Err() == nil; i++ {
				select {
				case <-time.After(every):
					progress(Progress{Text: text(i)})
				case <-ctx.Done():
				}
			}
		})
	}
	grows := func(i int) string { return strings.Repeat("x", i+1) }
	same := func(int) string { return "x" }
	for name, test := range map[string]struct {
		source  *script
		timeout time.Duration
		want    time.Duration
		told    int
	}{
		"nothing happens":       {lasts(func(context.Context, func(Progress)) {}), 0, 50 * time.Second, 0},
		"grows":                 {pace(41*time.Second, grows), 0, 10 * time.Minute, 14},
		"progress without news": {pace(40*time.Second, same), 0, 90 * time.Second, 1},
		"too slow":              {pace(51*time.Second, grows), 0, 50 * time.Second, 0},
		"a limit of its own":    {pace(time.Second, grows), 5500 * time.Millisecond, 5500 * time.Millisecond, 5},
		"a longer limit":        {lasts(func(context.Context, func(Progress)) {}), time.Hour, time.Hour, 0},
		"steps are progress too": {lasts(func(_ context.Context, progress func(Progress)) {
			time.Sleep(time.Second)
			progress(Progress{Steps: 1})
		}), 0, 51 * time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, told := time.Now(), 0
			answer, err := service(Options{}, Source{Name: "ide", Asker: test.source}).
				Ask(t.Context(), Request{Prompt: "hello", Timeout: test.timeout}, func(Progress) { told++ })
			if took := time.Since(begin); err != nil || answer.Status != Timeout || took != test.want || told != test.told {
				t.Errorf("%s: %+v, %v after %s with %d reports, want %s and %d", name, answer, err, took, told, test.want, test.told)
			}
		})
	}
}

func TestConfiguredLimitsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := service(Options{Idle: constant(2 * time.Second), Max: constant(time.Second)}, Source{Name: "ide", Asker: lasts(func(context.Context, func(Progress)) {})})
		if _, err := s.Ask(t.Context(), Request{Prompt: "x"}, nil); err != nil || time.Since(begin) != time.Second {
			t.Errorf("ended after %s: %v", time.Since(begin), err)
		}
	})
}

func TestOutOfTimeBeforeThePromptIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &script{ask: func(ctx context.Context, _ Request, _ func(Progress)) (Answer, error) {
			<-ctx.Done()
			return Answer{}, Declined(perigee.ClassUnavailable, "not reached")
		}}
		next := says("next")
		_, err := service(Options{}, Source{Name: "ide", Asker: late}, Source{Name: "model", Asker: next}).Ask(t.Context(), Request{Prompt: "x"}, nil)
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnavailable || !errors.Is(err, ErrTimeout) || next.asked != 0 {
			t.Errorf("got %v, the next source was asked %d times", err, next.asked)
		}
	})
}

// calls keeps the last state of each call.
type calls struct {
	mu   sync.Mutex
	rows map[string]perigee.Call
}

func (c *calls) SaveCalls(_ context.Context, list []perigee.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range list {
		c.rows[call.ID] = call
	}
	return nil
}

func TestEachAskIsOneRecordedCall(t *testing.T) {
	store := &calls{rows: map[string]perigee.Call{}}
	recorder := record.New(nil, record.Options{Store: store})
	observes := &script{ask: func(_ context.Context, r Request, _ func(Progress)) (Answer, error) {
		r.Observe(&perigee.Event{Kind: perigee.EventStart, Upstream: "gravity", Account: "ada@example.com", Model: "gemini-3-flash"})
		r.Observe(&perigee.Event{Kind: perigee.EventText, Text: "hi"})
		r.Observe(&perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}})
		r.Log.Note(perigee.Note{Action: perigee.NoteMapped, Subject: "this to that"})
		return Answer{Text: "hi", Status: Done, Source: "gravity", Usage: &perigee.Usage{Input: 5, Output: 1}}, nil
	}}
	failed := &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) {
		return Fail(perigee.Errorf(perigee.ClassExhausted, "no quota")), nil
	}}
	cancelled := &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) { return Answer{Status: Cancelled}, nil }}
	waiting := &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) {
		return Answer{Status: Waiting, WaitingFor: "a person"}, nil
	}}
	silent := &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) {
		return Answer{Text: "eight by", Status: Done}, nil
	}}
	panics := &script{ask: func(context.Context, Request, func(Progress)) (Answer, error) { panic("oh") }}
	for id, source := range map[string]*script{"plain": says("hello"), "observed": observes, "silent": silent, "failed": failed, "cancelled": cancelled,
		"waiting": waiting, "declined": fails(Declined(perigee.ClassUnavailable, "no window")), "panics": panics} {
		s := service(Options{Record: recorder}, Source{Name: "none", Why: "not there"}, Source{Name: "ide", Asker: source})
		func() {
			defer func() {
				if p := recover(); (p != nil) != (id == "panics") {
					t.Errorf("%s: panic %v", id, p)
				}
			}()
			_, _ = s.Ask(t.Context(), Request{ID: id, Prompt: "x", Model: "asked", Client: perigee.Client{Key: "team"}}, nil)
		}()
	}
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]perigee.Call{
		"plain":     {Outcome: perigee.OutcomeDone, Upstream: "ide", Model: "m-hello", Finish: "done", Usage: perigee.Usage{Input: 3, Output: 2}},
		"observed":  {Outcome: perigee.OutcomeDone, Upstream: "gravity", Account: "ada@example.com", Model: "gemini-3-flash", Finish: "STOP", Usage: perigee.Usage{Input: 5, Output: 1}},
		"silent":    {Outcome: perigee.OutcomeDone, Upstream: "ide", Finish: "done", Usage: perigee.Usage{Input: 1, Output: 2}},
		"failed":    {Outcome: perigee.OutcomeFailed, Upstream: "ide", Class: perigee.ClassExhausted},
		"cancelled": {Outcome: perigee.OutcomeCanceled, Upstream: "ide", Class: perigee.ClassCanceled},
		"waiting":   {Outcome: perigee.OutcomeDone, Upstream: "ide", Finish: "waiting"},
		"declined":  {Outcome: perigee.OutcomeFailed, Class: perigee.ClassUnavailable},
		"panics":    {Outcome: perigee.OutcomeFailed, Class: perigee.ClassInternal},
	} {
		got := store.rows[id]
		if got.Outcome != want.Outcome || got.Upstream != want.Upstream || got.Account != want.Account || got.Model != want.Model ||
			got.Class != want.Class || got.Finish != want.Finish || got.Usage != want.Usage ||
			got.Dialect != perigee.DialectMCP || got.Operation != perigee.OperationGenerate || got.ModelAsked != "asked" || got.Client.Key != "team" {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if notes := store.rows["observed"].Notes; len(notes) != 1 {
		t.Errorf("notes %q", notes)
	}
}

package conversation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	"perigee/internal/langserver/trajectory"
)

func TestAnswer(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := &scripted{answer: says(
			trajectory.Event{Kind: trajectory.KindTurn, Text: "hello"},
			trajectory.Event{Kind: trajectory.KindThinking, Step: 1, Text: "hm"},
			text(1, "I look"), text(1, " at it."),
			trajectory.Event{Kind: trajectory.KindUsage, Usage: trajectory.Usage{Input: 10, Output: 5, Thinking: 2, CacheRead: 4}},
			trajectory.Event{Kind: trajectory.KindCall, Step: 1},
			trajectory.Event{Kind: trajectory.KindResult, Step: 2},
			trajectory.Event{Kind: trajectory.KindThinking, Step: 3, Text: "aha"}, text(3, "Done."),
			done(trajectory.ReasonDone),
		)}
		u := New(Options{Name: "headless", Client: s})
		r := ask(t.Context(), u, hello(stream))
		if r.err != nil || r.text != "I look at it.\n\nDone." || r.thinking != "hm\n\naha" {
			t.Errorf("stream %t: %+v", stream, r)
		}
		if want := (perigee.Usage{Input: 14, Cached: 4, Output: 5, Thinking: 2}); r.usage != want {
			t.Errorf("stream %t: usage %+v", stream, r.usage)
		}
		if r.finish == nil || r.finish.Kind != perigee.FinishDone || r.finish.Reason != "STOP" {
			t.Errorf("stream %t: finish %+v", stream, r.finish)
		}
		if r.start.Upstream != "headless" || r.start.Model != "gemini-3-flash" || r.start.ResponseID != "cascade-1-0" || r.starts != 1 {
			t.Errorf("stream %t: %d starts, %+v", stream, r.starts, r.start)
		}
		if len(s.canceled) != 0 {
			t.Errorf("stream %t: canceled %v after a normal end", stream, s.canceled)
		}
	}
}

// Text that is rewritten, or disappears, is right in an answer in one piece. A stream gets the new
// text after the old.
func TestRewrittenText(t *testing.T) {
	script := says(text(1, "Helo"), trajectory.Event{Kind: trajectory.KindTextReplaced, Step: 1, Text: "Hello"}, text(1, "!"),
		text(2, "gone"), trajectory.Event{Kind: trajectory.KindTruncated, Step: 2}, text(2, "here"), done(trajectory.ReasonDone))
	for stream, want := range map[bool]string{false: "Hello!\n\nhere", true: "Helo\n\nHello!\n\ngone\n\nhere"} {
		req := hello(stream)
		r := ask(t.Context(), New(Options{Client: &scripted{answer: script}}), req)
		if r.text != want || r.finish == nil {
			t.Errorf("stream %t: %+v", stream, r)
		}
		if noted := noteList(req) == `["mapped rewritten text to more text"]`; noted != stream {
			t.Errorf("stream %t: notes %s", stream, noteList(req))
		}
	}
}

func TestFinish(t *testing.T) {
	cause := &perigee.Error{Class: perigee.ClassRateLimited, Message: "too many", Retry: time.Minute}
	version := &perigee.Error{Class: perigee.ClassIdentity, Message: "this version is no longer supported"}
	fail := func(e *perigee.Error) trajectory.Event { return trajectory.Event{Kind: trajectory.KindError, Error: e} }
	stopped := func(s codeiumcommonpb.StopReason) trajectory.Event {
		e := done(trajectory.ReasonDone)
		e.Stop = s
		return e
	}
	for name, test := range map[string]struct {
		script   []trajectory.Event
		finish   perigee.FinishKind
		class    perigee.Class
		status   int
		says     string
		canceled bool
	}{
		"max tokens":      {script: []trajectory.Event{text(1, "a"), stopped(codeiumcommonpb.StopReason_STOP_REASON_MAX_TOKENS)}, finish: perigee.FinishLength},
		"filtered":        {script: []trajectory.Event{text(1, "a"), stopped(codeiumcommonpb.StopReason_STOP_REASON_CONTENT_FILTER)}, finish: perigee.FinishFiltered},
		"max invocations": {script: []trajectory.Event{text(1, "a"), done(trajectory.ReasonMaxInvocations)}, finish: perigee.FinishLength},
		"error":           {script: []trajectory.Event{fail(cause), done(trajectory.ReasonError)}, class: perigee.ClassRateLimited, status: 429, says: "too many", canceled: true},
		"overcome error":  {script: []trajectory.Event{fail(cause), text(2, "a"), done(trajectory.ReasonDone)}, finish: perigee.FinishDone},
		"version": {script: []trajectory.Event{fail(version), done(trajectory.ReasonError)}, class: perigee.ClassIdentity, status: 403,
			says: "set version: of this upstream in the configuration to the version of the installed product", canceled: true},
		"error after text": {script: []trajectory.Event{text(1, "a"), fail(cause), done(trajectory.ReasonError)}, class: perigee.ClassRateLimited, status: 429, canceled: true},
		"unnamed error":    {script: []trajectory.Event{done(trajectory.ReasonError)}, class: perigee.ClassUnavailable, status: 503, canceled: true},
		"cancelled":        {script: []trajectory.Event{text(1, "a"), done(trajectory.ReasonCancelled)}, class: perigee.ClassUnavailable, status: 503, canceled: true},
		"refusal as text":  {script: []trajectory.Event{text(1, "This version of Antigravity is no longer supported."), done(trajectory.ReasonDone)}, class: perigee.ClassIdentity, status: 403},
		"almost a refusal": {script: []trajectory.Event{text(1, "This version"), text(1, " is fine."), done(trajectory.ReasonDone)}, finish: perigee.FinishDone},
		"timeout":          {script: []trajectory.Event{done(trajectory.ReasonTimeout)}, class: perigee.ClassUnavailable, status: 504, canceled: true},
	} {
		for _, stream := range []bool{true, false} {
			s := &scripted{answer: says(test.script...)}
			u := New(Options{Name: "headless", Client: s})
			r := ask(t.Context(), u, hello(stream))
			if err := u.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			switch {
			case test.class != "":
				if r.err == nil || r.err.Class != test.class || r.err.HTTPStatus("") != test.status || r.err.Upstream != "headless" || !strings.Contains(r.err.Error(), test.says) {
					t.Errorf("%s, stream %t: %+v", name, stream, r.err)
				}
			case r.err != nil || r.finish == nil || r.finish.Kind != test.finish:
				t.Errorf("%s, stream %t: %+v, %v", name, stream, r.finish, r.err)
			}
			if (len(s.canceled) == 1) != test.canceled || len(s.canceled) > 1 {
				t.Errorf("%s, stream %t: canceled %v", name, stream, s.canceled)
			}
		}
	}
}

// A step that waits ends the answer with what it waits for. A headless server has no person to
// answer, so the turn is canceled there.
func TestWaiting(t *testing.T) {
	script := says(text(1, "I will run it."),
		trajectory.Event{Kind: trajectory.KindWaiting, Step: 2, Waiting: &trajectory.Waiting{Member: "readUrlContent", Subject: "https://example.org"}},
		trajectory.Event{Kind: trajectory.KindResult, Step: 2}, // it was allowed
		trajectory.Event{Kind: trajectory.KindWaiting, Step: 3, Waiting: &trajectory.Waiting{Member: "runCommand", Subject: "make"}},
		done(trajectory.ReasonWaiting))
	for _, attached := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			s := &scripted{answer: script}
			u := New(Options{Client: s, Attached: attached})
			req := hello(stream)
			r := ask(t.Context(), u, req)
			if err := u.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := "I will run it.\n\n[The agent waits for a decision that it can only get in Antigravity: permission to run the command make]"; r.text != want || r.finish == nil {
				t.Errorf("%+v", r)
			}
			if noteList(req) != `["mapped question of the agent to text"]` {
				t.Errorf("notes %s", noteList(req))
			}
			if canceled := len(s.canceled) > 0; canceled == attached {
				t.Errorf("attached %t: canceled %t", attached, canceled)
			}
		}
	}
}

// What a text cannot carry is dropped with a note each, and refused if the request is strict.
func TestNotes(t *testing.T) {
	prompt := perigee.Prompt{
		Contents: []perigee.Content{
			{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("what is it?")}, {Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "AAAA"}}}},
			{Role: perigee.RoleModel, Parts: []perigee.Part{{Thought: true, Text: perigee.Plain("hm")}, {Kind: perigee.PartCall, Call: &perigee.FunctionCall{Name: "look", Args: []byte(`{"x":1}`)}}}},
			{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Name: "look", Output: []byte(`"a cat"`)}}}},
		},
		Tools:      []perigee.Tool{{Function: &perigee.Function{Name: "look"}}},
		Generation: perigee.Generation{Temperature: new(0.5), MaxOutputTokens: new(int64(100)), Stop: []string{"x"}},
	}
	req := request(true, prompt)
	s := &scripted{answer: says(text(1, "a"), done(trajectory.ReasonDone))}
	u := New(Options{Client: s})
	if r := ask(t.Context(), u, req); r.err != nil {
		t.Fatal(r.err)
	}
	want := `["dropped tools","dropped temperature","dropped max output tokens 100","dropped stop sequences","dropped media image/png",` +
		`"omitted earlier thinking","mapped tool calls to text","mapped tool results to text"]`
	if got := noteList(req); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	wantText := "This is the conversation so far:\n\n<user>\nwhat is it?\n</user>\n<assistant>\n[call of tool look: {\"x\":1}]\n</assistant>\n\n" +
		"Answer this message:\n\n[result of tool look: {\"output\":\"a cat\"}]"
	if got := s.messages[0].Text; got != wantText {
		t.Errorf("got %q\nwant %q", got, wantText)
	}
	strict := request(true, prompt)
	strict.Strict = true
	r := ask(t.Context(), u, strict)
	if r.err == nil || r.err.Class != perigee.ClassUnimplemented || !strings.Contains(r.err.Message, "dropped temperature") || len(s.messages) != 1 {
		t.Errorf("strict: %v, %d messages", r.err, len(s.messages))
	}
	plain := hello(true)
	plain.Strict = true
	if r := ask(t.Context(), u, plain); r.err != nil || s.messages[1].Text != "hello" {
		t.Errorf("strict and plain: %v", r.err)
	}
	thought := request(true, perigee.Prompt{Contents: []perigee.Content{
		message(perigee.RoleUser, "a?"),
		{Role: perigee.RoleModel, Parts: []perigee.Part{{Thought: true, Text: perigee.Plain("hm")}, {Text: perigee.Plain("a")}, {Thought: true, Signature: "x"}}},
		message(perigee.RoleUser, "and b?"),
	}})
	thought.Strict = true
	if r := ask(t.Context(), u, thought); r.err != nil || noteList(thought) != `["omitted earlier thinking"]` || strings.Contains(s.messages[2].Text, "hm") {
		t.Errorf("strict, with thinking in the history: %v, notes %s", r.err, noteList(thought))
	}
	image := request(false, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, "a cat")}, Generation: perigee.Generation{Modalities: []string{"TEXT", "IMAGE"}}})
	if r := ask(t.Context(), u, image); r.err == nil || r.err.Class != perigee.ClassUnimplemented || r.err.HTTPStatus("") != http.StatusNotImplemented {
		t.Errorf("image: %v", r.err)
	}
	if r := ask(t.Context(), u, request(false, perigee.Prompt{})); r.err == nil || r.err.Class != perigee.ClassInvalid {
		t.Errorf("empty: %v", r.err)
	}
}

// A continued chat sends only the new message, to the conversation that has the rest.
func TestContinuedChats(t *testing.T) {
	s := &scripted{answer: func(_ context.Context, n int, yield func(trajectory.Event, error) bool) {
		says(text(1, fmt.Sprintf("answer %d", n)), done(trajectory.ReasonDone))(context.Background(), n, yield)
	}}
	u := New(Options{Client: s})
	system := message(perigee.RoleUser, "Be brief.")
	chat := func(key string, contents ...perigee.Content) *perigee.Request {
		req := request(true, perigee.Prompt{System: &system, Contents: contents})
		req.Client.Key = key
		return req
	}
	first, second, third := message(perigee.RoleUser, "one"), message(perigee.RoleUser, "two"), message(perigee.RoleUser, "three")
	replies := []perigee.Content{message(perigee.RoleModel, "answer 1"), message(perigee.RoleModel, "answer 2")}
	for i, test := range []struct {
		req     *perigee.Request
		cascade string
		text    string
		known   int
	}{
		{chat("a", first), "cascade-1", "Follow these instructions:\n\n<instructions>\nBe brief.\n</instructions>\n\nAnswer this message:\n\none", 0},
		{chat("a", first, replies[0], second), "cascade-1", "two", 2},
		{chat("a", first, replies[0], second, replies[1], third), "cascade-1", "three", 4},
		// The conversation has gone on since, belongs to another key, or has another history.
		{chat("a", first, replies[0], second), "cascade-2", "", 0},
		{chat("b", first, replies[0], second, replies[1], third), "cascade-3", "", 0},
		{chat("a", first, message(perigee.RoleModel, "another"), second), "cascade-4", "", 0},
	} {
		if r := ask(t.Context(), u, test.req); r.err != nil {
			t.Fatal(r.err)
		}
		got := s.messages[i]
		if got.cascade != test.cascade || got.Known != test.known || test.text != "" && got.Text != test.text || test.text == "" && !strings.Contains(got.Text, "<assistant>") {
			t.Errorf("message %d: %+v", i+1, got)
		}
	}
}

// A conversation that the server no longer has is replaced by one with the whole history.
func TestKeptConversationIsLost(t *testing.T) {
	s := &scripted{answer: says(text(1, "a"), done(trajectory.ReasonDone))}
	s.sendErr = func(n int) error {
		if n == 2 {
			return fmt.Errorf("trajectory not found: %w", ErrLost)
		}
		return nil
	}
	u := New(Options{Client: s})
	ask(t.Context(), u, hello(true))
	r := ask(t.Context(), u, request(true, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, "hello"), message(perigee.RoleModel, "a"), message(perigee.RoleUser, "more")}}))
	if r.err != nil || len(s.messages) != 3 || s.messages[1].Text != "more" || s.messages[2].cascade != "cascade-2" || !strings.Contains(s.messages[2].Text, "<assistant>") {
		t.Errorf("%v, %+v", r.err, s.messages)
	}
}

// A server that goes away is waited for, and asked again as long as the client has got nothing.
func TestLostServers(t *testing.T) {
	gone := perigee.Errorf(perigee.ClassUnavailable, "refused: %w", ErrLost)
	for name, test := range map[string]struct {
		startErr, sendErr func(int) error
		answer            func(ctx context.Context, n int, yield func(trajectory.Event, error) bool)
		text              string
		class             perigee.Class
		sent              int
		canceled          int
	}{
		"start": {startErr: func(n int) error {
			if n < 3 {
				return gone
			}
			return nil
		}, text: "ok", sent: 1},
		"start, always": {startErr: func(int) error { return gone }, class: perigee.ClassUnavailable},
		"send": {sendErr: func(n int) error {
			if n < 3 {
				return gone
			}
			return nil
		}, text: "ok", sent: 3},
		"send, unclear": {sendErr: func(int) error { return perigee.Errorf(perigee.ClassUnavailable, "broken off") }, class: perigee.ClassUnavailable, sent: 1, canceled: 1},
		"before the answer": {answer: func(_ context.Context, n int, yield func(trajectory.Event, error) bool) {
			if n == 1 {
				yield(trajectory.Event{}, gone)
				return
			}
			says(text(1, "ok"), done(trajectory.ReasonDone))(nil, n, yield)
		}, text: "ok", sent: 2},
		"before every answer": {answer: func(_ context.Context, _ int, yield func(trajectory.Event, error) bool) {
			yield(trajectory.Event{}, gone)
		},
			class: perigee.ClassUnavailable, sent: 2},
		"a restart cut the turn short": {answer: func(_ context.Context, n int, yield func(trajectory.Event, error) bool) {
			if n == 1 {
				says(done(trajectory.ReasonCancelled))(nil, n, yield)
				return
			}
			says(text(1, "ok"), done(trajectory.ReasonDone))(nil, n, yield)
		}, text: "ok", sent: 2},
		"nothing was generated": {answer: func(_ context.Context, n int, yield func(trajectory.Event, error) bool) {
			if n == 1 {
				says(trajectory.Event{Kind: trajectory.KindError, Error: perigee.Errorf(perigee.ClassUnavailable, "%w", trajectory.ErrNoAnswer)}, done(trajectory.ReasonError))(nil, n, yield)
				return
			}
			says(text(1, "ok"), done(trajectory.ReasonDone))(nil, n, yield)
		}, text: "ok", sent: 2},
		"within the answer": {answer: func(_ context.Context, _ int, yield func(trajectory.Event, error) bool) {
			_ = yield(text(1, "ok"), nil) && yield(trajectory.Event{}, gone)
		}, text: "ok", class: perigee.ClassUnavailable, sent: 1},
		"another error": {answer: func(_ context.Context, _ int, yield func(trajectory.Event, error) bool) {
			yield(trajectory.Event{}, perigee.Errorf(perigee.ClassUnavailable, "stuck"))
		}, class: perigee.ClassUnavailable, sent: 1, canceled: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{startErr: test.startErr, sendErr: test.sendErr, answer: test.answer}
			if s.answer == nil {
				s.answer = says(text(1, "ok"), done(trajectory.ReasonDone))
			}
			waits := 0
			u := New(Options{Client: s, Wait: func(context.Context) error { waits++; return nil }})
			r := ask(t.Context(), u, hello(true))
			if err := u.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			class := perigee.Class("")
			if r.err != nil {
				class = r.err.Class
			}
			if r.text != test.text || class != test.class || len(s.messages) != test.sent || len(s.canceled) != test.canceled {
				t.Errorf("%s: %q, %v, %d messages, %d canceled", name, r.text, r.err, len(s.messages), len(s.canceled))
			}
			if tries := max(s.started, 1); waits != tries {
				t.Errorf("%s: waited %d times for %d tries", name, waits, tries)
			}
		})
	}
}

// A server that is not ready is an error with its reason, and nothing is sent.
func TestServerThatIsNotReady(t *testing.T) {
	reason := &perigee.Error{Class: perigee.ClassUnavailable, Message: "the language server failed: exit status 1", Retry: time.Minute}
	s := &scripted{}
	u := New(Options{Name: "headless", Client: s, Wait: func(context.Context) error { return reason }})
	r := ask(t.Context(), u, hello(true))
	if r.err == nil || r.err.Message != reason.Message || r.err.Retry != time.Minute || r.err.Upstream != "headless" || s.started != 0 {
		t.Errorf("%+v", r.err)
	}
	if _, err := u.Models(t.Context()); !errors.Is(err, reason) && perigee.AsError(err).Message != reason.Message {
		t.Errorf("models: %v", err)
	}
}

// The conversation of a client that leaves is canceled at once, whether it leaves by its context or
// its loop.
func TestClientsThatLeave(t *testing.T) {
	for _, byContext := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{answer: func(ctx context.Context, _ int, yield func(trajectory.Event, error) bool) {
				if !yield(text(1, "a"), nil) {
					return
				}
				<-ctx.Done()
				yield(trajectory.Event{}, ctx.Err())
			}}
			u := New(Options{Client: s, Concurrency: 1})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var left time.Time
			for e, err := range u.Stream(ctx, hello(true)) {
				if err != nil {
					break
				}
				if e.Kind == perigee.EventText {
					left = time.Now()
					if !byContext {
						break
					}
					cancel()
				}
			}
			synctest.Wait()
			if len(s.canceled) != 1 || s.at[0].Sub(left) > 2*time.Second {
				t.Errorf("canceled %v, after %v", s.canceled, s.at)
			}
			if err := u.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if leave, err := u.queue.enter(t.Context()); err != nil {
				t.Errorf("the place is not free: %v", err)
			} else {
				leave()
			}
		})
	}
}

func TestCountsAreEstimates(t *testing.T) {
	count, err := New(Options{Name: "headless"}).CountTokens(t.Context(), hello(false))
	if err != nil || !count.Estimate || count.Total != 2 || count.Upstream != "headless" {
		t.Errorf("%+v, %v", count, err)
	}
}

func TestModels(t *testing.T) {
	list, err := New(Options{Name: "headless", Client: &scripted{}}).Models(t.Context())
	if err != nil || !slices.EqualFunc(list, []string{"gemini-3-flash"}, func(m perigee.Model, id string) bool { return m.ID == id && m.Upstream == "headless" }) {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestAnAgentThatWritesForEver rewrites a long text again and again.
func TestAnAgentThatWritesForEver(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	for _, stream := range []bool{true, false} {
		s := &scripted{answer: func(_ context.Context, _ int, yield func(trajectory.Event, error) bool) {
			for range 1000 {
				if !yield(trajectory.Event{Kind: trajectory.KindTextReplaced, Step: 1, Text: long}, nil) {
					return
				}
			}
			t.Error("it was not stopped")
		}}
		u := New(Options{Name: "headless", Client: s})
		var failed error
		for _, err := range u.Stream(t.Context(), hello(stream)) {
			failed = err
		}
		if err := u.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if failed == nil || !strings.Contains(failed.Error(), "more than 64 MiB") || len(s.canceled) != 1 {
			t.Errorf("stream %t: got %v, canceled %v", stream, failed, s.canceled)
		}
	}
}

// hanging accepts no message.
type hanging struct{ *scripted }

func (hanging) Send(ctx context.Context, _ string, _ Message) error {
	<-ctx.Done()
	return perigee.AsError(ctx.Err())
}

// A server that does not accept a message in time is a time-out, and a client that leaves is none.
func TestServersThatHang(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := hanging{&scripted{answer: says(done(trajectory.ReasonDone))}}
			u := New(Options{Name: "desk", Client: s, FirstByte: time.Minute})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if leaves {
				time.AfterFunc(time.Second, cancel)
			}
			began := time.Now()
			r := ask(ctx, u, hello(true))
			if leaves && (r.err.Class != perigee.ClassCanceled || time.Since(began) != time.Second) {
				t.Errorf("a client leaves: %+v after %s", r.err, time.Since(began))
			}
			if !leaves && (r.err.Class != perigee.ClassUnavailable || r.err.HTTPStatus("") != http.StatusGatewayTimeout || time.Since(began) != time.Minute) {
				t.Errorf("a time-out: %+v after %s", r.err, time.Since(began))
			}
			if err := u.Close(t.Context()); err != nil || len(s.canceled) != 1 {
				t.Errorf("canceled %q, %v", s.canceled, err)
			}
		})
	}
}

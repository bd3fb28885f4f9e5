package route

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee"
)

// A source is an upstream that plays a script and remembers what it was asked.
type source struct {
	events []perigee.Event
	err    error
	models []string
	listed int
	notes  []perigee.Note
	asked  []string
	left   bool
}

func (s *source) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		s.asked = append(s.asked, req.Model)
		req.Log.Note(s.notes...)
		for _, ev := range s.events {
			if !yield(ev, nil) {
				s.left = true
				return
			}
		}
		if s.err != nil {
			yield(perigee.Event{}, s.err)
		}
	}
}

func (s *source) Models(context.Context) ([]perigee.Model, error) {
	s.listed++
	if s.models == nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "no list")
	}
	var list []perigee.Model
	for _, id := range s.models {
		list = append(list, perigee.Model{ID: id})
	}
	return list, nil
}

func (s *source) CountTokens(_ context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	s.asked = append(s.asked, req.Model)
	if s.err != nil {
		return nil, s.err
	}
	return &perigee.TokenCount{Total: 7}, nil
}

// A plain source can stream and nothing else.
type plain struct{ inner *source }

func (p plain) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return p.inner.Stream(ctx, req)
}

func says(text string) *source {
	return &source{events: []perigee.Event{
		{Kind: perigee.EventStart, Model: "real-" + text},
		{Kind: perigee.EventText, Text: text},
		{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}},
	}}
}

func fails(class perigee.Class) *source {
	return &source{err: perigee.Errorf(class, "it is %s", class), models: []string{}}
}

func router(t *testing.T, opts Options) *Router {
	t.Helper()
	r, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func request(model string) *perigee.Request {
	return perigee.NewRequest(perigee.Origin{ID: "c", Log: &perigee.CallLog{}}, model, true, func() (*perigee.Prompt, error) { return &perigee.Prompt{}, nil })
}

// ask returns what a caller gets: the upstream, its answer, and the error.
func ask(r *Router, model string) (string, error) { return askFor(r, request(model)) }

func askFor(r *Router, req *perigee.Request) (string, error) {
	var heard []string
	noted := 0
	for ev, err := range r.Stream(context.Background(), req) {
		for _, note := range req.Log.Notes()[noted:] {
			heard = append(heard, "("+note.String()+")")
			noted++
		}
		if err != nil {
			return strings.Join(heard, " "), err
		}
		switch ev.Kind {
		case perigee.EventStart:
			heard = append(heard, ev.Upstream+"/"+ev.Model)
		case perigee.EventText:
			heard = append(heard, ev.Text)
		}
	}
	return strings.Join(heard, " "), nil
}

// Notes of an upstream come before its start, and are known while it is still asked; those of one
// that fails are forgotten.
func TestNotesComeBeforeTheStart(t *testing.T) {
	note := func(subject string) perigee.Note { return perigee.Note{Action: perigee.NoteDropped, Subject: subject} }
	first := fails(perigee.ClassCapacity)
	first.notes = []perigee.Note{note("x")}
	second := says("hello")
	second.notes = []perigee.Note{note("y"), note("z")}
	r := router(t, Options{Targets: []Target{{"a", first}, {"b", asking{second, func(req *perigee.Request) {
		if got := req.Log.AllNotes(); len(got) != 0 {
			t.Errorf("what the first one dropped is not dropped any more: %v", got)
		}
	}}}}})
	if heard, err := ask(r, "m"); err != nil || heard != "(dropped y) (dropped z) b/real-hello hello" {
		t.Errorf("heard %q, %v", heard, err)
	}
}

// Until an upstream answers, its notes are tentative; when no upstream answers, there are none.
func TestNotesOfAnAttemptAreTentative(t *testing.T) {
	failing := fails(perigee.ClassCapacity)
	failing.notes = []perigee.Note{{Action: perigee.NoteDropped, Subject: "x"}}
	failing.events = []perigee.Event{{Kind: perigee.EventStart}}
	req := request("m")
	tentative, kept := 0, 0
	second := *failing
	r := router(t, Options{Targets: []Target{{"a", failing}, {"b", asking{&second, func(req *perigee.Request) {
		req.Log.Note(perigee.Note{Action: perigee.NoteDropped, Subject: "y"})
		tentative, kept = len(req.Log.AllNotes()), len(req.Log.Notes())
	}}}}})
	for _, err := range r.Stream(t.Context(), req) {
		if err == nil {
			t.Error("there is an answer")
		}
	}
	if notes := req.Log.AllNotes(); tentative != 1 || kept != 0 || len(notes) != 0 {
		t.Errorf("%d tentative, %d kept; in the end %v", tentative, kept, notes)
	}
}

// asking calls a function before the request goes on.
type asking struct {
	*source
	before func(*perigee.Request)
}

func (a asking) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	a.before(req)
	return a.source.Stream(ctx, req)
}

func TestFailover(t *testing.T) {
	for _, c := range []struct {
		name  string
		first *source
		heard string
		class perigee.Class // of the error, if there is to be one
	}{
		{"the first answers", says("one"), "a/real-one one", ""},
		{"has not got the model", fails(perigee.ClassNotFound), "b/real-two two", ""},
		{"exhausted", fails(perigee.ClassExhausted), "b/real-two two", ""},
		{"rate limited", fails(perigee.ClassRateLimited), "b/real-two two", ""},
		{"no capacity", fails(perigee.ClassCapacity), "b/real-two two", ""},
		{"unreachable", fails(perigee.ClassUnavailable), "b/real-two two", ""},
		{"refuses our key", fails(perigee.ClassUnauthenticated), "b/real-two two", ""},
		{"invalid request", fails(perigee.ClassInvalid), "", perigee.ClassInvalid},
		{"client gone", fails(perigee.ClassCanceled), "", perigee.ClassCanceled},
		{"our bug", &source{err: errors.New("oops")}, "", perigee.ClassInternal},
		{"breaks off after the first byte", &source{events: []perigee.Event{{Kind: perigee.EventText, Text: "on"}}, err: perigee.Errorf(perigee.ClassUnavailable, "reset")},
			"a/m on", perigee.ClassUnavailable},
		{"breaks off after a start and a note", &source{notes: []perigee.Note{{Action: "dropped", Subject: "x"}},
			events: []perigee.Event{{Kind: perigee.EventStart}}, err: perigee.Errorf(perigee.ClassUnavailable, "reset")},
			"b/real-two two", ""},
		{"breaks off after a start, usage and a flush", &source{events: []perigee.Event{{Kind: perigee.EventStart},
			{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 1}, More: true}, {Kind: perigee.EventFlush}}, err: perigee.Errorf(perigee.ClassCapacity, "overloaded")},
			"b/real-two two", ""},
	} {
		second := says("two")
		heard, err := ask(router(t, Options{Targets: []Target{{"a", c.first}, {"b", second}}}), "m")
		class := perigee.Class("")
		if err != nil {
			class = perigee.AsError(err).Class
		}
		if heard != c.heard || class != c.class {
			t.Errorf("%s: heard %q, class %q (%v); want %q, %q", c.name, heard, class, err, c.heard, c.class)
		}
	}
}

// After its first content an answer that breaks off ends the call: neither the upstream that failed
// before it nor the one behind it is asked.
func TestNoUpstreamIsAskedAfterContent(t *testing.T) {
	lost := &perigee.Error{Class: perigee.ClassUnavailable, Message: "reset", Cause: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}
	for _, content := range []perigee.Event{
		{Kind: perigee.EventText, Text: "on"},
		{Kind: perigee.EventThinking, Text: "hm"},
		{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "look"}},
	} {
		silent, broken, last := fails(perigee.ClassUnavailable), &source{events: []perigee.Event{content}, err: lost}, says("three")
		_, err := ask(router(t, Options{Targets: []Target{{"a", silent}, {"b", broken}, {"c", last}}}), "m")
		if !errors.Is(err, lost) || len(silent.asked) != 1 || len(broken.asked) != 1 || len(last.asked) != 0 {
			t.Errorf("%v: %v; asked %d, %d and %d times", content.Kind, err, len(silent.asked), len(broken.asked), len(last.asked))
		}
	}
}

func TestWhoIsAsked(t *testing.T) {
	for _, c := range []struct{ model, heard string }{
		{"m", "b/real-two two"},        // the catch-all names b first
		{"claude-x", "a/real-one one"}, // by pattern
		{"gpt-4o", "a/real-one one"},   // by alias, then by pattern
		{"", "a/real-one one"},         // by default, through an alias
	} {
		r := router(t, Options{
			Targets: []Target{{"a", says("one")}, {"b", says("two")}},
			Default: "gpt-4o",
			Aliases: map[string]string{"gpt-4o": "middle", "middle": "claude-y"},
			Rules:   []Rule{{Match: "claude-*", To: []string{"a"}}, {Match: "*", To: []string{"b", "a"}}},
		})
		if heard, err := ask(r, c.model); heard != c.heard || err != nil {
			t.Errorf("%q: heard %q, %v; want %q", c.model, heard, err, c.heard)
		}
	}
}

func TestAliasReachesTheUpstream(t *testing.T) {
	a := says("one")
	_, _ = ask(router(t, Options{Targets: []Target{{"a", a}}, Aliases: map[string]string{"x": "y"}}), "x")
	if len(a.asked) != 1 || a.asked[0] != "y" {
		t.Errorf("asked %q", a.asked)
	}
}

func TestNobodyHasIt(t *testing.T) {
	a, b := fails(perigee.ClassNotFound), fails(perigee.ClassNotFound)
	a.models = []string{"gemini-3-flash", "gemini-2.5-pro"}
	r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}})
	_, err := ask(r, "gemini-3-flsh")
	want := `no model "gemini-3-flsh" at a, b; the nearest names are gemini-3-flash`
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassNotFound || e.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	// A client that goes on asking does not become load on the providers' lists.
	_, _ = ask(r, "gemini-4")
	if a.listed != 1 {
		t.Errorf("listed %d times", a.listed)
	}
}

// An exhausted upstream comes back; "not found" beside it would be the wrong news.
func TestTheErrorThatCanPassWins(t *testing.T) {
	_, err := ask(router(t, Options{Targets: []Target{{"a", fails(perigee.ClassExhausted)}, {"b", fails(perigee.ClassNotFound)}}}), "m")
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassExhausted {
		t.Errorf("%v", err)
	}
}

func TestNoModelNamed(t *testing.T) {
	_, err := ask(router(t, Options{Targets: []Target{{"a", says("one")}}}), "")
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid {
		t.Errorf("%v", err)
	}
}

func TestLeavingReleasesTheUpstream(t *testing.T) {
	a := says("one")
	r := router(t, Options{Targets: []Target{{"a", a}}})
	for range r.Stream(t.Context(), request("m")) {
		break
	}
	if !a.left {
		t.Error("the upstream was not left")
	}
}

func TestRulesNameTargets(t *testing.T) {
	if _, err := New(Options{Rules: []Rule{{Match: "*", To: []string{"nobody"}}}}); err == nil {
		t.Error("no error")
	}
}

func TestCountTokens(t *testing.T) {
	able := &source{}
	for _, c := range []struct {
		name    string
		targets []Target
		class   perigee.Class
	}{
		{"skips upstreams without the ability", []Target{{"a", plain{says("x")}}, {"b", able}}, ""},
		{"moves on", []Target{{"a", fails(perigee.ClassCapacity)}, {"b", able}}, ""},
		{"stops at invalid", []Target{{"a", fails(perigee.ClassInvalid)}, {"b", able}}, perigee.ClassInvalid},
		{"no upstream has the ability", []Target{{"a", plain{says("x")}}}, perigee.ClassUnimplemented},
	} {
		count, err := router(t, Options{Targets: c.targets}).CountTokens(t.Context(), request("m"))
		switch {
		case c.class == "" && (err != nil || count.Total != 7):
			t.Errorf("%s: %v", c.name, err)
		case c.class != "" && (err == nil || perigee.AsError(err).Class != c.class):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestModels(t *testing.T) {
	now := time.Unix(0, 0)
	a, b, broken := says("a"), says("b"), fails(perigee.ClassUnavailable)
	a.models, b.models, broken.models = []string{"claude-1", "g-1"}, []string{"g-1", "g-2"}, nil
	r := router(t, Options{
		Targets: []Target{{"a", a}, {"b", b}, {"c", broken}},
		Aliases: map[string]string{"gpt": "g-2", "lost": "nowhere"},
		Rules:   []Rule{{Match: "claude-*", To: []string{"b"}}},
		Now:     func() time.Time { return now },
	})
	for range 2 {
		models, err := r.Models(t.Context())
		var got []string
		for _, m := range models {
			got = append(got, m.ID)
		}
		// claude-1 is a's, but would never be asked there; g-1 is listed once, and once for each
		// upstream that has it.
		if s := strings.Join(got, " "); s != "g-1 g-2 gpt a/g-1 b/g-1" || err != nil {
			t.Errorf("%s, %v", s, err)
		}
	}
	if a.listed != 1 || broken.listed != 1 {
		t.Errorf("a listed %d times, broken %d", a.listed, broken.listed)
	}
	now = now.Add(modelsRetry)
	_, _ = r.Models(t.Context())
	if a.listed != 1 || broken.listed != 2 {
		t.Errorf("later: a listed %d times, broken %d", a.listed, broken.listed)
	}
	now = now.Add(modelsFresh)
	_, _ = r.Models(t.Context())
	if a.listed != 2 {
		t.Errorf("much later: a listed %d times", a.listed)
	}
}

func TestNoListAtAll(t *testing.T) {
	broken := fails(perigee.ClassUnavailable)
	broken.models = nil
	if _, err := router(t, Options{Targets: []Target{{"a", broken}}}).Models(t.Context()); err == nil {
		t.Error("no error")
	}
}

// Aliases of all models of a long list, and models of two upstreams, are listed once each.
func TestLongListsAreListed(t *testing.T) {
	const n = 5000
	long := &source{}
	for i := range n {
		long.models = append(long.models, fmt.Sprintf("m%d", i))
	}
	r := router(t, Options{Targets: []Target{{"a", long}, {"b", &source{models: long.models}}, {"empty", &source{models: []string{}}}}, Aliases: map[string]string{"other": "m7", "m1*": "m2"}})
	list, err := r.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range list {
		if _, twice := names[m.ID]; twice {
			t.Fatalf("%s is listed twice", m.ID)
		}
		names[m.ID] = m.AliasOf
	}
	if want := 3*n + 1; len(list) != want || names["other"] != "m7" || names["m1234"] != "m2" || names["a/m1234"] != "" || names["b/m0"] != "" {
		t.Errorf("%d models, want %d", len(list), want)
	}
}

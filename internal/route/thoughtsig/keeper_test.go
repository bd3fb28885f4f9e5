package thoughtsig

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/testing/perigeetest/await"
)

// A source is an upstream that plays events and remembers the prompt that it was asked.
type source struct {
	events []perigee.Event
	err    error
	asked  *perigee.Prompt
}

func (s *source) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		s.asked, _ = req.Prompt()
		for _, ev := range s.events {
			if !yield(ev, nil) {
				return
			}
		}
		if s.err != nil {
			yield(perigee.Event{}, s.err)
		}
	}
}

func request(dialect perigee.Dialect, model string, parts ...perigee.Part) *perigee.Request {
	p := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("hi")}}}}}
	if len(parts) > 0 {
		p.Contents = append(p.Contents, perigee.Content{Role: perigee.RoleModel, Parts: parts})
	}
	return perigee.NewRequest(perigee.Origin{ID: "r1", Dialect: dialect}, model, true, func() (*perigee.Prompt, error) { return p, nil })
}

// testScope is where requests without a history of their own are.
func testScope() *scope {
	p, _ := request(perigee.DialectAnthropic, flash).Prompt()
	return newScope(perigee.Client{}, p, models.Gemini.Reasoning())
}

// hear lets a keeper pass on what the source says, and returns what comes out.
func hear(t *testing.T, k *Keeper, req *perigee.Request) (events []perigee.Event) {
	t.Helper()
	for ev, err := range k.Stream(t.Context(), req) {
		if err != nil {
			break
		}
		events = append(events, ev)
	}
	return events
}

// ask sends parts as a history, and returns the signatures that the upstream gets to see on them.
func ask(t *testing.T, m *Memory, model string, parts ...perigee.Part) string {
	t.Helper()
	s := &source{}
	hear(t, m.Around(s), request(perigee.DialectOpenAIChat, model, parts...))
	var seen []string
	for _, p := range s.asked.Contents[1].Parts {
		seen = append(seen, p.Signature)
	}
	return strings.Join(seen, " ")
}

func text(s string) perigee.Event { return perigee.Event{Kind: perigee.EventText, Text: s} }
func thought(s string) perigee.Event {
	return perigee.Event{Kind: perigee.EventThinking, Text: s, Thought: true}
}
func signature(s string) perigee.Event {
	return perigee.Event{Kind: perigee.EventSignature, Signature: s}
}
func called(id string) perigee.Event {
	return perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: id, Name: "f"}}
}
func finish() perigee.Event {
	return perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}
}
func signed(ev perigee.Event, signature string) perigee.Event {
	ev.Signature = signature
	return ev
}

func partText(s string) perigee.Part    { return perigee.Part{Text: perigee.Plain(s)} }
func partThought(s string) perigee.Part { return perigee.Part{Text: perigee.Plain(s), Thought: true} }
func partCall(id string) perigee.Part {
	return perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: id, Name: "f"}}
}
func with(p perigee.Part, signature string) perigee.Part {
	p.Signature = signature
	return p
}

const (
	flash = "gemini-3-flash"
	opus  = "claude-opus-4-6-thinking"
)

func TestWhatIsLostComesBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []perigee.Event
		parts  []perigee.Part
		want   string
	}{
		{"by the id of the call", []perigee.Event{signed(called("a"), "S1"), called("b"), finish()}, []perigee.Part{partCall("a"), partCall("b")}, "S1 "},
		{"a signature after the call", []perigee.Event{called("a"), signature("S1"), finish()}, []perigee.Part{partCall("a")}, "S1"},
		{"by the text", []perigee.Event{text("Hel"), signed(text("lo"), "S1"), finish()}, []perigee.Part{partText("Hello")}, "S1"},
		{"a signature after the text", []perigee.Event{text("Hel"), text("lo"), signature("S1"), finish()}, []perigee.Part{partText("Hello")}, "S1"},
		{"by the thought", []perigee.Event{thought("hm"), thought("m"), signature("S1"), text("Hello"), finish()}, []perigee.Part{partThought("hmm"), partText("Hello")}, "S1 "},
		{"a thought is no answer", []perigee.Event{thought("hm"), signature("S1"), finish()}, []perigee.Part{partText("hm")}, ""},
		{"another text has none", []perigee.Event{text("Hello"), signature("S1"), finish()}, []perigee.Part{partText("Hell")}, ""},
		{"white space at the ends", []perigee.Event{text("\n Hello"), text(" "), text("you \n"), signature("S1"), finish()}, []perigee.Part{partText("Hello you")}, "S1"},
		{"nothing but white space", []perigee.Event{text(" \n"), signature("S1"), finish()}, []perigee.Part{partText(" ")}, ""},
		{"texts that the client joins", []perigee.Event{text("a"), signed(called("x"), "S1"), text("b"), signature("S2"), finish()}, []perigee.Part{partText("ab")}, "S2"},
		{"an answer that broke off", []perigee.Event{text("Hello"), signature("S1")}, []perigee.Part{partText("Hello")}, "S1"},
		{"two calls with a signature each", []perigee.Event{signed(called("a"), "S1"), signed(called("b"), "S2"), finish()}, []perigee.Part{partCall("b"), partCall("a")}, "S2 S1"},
		{"the later signature of a call", []perigee.Event{signed(called("a"), "S1"), finish(), signed(called("a"), "S2"), finish()}, []perigee.Part{partCall("a")}, "S2"},
		{"what the client kept stays", []perigee.Event{signed(called("a"), "S1"), signed(called("b"), "S2"), finish()}, []perigee.Part{with(partCall("a"), "S2")}, "S2"},
		{"what the client made up goes", []perigee.Event{signed(called("a"), "S1"), finish()}, []perigee.Part{with(partCall("a"), "forged"), with(partText("x"), "forged")}, "S1 "},
		{"a signature on nothing is genuine all the same", []perigee.Event{signature("S1"), finish()}, []perigee.Part{with(partText("x"), "S1")}, "S1"},
		{"a long id", []perigee.Event{signed(called(strings.Repeat("x", 500)), "S1"), finish()}, []perigee.Part{partCall(strings.Repeat("x", 500))}, "S1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMemory(Options{})
			hear(t, m.Around(&source{events: c.events}), request(perigee.DialectOpenAIChat, flash))
			if got := ask(t, m, flash, c.parts...); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCandidatesDoNotMix(t *testing.T) {
	other := func(ev perigee.Event) perigee.Event { ev.Candidate = 1; return ev }
	m := NewMemory(Options{})
	events := []perigee.Event{text("a"), other(text("x")), text("b"), other(text("y")), signature("S1"), other(signature("S2")), finish(), other(finish()), {Kind: perigee.EventText, Candidate: -1}, {Kind: perigee.EventText, Candidate: 1 << 30}}
	hear(t, m.Around(&source{events: events}), request(perigee.DialectAnthropic, flash))
	if got := ask(t, m, flash, partText("ab"), partText("xy")); got != "S1 S2" {
		t.Errorf("got %q", got)
	}
}

func TestFamilies(t *testing.T) {
	m := NewMemory(Options{})
	hear(t, m.Around(&source{events: []perigee.Event{thought("hm"), signature("G1"), signed(called("a"), "G2"), finish()}}), request(perigee.DialectAnthropic, flash))
	hear(t, m.Around(&source{events: []perigee.Event{thought("hm"), signature("C1"), called("b"), finish()}}), request(perigee.DialectAnthropic, opus))
	claudes := "R" + strings.Repeat("XVhQ", 20) // "E…" in base64
	single := "Eg" + strings.Repeat("AA", 40)
	for _, c := range []struct{ name, model, want string }{
		{"back to the family", flash, "G1 G2   "},
		{"an older sibling", "gemini-2.5-pro", "G1 G2   "},
		{"to the other family", opus, "C1    " + claudes + " " + single},
		{"to a family without signatures, which does not get the thought", "gpt-oss-120b-medium", "   "},
	} {
		got := ask(t, m, c.model, with(partThought("hm"), "G1"), with(partCall("a"), "G2"), partText(""), with(partText("x"), claudes), with(partText("y"), single))
		want := strings.Split(c.want, " ")
		if c.model == opus {
			want = []string{"C1", "", "", claudes, single}
		}
		if got != strings.Join(want, " ") {
			t.Errorf("%s: got %q, want %q", c.name, got, strings.Join(want, " "))
		}
	}
}

func TestPlausible(t *testing.T) {
	long := strings.Repeat("A", 60)
	for signature, want := range map[string]bool{
		"RWdB" + long: true, "EgAA" + long: true, "EgAA": false, "CAAA" + long: false, "####" + long: false, "": false, "skip_thought_signature_validator": false,
	} {
		if got := plausible(signature, "claude"); got != want {
			t.Errorf("%.20q: got %v", signature, got)
		}
		if plausible(signature, "gemini") {
			t.Errorf("%.20q was believed to be Gemini's", signature)
		}
	}
}

func TestCallsGetIDs(t *testing.T) {
	inner := &perigee.FunctionCall{Name: "f"}
	events := []perigee.Event{signed(perigee.Event{Kind: perigee.EventCall, Call: inner}, "S1"), called("own"), {Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "g"}}, finish()}
	m := NewMemory(Options{})
	var ids []string
	for _, ev := range hear(t, m.Around(&source{events: events}), request(perigee.DialectOpenAIResponses, flash)) {
		if ev.Call != nil {
			ids = append(ids, ev.Call.ID)
		}
	}
	if got := strings.Join(ids, " "); got != "call_r1_1 own call_r1_3" {
		t.Errorf("got %q", got)
	}
	if inner.ID != "" {
		t.Error("the upstream's event was changed")
	}
	if got := ask(t, m, flash, partCall("call_r1_1"), partCall("call_r1_3")); got != "S1 " {
		t.Errorf("got %q", got)
	}
}

// The pieces of a call have the id of the call, also where that is not the provider's.
func TestPiecesGetTheIDOfTheirCall(t *testing.T) {
	piece := func(candidate int, id string) perigee.Event {
		return perigee.Event{Kind: perigee.EventCallPart, Candidate: candidate, Text: "x", Call: &perigee.FunctionCall{ID: id, Name: "f"}}
	}
	other := called("a")
	other.Candidate = 1
	events := []perigee.Event{piece(0, "a"), piece(0, "a"), called("a"), piece(0, "a"), piece(1, ""), called("a"), piece(0, ""), called(""), other, called("b"), finish()}
	var ids []string
	for _, ev := range hear(t, NewMemory(Options{}).Around(&source{events: events}), request(perigee.DialectOpenAIResponses, flash)) {
		if ev.Call != nil {
			ids = append(ids, ev.Call.ID)
		}
	}
	if got := strings.Join(ids, " "); got != "a a a call_r1_2 call_r1_3 call_r1_2 call_r1_4 call_r1_4 call_r1_3 b" {
		t.Errorf("got %q", got)
	}
}

// Clients of the provider's own dialect keep their signatures themselves.
func TestGeminiPassesUntouched(t *testing.T) {
	m := NewMemory(Options{})
	s := &source{events: []perigee.Event{signed(perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "f"}}, "S1"), finish()}}
	events := hear(t, m.Around(s), request(perigee.DialectGemini, flash, with(partText("x"), "mine")))
	if events[0].Call.ID != "" || s.asked.Contents[1].Parts[0].Signature != "mine" {
		t.Errorf("got id %q and signature %q", events[0].Call.ID, s.asked.Contents[1].Parts[0].Signature)
	}
}

// The prompt is shared by all that try it: what one upstream gets restored must not show in
// another's.
func TestTheClientsPromptStays(t *testing.T) {
	m := NewMemory(Options{})
	m.remember(testScope().callKey("a"), "S1", "gemini")
	req := request(perigee.DialectAnthropic, flash, partCall("a"), with(partText("x"), "unknown"))
	before, _ := req.Prompt()
	s := &source{}
	hear(t, m.Around(s), req)
	if p := before.Contents[1].Parts; p[0].Signature != "" || p[1].Signature != "unknown" {
		t.Errorf("the prompt now has %q and %q", p[0].Signature, p[1].Signature)
	}
	if s.asked == before || &s.asked.Contents[0].Parts[0] != &before.Contents[0].Parts[0] {
		t.Error("nothing was restored, or more was copied than changed")
	}
	// Where nothing is to be restored, the very same prompt goes on.
	req = request(perigee.DialectAnthropic, flash, partCall("b"))
	before, _ = req.Prompt()
	if hear(t, m.Around(s), req); s.asked != before {
		t.Error("the prompt was copied for nothing")
	}
}

func TestAbilities(t *testing.T) {
	k := NewMemory(Options{}).Around(&source{})
	if _, err := k.CountTokens(t.Context(), request(perigee.DialectAnthropic, flash)); perigee.AsError(err).Class != perigee.ClassUnimplemented {
		t.Errorf("got %v", err)
	}
	if _, err := k.Embed(t.Context(), nil); perigee.AsError(err).Class != perigee.ClassUnimplemented {
		t.Errorf("got %v", err)
	}
	if models, err := k.Models(t.Context()); models != nil || err != nil {
		t.Errorf("got %v, %v", models, err)
	}
}

// Forwards reports whether the source speaks the client's dialect.
func (s *source) Forwards(req *perigee.Request) bool { return req.Dialect == perigee.DialectGemini }

func (s *source) ReadsURLs() bool { return false }

// A counter is a source that counts.
type counter struct{ source }

func (c *counter) CountTokens(_ context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	c.asked, _ = req.Prompt()
	return &perigee.TokenCount{Total: 1}, nil
}

// Counting is about the same request: a signature that the provider cannot read would be refused
// there, too.
func TestCountingSeesWhatIsAsked(t *testing.T) {
	m, c := NewMemory(Options{}), &counter{}
	m.remember(testScope().callKey("a"), "S1", "gemini")
	for dialect, want := range map[perigee.Dialect]string{perigee.DialectAnthropic: "S1 ", perigee.DialectGemini: " forged"} {
		if _, err := m.Around(c).CountTokens(t.Context(), request(dialect, flash, partCall("a"), with(partText("x"), "forged"))); err != nil {
			t.Fatal(err)
		}
		parts := c.asked.Contents[1].Parts
		if got := parts[0].Signature + " " + parts[1].Signature; got != want {
			t.Errorf("%s: got %q, want %q", dialect, got, want)
		}
	}
}

func TestErrorsPass(t *testing.T) {
	k := NewMemory(Options{}).Around(&source{events: []perigee.Event{text("a")}, err: errors.New("broke")})
	var last error
	for _, err := range k.Stream(t.Context(), request(perigee.DialectAnthropic, flash)) {
		last = err
	}
	if last == nil {
		t.Error("no error")
	}
	broken := perigee.NewRequest(perigee.Origin{}, flash, true, func() (*perigee.Prompt, error) { return nil, errors.New("no prompt") })
	for _, err := range k.Stream(t.Context(), broken) {
		if err == nil {
			t.Error("no error")
		}
	}
	for range k.Stream(t.Context(), request(perigee.DialectAnthropic, flash)) {
		break // leaving does no harm
	}
}

func TestManyAtOnce(t *testing.T) {
	m := NewMemory(Options{MaxCount: 5000})
	m.KeepIn(&shelf{})
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for j := range 200 {
				id := fmt.Sprint(i, j)
				hear(t, m.Around(&source{events: []perigee.Event{signed(called(id), "S"+id), finish()}}), request(perigee.DialectAnthropic, flash))
				if got := ask(t, m, flash, partCall(id)); got != "S"+id {
					t.Errorf("got %q", got)
				}
				hear(t, m.Around(&source{events: []perigee.Event{thought(id), signature("C"), called("c" + id), called("d"), finish()}}), converse(opus, hi()))
				if got := reaches(t, m, converse(opus, hi(), model(partCall("c"+id), partCall("d")), results("c"+id, "d"))); got != "("+id+"|C) c"+id+" d" {
					t.Errorf("got %q", got)
				}
			}
		})
	}
	await.Return(t, wait.Wait, "the goroutines")
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkStream(b *testing.B) {
	var events []perigee.Event
	for range 1000 {
		events = append(events, text("a few words of text that go to the client, "))
	}
	events = append(events, signature("S1"), finish())
	for _, dialect := range []perigee.Dialect{perigee.DialectGemini, perigee.DialectAnthropic} {
		b.Run(string(dialect), func(b *testing.B) {
			k, req := NewMemory(Options{}).Around(&source{events: events}), request(dialect, flash)
			b.ReportAllocs()
			for b.Loop() {
				for range k.Stream(b.Context(), req) {
				}
			}
		})
	}
}

// A provider that gives two calls of an answer the same id does not leave the client with results
// that it cannot tell apart, nor one call with the other's signature.
func TestIdsDiffer(t *testing.T) {
	m := NewMemory(Options{})
	var ids []string
	answers := &source{events: []perigee.Event{signed(called("a"), "S1"), signed(called("a"), "S2"), called("a"), called("b"), finish()}}
	for ev, err := range m.Around(answers).Stream(t.Context(), request(perigee.DialectOpenAIChat, flash)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == perigee.EventCall {
			ids = append(ids, ev.Call.ID)
		}
	}
	if len(ids) != 4 || ids[0] != "a" || ids[1] == "a" || ids[2] == "a" || ids[1] == ids[2] || ids[3] != "b" {
		t.Fatalf("ids %q", ids)
	}
	if got := ask(t, m, flash, partCall(ids[0]), partCall(ids[1])); got != "S1 S2" {
		t.Errorf("got %q", got)
	}
}

// A forwarder is a source that sends Messages requests with the client's own bytes.
type forwarder struct{ source }

func (f *forwarder) Forwards(req *perigee.Request) bool {
	return req.Verbatim(perigee.DialectAnthropic)
}

// A request that is forwarded is not decoded, and its upstream learns which thinking is another
// provider's. A request that was rewritten is restored as usual.
func TestForwardedRequestsPassUntouched(t *testing.T) {
	m := NewMemory(Options{})
	hear(t, m.Around(&source{events: []perigee.Event{thought("hm"), signature("G1"), finish()}}), request(perigee.DialectAnthropic, "gemini-3-flash"))
	hear(t, m.Around(&source{events: []perigee.Event{thought("hm"), signature("C1"), finish()}}), request(perigee.DialectAnthropic, "claude-opus-5"))
	decoded := 0
	req := perigee.NewRequest(perigee.Origin{Dialect: perigee.DialectAnthropic}, "claude-opus-5", true, func() (*perigee.Prompt, error) {
		decoded++
		return &perigee.Prompt{}, nil
	})
	f := &forwarder{}
	forwarded, _, ok := m.Around(f).forwarded(t.Context(), req)
	if !ok || decoded > 0 || !forwarded.Verbatim(perigee.DialectAnthropic) {
		t.Fatalf("forwarded %v, decoded %d times", ok, decoded)
	}
	if got := fmt.Sprint(forwarded.Recall.Foreign([]string{"G1", "C1", "unknown"})); got != "map[G1:true]" {
		t.Errorf("foreign: %s", got)
	}
	if _, _, ok := m.Around(f).forwarded(t.Context(), req.WithPrompt(&perigee.Prompt{})); ok {
		t.Error("a rewritten request is forwarded")
	}
	if _, _, ok := m.Around(&source{}).forwarded(t.Context(), req); ok {
		t.Error("an upstream of another dialect gets the client's bytes")
	}
}

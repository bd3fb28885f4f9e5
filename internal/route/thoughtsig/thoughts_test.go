package thoughtsig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
	"perigee/internal/simulator/rules"
)

// say makes a content.
func say(role string, parts ...perigee.Part) perigee.Content {
	return perigee.Content{Role: role, Parts: parts}
}
func hi() perigee.Content { return say(perigee.RoleUser, partText("hi")) }
func model(parts ...perigee.Part) perigee.Content {
	return say(perigee.RoleModel, parts...)
}
func results(ids ...string) perigee.Content {
	c := say(perigee.RoleUser)
	for _, id := range ids {
		c.Parts = append(c.Parts, perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: id, Name: "f", Response: []byte(`{}`)}})
	}
	return c
}

func redacted(data string) perigee.Event {
	return perigee.Event{Kind: perigee.EventRedacted, Signature: data}
}

// converse makes a request of a conversation.
func converse(model string, contents ...perigee.Content) *perigee.Request {
	return requestOf(model, "", &perigee.Prompt{Contents: contents})
}

func requestOf(model, key string, p *perigee.Prompt) *perigee.Request {
	origin := perigee.Origin{ID: "r1", Dialect: perigee.DialectOpenAIChat, Client: perigee.Client{Key: key}}
	return perigee.NewRequest(origin, model, true, func() (*perigee.Prompt, error) { return p, nil })
}

// reaches returns what the upstream gets to see of the model's words, one content after the other:
// (thought|signature), call, "text".
func reaches(t *testing.T, m *Memory, req *perigee.Request) string {
	t.Helper()
	s := &source{}
	hear(t, m.Around(s), req)
	var seen []string
	for _, c := range s.asked.Contents {
		if c.Role != perigee.RoleModel {
			continue
		}
		var parts []string
		for _, p := range c.Parts {
			switch {
			case p.Thought:
				parts = append(parts, "("+plain(&p)+"|"+p.Signature+")")
			case p.Call != nil:
				parts = append(parts, p.Call.ID)
			default:
				parts = append(parts, fmt.Sprintf("%q", plain(&p)))
			}
		}
		seen = append(seen, strings.Join(parts, " "))
	}
	return strings.Join(seen, " / ")
}

func TestThinkingComesBackWithItsCall(t *testing.T) {
	thinking := []perigee.Event{thought("h"), thought("m"), signature("S1"), called("a"), called("b"), finish()}
	believable := "R" + strings.Repeat("XVhQ", 20)
	long := strings.Repeat("x", maxThoughts/2)
	for _, c := range []struct {
		name     string
		events   []perigee.Event
		contents []perigee.Content
		want     string
	}{
		{"the signature after the thinking", thinking, []perigee.Content{hi(), model(partCall("a")), results("a")}, "(hm|S1) a"},
		{"the signature on the thinking", []perigee.Event{thought("h"), signed(thought("m"), "S1"), called("a"), finish()},
			[]perigee.Content{hi(), model(partCall("a")), results("a")}, "(hm|S1) a"},
		{"the same signature on each piece", []perigee.Event{signed(thought("h"), "S1"), signed(thought("m"), "S1"), called("a"), finish()},
			[]perigee.Content{hi(), model(partCall("a")), results("a")}, "(hm|S1) a"},
		{"white space is part of it", []perigee.Event{thought(" h\n"), thought("\n"), signature("S1"), called("a"), finish()},
			[]perigee.Content{hi(), model(partCall("a")), results("a")}, "( h\n\n|S1) a"},
		{"before the text", []perigee.Event{thought("hm"), signature("S1"), text("I look"), called("a"), finish()},
			[]perigee.Content{hi(), model(partText("I look"), partCall("a")), results("a")}, `(hm|S1) "I look" a`},
		{"several blocks in order", []perigee.Event{thought("h"), signature("S1"), thought("m"), signature("S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(partCall("a")), results("a")}, "(h|S1) (m|S2) a"},
		{"what has no signature is left out", []perigee.Event{thought("h"), text("x"), thought("m"), signature("S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(partCall("a")), results("a")}, "(m|S2) a"},
		{"thinking that the provider omits", []perigee.Event{signed(thought(""), "S1"), signed(thought(""), "S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(partCall("a")), results("a")}, "(|S1) (|S2) a"},
		{"redacted thinking in its place", []perigee.Event{thought("h"), signature("S1"), redacted("D1"), thought("m"), signature("S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(partCall("a")), results("a")}, "(h|S1) (|D1) (m|S2) a"},
		{"redacted thinking that the client has", []perigee.Event{redacted("D1"), called("a"), finish()},
			[]perigee.Content{hi(), model(perigee.Part{Kind: perigee.PartRedacted, Thought: true, Signature: "D1"}, partCall("a")), results("a")}, "(|D1) a"},
		{"nothing signed", []perigee.Event{thought("h"), called("a"), finish()}, []perigee.Content{hi(), model(partCall("a")), results("a")}, "a"},
		{"a signature of no thinking", []perigee.Event{text("x"), signature("S1"), called("a"), finish()}, []perigee.Content{hi(), model(partCall("a")), results("a")}, "a"},
		{"parallel calls", thinking, []perigee.Content{hi(), model(partCall("a"), partCall("b")), results("a", "b")}, "(hm|S1) a b"},
		{"by any of the calls", thinking, []perigee.Content{hi(), model(partCall("b")), results("b")}, "(hm|S1) b"},
		{"by the first call that is known", thinking, []perigee.Content{hi(), model(partCall("x"), partCall("b")), results("x", "b")}, "(hm|S1) x b"},
		{"thinking between calls", []perigee.Event{thought("h"), signature("S1"), called("a"), thought("m"), signature("S2"), called("b"), finish()},
			[]perigee.Content{hi(), model(partCall("a"), partCall("b")), results("a", "b")}, "(h|S1) a b"},
		{"the later call alone", []perigee.Event{thought("h"), signature("S1"), called("a"), thought("m"), signature("S2"), called("b"), finish()},
			[]perigee.Content{hi(), model(partCall("b")), results("b")}, "(h|S1) (m|S2) b"},
		{"a call that we had to name", []perigee.Event{thought("hm"), signature("S1"), called(""), finish()},
			[]perigee.Content{hi(), model(partCall("call_r1_1")), results("call_r1_1")}, "(hm|S1) call_r1_1"},
		{"an answer that broke off", []perigee.Event{thought("hm"), signature("S1"), called("a")}, []perigee.Content{hi(), model(partCall("a")), results("a")}, "(hm|S1) a"},

		{"an answer in two contents", thinking, []perigee.Content{hi(), model(partText("x")), model(partCall("a")), results("a")}, `(hm|S1) "x" / a`},
		{"all steps of the turn", thinking, []perigee.Content{hi(), model(partCall("a")), results("a"), model(partCall("x")), results("x"), model(partCall("b")), results("b")}, "(hm|S1) a / x / (hm|S1) b"},
		{"not of an earlier turn", thinking, []perigee.Content{hi(), model(partCall("a")), results("a"), model(partText("x")), hi(), model(partCall("b")), results("b")}, `a / "x" / (hm|S1) b`},
		{"a word of the user's beside the results", thinking, []perigee.Content{hi(), model(partCall("a")), say(perigee.RoleUser, results("a").Parts[0], partText("stop"))}, "(hm|S1) a"},
		{"a picture beside the results", thinking, []perigee.Content{hi(), model(partCall("a")), say(perigee.RoleUser, results("a").Parts[0], perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png"}})}, "(hm|S1) a"},
		{"a message of the user's behind the results", thinking, []perigee.Content{hi(), model(partCall("a")), results("a"), hi(), model(partCall("b")), results("b")}, "(hm|S1) a / (hm|S1) b"},
		{"a conversation that begins with the model", thinking, []perigee.Content{model(partCall("a")), results("a")}, "(hm|S1) a"},

		{"what the client kept stays", thinking, []perigee.Content{hi(), model(with(partThought("hm"), "S1"), partCall("a")), results("a")}, "(hm|S1) a"},
		{"without a call its signature comes back by the text", thinking, []perigee.Content{hi(), model(partThought("hm"), partText("x"))}, `(hm|S1) "x"`},
		{"its signature comes back by the text", thinking, []perigee.Content{hi(), model(partThought("hm"), partCall("a")), results("a")}, "(hm|S1) a"},
		{"what it trimmed makes place", []perigee.Event{thought("hm\n"), signature("S1"), called("a"), finish()},
			[]perigee.Content{hi(), model(with(partThought("hm"), "S1"), partCall("a")), results("a")}, "(hm\n|S1) a"},
		{"what it put together, too", []perigee.Event{thought("h"), signature("S1"), thought("m"), signature("S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(with(partThought("hm"), "S2"), partCall("a")), results("a")}, "(h|S1) (m|S2) a"},
		{"and has no signature of its own", []perigee.Event{thought("h"), signature("S1"), thought("m"), signature("S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(partThought("hm"), partText("x"))}, `(hm|) "x"`},
		{"the signature of another block", []perigee.Event{thought("h"), signature("S1"), thought("m"), signature("S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(with(partThought("h"), "S2"), with(partThought("m"), "S2"), partCall("a")), results("a")}, "(h|S1) (m|S2) a"},
		{"half of it makes place for all", []perigee.Event{thought("h"), signature("S1"), thought("m"), signature("S2"), called("a"), finish()},
			[]perigee.Content{hi(), model(with(partThought("h"), "S1"), partCall("a")), results("a")}, "(h|S1) (m|S2) a"},
		{"thinking between calls that it kept", []perigee.Event{thought("h"), signature("S1"), called("a"), thought("m"), signature("S2"), called("b"), finish()},
			[]perigee.Content{hi(), model(with(partThought("h"), "S1"), partCall("a"), with(partThought("m"), "S2"), partCall("b")), results("a", "b")}, "(h|S1) a (m|S2) b"},
		{"without a signature it makes place", thinking, []perigee.Content{hi(), model(partThought("h…"), partCall("a")), results("a")}, "(hm|S1) a"},
		{"with a forged signature, too", thinking, []perigee.Content{hi(), model(with(partThought("h…"), "forged"), partCall("a")), results("a")}, "(hm|S1) a"},
		{"and with one that only looks right", thinking, []perigee.Content{hi(), model(with(partThought("h…"), believable), partCall("a")), results("a")}, "(hm|S1) a"},
		{"which stays where nothing is known", thinking, []perigee.Content{hi(), model(with(partThought("h…"), believable), partCall("x")), results("x")}, "(h…|" + believable + ") x"},
		{"one of two without a signature", thinking, []perigee.Content{hi(), model(with(partThought("hm"), "S1"), partThought("!"), partCall("a")), results("a")}, "(hm|S1) a"},
		{"thinking behind the call is not before it", thinking, []perigee.Content{hi(), model(partCall("a"), with(partThought("hm"), "S1")), results("a")}, "(hm|S1) a"},
		{"no content is left empty", thinking, []perigee.Content{hi(), model(partCall("a")), model(partThought("h…")), results("a")}, "(hm|S1) a"},

		{"too long to remember", []perigee.Event{thought(long), thought(long), thought("!"), signature("S1"), called("a"), finish()}, []perigee.Content{hi(), model(partCall("a")), results("a")}, "a"},
		{"too long with its signatures", []perigee.Event{thought(long), signature(long), called("a"), finish()}, []perigee.Content{hi(), model(partCall("a")), results("a")}, "a"},
		{"what no store takes", []perigee.Event{thought("h\x00m"), signature("S1"), called("a"), finish()}, []perigee.Content{hi(), model(partCall("a")), results("a")}, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMemory(Options{})
			hear(t, m.Around(&source{events: c.events}), converse(opus, c.contents[0]))
			req := converse(opus, c.contents...)
			before, _ := req.Prompt()
			untouched := string(wire.EncodeRequest(before))
			if got := reaches(t, m, req); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.name == "what the client kept stays" {
				s := &source{}
				if hear(t, m.Around(s), req); s.asked != before {
					t.Error("the prompt was copied for nothing")
				}
			}
			if after := string(wire.EncodeRequest(before)); after != untouched {
				t.Errorf("the client's prompt changed to\n%s", after)
			}
		})
	}
}

// Thinking that is turned off in the midst of a round of tools is refused with thoughts in it.
func TestNoThinkingWhereItIsTurnedOff(t *testing.T) {
	m := NewMemory(Options{})
	hear(t, m.Around(&source{events: []perigee.Event{thought("hm"), signature("S1"), called("a"), finish()}}), converse(opus, hi()))
	for budget, want := range map[int64]string{0: "a", 1024: "(hm|S1) a", -1: "(hm|S1) a"} {
		p := &perigee.Prompt{Contents: []perigee.Content{hi(), model(partCall("a")), results("a")}}
		p.Generation.Thinking = &perigee.Thinking{Budget: &budget}
		if got := reaches(t, m, requestOf(opus, "", p)); got != want {
			t.Errorf("budget %d: got %q, want %q", budget, got, want)
		}
	}
}

// A conversation that goes from one family to the other and back.
func TestThinkingStaysInTheFamily(t *testing.T) {
	m := NewMemory(Options{})
	hear(t, m.Around(&source{events: []perigee.Event{thought("c"), signature("C1"), called("a"), finish()}}), converse(opus, hi()))
	hear(t, m.Around(&source{events: []perigee.Event{thought("g"), signature("G1"), signed(called("b"), "G2"), finish()}}), converse(flash, hi(), model(partCall("a")), results("a")))
	history := []perigee.Content{hi(), model(partCall("a")), results("a"), model(partCall("b")), results("b")}
	for model, want := range map[string]string{
		opus:                  "(c|C1) a / b",
		"claude-sonnet-4-6":   "(c|C1) a / b",
		flash:                 "a / b",
		"gpt-oss-120b-medium": "a / b",
	} {
		if got := reaches(t, m, converse(model, history...)); got != want {
			t.Errorf("%s: got %q, want %q", model, got, want)
		}
	}
	// The same id from both families: each has its own.
	hear(t, m.Around(&source{events: []perigee.Event{thought("g"), signature("G1"), signed(called("a"), "G3"), finish()}}), converse(flash, hi()))
	if got := reaches(t, m, converse(opus, hi(), model(partCall("a")), results("a"))); got != "(c|C1) a" {
		t.Errorf("got %q", got)
	}
	s := &source{}
	if hear(t, m.Around(s), converse(flash, hi(), model(partCall("a")), results("a"))); s.asked.Contents[1].Parts[0].Signature != "G3" {
		t.Errorf("got %q", s.asked.Contents[1].Parts[0].Signature)
	}
}

// The store may hold anything: what is not Claude's thinking is not sent as that.
func TestStoredThinkingIsNotBelievedBlindly(t *testing.T) {
	req := converse(opus, hi(), model(partCall("a")), results("a"))
	p, _ := req.Prompt()
	key := newScope(perigee.Client{}, p, models.Claude.Reasoning()).thoughtsKey("a")
	for _, s := range []perigee.Signature{
		{Value: "2:hm2:S1", Kind: "gemini"}, {Value: "2:hm3:S1", Kind: claude}, {Value: "hm", Kind: claude}, {Value: "", Kind: claude}, {Value: ">", Kind: claude}, {Value: ">" + key, Kind: claude},
	} {
		m := NewMemory(Options{})
		m.put(key, s.Value, s.Kind)
		if got := reaches(t, m, req); got != "a" {
			t.Errorf("%q of %s: got %q", s.Value, s.Kind, got)
		}
	}
}

func TestThinkingOutlastsTheProcess(t *testing.T) {
	store := &shelf{}
	m := NewMemory(Options{})
	m.KeepIn(store)
	hear(t, m.Around(&source{events: []perigee.Event{thought("h"), signature("S1"), thought("m"), signature("S2"), called("a"), called("b"), called("c"), finish()}}), converse(opus, hi()))
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, s := range store.rows {
		if s.Kind != "claude" {
			t.Errorf("%s has signature %q", s.Key, s.Kind)
		}
		if strings.HasPrefix(s.Key, "b:") && !strings.HasPrefix(s.Value, ">") {
			whole++
		}
	}
	if whole != 1 {
		t.Errorf("the thinking was written %d times", whole)
	}
	for ids, queries := range map[string]int{"a b": 1, "c": 2} {
		m = NewMemory(Options{})
		m.KeepIn(store)
		store.queries = nil
		var calls []perigee.Part
		for id := range strings.FieldsSeq(ids) {
			calls = append(calls, partCall(id))
		}
		for range 3 {
			if got := reaches(t, m, converse(opus, hi(), model(calls...), results(strings.Fields(ids)...))); got != "(h|S1) (m|S2) "+ids {
				t.Errorf("got %q", got)
			}
		}
		if len(store.queries) != queries {
			t.Errorf("%s: asked the store %d times: %q", ids, len(store.queries), store.queries)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// What is put back is judged by the rules of the gateway, in all steps of a turn and over several
// contents.
func TestTheGatewayTakesWhatComesBack(t *testing.T) {
	m := NewMemory(Options{})
	for _, id := range []string{"a", "b", "c"} {
		hear(t, m.Around(&source{events: []perigee.Event{thought("h"), signature(rules.ClaudeSignature), thought("m" + id), signature(rules.ClaudeSignature), text("x"), called(id), finish()}}), converse(opus, hi()))
	}
	table := rules.ModelTable()
	at := slices.IndexFunc(table, func(m rules.Model) bool { return m.ID == opus })
	for name, contents := range map[string][]perigee.Content{
		"one step":     {hi(), model(partCall("a")), results("a")},
		"three steps":  {hi(), model(partText("x"), partCall("a")), results("a"), model(partCall("b")), results("b"), model(partCall("c")), results("c")},
		"two contents": {hi(), model(partText("x")), model(partCall("a")), results("a")},
		"second turn":  {hi(), model(partCall("a")), results("a"), model(partText("x")), hi(), model(partCall("b")), results("b")},
	} {
		p := &perigee.Prompt{Contents: contents}
		p.Generation.MaxOutputTokens = new(int64(8192))
		p.Generation.Thinking = &perigee.Thinking{Include: new(true), Budget: new(int64(2048))}
		check := func(p *perigee.Prompt) *rules.Refusal {
			body := fmt.Sprintf(`{"project":"p","model":%q,"request":%s}`, opus, wire.EncodeRequest(p))
			_, refusal := rules.Check(rules.Input{Surface: rules.V1Internal, Model: table[at], Body: []byte(body), Switches: rules.DefaultSwitches(), Verify: rules.ExampleVerify})
			return refusal
		}
		if refusal := check(p); refusal == nil || refusal.Rule != "claude.thinking_first" {
			t.Errorf("%s: as the client sent it: %+v", name, refusal)
		}
		s := &source{}
		hear(t, m.Around(s), requestOf(opus, "", p))
		if refusal := check(s.asked); refusal != nil {
			t.Errorf("%s: %+v", name, refusal)
		}
	}
}

func TestThoughtsReadWhatTrainsWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr thinking
		var want []perigee.Part
		for range rapid.IntRange(1, 4).Draw(t, "blocks") {
			p := perigee.Part{Thought: true, Text: perigee.Plain(rapid.StringMatching(`[a-z0-9: >\n…]{1,20}`).Draw(t, "text")), Signature: rapid.StringMatching(`[A-Za-z0-9+/:>]{1,20}`).Draw(t, "signature")}
			tr.add(plain(&p))
			tr.close(p.Signature, true)
			want = append(want, p)
		}
		m := NewMemory(Options{})
		tr.remember(m, "k", claude)
		got := thoughts(m.find(t.Context(), []string{"k"})["k"].Value)
		if !slices.EqualFunc(got, want, func(a, b perigee.Part) bool { return a.Text == b.Text && a.Signature == b.Signature && a.Thought }) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func FuzzThoughts(f *testing.F) {
	for _, value := range []string{"", "2:hm2:S1", "2:hm2:S11:x1:y", ">b::a", "2:hm", "9:hm2:S1", "-1:2:S1", "99999999999999999999:x", ":", "2", "+2:hm2:S1"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		size := 0
		for _, p := range thoughts(value) {
			size += p.Text.Size() + len(p.Signature)
		}
		if size > len(value) {
			t.Errorf("%d bytes out of %d", size, len(value))
		}
	})
}

// An agent deep in its turn: 100 calls, 200 KB, none of the thinking kept.
func BenchmarkThinkingComesBack(b *testing.B) {
	for _, ids := range []string{"toolu_vrtx_01%022d", "call_%d"} {
		b.Run(fmt.Sprintf(ids, 0), func(b *testing.B) {
			m := NewMemory(Options{})
			contents := []perigee.Content{hi()}
			for i := range 100 {
				id := fmt.Sprintf(ids, i)
				events := []perigee.Event{thought(strings.Repeat("let me see ", 90)), signature(strings.Repeat("S", 400)), called(id), finish()}
				for range m.Around(&source{events: events}).Stream(b.Context(), converse(opus, hi())) {
				}
				step := model(partText(strings.Repeat("I look ", 50)), partCall(id))
				step.Parts[1].Call.Args = []byte(`{"path":"` + strings.Repeat("x", 150) + `"}`)
				result := results(id)
				result.Parts[0].Response.Response = []byte(`{"output":"` + strings.Repeat("y", 1500) + `"}`)
				contents = append(contents, step, result)
			}
			p := &perigee.Prompt{System: &perigee.Content{Parts: []perigee.Part{partText(strings.Repeat("be good ", 2000))}}, Contents: contents}
			if ids == "call_%d" {
				p.System = nil // as when they were remembered
			}
			if out, _ := m.restore(b.Context(), p, newScope(perigee.Client{}, p, models.Claude.Reasoning())); !out.Contents[1].Parts[0].Thought || !out.Contents[199].Parts[0].Thought {
				b.Fatal("nothing came back")
			}
			b.SetBytes(int64(len(wire.EncodeRequest(p))))
			b.ReportAllocs()
			for b.Loop() {
				m.restore(b.Context(), p, newScope(perigee.Client{}, p, models.Claude.Reasoning()))
			}
		})
	}
}

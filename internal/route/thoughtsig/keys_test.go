package thoughtsig

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
)

// Claude's ids are one of a kind; Gemini's have eight letters.
const claudesID = "toolu_vrtx_01AbCdEfGhIjKlMnOpQrSt"

// A guessed id or text must not give what was remembered for another key.
func TestOwnersDoNotMix(t *testing.T) {
	long := strings.Repeat("what the model said ", 20)
	m := NewMemory(Options{})
	prompt := func(parts ...perigee.Part) *perigee.Prompt {
		return &perigee.Prompt{Contents: []perigee.Content{hi(), model(parts...), results("x")}}
	}
	first := &perigee.Prompt{Contents: []perigee.Content{hi()}}
	hear(t, m.Around(&source{events: []perigee.Event{thought("hm"), signature("C1"), called(claudesID), finish()}}), requestOf(opus, "alice", first))
	hear(t, m.Around(&source{events: []perigee.Event{text(long), signature("G1"), signed(called("call_1"), "G2"), finish()}}), requestOf(flash, "alice", first))
	for key, want := range map[string][2]string{
		"alice":     {"(hm|C1) " + claudesID, "G1 G2"},
		"bob":       {claudesID, " "},
		"":          {claudesID, " "},
		"alice:bob": {claudesID, " "},
	} {
		if got := reaches(t, m, requestOf(opus, key, prompt(partCall(claudesID)))); got != want[0] {
			t.Errorf("%q: got %q, want %q", key, got, want[0])
		}
		s := &source{}
		hear(t, m.Around(s), requestOf(flash, key, prompt(partText(long), partCall("call_1"))))
		if parts := s.asked.Contents[1].Parts; parts[0].Signature+" "+parts[1].Signature != want[1] {
			t.Errorf("%q: got %q and %q, want %q", key, parts[0].Signature, parts[1].Signature, want[1])
		}
	}
}

func TestConversationsDoNotMix(t *testing.T) {
	const ours = "call_abcdefghij234567_1"
	long := strings.Repeat("what the model said ", 20)
	paste := strings.Repeat("x", 100_000)
	system := func(parts ...perigee.Part) *perigee.Content { return &perigee.Content{Parts: parts} }
	user := func(parts ...perigee.Part) perigee.Content { return say(perigee.RoleUser, parts...) }
	began := &perigee.Prompt{System: system(partText("be good")), Contents: []perigee.Content{user(partText(paste), partText("which?"))}}
	history := model(partCall(claudesID), partCall(ours), partCall("call_1"), partText("Done."), partText(long))
	m := NewMemory(Options{})
	events := []perigee.Event{signed(called(claudesID), "S1"), signed(called(ours), "S2"), signed(called("call_1"), "S3"), signed(text("Done."), "S4"), signed(called("x"), ""), signed(text(long), "S5"), finish()}
	hear(t, m.Around(&source{events: events}), requestOf(flash, "alice", began))
	const all, unique = "S1 S2 S3 S4 S5", "S1 S2   S5"
	for _, c := range []struct {
		name   string
		system *perigee.Content
		begin  []perigee.Content
		want   string
	}{
		{"the same", began.System, began.Contents, all},
		{"goes on", began.System, []perigee.Content{began.Contents[0], model(partText("a")), user(partText("and?"))}, all},
		{"is told more", system(partText("be good"), partText("be brief")), began.Contents, all},
		{"another instruction", system(partText("be bad")), began.Contents, unique},
		{"no instruction", nil, began.Contents, unique},
		{"another question", began.System, []perigee.Content{user(partText(paste), partText("why?"))}, unique},
		{"another length", began.System, []perigee.Content{user(partText(paste+"x"), partText("which?"))}, unique},
		{"another end", began.System, []perigee.Content{user(partText(paste[1:]+"y"), partText("which?"))}, unique},
		{"cut differently", began.System, []perigee.Content{user(partText(paste+"which?"), partText(""))}, unique},
		{"shortened from its beginning", began.System, []perigee.Content{user(partText("a summary"))}, unique},
	} {
		s := &source{}
		hear(t, m.Around(s), requestOf(flash, "alice", &perigee.Prompt{System: c.system, Contents: append(c.begin[:len(c.begin):len(c.begin)], history)}))
		var got []string
		for _, p := range s.asked.Contents[len(c.begin)].Parts {
			got = append(got, p.Signature)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOneOfAKind(t *testing.T) {
	for id, want := range map[string]bool{
		claudesID: true, "toolu_01AbCdEfGhIjKlMnOp": true, "toolu_1": false,
		"call_abcdefghij234567_12": true, "call_abcdefghij234567": false, "call_abcdefghij234567_": false, "call_abcdefghij234567_x": false, "call_read_file_1": false, "call_1": false,
		"aB3dE6gH": false, "": false, "functions.read:0": false,
	} {
		if got := isUnique(id); got != want {
			t.Errorf("%q: got %v", id, got)
		}
	}
}

// No two of these may share an entry, and every store must take them.
func TestKeysAreTold(t *testing.T) {
	p := &perigee.Prompt{Contents: []perigee.Content{hi()}}
	seen := map[string]string{}
	for _, owner := range []string{"", "a", "b", "a:", "a."} {
		s := newScope(perigee.Client{Key: owner}, p, models.Claude.Reasoning())
		for _, id := range []string{claudesID, claudesID + ":" + claudesID, "a", ":a", "a:", strings.Repeat("x", 200), strings.Repeat("x", 201), "a\x00", "a\xff"} {
			for _, key := range []string{s.callKey(id), s.thoughtsKey(id)} {
				if before, ok := seen[key]; ok {
					t.Errorf("%q is the key of %s and of %q, %q", key, before, owner, id)
				}
				seen[key] = owner + ", " + id
				if !storable(key) {
					t.Errorf("%q cannot be stored", key)
				}
			}
		}
	}
}

// In a conversation of very many parts only the last ones are looked up; earlier ones keep the
// signatures that they came with.
func TestOnlyTheLastPartsAreLookedUp(t *testing.T) {
	parts := make([]perigee.Part, maxPlaces+100)
	for i := range parts {
		parts[i] = perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: claudesID, Name: "f"}, Signature: "c2VhbA=="}
	}
	p := &perigee.Prompt{Contents: []perigee.Content{hi(), model(parts...), results("x")}}
	list := NewMemory(Options{}).listPlaces(p, newScope(perigee.Client{}, p, models.Gemini.Reasoning()))
	if len(list) != len(parts) {
		t.Fatalf("%d places for %d parts with signatures", len(list), len(parts))
	}
	for i, at := range list {
		if at.part != i || (at.own != "") != (i >= 100) {
			t.Fatalf("place %d: %+v", i, at)
		}
	}
}

// A question of very many parts is digested part by part. The digest stays what it was, since
// signatures are stored by it.
func TestMarkOfALongQuestionTakesNoMemory(t *testing.T) {
	question := perigee.Content{Role: perigee.RoleUser}
	all := ""
	for _, text := range []string{strings.Repeat("a", sample/2), strings.Repeat("b", 3*sample)} {
		question.Parts = append(question.Parts, perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(text)})
		all += fmt.Sprintf("%d:%s%s", len(text), text[:min(len(text), sample)], text[max(0, len(text)-sample):])
	}
	mark := func() string {
		return newScope(perigee.Client{}, &perigee.Prompt{Contents: []perigee.Content{question}}, models.Claude.Reasoning()).conversationTag()
	}
	if got, want := mark(), fmt.Sprintf("%x", sha256.Sum256([]byte(all)))[:tagLength]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	question.Parts = slices.Repeat(question.Parts, 1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mark()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
		t.Errorf("it took %d bytes", got)
	}
}

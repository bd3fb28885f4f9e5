package hold

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee"
)

// A scripted upstream sends its events, and records whether it was left before their end.
type scripted struct {
	events []perigee.Event
	err    error
	left   bool
	asked  *perigee.Request
}

func (s *scripted) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	s.asked = req
	return func(yield func(perigee.Event, error) bool) {
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

func request(stops ...string) *perigee.Request {
	req := perigee.NewRequest(perigee.Origin{Log: &perigee.CallLog{}}, "m", false, func() (*perigee.Prompt, error) {
		said := perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("eight by")}}}
		return &perigee.Prompt{Contents: []perigee.Content{said}, Generation: perigee.Generation{Stop: stops}}, nil
	})
	req.ReportStopSequence = true
	return req
}

func text(s string) perigee.Event { return perigee.Event{Kind: perigee.EventText, Text: s} }
func more(s string) perigee.Event { return perigee.Event{Kind: perigee.EventText, Text: s, More: true} }

var (
	priced   = perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 7, Output: 5}}
	finished = perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "MAX_TOKENS"}}
	call     = perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "look"}}
	thinking = perigee.Event{Kind: perigee.EventThinking, Text: "END"}
)

// answerLine is an answer as one line: texts joined, other events in brackets.
func answerLine(t *testing.T, up perigee.Upstream, req *perigee.Request) string {
	t.Helper()
	var b strings.Builder
	noted := 0
	for ev, err := range AtStopSequences(up).Stream(t.Context(), req) {
		for _, note := range req.Log.Notes()[noted:] {
			b.WriteString("[" + note.String() + "]")
			noted++
		}
		switch {
		case err != nil:
			b.WriteString("[" + err.Error() + "]")
		case ev.Kind == perigee.EventText:
			b.WriteString(ev.Text)
		case ev.Kind == perigee.EventUsage:
			b.WriteString(fmt.Sprintf("[usage %d %d]", ev.Usage.Input, ev.Usage.Output))
		case ev.Kind == perigee.EventThinking:
			b.WriteString("[thinking]")
		case ev.Kind == perigee.EventCall:
			b.WriteString("[call]")
		case ev.Kind == perigee.EventFinish:
			b.WriteString("[" + ev.Finish.Reason + " " + ev.Finish.Stop + "]")
		}
	}
	return b.String()
}

func TestAnswersEndAtAStopSequence(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		stops  []string
		events []perigee.Event
		err    error
		want   string
		left   bool
	}{
		{"met", []string{"END"}, []perigee.Event{more("one END two"), priced, text("three"), finished}, nil, "one [usage 7 5][STOP END]", true},
		{"met, and the price comes with the end", []string{"END"}, []perigee.Event{text("one END two"), text("three"), finished, priced}, nil, "one [estimated usage][usage 2 3][STOP END]", true},
		{"met behind thinking and a call", []string{"END"}, []perigee.Event{thinking, call, text("END"), text("x"), finished, priced}, nil, "[thinking][call][estimated usage][usage 2 3][STOP END]", true},
		{"met behind a price", []string{"END"}, []perigee.Event{text("one "), priced, text("two and a half of three END"), text("x"), finished, priced}, nil, "one [usage 7 5]two and a half of three [estimated usage][usage 7 8][STOP END]", true},
		{"met where more was promised", []string{"END"}, []perigee.Event{more("END"), {}, text("x"), finished, priced}, nil, "[estimated usage][usage 2 1][STOP END]", true},
		{"in pieces", []string{"END"}, []perigee.Event{text("one E"), text("N"), more("D two"), priced, text("three")}, nil, "one [usage 7 5][STOP END]", true},
		{"the first to be complete", []string{"abcd", "bc"}, []perigee.Event{more("xabcd"), priced, text("x")}, nil, "xa[usage 7 5][STOP bc]", true},
		{"the longest of two", []string{"bc", "abc"}, []perigee.Event{more("xabc"), priced, text("x")}, nil, "x[usage 7 5][STOP abc]", true},
		{"begun anew inside itself", []string{"aab"}, []perigee.Event{text("aa"), more("aab"), priced, text("x")}, nil, "aa[usage 7 5][STOP aab]", true},
		{"not met", []string{"END"}, []perigee.Event{text("the EN"), priced, finished}, nil, "the [usage 7 5]EN[MAX_TOKENS ]", false},
		{"no finish at all", []string{"END"}, []perigee.Event{text("the EN")}, nil, "the EN", false},
		{"thoughts do not count", []string{"END"}, []perigee.Event{thinking, text("one"), finished}, nil, "[thinking]one[MAX_TOKENS ]", false},
		{"not across a call", []string{"END"}, []perigee.Event{text("E"), call, text("ND"), finished}, nil, "E[call]ND[MAX_TOKENS ]", false},
		{"across a flush", []string{"END"}, []perigee.Event{more("one E"), {}, more("ND two"), priced}, nil, "one [usage 7 5][STOP END]", true},
		{"across probabilities", []string{"END"}, []perigee.Event{text("E"), {Kind: perigee.EventLogprobs}, more("ND"), priced}, nil, "[usage 7 5][STOP END]", true},
		{"broken behind it", []string{"END"}, []perigee.Event{more("one END")}, broken, "one [estimated usage][usage 2 2][STOP END]", false},
		{"broken before it", []string{"END"}, []perigee.Event{text("one EN")}, broken, "one EN[broken]", false},
		{"an empty one before another", []string{"", "END"}, []perigee.Event{more("one END two"), priced, text("three"), finished}, nil, "one [usage 7 5][STOP END]", true},
		{"an empty one is none", []string{""}, []perigee.Event{text("one"), finished}, nil, "one[MAX_TOKENS ]", false},
	} {
		up := &scripted{events: test.events, err: test.err}
		if got := answerLine(t, up, request(test.stops...)); got != test.want || up.left != test.left {
			t.Errorf("%s: got %q, left early: %v", test.name, got, up.left)
		}
	}
}

func TestSignaturesOnTextAreNotLost(t *testing.T) {
	signed := func(text string) perigee.Event {
		return perigee.Event{Kind: perigee.EventText, Text: text, Signature: "sig"}
	}
	for _, test := range []struct {
		events []perigee.Event
		want   string
	}{
		{[]perigee.Event{text("a"), signed("")}, "a(sig)"},
		{[]perigee.Event{signed("the EN"), finished}, "the EN(sig)"},
		{[]perigee.Event{signed("a END b"), finished}, "a "},
	} {
		got := ""
		for ev := range AtStopSequences(&scripted{events: test.events}).Stream(t.Context(), request("END")) {
			if got += ev.Text; ev.Signature != "" {
				got += "(" + ev.Signature + ")"
			}
		}
		if got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestProviderIsAskedWithoutStopSequences(t *testing.T) {
	up := &scripted{}
	req := request("END")
	answerLine(t, up, req)
	asked, _ := up.asked.Prompt()
	if asked.Generation.Stop != nil || !up.asked.Stream {
		t.Errorf("asked with %q, as a stream: %v", asked.Generation.Stop, up.asked.Stream)
	}
	if own, _ := req.Prompt(); len(own.Generation.Stop) != 1 || req.Stream {
		t.Error("the client's own request was changed")
	}
}

func TestRequestsWithoutReportPassUnchanged(t *testing.T) {
	up := &scripted{events: []perigee.Event{text("one END two")}}
	req := request("END")
	req.ReportStopSequence = false
	if got := answerLine(t, up, req); got != "one END two" || up.asked != req {
		t.Errorf("got %q", got)
	}
}

// A limited upstream takes a limited number of stop sequences.
type limited struct {
	scripted
	limit int
}

func (l *limited) StopLimit(*perigee.Request) int { return l.limit }

// Sequences that the provider takes are not searched for, and do not count.
func TestSequencesToMatchAreLimited(t *testing.T) {
	for _, c := range []struct {
		limit, count, length int
		refused              bool
	}{
		{0, maxStops, 1, false},
		{0, maxStops + 1, 1, true},
		{5, maxStops + 5, 1, false},
		{5, maxStops + 6, 1, true},
		{0, 2, maxStopBytes / 2, false},
		{0, 2, maxStopBytes/2 + 1, true},
	} {
		up := &limited{scripted: scripted{events: []perigee.Event{text("one")}}, limit: c.limit}
		req := request(slices.Repeat([]string{strings.Repeat("b", c.length)}, c.count)...)
		req.ReportStopSequence = false
		var err error
		for _, err = range AtStopSequences(up).Stream(t.Context(), req) {
		}
		e, ok := errors.AsType[*perigee.Error](err)
		if ok != c.refused || ok && (e.Class != perigee.ClassInvalid || up.asked != nil) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestSequencesBeyondTheLimitAreMatched(t *testing.T) {
	two := int64(2)
	for _, test := range []struct {
		limit      int
		candidates *int64
		sent, want string
		stream     bool
	}{
		{0, nil, "[]", "o[usage 7 5][STOP n]", true},
		{2, nil, "[b c]", "o[usage 7 5][STOP n]", true},
		{3, nil, "[b c n]", "one c[usage 7 5][MAX_TOKENS ]", false},
		{9, nil, "[b c n]", "one c[usage 7 5][MAX_TOKENS ]", false},
		{2, &two, "[b c n]", "one c[usage 7 5][MAX_TOKENS ]", false}, // the sequence is that of one candidate
	} {
		up := &limited{scripted{events: []perigee.Event{more("one c"), priced, finished}}, test.limit}
		req := request("b", "c", "n")
		req.ReportStopSequence = false
		prompt, err := req.Prompt()
		if err != nil {
			t.Fatal(err)
		}
		prompt.Generation.Candidates = test.candidates
		got := answerLine(t, up, req)
		asked, _ := up.asked.Prompt()
		if sent := fmt.Sprint(asked.Generation.Stop); got != test.want || sent != test.sent || up.asked.Stream != test.stream {
			t.Errorf("limit %d: got %q, sent %s, as a stream: %v", test.limit, got, sent, up.asked.Stream)
		}
	}
}

// TestCutsLikeASearchInTheWholeText holds the watch against the plain way: look through the text so
// far after each byte.
func TestCutsLikeASearchInTheWholeText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 5, -1)
		stops := rapid.SliceOfN(letters, 1, 3).Draw(t, "stops")
		pieces := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 6, -1), 0, 8).Draw(t, "pieces")
		wantText, wantStop := search(strings.Join(pieces, ""), stops)

		var events []perigee.Event
		for _, p := range pieces {
			events = append(events, text(p))
		}
		var gotText, gotStop string
		for ev := range AtStopSequences(&scripted{events: events}).Stream(context.Background(), request(stops...)) {
			gotText += ev.Text
			if ev.Finish != nil {
				gotStop = ev.Finish.Stop
			}
		}
		if gotText != wantText || gotStop != wantStop {
			t.Fatalf("%q until %q: got %q and %q, want %q and %q", pieces, stops, gotText, gotStop, wantText, wantStop)
		}
	})
}

func search(whole string, stops []string) (before, met string) {
	for end := range len(whole) + 1 {
		for _, s := range stops {
			if strings.HasSuffix(whole[:end], s) && len(s) > len(met) {
				met = s
			}
		}
		if met != "" {
			return whole[:end-len(met)], met
		}
	}
	return whole, ""
}

package roundtrip

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/testing/perigeetest"
)

type wholeAnswer interface {
	Add(ev *perigee.Event)
	Bytes() []byte
}

// wholeAnswers returns a new collector of each dialect.
func wholeAnswers(t *testing.T) map[string]wholeAnswer {
	req, err := responses.DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","input":"hi","store":false}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]wholeAnswer{
		"chat":      chat.NewCollector(chat.Answer{ID: "chatcmpl-1"}),
		"anthropic": anthropic.NewCollector(&anthropic.Answer{ID: "1"}),
		"gemini":    &gemini.Collector{},
		"responses": req.NewCollector("1", time.Time{}, nil),
	}
}

// A long answer in one piece costs its text and what is written of it. Whatever is allocated
// counts, garbage too.
func TestCollectorsKeepTextOnce(t *testing.T) {
	perigeetest.Unraced(t)
	const size = 4 << 20
	for _, piece := range []string{"a", strings.Repeat("a", 1000), strings.Repeat("a", 1<<20)} {
		for dialect, c := range wholeAnswers(t) {
			ev := &perigee.Event{Kind: perigee.EventText, Text: piece}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range size / len(piece) {
				c.Add(ev)
			}
			got := c.Bytes()
			runtime.ReadMemStats(&after)
			if len(got) < size-len(piece) {
				t.Errorf("%s: %d bytes", dialect, len(got))
			}
			if times := float64(after.TotalAlloc-before.TotalAlloc) / size; times > 3.5 {
				t.Errorf("%s: %.1f times the text in pieces of %d", dialect, times, len(piece))
			}
		}
	}
}

// Where the content is cut makes no difference to the answer.
func TestCollectorsWithLongContent(t *testing.T) {
	search := &perigee.Event{Kind: perigee.EventGrounding, Grounding: &perigee.Grounding{Queries: []string{"q"}, Sources: []perigee.Source{{URL: "https://a.example", Title: "t"}}},
		Raw: []byte(`{"webSearchQueries":["q"]}`)}
	for _, before := range []int{0, 700_000} {
		for _, text := range []int{10, 600_000, 1_300_000} {
			events := []*perigee.Event{{Kind: perigee.EventStart, Model: "m"}}
			for range before / 1000 {
				events = append(events, &perigee.Event{Kind: perigee.EventThinking, Text: strings.Repeat("t", 1000)})
			}
			if before > 0 {
				events = append(events, &perigee.Event{Kind: perigee.EventSignature, Signature: "c2VhbA=="})
			}
			for range text / 10 {
				events = append(events, &perigee.Event{Kind: perigee.EventText, Text: "\"ä\n567890"})
			}
			events = append(events, &perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "c", Name: "f"}}, search,
				&perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}})
			for dialect, c := range wholeAnswers(t) {
				for _, ev := range events {
					c.Add(ev)
				}
				got := c.Bytes()
				if !json.Valid(got) || strings.Count(string(got), `567890`) != text/10 || dialect != "chat" && !strings.Contains(string(got), `"q"`) {
					t.Errorf("%s, %d, %d: %d bytes, valid %v", dialect, before, text, len(got), json.Valid(got))
				}
				if at := strings.Index(string(got), `"q"`); dialect == "anthropic" && at > strings.Index(string(got), `567890`) {
					t.Errorf("%s, %d, %d: the search stands at %d, behind its text", dialect, before, text, at)
				}
			}
		}
	}
}

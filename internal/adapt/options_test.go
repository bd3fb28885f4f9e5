package adapt_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/dialect/gemini"
)

// Parameters that Google's APIs do not have are dropped with the client's name for them, and values
// that do not fit are mapped, for both of these APIs alike.
func TestOptionsOfOtherAPIs(t *testing.T) {
	hi := []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("hi")}}}}
	for _, c := range []struct {
		dialect    perigee.Dialect
		generation perigee.Generation
		want       string // generationConfig
		notes      string
	}{
		{perigee.DialectOpenAIChat, perigee.Generation{LogitBias: json.RawMessage(`{"5":1}`), Verbosity: "low", ServiceTier: "flex"}, ``,
			"dropped logit_bias; dropped verbosity; dropped service_tier"},
		{perigee.DialectOpenAIChat, perigee.Generation{LogitBias: json.RawMessage(`{}`), Verbosity: "medium", ServiceTier: "auto", ParallelCalls: new(true)}, ``, ""},
		{perigee.DialectOpenAIResponses, perigee.Generation{Verbosity: "high", ParallelCalls: new(false)}, ``, "dropped parallel_tool_calls; dropped text.verbosity"},
		{perigee.DialectAnthropic, perigee.Generation{ServiceTier: "standard_only", ParallelCalls: new(false)}, ``, "dropped tool_choice.disable_parallel_tool_use"},
		{perigee.DialectOpenAIChat, perigee.Generation{Seed: new(int64(9007199254740993))}, `{"seed":2097153}`, "mapped seed 9007199254740993 to 2097153"},
		{perigee.DialectOpenAIChat, perigee.Generation{Seed: new(int64(-1))}, `{"seed":-1}`, ""},
		{perigee.DialectOpenAIChat, perigee.Generation{Stop: []string{"1", "2", "3", "4", "5", "6"}}, `{"stopSequences":["1","2","3","4","5"]}`, "dropped stop sequences after the fifth"},
		{perigee.DialectGemini, perigee.Generation{Stop: []string{"1", "2", "3", "4", "5", "6"}}, `{"stopSequences":["1","2","3","4","5","6"]}`, ""},
		{perigee.DialectOpenAIChat, perigee.Generation{Thinking: &perigee.Thinking{Level: "max"}}, `{"thinkingConfig":{"thinkingLevel":"high"}}`, "mapped reasoning_effort max to high"},
		{perigee.DialectAnthropic, perigee.Generation{Thinking: &perigee.Thinking{Level: "xhigh"}}, `{"thinkingConfig":{"thinkingLevel":"high"}}`, "mapped output_config.effort xhigh to high"},
		{perigee.DialectOpenAIResponses, perigee.Generation{Thinking: &perigee.Thinking{Level: "xhigh"}}, `{"thinkingConfig":{"thinkingLevel":"high"}}`, "mapped thinking level xhigh to high"},
	} {
		p := &perigee.Prompt{Dialect: c.dialect, Contents: hi, Generation: c.generation}
		before := fmt.Sprintf("%+v", *p)
		spec := models.Of("gemini-3-flash-preview")
		official, _, notes := adapt.ForGemini(p, spec)
		gateway := adapt.ForAntigravity(p, spec, adapt.AntigravityOptions{})
		for api, got := range map[string]struct {
			prompt *perigee.Prompt
			notes  []perigee.Note
		}{"official": {official, notes}, "gateway": {gateway.Prompt, gateway.Notes}} {
			_, config, _ := strings.Cut(string(gemini.EncodeRequest(got.prompt)), `"generationConfig":`)
			if config = strings.TrimSuffix(config, "}"); config != c.want || joined(got.notes) != c.notes {
				t.Errorf("%s, %+v: got %s with notes %q, want %s with %q", api, c.generation, config, joined(got.notes), c.want, c.notes)
			}
		}
		if after := fmt.Sprintf("%+v", *p); after != before {
			t.Errorf("the prompt was changed: %s", after)
		}
	}
}

// Instructions inside a conversation move to its beginning, names are dropped, and the user begins.
// The notes are in the words of the client's API.
func TestConversationsOfOtherAPIs(t *testing.T) {
	turn := func(role, text string) perigee.Content {
		return perigee.Content{Role: role, Parts: []perigee.Part{{Text: perigee.Plain(text)}}}
	}
	named := turn(perigee.RoleUser, "hi")
	named.Name = "bob"
	for _, c := range []struct {
		dialect  perigee.Dialect
		contents []perigee.Content
		want     string
		notes    string
	}{
		{perigee.DialectOpenAIChat, []perigee.Content{turn("user", "a"), turn("system", "b"), turn("model", "c"), turn("developer", "d")},
			`{"systemInstruction":{"parts":[{"text":"s"},{"text":"b"},{"text":"d"}]},"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"c"}]}]}`,
			"mapped messages[].role system inside the conversation; mapped messages[].role developer inside the conversation"},
		{perigee.DialectOpenAIResponses, []perigee.Content{turn("user", "a"), turn("developer", "b")},
			`{"systemInstruction":{"parts":[{"text":"s"},{"text":"b"}]},"contents":[{"role":"user","parts":[{"text":"a"}]}]}`, "mapped input[].role developer"},
		{perigee.DialectAnthropic, []perigee.Content{turn("user", "a"), turn("system", "b")},
			`{"systemInstruction":{"parts":[{"text":"s"},{"text":"b"}]},"contents":[{"role":"user","parts":[{"text":"a"}]}]}`, ""},
		{perigee.DialectGemini, []perigee.Content{turn("user", "a"), turn("system", "b")},
			`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"system","parts":[{"text":"b"}]}]}`, ""},
		{perigee.DialectOpenAIChat, []perigee.Content{named},
			`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, "dropped messages[].name"},
		{perigee.DialectOpenAIChat, []perigee.Content{turn("model", "a"), turn("user", "b")},
			`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":""}]},{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"b"}]}]}`,
			"repaired messages that begin with role assistant"},
	} {
		p := &perigee.Prompt{Dialect: c.dialect, System: &perigee.Content{Parts: []perigee.Part{{Text: perigee.Plain("s")}}}, Contents: c.contents}
		got, _, notes := adapt.ForGemini(p, models.Of("gemini-3-flash-preview"))
		if body := string(gemini.EncodeRequest(got)); body != c.want || joined(notes) != c.notes {
			t.Errorf("%s: got  %s (%s)\nwant %s (%s)", c.dialect, body, joined(notes), c.want, c.notes)
		}
	}
}

func joined(notes []perigee.Note) string {
	words := make([]string, len(notes))
	for i, n := range notes {
		words[i] = n.String()
	}
	return strings.Join(words, "; ")
}

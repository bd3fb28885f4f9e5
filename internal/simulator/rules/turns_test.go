package rules

import "testing"

// What stands beside results may end the model's turn or not, but while results wait for the model
// its last step is judged whatever stands beside them.
func TestWhatStandsBesideResults(t *testing.T) {
	const (
		ask     = `user [{"text":"a"}]`
		thought = `{"text":"hm","thought":true,"thoughtSignature":"` + ClaudeSignature + `"},`
		call    = `{"functionCall":{"id":"t1","name":"f","args":{}}}`
		second  = `{"functionCall":{"id":"t2","name":"f","args":{}}}`
		result  = `{"functionResponse":{"id":"t1","name":"f","response":{}}}`
		other   = `{"functionResponse":{"id":"t2","name":"f","response":{}}}`
		picture = `,{"inlineData":{"mimeType":"image/png","data":"aGk="}}`
		words   = `,{"text":"b"}`
	)
	signed := `{"functionCall":{"id":"t1","name":"f","args":{}},"thoughtSignature":"` + GeminiSignature + `"}`
	claude := func(turns ...string) Example {
		return onClaude(`{` + turnsJSON(turns...) + `,"generationConfig":{"maxOutputTokens":8192,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2048}}}`)
	}
	gemini := func(turns ...string) Example { return internal(`{` + turnsJSON(turns...) + `}`) }
	for _, c := range []struct {
		name                     string
		example                  Example
		media, anything, nothing string // the rule that refuses when a turn continues with it
	}{
		{"Claude, a picture", claude(ask, `model [`+call+`]`, `user [`+result+picture+`]`), "claude.thinking_first", "claude.thinking_first", "claude.thinking_first"},
		{"Claude, a picture in a content of its own", claude(ask, `model [`+call+`]`, `user [`+result+`]`, `user [`+picture[1:]+`]`), "claude.thinking_first", "claude.thinking_first", "claude.thinking_first"},
		{"Claude, a text", claude(ask, `model [`+call+`]`, `user [`+result+words+`]`), "claude.thinking_first", "claude.thinking_first", "claude.thinking_first"},
		{"Claude, thinking before a picture", claude(ask, `model [`+thought+call+`]`, `user [`+result+picture+`]`, `model [`+second+`]`, `user [`+other+`]`), "", "", "claude.thinking_first"},
		{"Claude, thinking before a text", claude(ask, `model [`+thought+call+`]`, `user [`+result+words+`]`, `model [`+second+`]`, `user [`+other+`]`), "claude.thinking_first", "", "claude.thinking_first"},
		{"Claude, thinking after a text", claude(ask, `model [`+call+`]`, `user [`+result+words+`]`, `model [`+thought+second+`]`, `user [`+other+`]`), "", "claude.thinking_first", ""},
		{"Claude, a new question", claude(ask, `model [`+call+`]`, `user [`+result+picture+`]`, `model [{"text":"b"}]`, ask), "", "", ""},
		{"Gemini, a picture", gemini(ask, `model [`+call+`]`, `user [`+result+picture+`]`), "gemini.signature_missing", "gemini.signature_missing", ""},
		{"Gemini, a text", gemini(ask, `model [`+call+`]`, `user [`+result+words+`]`), "", "gemini.signature_missing", ""},
		{"Gemini, signed", gemini(ask, `model [`+signed+`]`, `user [`+result+picture+words+`]`), "", "", ""},
	} {
		for continues, want := range map[string]string{"media": c.media, "anything": c.anything, "nothing": c.nothing} {
			got := ""
			if _, refusal := judge(c.example.with(func(s *Switches) { s.TurnContinuesWith = continues }).Input()); refusal != nil {
				got = refusal.Rule
			}
			if got != want {
				t.Errorf("%s, a turn continues with %s: refused by %q, want %q", c.name, continues, got, want)
			}
		}
	}
}

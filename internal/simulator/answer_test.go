package simulator

import (
	"encoding/json"
	"image/png"
	"reflect"
	"strings"
	"testing"

	"encoding/base64"
)

func TestParseDirectives(t *testing.T) {
	for text, want := range map[string]struct {
		names string
		rest  string
	}{
		"hello":                                {"", "hello"},
		"[[text: hi]]":                         {"text=hi", ""},
		"a [[text: hi]] b [[echo]] c":          {"text=hi echo=", "a  b  c"},
		"[[wiki link]] [[text: x]]":            {"text=x", "[[wiki link]]"},
		`[[call: f {"a":[[1]]}]][[call: g]]`:   {`call=f{"a":[[1]]} call=g`, ""},
		`[[call: f {"a":}]]`:                   {"", `[[call: f {"a":}]]`},
		"[[text: open":                         {"", "[[text: open"},
		"[[call:]]":                            {"", "[[call:]]"},
		"[[think: a\nb]]":                      {"think=a\nb", ""},
		"[[[[text: x]]":                        {"text=x", "[["},
		"[[Text: x]] [[textual: x]] [[image]]": {"image=", "[[Text: x]] [[textual: x]]"},
	} {
		found, rest := parseDirectives(text)
		var names []string
		for _, d := range found {
			names = append(names, d.name+"="+d.value+string(d.args))
		}
		if got := strings.Join(names, " "); got != want.names || rest != want.rest {
			t.Errorf("%q: %q and %q, want %q and %q", text, got, rest, want.names, want.rest)
		}
	}
}

func FuzzParseDirectives(f *testing.F) {
	f.Add(`[[call: f {"a":[[1]]}]] x [[text: y]]`)
	f.Fuzz(func(t *testing.T, text string) {
		_, rest := parseDirectives(text)
		if len(rest) > len(text) {
			t.Errorf("%q grew to %q", text, rest)
		}
	})
}

// reply asks the official API and gives the parts and finish reason of the first candidate.
func (r *rig) reply(model, request string) wireCandidate {
	r.t.Helper()
	a := r.official(model+":generateContent", request)
	a.want(r.t, 200)
	var got response
	a.decode(r.t, &got)
	if len(got.Candidates) == 0 {
		r.t.Fatalf("no candidates: %s", a.body)
	}
	return got.Candidates[0]
}

func requestWith(text, rest string) string {
	return `{"contents":[{"role":"user","parts":[{"text":` + string(encode(text)) + `}]}],` + rest + `}`
}

func (c wireCandidate) text() string {
	var b strings.Builder
	for _, p := range c.Content.Parts {
		if p.Text != nil && !p.Thought {
			b.WriteString(*p.Text)
		}
	}
	return b.String()
}

func TestTexts(t *testing.T) {
	r := newRig(t, Options{})
	const tools = `"tools":[{"functionDeclarations":[{"name":"read_file","description":"d"}]}]`
	for _, c := range []struct{ name, text, rest, want, finish string }{
		{"quoting", "  hello\n  world ", `"tools":[]`, "You said: hello world", "STOP"},
		{"quoting the beginning", strings.Repeat("ä", 100), `"tools":[]`, "You said: " + strings.Repeat("ä", 80) + "…", "STOP"},
		{"told", "[[text: a b]] [[text: c]]", `"tools":[]`, "a bc", "STOP"},
		{"finish reason", "[[text: a]][[finish: OTHER]]", `"tools":[]`, "a", "OTHER"},
		{"finish without words", "[[finish: MALFORMED_FUNCTION_CALL]]", `"tools":[]`, "", "MALFORMED_FUNCTION_CALL"},
		{"words", "[[tokens: 9]]", `"tools":[]`, "one two six ten red sky sea oak one", "STOP"},
		{"echo", "say [[echo]] this", `"tools":[]`, "say  this", "STOP"},
		{"echo of system", "[[echo: system]]", `"systemInstruction":{"parts":[{"text":"be kind"}]}`, "be kind", "STOP"},
		{"echo of tools", "[[echo: tools]]", tools, "read_file", "STOP"},
		{"stop sequence", "[[text: one two END three]]", `"generationConfig":{"stopSequences":["three","END"]}`, "one two ", "STOP"},
		{"limit", "[[tokens: 100]]", `"generationConfig":{"maxOutputTokens":3}`, "one two six ", "MAX_TOKENS"},
		{"limit inside a character", "[[text: ab漢漢]]", `"generationConfig":{"maxOutputTokens":1}`, "ab", "MAX_TOKENS"},
		{"JSON", "hi", `"generationConfig":{"responseMimeType":"application/json"}`, `{"answer":"You said: hi"}`, "STOP"},
		{"no call of a name that is longer", "use read_files", tools, "You said: use read_files", "STOP"},
		{"calls forbidden", "use read_file", tools + `,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}`, "You said: use read_file", "STOP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.reply("gemini-2.5-flash", requestWith(c.text, c.rest))
			if got.text() != c.want || got.Finish != c.finish {
				t.Errorf("%q, %s; want %q, %s", got.text(), got.Finish, c.want, c.finish)
			}
		})
	}
}

func TestPartsBesideThePromptAreContext(t *testing.T) {
	r := newRig(t, Options{})
	got := r.reply("gemini-2.5-flash", `{"contents":[{"role":"user","parts":[{"text":"<system-reminder>[[text: no]]</system-reminder>"},{"text":"the question"},{"text":"<context>x</context>"}]}]}`)
	if got.text() != "You said: the question" {
		t.Error(got.text())
	}
}

func TestCallsFromText(t *testing.T) {
	r := newRig(t, Options{})
	const tools = `"tools":[{"functionDeclarations":[{"name":"read","description":"d"},{"name":"write_file","description":"d","parameters":{"type":"object",` +
		`"properties":{"path":{"type":"string"},"n":{"type":"integer"},"kind":{"type":"string","enum":["b","a"]},"list":{"type":"array","items":{"type":"string"}},"deep":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]},"extra":{"type":"string"}},` +
		`"required":["path","n","kind","list","deep"]}}]}]`
	for _, c := range []struct{ text, rest, name, args string }{
		{"Please use the write_file tool.", tools, "write_file", `{"deep":{"ok":true},"kind":"b","list":[],"n":1,"path":"x"}`},
		{"call write_file {\"path\": \"[[a]]\"} now", tools, "write_file", `{"path":"[[a]]"}`},
		{"USE `read`, then use write_file", tools, "read", "{}"},
		{"say hello", tools + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`, "read", "{}"},
		{"[[text: hello]]", tools + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`, "read", "{}"},
		{"say hello", tools + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["write_file"]}}`, "write_file", `{"deep":{"ok":true},"kind":"b","list":[],"n":1,"path":"x"}`},
		{"[[call: write_file {\"n\": 2}]]", tools, "write_file", `{"n":2}`},
	} {
		got := r.reply("gemini-3-flash", requestWith(c.text, c.rest))
		call := got.Content.Parts[0].Call
		if call == nil || call.Name != c.name || string(call.Args) != c.args || len(call.ID) != 8 || got.Content.Parts[0].Signature == "" {
			t.Errorf("%s: %s", c.text, encode(got))
		}
	}
}

func TestThinkingPerFamily(t *testing.T) {
	r := newRig(t, Options{})
	ask := func(model, thinking string) []part {
		config := `"generationConfig":{"maxOutputTokens":4000` + thinking + `}`
		return r.reply(model, requestWith("[[think: a]][[think: b]][[text: c]]", config)).Content.Parts
	}
	const on = `,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2000}`
	gemini := ask("gemini-3-flash", on)
	if len(gemini) != 2 || !gemini[0].Thought || *gemini[0].Text != "a\nb" || gemini[0].Signature != "" || gemini[1].Signature[0] != 'E' {
		t.Errorf("gemini: %s", encode(gemini))
	}
	claude := ask("claude-sonnet-4-6", on)
	if len(claude) != 2 || !claude[0].Thought || claude[0].Signature[0] != 'R' || claude[1].Signature != "" {
		t.Errorf("claude: %s", encode(claude))
	}
	for _, model := range []string{"gemini-3-flash", "claude-sonnet-4-6", "gpt-oss-120b-medium"} {
		if parts := ask(model, ""); len(parts) != 1 || parts[0].Thought || parts[0].Signature != "" {
			t.Errorf("%s thinks unasked: %s", model, encode(parts))
		}
	}
	a := r.official("claude-sonnet-4-6:streamGenerateContent?alt=sse", requestWith("[[think: a]][[text: c]]", `"generationConfig":{"maxOutputTokens":4000`+on+`}`))
	thought, signature := strings.Index(a.body, `{"thought":true,"text":"a"}`), strings.Index(a.body, `{"thought":true,"text":"","thoughtSignature":"R`)
	if thought < 0 || signature < thought {
		t.Errorf("claude stream: %s", a.body)
	}
}

func TestPicturesHaveTheSizeAskedFor(t *testing.T) {
	r := newRig(t, Options{})
	got := r.reply("gemini-3.1-flash-image", requestWith("a boat", `"generationConfig":{"imageConfig":{"aspectRatio":"16:9"}}`))
	inline := got.Content.Parts[0].Inline
	if inline == nil || inline.MIME != "image/png" {
		t.Fatalf("%s", encode(got))
	}
	picture, err := png.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(inline.Data)))
	if err != nil || picture.Width != 1376 || picture.Height != 768 {
		t.Errorf("%+v %v", picture, err)
	}
}

func TestGroundingPointsIntoTheText(t *testing.T) {
	r := newRig(t, Options{})
	got := r.reply("gemini-2.5-flash", requestWith("[[ground: what is 漢字]]", `"tools":[{"googleSearch":{}}]`))
	if got.Grounding == nil || len(got.Grounding.Chunks) != 2 || got.Grounding.Queries[0] != "what is 漢字" {
		t.Fatalf("%s", encode(got))
	}
	for _, claim := range got.Grounding.Supports {
		if got.text()[claim.Segment.Start:claim.Segment.End] != claim.Segment.Text {
			t.Errorf("%+v does not fit %q", claim, got.text())
		}
	}
}

// Agents offer a search with every request, and want a plain answer to a plain question.
func TestASearchThatIsOnlyOfferedIsNotMade(t *testing.T) {
	r := newRig(t, Options{})
	got := r.reply("gemini-2.5-flash", requestWith("hello", `"tools":[{"googleSearch":{}}]`))
	if got.Grounding != nil || got.text() != "You said: hello" {
		t.Errorf("%s", encode(got))
	}
}

func TestBlockedPromptHasNoCandidates(t *testing.T) {
	r := newRig(t, Options{})
	for _, method := range []string{"generateContent", "streamGenerateContent?alt=sse"} {
		a := r.official("gemini-2.5-flash:"+method, prompt("[[block: PROHIBITED_CONTENT]]"))
		if a.want(t, 200, `"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}`); strings.Contains(a.body, "candidates\"") {
			t.Error(a.body)
		}
	}
}

func TestUsageModes(t *testing.T) {
	r := newRig(t, Options{})
	where := func(model, mode string) (out string) {
		a := r.official(model+":streamGenerateContent?alt=sse", prompt("[[tokens: 20]][[chunks: 3]]"+mode))
		for line := range strings.Lines(a.body) {
			switch {
			case !strings.HasPrefix(line, "data: "):
			case strings.Contains(line, "candidatesTokenCount"):
				out += "u"
			case strings.Contains(line, "promptTokenCount"):
				out += "p"
			default:
				out += "-"
			}
		}
		return out
	}
	for _, c := range []struct{ model, mode, want string }{
		{"gemini-2.5-flash", "", "uuu"}, {"gemini-2.5-flash", "[[usage: last]]", "--u"}, {"gemini-2.5-flash", "[[usage: late]]", "---u"},
		{"claude-sonnet-4-6", "", "p--u"}, {"claude-sonnet-4-6", "[[usage: every]]", "uuuu"},
	} {
		if got := where(c.model, c.mode); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.model, c.mode, got, c.want)
		}
	}
}

func TestUsageAddsUp(t *testing.T) {
	request := requestWith("[[think: 12345678]][[tokens: 10]]", `"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2000}}`)
	of := func(options Options) usage {
		r := newRig(t, options)
		var got response
		r.official("gemini-2.5-flash:generateContent", request).decode(t, &got)
		stream := r.official("gemini-2.5-flash:streamGenerateContent?alt=sse", request)
		if !strings.Contains(stream.body, string(encode(got.Usage))) {
			t.Errorf("streamed usage differs from %s", encode(got.Usage))
		}
		return *got.Usage
	}
	if got := of(Options{}); got.Thoughts != 2 || got.Candidates != 10 || got.Total != got.Prompt+12 {
		t.Errorf("%+v", got)
	}
	if got := of(Options{Script: &Script{Switches: map[string]any{"usage_candidates_include_thoughts": true}}}); got.Thoughts != 2 || got.Candidates != 12 || got.Total != got.Prompt+12 {
		t.Errorf("switched: %+v", got)
	}
}

func TestSeveralCandidates(t *testing.T) {
	r := newRig(t, Options{})
	request := requestWith("[[text: abc]][[chunks: 3]]", `"generationConfig":{"candidateCount":3}`)
	var got response
	r.official("gemini-2.5-flash:generateContent", request).decode(t, &got)
	var texts []string
	for i, c := range got.Candidates {
		if *c.Index != i {
			t.Errorf("index %d at %d", *c.Index, i)
		}
		texts = append(texts, c.text())
	}
	if !reflect.DeepEqual(texts, []string{"abc", "abc (2)", "abc (3)"}) {
		t.Errorf("%q", texts)
	}
	streamed := map[int]string{}
	var array []response
	r.official("gemini-2.5-flash:streamGenerateContent", request).decode(t, &array)
	for _, chunk := range array {
		for _, c := range chunk.Candidates {
			streamed[*c.Index] += c.text()
		}
	}
	if !reflect.DeepEqual(streamed, map[int]string{0: "abc", 1: "abc (2)", 2: "abc (3)"}) {
		t.Errorf("%v", streamed)
	}
}

func TestInstancesOfSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"STRING"}`: `"x"`, `{"type":"integer"}`: `1`, `{"type":"boolean"}`: `true`, `{"type":["null","number"],"minimum":3}`: `3`,
		`{"enum":["b","a"]}`: `"b"`, `{"const":7}`: `7`, `{"type":"string","format":"date"}`: `"2026-01-01"`, `{"type":"string","minLength":3}`: `"xxx"`,
		`{"anyOf":[{"type":"null"},{"type":"boolean"}]}`:                                                  `true`,
		`{"type":"array","items":{"type":"integer"},"minItems":"2"}`:                                      `[1,1]`,
		`{"properties":{"b":{"type":"string"},"a":{"type":"integer"}}}`:                                   `{"a":1,"b":"x"}`,
		`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"}}}}}`:      `{"v":1}`,
		`{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}}}`:                 `[{"k":"x"}]`,
		`{"type":"object","properties":{"self":{"$ref":"#/$defs/s"}},"$defs":{"s":{"$ref":"#/$defs/s"}}}`: `{"self":null}`,
	} {
		if got := string(encode(instance(json.RawMessage(schema), true))); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestJSONModeFillsTheSchema(t *testing.T) {
	r := newRig(t, Options{})
	got := r.reply("gemini-2.5-flash", requestWith("hi", `"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"name":{"type":"STRING"},"age":{"type":"INTEGER"}},"required":["name"]}}`))
	if got.text() != `{"age":1,"name":"x"}` {
		t.Error(got.text())
	}
}

// A call that went wrong inside the model leaves nothing: no parts, and no role.
func TestFinishOfACallThatWentWrong(t *testing.T) {
	r := newRig(t, Options{})
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"} {
		ask := prompt("[[finish: " + reason + "]]")
		thinking := strings.TrimSuffix(ask, "}") + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`
		for _, body := range []string{ask, thinking} {
			want := `"candidates":[{"content":{},"finishReason":"` + reason + `"`
			r.official("gemini-2.5-flash:generateContent", body).want(t, 200, want)
			streamed := r.official("gemini-2.5-flash:streamGenerateContent?alt=sse", body)
			streamed.want(t, 200, "data: {"+want)
			if n := strings.Count(streamed.body, "data:"); n != 1 {
				t.Errorf("%s came in %d events", reason, n)
			}
			token := "Bearer " + r.token("ada@example.com")
			r.do("POST", "/v1internal:generateContent", envelopeOf("gemini-3-flash", body), "Authorization", token).want(t, 200, want)
		}
		// What was said before stays.
		r.official("gemini-2.5-flash:generateContent", prompt("[[text: so far]] [[finish: "+reason+"]]")).
			want(t, 200, `"content":{"parts":[{"text":"so far"}],"role":"model"},"finishReason":"`+reason+`"`)
	}
}

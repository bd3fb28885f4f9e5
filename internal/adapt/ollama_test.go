package adapt

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee"
)

// ollamaNotes adapts a prompt and returns it with its notes as one text.
func ollamaNotes(t *testing.T, p *perigee.Prompt, model OllamaModel) (*perigee.Prompt, string) {
	t.Helper()
	adapted, _, notes, err := ForOllama(p, model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, n := range notes {
		list = append(list, n.String())
	}
	return adapted, strings.Join(list, "; ")
}

func toolOf(schema string) []perigee.Tool {
	return []perigee.Tool{{Function: &perigee.Function{Name: "f", Parameters: json.RawMessage(schema), JSONSchema: true}}}
}

func TestForOllamaReducesSchemas(t *testing.T) {
	for given, want := range map[string][2]string{
		`{"type":"object","properties":{"a":{"type":"string","description":"d","enum":["x"]}},"required":["a"]}`: {
			`{"type":"object","properties":{"a":{"type":"string","description":"d","enum":["x"]}},"required":["a"]}`, ""},
		`{"$schema":"s","type":["object","null"],"properties":{"a":{"type":["string","null"],"default":1,"minLength":2},"b":true},"required":["a",1],"additionalProperties":false}`: {
			`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{}},"required":["a"]}`,
			"dropped default in schemas of tools; dropped minLength in schemas of tools; dropped additionalProperties in schemas of tools"},
		`{"properties":{"a":{"oneOf":[{"const":1},{"type":"array","items":{"type":"string","format":"date"}}]}}}`: {
			`{"type":"object","properties":{"a":{"anyOf":[{"enum":[1]},{"type":"array","items":{"type":"string"}}]}}}`, "dropped format in schemas of tools"},
		`{"properties":{"a":{"$ref":"#/$defs/n","description":"mine"}},"$defs":{"n":{"type":"object","description":"its","properties":{"next":{"$ref":"#/$defs/n"}}}}}`: {
			`{"type":"object","properties":{"a":{"description":"mine","type":"object","properties":{"next":{}}}}}`, "dropped $ref in schemas of tools"},
		`{"properties":{"a":{"$ref":"other.json"},"b":{"description":1,"type":7,"enum":"x","properties":[],"anyOf":{},"required":{}}}}`: {
			`{"type":"object","properties":{"a":{},"b":{}}}`,
			"dropped $ref in schemas of tools; dropped description in schemas of tools; dropped type in schemas of tools; dropped enum in schemas of tools; " +
				"dropped properties in schemas of tools; dropped anyOf in schemas of tools; dropped required in schemas of tools"},
		`{"description":"d","properties":{"a":{"description":"e"}},"oneOf":[{"required":["a"]}]}`: {
			`{"type":"object","properties":{"a":{"description":"e"}}}`, "dropped description in schemas of tools; dropped oneOf in schemas of tools"},
		``: {`{"type":"object","properties":{}}`, ""},
	} {
		p := &perigee.Prompt{Contents: []perigee.Content{said("user", "hi")}, Tools: toolOf(given)}
		adapted, notes := ollamaNotes(t, p, OllamaModel{Name: "m"})
		if got := string(adapted.Tools[0].Function.Parameters); got != want[0] || notes != want[1] {
			t.Errorf("%s:\n got %s, %s\nwant %s, %s", given, got, notes, want[0], want[1])
		}
	}
}

// References to references, which would double with each of them, and a schema in itself stay small.
func TestForOllamaBoundsReferences(t *testing.T) {
	var defs []string
	for i := range 40 {
		next := "#/$defs/d" + string(rune('A'+i+1))
		defs = append(defs, `"d`+string(rune('A'+i))+`":{"anyOf":[{"$ref":"`+next+`"},{"$ref":"`+next+`"}]}`)
	}
	given := `{"properties":{"a":{"$ref":"#/$defs/dA"}},"$defs":{` + strings.Join(defs, ",") + `}}`
	p := &perigee.Prompt{Contents: []perigee.Content{said("user", "hi")}, Tools: toolOf(given)}
	adapted, _ := ollamaNotes(t, p, OllamaModel{Name: "m"})
	if got := adapted.Tools[0].Function.Parameters; !json.Valid(got) || len(got) > 10*len(given)+smallSchema {
		t.Errorf("%d bytes became %d", len(given), len(got))
	}
}

func TestForOllamaThinking(t *testing.T) {
	yes, no := new(true), new(false)
	for name, c := range map[string]struct {
		asked perigee.Thinking
		model OllamaModel
		want  string
		notes string
	}{
		"level":                        {perigee.Thinking{Level: "low"}, OllamaModel{}, "low", ""},
		"minimal":                      {perigee.Thinking{Level: "minimal"}, OllamaModel{Thinking: yes}, "low", "mapped reasoning_effort minimal to low"},
		"xhigh":                        {perigee.Thinking{Level: "xhigh"}, OllamaModel{}, "high", "mapped reasoning_effort xhigh to high"},
		"off":                          {perigee.Thinking{Level: "none"}, OllamaModel{}, "none", ""},
		"budget of nothing":            {perigee.Thinking{Budget: new(int64(0))}, OllamaModel{}, "none", ""},
		"budget":                       {perigee.Thinking{Budget: new(int64(8192)), Include: yes}, OllamaModel{}, "medium", ""},
		"shown":                        {perigee.Thinking{Include: yes}, OllamaModel{}, "on", ""},
		"up to the model":              {perigee.Thinking{Budget: new(int64(-1))}, OllamaModel{}, "", ""},
		"a model that takes no levels": {perigee.Thinking{Level: "low"}, OllamaModel{NoLevels: true}, "on", "mapped reasoning_effort low to thinking"},
		"off without levels":           {perigee.Thinking{Level: "none"}, OllamaModel{NoLevels: true}, "none", ""},
		"a model that does not think":  {perigee.Thinking{Level: "high"}, OllamaModel{Thinking: no}, "", "dropped reasoning_effort"},
		"off where there is none":      {perigee.Thinking{Level: "none"}, OllamaModel{Thinking: no}, "", ""},
	} {
		p := &perigee.Prompt{Dialect: perigee.DialectOpenAIChat, Contents: []perigee.Content{said("user", "hi")},
			Generation: perigee.Generation{Thinking: &c.asked}}
		adapted, notes := ollamaNotes(t, p, c.model)
		got := ""
		if thinking := adapted.Generation.Thinking; thinking != nil {
			if got = thinking.Level; got == "" {
				got = "on"
			}
		}
		if got != c.want || notes != c.notes {
			t.Errorf("%s: got %q, %q; want %q, %q", name, got, notes, c.want, c.notes)
		}
	}
}

func TestForOllamaRefuses(t *testing.T) {
	picture := perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "AAAA"}}
	address := perigee.Part{Kind: perigee.PartFile, File: &perigee.File{MIME: "image/png", URI: "https://example.com/a.png"}}
	of := func(parts ...perigee.Part) []perigee.Content {
		return []perigee.Content{{Role: perigee.RoleUser, Parts: parts}}
	}
	result := perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Name: "f", Media: []perigee.Part{picture}}}
	for want, c := range map[string]struct {
		prompt perigee.Prompt
		model  OllamaModel
	}{
		`"m" does not support tools`:  {perigee.Prompt{Contents: of(), Tools: toolOf(`{}`)}, OllamaModel{Name: "m", Tools: new(false)}},
		`"m" does not support vision`: {perigee.Prompt{Contents: of(picture)}, OllamaModel{Name: "m", Vision: new(false)}},
		`"n" does not support vision`: {perigee.Prompt{Contents: of(result)}, OllamaModel{Name: "n", Vision: new(false)}},
		`the provider does not fetch files, as the one at https://example.com/a.png`: {perigee.Prompt{Contents: of(address)}, OllamaModel{Name: "m", Vision: new(true)}},
	} {
		_, _, _, err := ForOllama(&c.prompt, c.model, nil)
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || e.Message != want || e.Hint == "" {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, _, _, err := ForOllama(&c.prompt, OllamaModel{Name: "m"}, nil); (err != nil) != strings.Contains(want, "fetch") {
			t.Errorf("%s: unknown capabilities: got %v", want, err)
		}
	}
}

// The API has no choice of tools, and no place for what other APIs have.
func TestForOllamaNotesWhatIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		prompt perigee.Prompt
		tools  int
		notes  string
	}{
		"any":           {perigee.Prompt{Tools: toolOf(`{}`), ToolConfig: &perigee.ToolConfig{Mode: perigee.ToolModeAny}}, 1, "dropped tool_choice"},
		"any in Gemini": {perigee.Prompt{Dialect: perigee.DialectGemini, Tools: toolOf(`{}`), ToolConfig: &perigee.ToolConfig{Mode: perigee.ToolModeAny}}, 1, "dropped toolConfig"},
		"auto":          {perigee.Prompt{Tools: toolOf(`{}`), ToolConfig: &perigee.ToolConfig{Mode: perigee.ToolModeAuto}}, 1, ""},
		"none":          {perigee.Prompt{Tools: toolOf(`{}`), ToolConfig: &perigee.ToolConfig{Mode: perigee.ToolModeNone}}, 0, "omitted tools that the model must not call"},
		"one of two": {perigee.Prompt{Tools: append(toolOf(`{}`), perigee.Tool{Function: &perigee.Function{Name: "g"}}),
			ToolConfig: &perigee.ToolConfig{Mode: perigee.ToolModeAny, Allowed: []string{"g"}}}, 1, "mapped tool choice to fewer tools; dropped tool_choice"},
		"built-in": {perigee.Prompt{Tools: []perigee.Tool{{Builtin: perigee.BuiltinSearch}}}, 0, "dropped tool web_search"},
		"options": {perigee.Prompt{Generation: perigee.Generation{Seed: new(int64(1)), TopK: new(2.0), Stop: []string{"a", "b", "c", "d", "e", "f"},
			ParallelCalls: new(false), LogitBias: json.RawMessage(`{"1":2}`), Candidates: new(int64(2)), Verbosity: "low", ServiceTier: "flex",
			ResponseFormat: perigee.ResponseFormat{Description: "d"}}}, 0,
			"dropped logit_bias; dropped parallel_tool_calls; dropped verbosity; dropped service_tier; dropped n; dropped response_format.json_schema.description"},
		"image detail": {perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{
			{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "AAAA", Detail: "high"}}}}}}, 0,
			"dropped messages[].content[].image_url.detail"},
	} {
		p := c.prompt
		if p.Dialect == "" {
			p.Dialect = perigee.DialectOpenAIChat
		}
		if p.Contents == nil {
			p.Contents = []perigee.Content{said("user", "hi")}
		}
		adapted, notes := ollamaNotes(t, &p, OllamaModel{Name: "m"})
		if len(adapted.Tools) != c.tools || adapted.ToolConfig != nil || notes != c.notes {
			t.Errorf("%s: %d tools, notes %q, want %q", name, len(adapted.Tools), notes, c.notes)
		}
	}
}

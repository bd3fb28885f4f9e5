package rules

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestFrontEnd(t *testing.T) {
	tests := []struct {
		name    string
		example Example
		want    string // message; empty means passes
	}{
		{"snake case everywhere", internal(`{"contents":[{"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]}],"system_instruction":{"parts":[{"text":"s"}]},"tool_config":{"function_calling_config":{"allowed_function_names":["f"]}},"generation_config":{"max_output_tokens":10,"stop_sequences":["x"],"thinking_config":{"include_thoughts":true}},"tools":[{"function_declarations":[{"name":"f"}]}],"session_id":"s"}`), ""},
		{"null is absent", internal(`{` + hi + `,"tools":null,"generationConfig":{"temperature":null,"thinkingConfig":null}}`), ""},
		{"numbers as strings and with a fraction of zero", internal(`{` + hi + `,"generationConfig":{"maxOutputTokens":"100","topK":40,"seed":7.0}}`), ""},
		{"one value for a list", beta(`{"contents":{"parts":{"text":"hi"}},"generationConfig":{"stopSequences":"x"}}`), ""},
		{"string for a list of messages", internal(`{"contents":"hi"}`),
			`Invalid value at 'request.contents' (type.googleapis.com/google.internal.cloud.code.v1internal.Content), "hi"`},
		{"null in a list", beta(`{"contents":[null]}`),
			`Invalid value at 'contents[0]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content), null`},
		{"list in a list", beta(`{"contents":[[]]}`),
			`Invalid value at 'contents[0]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content), []`},
		{"object for a string", beta(`{"contents":[{"parts":[{"text":{}}]}]}`),
			`Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), Starting an object on a scalar field`},
		{"placeholder of a user interface", internal(`{` + hi + `,"generationConfig":{"temperature":"[undefined]"}}`),
			`Invalid value at 'request.generation_config.temperature' (TYPE_FLOAT), "[undefined]"`},
		{"fraction for an integer", internal(`{` + hi + `,"generationConfig":{"maxOutputTokens":1.5}}`),
			`Invalid value at 'request.generation_config.max_output_tokens' (TYPE_INT32), 1.5`},
		{"integer too large", internal(`{` + hi + `,"generationConfig":{"maxOutputTokens":4294967296}}`),
			`Invalid value at 'request.generation_config.max_output_tokens' (TYPE_INT32), 4294967296`},
		{"arguments that are no object", beta(`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":"{}"}}]}]}`),
			`Invalid value at 'contents[0].parts[0].function_call.args' (type.googleapis.com/google.protobuf.Struct), "{}"`},
		{"unknown name at the root", beta(`{` + hi + `,"messages":[]}`),
			`Invalid JSON payload received. Unknown name "messages": Cannot find field.`},
		{"free JSON is not looked at", beta(`{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"$ref":[{"text":1}]}},"thoughtSignature":"` + GeminiSignature + `"}]}]}`), ""},
		{"schema keyword outside the subset", internal(declare(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"object","propertyNames":{}}}}`)),
			`Invalid JSON payload received. Unknown name "propertyNames" at 'request.tools[0].function_declarations[0].parameters.properties[2].value': Cannot find field.`},
		{"boolean for a schema", internal(declare(`{"type":"object","properties":{"x":false}}`)),
			`Invalid value at 'request.tools[0].function_declarations[0].parameters.properties[0].value' (type.googleapis.com/google.internal.cloud.code.v1internal.Schema), false`},
		{"numbers in an enum", beta(declare(`{"type":"integer","enum":[1]}`)),
			`Invalid value at 'tools[0].function_declarations[0].parameters.enum[0]' (TYPE_STRING), 1`},
		{"a property may be called like a keyword", internal(declare(`{"type":"object","properties":{"$ref":{"type":"string"},"properties":{"type":"string"}},"required":["$ref"]}`)), ""},
		{"gemini takes the documented schema", internal(declare(`{"type":"OBJECT","properties":{"a":{"type":"string","minLength":"1","pattern":"x","format":"date","default":1,"example":{}},"b":{"anyOf":[{"type":"string"}],"nullable":true}},"propertyOrdering":["a","b"]}`)), ""},
		{"claude takes less", onClaude(declare(`{"type":"object","properties":{"a":{"type":"string","default":"x"}}}`)),
			`Invalid JSON payload received. Unknown name "default" at 'request.tools[0].function_declarations[0].parameters.properties[0].value': Cannot find field.`},
		{"claude takes bounds", onClaude(declare(`{"type":"object","title":"t","properties":{"a":{"type":"integer","minimum":1,"maximum":9,"nullable":true,"enum":["1"]}}}`)), ""},
		{"full JSON Schema is not for the private gateway", internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{}}]}]}`),
			`Invalid JSON payload received. Unknown name "parametersJsonSchema" at 'request.tools[0].function_declarations[0]': Cannot find field.`},
		{"nor are server-side tool invocations", internal(`{` + hi + `,"toolConfig":{"includeServerSideToolInvocations":true}}`),
			`Invalid JSON payload received. Unknown name "includeServerSideToolInvocations" at 'request.tool_config': Cannot find field.`},
		{"cache control is unknown to gemini", internal(`{` + turnsJSON(`user [{"text":"a","cache_control":{}}]`) + `}`),
			`Invalid JSON payload received. Unknown name "cache_control" at 'request.contents[0].parts[0]': Cannot find field.`},
		{"no request", Example{Body: `{"project":"p","model":"gemini-3-flash"}`}, "* GenerateContentRequest.contents: contents is not specified"},
		{"role must be given to the private gateway", internal(`{"contents":[{"parts":[{"text":"a"}]}]}`), "Please use a valid role: user, model."},
		{"search with content", internal(`{` + hi + `,"tools":[{"googleSearch":{"enhancedContent":{"imageSearch":{"maxResultCount":5}}}}]}`), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { expect(t, test.example, test.want) })
	}
}

func expect(t *testing.T, example Example, want string) {
	t.Helper()
	_, refusal := judge(example.Input())
	switch {
	case want == "" && refusal != nil:
		t.Errorf("refused by %s: %s", refusal.Rule, refusal.Message)
	case want != "" && refusal == nil:
		t.Errorf("passed, want %q", want)
	case want != "" && refusal.Message != want:
		t.Errorf("%s:\n got %q\nwant %q", refusal.Rule, refusal.Message, want)
	}
}

func TestCountTokens(t *testing.T) {
	unknown := func(name string) string {
		return fmt.Sprintf("Invalid JSON payload received. Unknown name %q: Cannot find field.", name)
	}
	tests := []struct {
		name    string
		example Example
		want    string
	}{
		{"request alone", Example{Method: Count, Request: `{` + hi + `}`}, ""},
		{"with model", Example{Method: Count, Body: `{"model":"m","request":{` + hi + `}}`}, unknown("model")},
		{"with project", Example{Method: Count, Body: `{"project":"p","request":{` + hi + `}}`}, unknown("project")},
		{"with safety settings", Example{Method: Count, Request: `{` + hi + `,"safetySettings":[]}`},
			`Invalid JSON payload received. Unknown name "safetySettings" at 'request': Cannot find field.`},
		{"official", Example{Surface: V1Beta, Method: Count, Request: `{` + hi + `}`}, ""},
		{"official, bare request fields", Example{Surface: V1Beta, Method: Count, Request: `{` + hi + `,"tools":[]}`}, unknown("tools")},
		{"official, whole request", Example{Surface: V1Beta, Method: Count, Request: `{"generateContentRequest":{"model":"models/m",` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]}]}}`}, ""},
		{"official, fault inside", Example{Surface: V1Beta, Method: Count, Request: `{"generateContentRequest":{` + hi + `,"x":1}}`},
			`Invalid JSON payload received. Unknown name "x" at 'generate_content_request': Cannot find field.`},
		{"structure does not matter", Example{Method: Count, Model: "claude-sonnet-4-6", Request: `{` + turnsJSON(`model [{"text":"a"}]`) + `}`}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { expect(t, test.example, test.want) })
	}
}

func TestConversations(t *testing.T) {
	const (
		ask    = `user [{"text":"a"}]`
		signed = `{"functionCall":{"name":"f"},"thoughtSignature":"` + GeminiSignature + `"}`
		bare   = `{"functionCall":{"name":"f"}}`
		result = `{"functionResponse":{"name":"f","response":{}}}`
		use    = `{"functionCall":{"id":"t1","name":"f"}}`
		use2   = `{"functionCall":{"id":"t2","name":"f"}}`
		got    = `{"functionResponse":{"id":"t1","name":"f","response":{}}}`
		got2   = `{"functionResponse":{"id":"t2","name":"f","response":{}}}`
		image  = `{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`
	)
	gemini := func(turns ...string) Example { return internal(`{` + turnsJSON(turns...) + `}`) }
	claude := func(turns ...string) Example { return onClaude(`{` + turnsJSON(turns...) + `}`) }
	orphan := "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	tests := []struct {
		name    string
		example Example
		want    string
	}{
		{"calls of earlier turns may be unsigned", gemini(ask, `model [`+bare+`]`, `user [`+result+`]`, `model [{"text":"b"}]`, ask), ""},
		{"only the first of parallel calls is signed", gemini(ask, `model [`+signed+`,`+bare+`]`, `user [`+result+`,`+result+`]`), ""},
		{"each step of a loop is signed", gemini(ask, `model [`+signed+`]`, `user [`+result+`]`, `model [`+bare+`]`, `user [`+result+`]`),
			strings.Replace(findRule("gemini.signature_missing").Text, "position 2", "position 4", 1)},
		{"gemini 2.5 wants none", onModel("gemini-2.5-pro", `{`+turnsJSON(ask, `model [`+bare+`]`, `user [`+result+`]`)+`}`), ""},
		{"gemini 2.5 checks those it gets", onModel("gemini-2.5-pro", `{`+turnsJSON(ask, `model [`+strings.Replace(signed, GeminiSignature, "AAAA", 1)+`]`, `user [`+result+`]`)+`}`), "Corrupted thought signature."},
		{"a signature may ride on text alone", gemini(ask, `model [{"text":"b"},{"text":"","thoughtSignature":"`+GeminiSignature+`"}]`, ask), ""},
		{"a sentinel may not", gemini(ask, `model [{"text":"b","thoughtSignature":"skip_thought_signature_validator"}]`, ask), "Corrupted thought signature."},
		{"snake spelling of a signature", gemini(ask, `model [{"functionCall":{"name":"f"},"thought_signature":"`+GeminiSignature+`"}]`, `user [`+result+`]`), ""},
		{"calls may be open at the end", gemini(ask, `model [`+signed+`]`), ""},
		{"calls may not be talked over", gemini(ask, `model [`+signed+`]`, ask), countText},
		{"call and result in one content", gemini(ask, `model [`+signed+`,`+result+`]`), unexpectedText},
		{"a conversation that starts with a call", gemini(`model [`+signed+`]`, `user [`+result+`]`), "Please ensure that function call turn comes immediately after a user turn or after a function response turn."},
		{"gpt-oss ignores signatures", onModel("gpt-oss-120b-medium", `{`+turnsJSON(ask, `model [{"functionCall":{"name":"f"},"thoughtSignature":"AAAA"}]`, `user [`+result+`]`)+`}`), ""},

		{"all results in one content", claude(ask, `model [`+use+`,`+use2+`]`, `user [`+got2+`,`+got+`,`+image+`]`), ""},
		{"calls in two contents are one message", claude(ask, `model [`+use+`]`, `model [`+use2+`]`, `user [`+got+`,`+got2+`]`), ""},
		{"results in two contents", claude(ask, `model [`+use+`,`+use2+`]`, `user [`+got+`]`, `user [`+got2+`]`), fmt.Sprintf(orphan, "t2")},
		{"an image between results", claude(ask, `model [`+use+`,`+use2+`]`, `user [`+got+`,`+image+`,`+got2+`]`), fmt.Sprintf(orphan, "t2")},
		{"several orphans", claude(ask, `model [`+use+`,`+use2+`]`, ask), fmt.Sprintf(orphan, "t1, t2")},
		{"two results of one call", claude(ask, `model [`+use+`]`, `user [`+got+`,`+got+`]`), "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: t1"},
		{"call without id", claude(ask, `model [`+bare+`]`, `user [`+got+`]`), "messages.1.content.0.tool_use.id: Field required"},
		{"claude results in the model's role, as the language server sends them", claude(ask, `model [`+use+`]`, `model [`+got+`]`), ""},
		{"claude results in the model's role, and the answer", claude(ask, `model [`+use+`]`, `model [`+got+`]`, `model [{"text":"b"}]`, ask), ""},
		{"claude results in the model's role without their call", claude(ask, `model [{"text":"b"}]`, `model [`+got+`]`), "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
		{"claude results beside a text in the model's role", claude(ask, `model [`+use+`]`, `model [`+got+`,{"text":"b"}]`), "Please ensure that function response parts are in a turn with the role user."},
		{"call in the user's role", claude(`user [` + use + `]`), "messages.0: `tool_use` blocks can only be in `assistant` messages"},
		{"blank text", claude(`user [{"text":" \n"}]`), "messages.0: text content blocks must contain non-whitespace text"},
		{"sentinel on a claude call is ignored", claude(ask, `model [{"functionCall":{"id":"t1","name":"f"},"thoughtSignature":"skip_thought_signature_validator"}]`, `user [`+got+`]`), ""},
		{"gemini signature on a claude call", claude(ask, `model [{"functionCall":{"id":"t1","name":"f"},"thoughtSignature":"`+GeminiSignature+`"}]`, `user [`+got+`]`), "messages.1.content.0: Invalid `signature` in `thinking` block"},
		{"includeThoughts without budget does not switch thinking on", onClaude(`{` + turnsJSON(ask, `model [`+use+`]`, `user [`+got+`]`) + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`), ""},
		{"claude has no levels", onClaude(think(`"thinkingLevel":"high"`)), "Thinking level is not supported for this model."},
		{"a level that is not set, of a model that has none", Example{Surface: V1Beta, Model: "gemini-2.5-pro", Request: think(`"thinkingLevel":"THINKING_LEVEL_UNSPECIFIED","includeThoughts":true`)}, ""},
		{"a level that is not set, beside a budget", internal(think(`"thinkingLevel":"THINKING_LEVEL_UNSPECIFIED","thinkingBudget":1024`)), ""},
		{"gemini budget above the limit, private gateway", internal(`{` + hi + `,"generationConfig":{"maxOutputTokens":1000,"thinkingConfig":{"thinkingBudget":1000}}}`), ""},
		{"gemini budget above the limit, a strict gateway", internal(`{` + hi + `,"generationConfig":{"maxOutputTokens":1000,"thinkingConfig":{"thinkingBudget":1000}}}`).with(func(s *Switches) { *s = StrictSwitches() }),
			"Unable to submit request because max_output_tokens (1000) must be greater than thinking_budget (1000)."},
		{"gemini output limit", internal(`{` + hi + `,"generationConfig":{"maxOutputTokens":131072}}`),
			"Unable to submit request because it has a maxOutputTokens value of 131072 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again."},
		{"gpt-oss ignores thinking", onModel("gpt-oss-120b-medium", think(`"thinkingBudget":8192`)), ""},
		{"too long for the official API", Example{Surface: V1Beta, Context: 1, Request: `{"contents":[{"parts":[{"text":"12345678"}]}]}`}, "The input token count (2) exceeds the maximum number of tokens allowed (1)."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { expect(t, test.example, test.want) })
	}
}

func TestNobodyToVerifyMeansNoSignatureIsGood(t *testing.T) {
	in := findRule("gemini.signature_corrupted").Pass.Input()
	in.Verify = nil
	if _, refusal := Check(in); refusal == nil || refusal.Rule != "gemini.signature_corrupted" {
		t.Errorf("got %+v", refusal)
	}
}

func TestRefuseJSON(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{CheckJSON(nil), "Invalid JSON payload received. Unexpected end of string. Expected a value."},
		{CheckJSON([]byte(`{"a":`)), "Invalid JSON payload received. Unexpected end of string. Expected a value."},
		{CheckJSON([]byte("{\n \"a\": x\n}")), "Invalid JSON payload received. Unexpected token.\n \"a\": x\n      ^"},
		{fmt.Errorf("read body: %w", io.ErrUnexpectedEOF), "Invalid JSON payload received. Unexpected end of string. Expected a value."},
		{errors.New("other"), "Invalid JSON payload received. Unexpected token."},
	}
	for _, test := range tests {
		if got := RefuseJSON(test.err); got.Message != test.want || got.Status != 400 {
			t.Errorf("%v:\n got %q\nwant %q", test.err, got.Message, test.want)
		}
	}
}

func TestParsed(t *testing.T) {
	body := `{"systemInstruction":{"parts":[{"text":"one"},{"text":"two"}]},"sessionId":"-1","cached_content":"c",
	 "contents":[{"role":"user","parts":[{"text":"a\u00e9"},{"inlineData":{"mimeType":"image/png","data":"AAAAAA=="}},{"fileData":{"mimeType":"text/plain","fileUri":"u"}}]},
	  {"role":"model","parts":[{"thought":true,"text":"hm"},{"functionCall":{"id":"i","name":"f","args":{"x": 1}},"thought_signature":"` + GeminiSignature + `"}]},
	  {"role":"user","parts":[{"functionResponse":{"id":"i","name":"f","response":{"r":2},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}]}],
	 "tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"object"}}]},{"codeExecution":{}}],
	 "toolConfig":{"functionCallingConfig":{"mode":"any","allowedFunctionNames":["f"]}},
	 "generationConfig":{"maxOutputTokens":9,"stopSequences":["s"],"candidateCount":1,"temperature":0.5,"topP":1,"topK":40,"seed":3,"responseMimeType":"application/json",
	  "responseSchema":{"type":"OBJECT"},"responseModalities":["text"],"thinkingConfig":{"thinkingLevel":"HIGH","includeThoughts":true}}}`
	parsed, refusal := judge(internal(body).Input())
	if refusal != nil {
		t.Fatal(refusal)
	}
	half, one, forty, seed := 0.5, 1.0, 40.0, int64(3)
	want := &Parsed{
		System: "one\ntwo", SessionID: "-1", CachedContent: "c",
		Contents: []Content{
			{"user", []Part{{Text: "aé", HasText: true}, {Blob: &Blob{"image/png", 4, "AAAAAA=="}}, {File: &File{"text/plain", "u"}}}},
			{"model", []Part{{Text: "hm", HasText: true, Thought: true}, {Call: &Call{"i", "f", []byte(`{"x": 1}`)}, Signature: GeminiSignature}}},
			{"user", []Part{{Response: &Response{"i", "f", []byte(`{"r":2}`), []Part{{Blob: &Blob{"image/png", 3, "AAAA"}}}}}}},
		},
		Functions:    []Function{{"f", "d", []byte(`{"type":"object"}`), false}},
		BuiltIns:     []string{"codeExecution"},
		ToolMode:     "ANY",
		AllowedNames: []string{"f"},
		Config: Config{MaxTokens: 9, Stop: []string{"s"}, CandidateCount: 1, Temperature: &half, TopP: &one, TopK: &forty, Seed: &seed,
			ResponseMIME: "application/json", ResponseSchema: []byte(`{"type":"OBJECT"}`), Modalities: []string{"TEXT"},
			Thinking: Thinking{Level: "high", Include: true}},
		TextBytes: len("one\ntwo") + len("aé") + len("hm") + len(`f{"x": 1}`) + len(`f{"r":2}`) + len(`fd{"type":"object"}`),
	}
	if !reflect.DeepEqual(parsed, want) {
		t.Errorf("\n got %+v\nwant %+v", parsed, want)
	}
}

func TestModelTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range ModelTable() {
		if seen[m.ID] || m.MinBudget > m.MaxBudget {
			t.Errorf("%s: repeated or with an empty range of budgets", m.ID)
		}
		seen[m.ID] = true
		found := false
		for _, f := range Families() {
			found = found || f == m.Family
		}
		if !found {
			t.Errorf("%s: unknown family %q", m.ID, m.Family)
		}
	}
}

// Every type named in the table must exist, or a field would silently accept only numbers.
func TestMessagesAreClosed(t *testing.T) {
	scalars := map[string]bool{"string": true, "bool": true, "int32": true, "int64": true, "float": true, "double": true, "bytes": true, "struct": true, "value": true, "enum": true, "message": true}
	check := func(message, name, kind string) {
		f := newField(message, name, kind)
		if !scalars[f.kind] && kind != "-" {
			t.Errorf("%s.%s: unknown type %q", message, name, kind)
		}
		if f.kind == "enum" && enums[f.of] == "" {
			t.Errorf("%s.%s: unknown enum %q", message, name, f.of)
		}
	}
	for message, fields := range messages {
		for name, kind := range fields {
			check(message, name, kind)
		}
	}
	for _, o := range overlays() {
		if messages[o.message] == nil {
			t.Errorf("overlay of unknown message %s", o.message)
		}
		for name, kind := range o.fields {
			check(o.message, name, kind)
		}
	}
}

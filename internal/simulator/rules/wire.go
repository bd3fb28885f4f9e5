package rules

import "net/http"

// wireRules are the rules of the front end: JSON, envelope, declared fields and their types. They
// do not depend on models.
func wireRules() []Rule {
	return []Rule{
		{Name: "json.utf8", Section: "13.2", Step: 1,
			Pass: internal(`{` + hi + `}`),
			Fail: Example{Body: "{\"request\":{\"contents\":\"\xff\"}}"},
			Text: "Invalid JSON payload received. Encountered non UTF-8 code points."},
		{Name: "json.syntax", Section: "13.2", Step: 1,
			Pass: internal(`{` + hi + `}`),
			Fail: Example{Body: `{"request": {,}}`},
			Text: "Invalid JSON payload received. Unexpected token.\n{\"request\": {,}}\n             ^"},
		{Name: "json.root", Section: "13.2", Step: 1,
			Pass: internal(`{` + hi + `}`),
			Fail: Example{Body: `[{}]`},
			Text: `Invalid JSON payload received. Unknown name "": Root element must be a message.`},
		{Name: "envelope.unknown_name", Section: "1.8", Step: 5,
			Pass: Example{Body: `{"project":"p","model":"gemini-3-flash","userAgent":"antigravity","requestType":"agent","request_id":"agent-1","enabledCreditTypes":["GOOGLE_ONE_AI"],"request":{` + hi + `}}`},
			Fail: Example{Body: `{"project":"p","model":"gemini-3-flash","system_instruction":{},"request":{` + hi + `}}`},
			Text: `Invalid JSON payload received. Unknown name "system_instruction": Cannot find field.`},
		{Name: "envelope.list_for_singular", Section: "6.1", Step: 5,
			Pass: internal(`{` + hi + `}`),
			Fail: Example{Body: `{"project":"p","model":"gemini-3-flash","request":[]}`},
			Text: `Invalid JSON payload received. Unknown name "request": Proto field is not repeating, cannot start list.`},
		{Name: "envelope.value", Section: "6.1", Step: 5,
			Pass: internal(`{` + hi + `}`),
			Fail: Example{Body: `{"project":7,"model":"gemini-3-flash","request":{` + hi + `}}`},
			Text: `Invalid value at 'project' (TYPE_STRING), 7`},
		{Name: "envelope.duplicate_spelling", Section: "1.8", Step: 5,
			Pass: Example{Body: `{"project":"p","model":"gemini-3-flash","requestId":"a","request_id":"a","request":{` + hi + `}}`},
			Fail: Example{Body: `{"project":"p","model":"gemini-3-flash","requestId":"a","request_id":"a","request":{` + hi + `}}`,
				Switches: func(s *Switches) { s.RejectDuplicateSpelling = true }},
			Text: `Invalid JSON payload received. Unknown name "request_id": Proto field is already set.`},
		{Name: "model.method", Section: "8.2", Step: 8, check: checkMethod,
			Pass: Example{Surface: V1Beta, Method: Count, Model: "gemini-embedding-001", Request: `{` + hi + `}`},
			Fail: Example{Surface: V1Beta, Model: "gemini-embedding-001", Request: `{` + hi + `}`},
			Text: "models/gemini-embedding-001 is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."},
		{Name: "request.unknown_name", Section: "1.8", Step: 9, check: walked("request.unknown_name"),
			Pass: internal(`{` + hi + `,"generation_config":{"thinking_config":{"thinking_budget":1024}}}`),
			Fail: internal(`{` + hi + `,"messages":[]}`),
			Text: `Invalid JSON payload received. Unknown name "messages" at 'request': Cannot find field.`},
		{Name: "request.list_for_singular", Section: "6.1", Step: 9, check: walked("request.list_for_singular"),
			Pass: internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object"}}]}]}`),
			Fail: internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":["string","null"]}}]}]}`),
			Text: `Invalid JSON payload received. Unknown name "type" at 'request.tools[0].function_declarations[0].parameters': Proto field is not repeating, cannot start list.`},
		{Name: "request.value", Section: "1.8", Step: 9, check: walked("request.value"),
			Pass: internal(`{` + hi + `,"systemInstruction":{"parts":[{"text":"be brief"}]}}`),
			Fail: internal(`{` + hi + `,"systemInstruction":"be brief"}`),
			Text: `Invalid value at 'request.system_instruction' (type.googleapis.com/google.internal.cloud.code.v1internal.Content), "be brief"`},
		{Name: "request.enum", Section: "6.1", Step: 9, check: walked("request.enum"),
			Pass: beta(`{` + hi + `,"toolConfig":{"functionCallingConfig":{"mode":"validated"}}}`),
			Fail: beta(`{` + hi + `,"toolConfig":{"functionCallingConfig":{"mode":"required"}}}`),
			Text: `Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.Mode), "required"`},
		{Name: "request.base64", Section: "13.2", Step: 9, check: walked("request.base64"),
			Pass: beta(`{"contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"iVBORw0KGgo="}}]}]}`),
			Fail: beta(`{"contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"data:image/png;base64,iVBO"}}]}]}`),
			Text: `Invalid value at 'contents[0].parts[0].inline_data.data' (TYPE_BYTES), Base64 decoding failed for "data:image/png;base64,iVBO"`},
		{Name: "request.oneof", Section: "13.2", Step: 9, check: walked("request.oneof"),
			Pass: internal(`{` + turnsJSON(`user [{"text":"a"},{"inlineData":{"mimeType":"image/png","data":""}}]`) + `}`),
			Fail: internal(`{` + turnsJSON(`user [{"text":"a","inlineData":{"mimeType":"image/png","data":""}}]`) + `}`),
			Text: `Invalid value at 'request.contents[0].parts[0]' (oneof), oneof field 'data' is already set. Cannot set 'inlineData'`},
		{Name: "request.duplicate_spelling", Section: "1.8", Step: 9, check: walked("request.duplicate_spelling"),
			Pass: internal(`{` + hi + `,"toolConfig":{},"tool_config":{}}`),
			Fail: internal(`{` + hi + `,"toolConfig":{},"tool_config":{}}`).with(func(s *Switches) { s.RejectDuplicateSpelling = true }),
			Text: `Invalid JSON payload received. Unknown name "tool_config" at 'request': Proto field is already set.`},
		{Name: "request.depth", Section: "6.1", Step: 9, check: walked("request.depth"),
			Pass: beta(`{` + hi + nested(90) + `}`),
			Fail: beta(`{` + hi + nested(101) + `}`),
			Text: `Invalid JSON payload received. Message too deep. Max recursion depth reached for key 'items'`},
		{Name: "count.exclusive", Section: "1.4", Step: 9, check: checkCount,
			Pass: Example{Surface: V1Beta, Method: Count, Request: `{"generateContentRequest":{"model":"models/gemini-3-flash",` + hi + `}}`},
			Fail: Example{Surface: V1Beta, Method: Count, Request: `{` + hi + `,"generateContentRequest":{` + hi + `}}`},
			Text: "Both contents and generate_content_request are set. Please set only one of them."},
	}
}

// walked returns a check that refuses the objections of the walker, if the first one is of this
// kind. The kinds are separate rules so that each has a name and examples; the answer always lists
// all objections.
func walked(kind string) func(*request) *Refusal {
	return func(r *request) *Refusal {
		if len(r.violations) == 0 || r.violations[0].rule != kind {
			return nil
		}
		return refuseViolations(r.violations)
	}
}

func checkMethod(r *request) *Refusal {
	if r.in.Model.Family != Embedding || r.in.Method == Count {
		return nil
	}
	refusal := refuse("models/" + r.in.Model.ID + " is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.")
	refusal.Status, refusal.Code = http.StatusNotFound, "NOT_FOUND"
	return refusal
}

func checkCount(r *request) *Refusal {
	if !r.bothCounts {
		return nil
	}
	return refuse("Both contents and generate_content_request are set. Please set only one of them.")
}

// nested returns a response schema of arrays within arrays, for an example.
func nested(depth int) string {
	text := `{"type":"string"}`
	for range depth {
		text = `{"type":"array","items":` + text + `}`
	}
	return `,"generationConfig":{"responseMimeType":"application/json","responseSchema":` + text + `}`
}

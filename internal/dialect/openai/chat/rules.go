package chat

import "perigee"

// Rules says what becomes of each field of a Chat Completions request.
func Rules() []perigee.FieldRule {
	with := func(field string) string {
		return `{"model":"gemini-3-flash","messages":[{"role":"user","content":"hi"}],` + field + `}`
	}
	talk := func(messages string) string { return `{"model":"gemini-3-flash","messages":[` + messages + `]}` }
	user := func(part string) string { return talk(`{"role":"user","content":[` + part + `]}`) }
	tools := func(more string) string {
		return with(`"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}]` + more)
	}
	loop := func(call, result string) string {
		return talk(`{"role":"user","content":"hi"},{"role":"assistant","content":null,` + call + `},` + result)
	}
	call := `"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{}"}}]`
	result := `{"role":"tool","tool_call_id":"call_1","content":"done"}`

	const (
		carried  = perigee.HandlingCarried
		mapped   = perigee.HandlingMapped
		dropped  = perigee.HandlingDropped
		accepted = perigee.HandlingAccepted
		refused  = perigee.HandlingRefused
	)
	return []perigee.FieldRule{
		{Field: "model", Handling: carried, Becomes: "the model; without it, models.default", Example: with(`"stream":false`)},
		{Field: "messages[].role system, developer", Handling: carried, Becomes: "systemInstruction, in order", Example: talk(`{"role":"system","content":"be brief"},{"role":"developer","content":"be kind"},{"role":"user","content":"hi"}`)},
		{Field: "messages[].role system inside the conversation", Handling: mapped, Becomes: "systemInstruction: the provider has one place for it", Example: talk(`{"role":"user","content":"hi"},{"role":"system","content":"be brief"}`)},
		{Field: "messages[].role user, assistant", Handling: carried, Becomes: "contents", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":"yes?"},{"role":"user","content":"go on"}`)},
		{Field: "messages[].role tool", Handling: carried, Becomes: "functionResponse, all of a turn in one content, in the order of the calls", Example: loop(call, result)},
		{Field: "messages[].role function", Handling: carried, Becomes: "functionResponse", Example: loop(`"function_call":{"name":"read","arguments":"{}"}`, `{"role":"function","name":"read","content":"done"}`)},
		{Field: "messages[].name", Handling: dropped, Becomes: "contents have no names", Example: talk(`{"role":"user","name":"bob","content":"hi"}`)},
		{Field: "messages[].tool_calls", Handling: carried, Becomes: "functionCall; ids stay", Example: loop(call, result)},
		{Field: "messages[].tool_calls[].custom", Handling: carried, Becomes: "functionCall with one argument, input", Example: loop(`"tool_calls":[{"id":"call_1","type":"custom","custom":{"name":"patch","input":"*** Begin"}}]`, result)},
		{Field: "messages[].tool_calls[].function.arguments", Handling: mapped, Becomes: "args; a text that is no JSON object becomes {\"arguments\": text}", Example: loop(`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{oops"}}]`, result)},
		{Field: "messages[].tool_calls[].extra_content.google.thought_signature", Handling: carried, Becomes: "thoughtSignature of the call", Example: loop(`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]`, result)},
		{Field: "messages[].extra_content.google.thought_signature", Handling: carried, Becomes: "thoughtSignature of the text", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":"yes?","extra_content":{"google":{"thought_signature":"c2ln"}}}`)},
		{Field: "messages[].extra_content.google.reasoning_signature", Handling: carried, Becomes: "a thought with its thoughtSignature", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":"yes?","reasoning_content":"hm","extra_content":{"google":{"reasoning_signature":"c2ln"}}}`)},
		{Field: "messages[].reasoning_content", Handling: dropped, Becomes: "thoughts that the provider did not seal are not sent back to it", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":"yes?","reasoning_content":"hm"}`)},
		{Field: "messages[].refusal", Handling: mapped, Becomes: "text", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":null,"refusal":"no"}`)},
		{Field: "messages[].audio", Handling: dropped, Becomes: "names a sound that the vendor keeps", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":"yes?","audio":{"id":"audio_1"}}`)},
		{Field: "messages[].annotations", Handling: accepted, Becomes: "sources of an earlier answer", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":"yes?","annotations":[]}`)},
		{Field: "messages[].images", Handling: carried, Becomes: "inlineData of the model's turn", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":null,"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}`)},
		{Field: "messages[].content[].text", Handling: carried, Becomes: "text", Example: user(`{"type":"text","text":"hi"}`)},
		{Field: "messages[].content[].image_url, data URL", Handling: carried, Becomes: "inlineData", Example: user(`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`)},
		{Field: "messages[].content[].image_url, web", Handling: carried, Becomes: "fileData, with the type that the extension tells", Example: user(`{"type":"image_url","image_url":{"url":"https://example.com/cat.png"}}`)},
		{Field: "messages[].content[].image_url.detail", Handling: carried, Becomes: "mediaResolution of the whole request; of several, the finest", Example: user(`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}`)},
		{Field: "messages[].content[].image_url.detail original", Handling: mapped, Becomes: "MEDIA_RESOLUTION_HIGH, the finest there is", Example: user(`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"original"}}`)},
		{Field: "messages[].content[].cache_control", Handling: accepted, Becomes: "a hint, also in a message or a tool: the provider caches by itself", Example: user(`{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}`)},
		{Field: "messages[].content[].input_audio", Handling: carried, Becomes: "inlineData", Example: user(`{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`)},
		{Field: "messages[].content[].file.file_data", Handling: carried, Becomes: "inlineData", Example: user(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}`)},
		{Field: "messages[].content[].file.file_id", Handling: refused, Becomes: "there are no stored files", Example: user(`{"type":"file","file":{"file_id":"file-1"}}`)},
		{Field: "messages[].content[].refusal", Handling: mapped, Becomes: "text", Example: talk(`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`)},

		{Field: "tools[].function", Handling: carried, Becomes: "functionDeclarations, with the schema as parametersJsonSchema", Example: tools(``)},
		{Field: "tools[].function.strict", Handling: accepted, Becomes: "what the provider does anyway", Example: with(`"tools":[{"type":"function","function":{"name":"read","strict":true,"parameters":{"type":"object"}}}]`)},
		{Field: "tools[].name", Handling: accepted, Becomes: "the name of the function, which has it, too", Example: with(`"tools":[{"type":"function","name":"read","function":{"name":"read","parameters":{"type":"object"}}}]`)},
		{Field: "tools[].cache_control", Handling: accepted, Becomes: "a hint: the provider caches by itself", Example: with(`"tools":[{"type":"function","function":{"name":"read"},"cache_control":{"type":"ephemeral"}}]`)},
		{Field: "tools[].custom", Handling: mapped, Becomes: "a function with one parameter, input; a grammar goes into its description", Example: with(`"tools":[{"type":"custom","custom":{"name":"patch","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"a\""}}}}]`)},
		{Field: "tools[].google_search, url_context, code_execution", Handling: carried, Becomes: "the provider's own tool", Example: with(`"tools":[{"google_search":{}}]`)},
		{Field: "tool_choice auto, none, required", Handling: carried, Becomes: "functionCallingConfig.mode", Example: tools(`,"tool_choice":"required"`)},
		{Field: "tool_choice validated", Handling: carried, Becomes: "mode VALIDATED: words, or calls that match their schemas; GitHub Copilot asks Gemini models for it", Example: tools(`,"tool_choice":"validated"`)},
		{Field: "tool_choice.function", Handling: carried, Becomes: "mode ANY with allowedFunctionNames", Example: tools(`,"tool_choice":{"type":"function","function":{"name":"read"}}`)},
		{Field: "tool_choice, a name that is not in tools", Handling: refused, Becomes: "as the vendor does; so is a type that the API has not", Example: tools(`,"tool_choice":{"type":"function","function":{"name":"write"}}`)},
		{Field: "tool_choice.allowed_tools", Handling: carried, Becomes: "mode VALIDATED or ANY with allowedFunctionNames", Example: tools(`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"read"}}]}}`)},
		{Field: "parallel_tool_calls", Handling: dropped, Becomes: "false has no equivalent; true is what models do", Example: tools(`,"parallel_tool_calls":false`)},
		{Field: "functions", Handling: carried, Becomes: "functionDeclarations; answers come as function_call", Example: with(`"functions":[{"name":"read","parameters":{"type":"object"}}]`)},
		{Field: "function_call", Handling: carried, Becomes: "functionCallingConfig", Example: with(`"functions":[{"name":"read"}],"function_call":{"name":"read"}`)},
		{Field: "web_search_options", Handling: carried, Becomes: "the tool googleSearch; sources come back as annotations", Example: with(`"web_search_options":{}`)},
		{Field: "web_search_options.search_context_size", Handling: dropped, Becomes: "the provider decides", Example: with(`"web_search_options":{"search_context_size":"low"}`)},
		{Field: "web_search_options.user_location", Handling: dropped, Becomes: "googleSearch has none", Example: with(`"web_search_options":{"user_location":{"type":"approximate"}}`)},

		{Field: "response_format.json_object", Handling: carried, Becomes: "responseMimeType", Example: with(`"response_format":{"type":"json_object"}`)},
		{Field: "response_format.json_schema", Handling: carried, Becomes: "responseMimeType and responseJsonSchema", Example: with(`"response_format":{"type":"json_schema","json_schema":{"name":"city","strict":true,"schema":{"type":"object"}}}`)},
		{Field: "response_format.json_schema without a schema", Handling: refused, Becomes: "there is nothing to follow", Example: with(`"response_format":{"type":"json_schema","json_schema":{"name":"city"}}`)},
		{Field: "response_format.json_schema.description", Handling: dropped, Becomes: "put it into the schema", Example: with(`"response_format":{"type":"json_schema","json_schema":{"name":"city","description":"a city","schema":{"type":"object"}}}`)},
		{Field: "modalities text, image", Handling: carried, Becomes: "responseModalities; pictures come back as images", Example: with(`"modalities":["text","image"]`)},
		{Field: "modalities audio", Handling: dropped, Becomes: "answers are not spoken", Example: with(`"modalities":["text","audio"]`)},
		{Field: "audio", Handling: dropped, Becomes: "answers are not spoken", Example: with(`"audio":{"voice":"alloy","format":"wav"}`)},
		{Field: "verbosity", Handling: dropped, Becomes: "it changes how long answers are: ask for it in words; medium, the default, is accepted", Example: with(`"verbosity":"low"`)},

		{Field: "max_completion_tokens", Handling: carried, Becomes: "maxOutputTokens", Example: with(`"max_completion_tokens":100`)},
		{Field: "max_tokens", Handling: carried, Becomes: "maxOutputTokens", Example: with(`"max_tokens":100`)},
		{Field: "temperature", Handling: carried, Becomes: "temperature", Example: with(`"temperature":0.5`)},
		{Field: "top_p", Handling: carried, Becomes: "topP", Example: with(`"top_p":0.5`)},
		{Field: "top_k", Handling: carried, Becomes: "topK", Example: with(`"top_k":40`)},
		{Field: "presence_penalty", Handling: carried, Becomes: "presencePenalty", Example: with(`"presence_penalty":0.5`)},
		{Field: "frequency_penalty", Handling: carried, Becomes: "frequencyPenalty", Example: with(`"frequency_penalty":0.5`)},
		{Field: "seed", Handling: carried, Becomes: "seed; one beyond 32 bits is folded, with a note", Example: with(`"seed":7`)},
		{Field: "stop", Handling: carried, Becomes: "stopSequences", Example: with(`"stop":["END"]`)},
		{Field: "stop sequences after the fifth", Handling: dropped, Becomes: "the provider takes five", Example: with(`"stop":["a","b","c","d","e","f"]`)},
		{Field: "n", Handling: carried, Becomes: "candidateCount", Example: with(`"n":2`)},
		{Field: "logprobs", Handling: carried, Becomes: "responseLogprobs; whether the model has any shows in its answer only, so strict cannot refuse it: where none come, there is a note, of a stream in the record", Example: with(`"logprobs":true`)},
		{Field: "top_logprobs", Handling: carried, Becomes: "logprobs", Example: with(`"logprobs":true,"top_logprobs":3`)},
		{Field: "logit_bias", Handling: dropped, Becomes: "tokens have other numbers", Example: with(`"logit_bias":{"50256":-100}`)},

		{Field: "reasoning_effort none", Handling: carried, Becomes: "thinkingBudget 0", Example: with(`"reasoning_effort":"none"`)},
		{Field: "reasoning_effort minimal, low, medium, high", Handling: carried, Becomes: "thinkingLevel, and thoughts come back as reasoning_content", Example: with(`"reasoning_effort":"high"`)},
		{Field: "reasoning_effort xhigh", Handling: mapped, Becomes: "thinkingLevel high", Example: with(`"reasoning_effort":"xhigh"`)},
		{Field: "reasoning", Handling: carried, Becomes: "as reasoning_effort, or thinkingBudget", Example: with(`"reasoning":{"effort":"low"}`)},
		{Field: "thinking", Handling: carried, Becomes: "thinkingBudget", Example: with(`"thinking":{"type":"enabled","budget_tokens":1024}`)},
		{Field: "google.thinking_config", Handling: carried, Becomes: "thinkingConfig; also inside extra_body", Example: with(`"extra_body":{"google":{"thinking_config":{"thinking_budget":1024,"include_thoughts":true}}}`)},
		{Field: "google.cached_content", Handling: carried, Becomes: "cachedContent", Example: with(`"google":{"cached_content":"cachedContents/1"}`)},
		{Field: "google.safety_settings", Handling: carried, Becomes: "safetySettings", Example: with(`"google":{"safety_settings":[]}`)},

		{Field: "stream", Handling: carried, Becomes: "chat.completion.chunk events", Example: with(`"stream":true`)},
		{Field: "stream_options.include_usage", Handling: carried, Becomes: "a last chunk with the usage", Example: with(`"stream":true,"stream_options":{"include_usage":true}`)},
		{Field: "stream_options.include_obfuscation", Handling: accepted, Becomes: "nobody listens in between", Example: with(`"stream":true,"stream_options":{"include_obfuscation":false}`)},
		{Field: "prompt_cache_key", Handling: carried, Becomes: "the name of the conversation", Example: with(`"prompt_cache_key":"c-1"`)},
		{Field: "prompt_cache_retention", Handling: accepted, Becomes: "the provider decides", Example: with(`"prompt_cache_retention":"24h"`)},
		{Field: "prediction", Handling: accepted, Becomes: "it changes the speed of an answer only", Example: with(`"prediction":{"type":"content","content":"x"}`)},
		{Field: "messages with nothing in them", Handling: refused, Becomes: "the provider answers nothing but a question", Example: talk(`{"role":"user","content":""}`)},
		{Field: "metadata", Handling: accepted, Becomes: "for the vendor's records; what is no object is refused", Example: with(`"metadata":{"a":"b"}`)},
		{Field: "user", Handling: accepted, Becomes: "for the vendor's records", Example: with(`"user":"bob"`)},
		{Field: "safety_identifier", Handling: accepted, Becomes: "for the vendor's records", Example: with(`"safety_identifier":"bob"`)},
		{Field: "store", Handling: dropped, Becomes: "true: answers are not kept to be fetched later", Example: with(`"store":true`)},
		{Field: "service_tier", Handling: dropped, Becomes: "there is one; auto and default are accepted", Example: with(`"service_tier":"flex"`)},
	}
}

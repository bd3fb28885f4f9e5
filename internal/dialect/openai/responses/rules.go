package responses

import "perigee"

// Rules says what becomes of each field of a Responses request.
func Rules() []perigee.FieldRule {
	const (
		carried  = perigee.HandlingCarried
		mapped   = perigee.HandlingMapped
		dropped  = perigee.HandlingDropped
		accepted = perigee.HandlingAccepted
		refused  = perigee.HandlingRefused
	)
	with := func(field string) string { return `{"model":"gemini-3-flash","input":"hi",` + field + `}` }
	return append([]perigee.FieldRule{
		{Field: "model", Handling: carried, Becomes: "the model; without it, models.default", Example: with(`"stream":false`)},
		{Field: "input", Handling: carried, Becomes: "the conversation: a string, or items", Example: with(`"stream":false`)},
		{Field: "input with nothing in it", Handling: refused, Becomes: "unless there are instructions, or a response that is gone on from", Example: `{"model":"gemini-3-flash","input":""}`},
		{Field: "instructions", Handling: carried, Becomes: "systemInstruction", Example: with(`"instructions":"be brief"`)},
		{Field: "stream", Handling: carried, Becomes: "events in the order of the API", Example: with(`"stream":true`)},
		{Field: "stream_options.include_obfuscation", Handling: accepted, Becomes: "padding of events, which loopback does not need", Example: with(`"stream":true,"stream_options":{"include_obfuscation":true}`)},
		{Field: "store", Handling: carried, Becomes: "kept for 30 days, for the same key; on unless it is false", Example: with(`"store":true`)},
		{Field: "previous_response_id", Handling: carried, Becomes: "the stored conversation before this input", Example: with(`"previous_response_id":"resp_stored"`)},
		{Field: "previous_response_id, not stored", Handling: refused, Becomes: "an error: perigee has no response with this id, or it belongs to another key", Example: with(`"previous_response_id":"resp_none"`)},
		{Field: "background", Handling: carried, Becomes: "an answer at once, and the response in the store when it is done; ends with perigee", Example: with(`"background":true`)},
		{Field: "conversation", Handling: refused, Becomes: "perigee keeps no conversations: use previous_response_id", Example: with(`"conversation":"conv_1"`)},
		{Field: "prompt", Handling: refused, Becomes: "perigee keeps no prompts", Example: with(`"prompt":{"id":"pmpt_1"}`)},
		{Field: "temperature", Handling: carried, Becomes: "temperature", Example: with(`"temperature":0.2`)},
		{Field: "top_p", Handling: carried, Becomes: "topP", Example: with(`"top_p":0.9`)},
		{Field: "presence_penalty", Handling: carried, Becomes: "presencePenalty", Example: with(`"presence_penalty":0.5`)},
		{Field: "frequency_penalty", Handling: carried, Becomes: "frequencyPenalty", Example: with(`"frequency_penalty":0.5`)},
		{Field: "max_output_tokens", Handling: carried, Becomes: "maxOutputTokens", Example: with(`"max_output_tokens":100`)},
		{Field: "top_logprobs", Handling: carried, Becomes: "responseLogprobs, logprobs", Example: with(`"top_logprobs":3`)},
		{Field: "logprobs that do not come", Handling: accepted, Becomes: "whether the model has any shows in its answer only, so strict cannot refuse it: there is a note then, of a stream in the record", Example: with(`"top_logprobs":3`)},
		{Field: "max_tool_calls", Handling: dropped, Becomes: "it counts calls of tools that the vendor hosts", Example: with(`"max_tool_calls":3`)},
		{Field: "parallel_tool_calls", Handling: dropped, Becomes: "true is what happens anyway; false has no equivalent", Example: with(`"parallel_tool_calls":false`)},
		{Field: "truncation", Handling: accepted, Becomes: "everything goes to the model; auto would allow less", Example: with(`"truncation":"auto"`)},
		{Field: "truncation, a word that the API has not", Handling: refused, Becomes: "want auto or disabled", Example: with(`"truncation":"some"`)},
		{Field: "service_tier", Handling: dropped, Becomes: "there is one tier; auto and default are accepted", Example: with(`"service_tier":"flex"`)},
		{Field: "metadata", Handling: accepted, Becomes: "repeated in the answer", Example: with(`"metadata":{"run":"7"}`)},
		{Field: "metadata beyond the limits of the API", Handling: refused, Becomes: "16 pairs, keys of 64 and values of 512 characters, all of them strings", Example: with(`"metadata":{"run":7}`)},
		{Field: "client_metadata", Handling: accepted, Becomes: "what Codex says about itself", Example: with(`"client_metadata":{"turn_id":"7"}`)},
		{Field: "user", Handling: accepted, Becomes: "repeated in the answer", Example: with(`"user":"u1"`)},
		{Field: "safety_identifier", Handling: accepted, Becomes: "repeated in the answer", Example: with(`"safety_identifier":"u1"`)},
		{Field: "prompt_cache_key", Handling: carried, Becomes: "the name of the session", Example: with(`"prompt_cache_key":"s1"`)},
		{Field: "prompt_cache_retention", Handling: accepted, Becomes: "a hint that changes no answer", Example: with(`"prompt_cache_retention":"24h"`)},
		{Field: "prompt_cache_options", Handling: dropped, Becomes: "the provider caches by itself", Example: with(`"prompt_cache_options":{"mode":"explicit"}`)},
		{Field: "moderation", Handling: dropped, Becomes: "the provider has filters of its own", Example: with(`"moderation":{"model":"m"}`)},
		{Field: "context_management", Handling: dropped, Becomes: "nothing is compacted", Example: with(`"context_management":[]`)},
		{Field: "text.format text", Handling: carried, Becomes: "the default", Example: with(`"text":{"format":{"type":"text"}}`)},
		{Field: "text.format json_object", Handling: carried, Becomes: "responseMimeType", Example: with(`"text":{"format":{"type":"json_object"}}`)},
		{Field: "text.format json_schema", Handling: carried, Becomes: "responseJsonSchema", Example: with(`"text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":{"type":"object"}}}`)},
		{Field: "text.format json_schema without a schema", Handling: refused, Becomes: "there is nothing to follow", Example: with(`"text":{"format":{"type":"json_schema","name":"x"}}`)},
		{Field: "text.format.description", Handling: dropped, Becomes: "the schema has room for descriptions", Example: with(`"text":{"format":{"type":"json_schema","name":"x","description":"y","schema":{"type":"object"}}}`)},
		{Field: "text.verbosity", Handling: dropped, Becomes: "medium is accepted; the others have no equivalent", Example: with(`"text":{"verbosity":"low"}`)},
		{Field: "reasoning.effort", Handling: carried, Becomes: "thinkingLevel, or a budget where the model has no levels", Example: with(`"reasoning":{"effort":"high"}`)},
		{Field: "reasoning.summary auto", Handling: carried, Becomes: "the thinking, in reasoning items", Example: with(`"reasoning":{"summary":"auto"}`)},
		{Field: "reasoning.summary", Handling: mapped, Becomes: "concise and detailed are auto", Example: with(`"reasoning":{"summary":"detailed"}`)},
		{Field: "reasoning.generate_summary", Handling: mapped, Becomes: "the older name of summary", Example: with(`"reasoning":{"generate_summary":"concise"}`)},
		{Field: "reasoning.context", Handling: dropped, Becomes: "the model gets the reasoning that the client sends; auto and all_turns are accepted", Example: with(`"reasoning":{"context":"current_turn"}`)},
		{Field: "include reasoning.encrypted_content", Handling: carried, Becomes: "thinking and signatures that the client can send again", Example: with(`"include":["reasoning.encrypted_content"]`)},
		{Field: "include message.output_text.logprobs", Handling: carried, Becomes: "responseLogprobs", Example: with(`"include":["message.output_text.logprobs"]`)},
		{Field: "include web_search_call.action.sources", Handling: carried, Becomes: "what the provider found", Example: with(`"include":["web_search_call.action.sources"]`)},
		{Field: "include message.input_image.image_url", Handling: accepted, Becomes: "always there", Example: with(`"include":["message.input_image.image_url"]`)},
		{Field: "include, a value that the API has not", Handling: refused, Becomes: "the error lists those that it has", Example: with(`"include":["everything"]`)},
		{Field: "include file_search_call.results", Handling: dropped, Becomes: "there is no such tool; web_search_call.results and code_interpreter_call.outputs alike", Example: with(`"include":["file_search_call.results"]`)},
	}, append(toolRules(), itemRules()...)...)
}

func toolRules() []perigee.FieldRule {
	with := func(tool, more string) string {
		return `{"model":"gemini-3-flash","input":"hi","tools":[` + tool + `]` + more + `}`
	}
	const (
		carried  = perigee.HandlingCarried
		mapped   = perigee.HandlingMapped
		dropped  = perigee.HandlingDropped
		accepted = perigee.HandlingAccepted
		refused  = perigee.HandlingRefused
		read     = `{"type":"function","name":"read","description":"reads","parameters":{"type":"object"}}`
	)
	hosted := func(kind, more string) perigee.FieldRule {
		return perigee.FieldRule{Field: "tools[" + kind + "]", Handling: dropped, Becomes: "a tool that only the vendor has", Example: with(`{"type":"`+kind+`"`+more+`}`, "")}
	}
	return []perigee.FieldRule{
		{Field: "tools[function]", Handling: carried, Becomes: "functionDeclarations, with the schema as it is", Example: with(read, "")},
		{Field: "tools[].strict", Handling: accepted, Becomes: "the provider keeps to schemas anyway", Example: with(`{"type":"function","name":"read","strict":true,"parameters":{"type":"object"}}`, "")},
		{Field: "tools[].defer_loading", Handling: accepted, Becomes: "every tool is shown at once", Example: with(`{"type":"function","name":"read","defer_loading":true,"parameters":{"type":"object"}}`, "")},
		{Field: "tools[].output_schema", Handling: dropped, Becomes: "the model sees what the tool answers", Example: with(`{"type":"function","name":"read","output_schema":{}}`, "")},
		{Field: "tools[custom]", Handling: mapped, Becomes: "a function with one string, input; a grammar becomes part of its description", Example: with(`{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: WORD"}}`, "")},
		{Field: "tools[namespace]", Handling: mapped, Becomes: "functions called NAMESPACE__NAME, and name and namespace again in the answer", Example: with(`{"type":"namespace","name":"files","description":"","tools":[`+read+`]}`, "")},
		{Field: "tools[tool_search]", Handling: mapped, Becomes: "a function, where the client searches; dropped where the vendor does", Example: with(`{"type":"tool_search","execution":"client","parameters":{"type":"object"}}`, "")},
		{Field: "tools[web_search]", Handling: carried, Becomes: "googleSearch; beside functions only where the model can", Example: with(`{"type":"web_search"}`, "")},
		{Field: "tools[web_search].filters", Handling: dropped, Becomes: "the search cannot be narrowed", Example: with(`{"type":"web_search","filters":{"allowed_domains":["example.org"]}}`, "")},
		{Field: "tools[web_search].user_location", Handling: dropped, Becomes: "the search cannot be narrowed", Example: with(`{"type":"web_search","user_location":{"type":"approximate"}}`, "")},
		{Field: "tools[web_search].external_web_access", Handling: dropped, Becomes: "false: the search has no cached pages to stay with; true is accepted", Example: with(`{"type":"web_search","external_web_access":false}`, "")},
		{Field: "tools[web_search].search_context_size", Handling: dropped, Becomes: "the provider decides", Example: with(`{"type":"web_search_preview","search_context_size":"low"}`, "")},
		hosted("file_search", `,"vector_store_ids":["vs_1"]`),
		hosted("code_interpreter", `,"container":{"type":"auto"}`),
		hosted("image_generation", ``),
		hosted("computer_use_preview", `,"display_width":1,"display_height":1,"environment":"linux"`),
		hosted("local_shell", ``),
		hosted("shell", ``),
		hosted("apply_patch", ``),
		hosted("mcp", `,"server_label":"x","server_url":"https://example.org"`),
		{Field: "tool_choice auto", Handling: carried, Becomes: "the default", Example: with(read, `,"tool_choice":"auto"`)},
		{Field: "tool_choice none, required", Handling: carried, Becomes: "mode NONE, mode ANY", Example: with(read, `,"tool_choice":"required"`)},
		{Field: "tool_choice validated", Handling: carried, Becomes: "mode VALIDATED: words, or calls that match their schemas", Example: with(read, `,"tool_choice":"validated"`)},
		{Field: "tool_choice function, custom", Handling: carried, Becomes: "mode ANY with the one name", Example: with(read, `,"tool_choice":{"type":"function","name":"read"}`)},
		{Field: "tool_choice allowed_tools", Handling: carried, Becomes: "mode ANY with the names, or only these tools declared", Example: with(read, `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"read"}]}`)},
		{Field: "tool_choice, a name that is not in tools", Handling: refused, Becomes: "as the vendor does; so is a type that the API has not", Example: with(read, `,"tool_choice":{"type":"function","name":"write"}`)},
		{Field: "tool_choice[file_search]", Handling: dropped, Becomes: "there is no such tool", Example: with(read, `,"tool_choice":{"type":"file_search"}`)},
	}
}

func itemRules() []perigee.FieldRule {
	items := func(items string) string { return `{"model":"gemini-3-flash","input":[` + items + `]}` }
	user := func(part string) string { return items(`{"role":"user","content":[` + part + `]}`) }
	loop := func(call, output string) string {
		return items(`{"role":"user","content":"hi"},` + call + `,` + output)
	}
	const (
		carried  = perigee.HandlingCarried
		mapped   = perigee.HandlingMapped
		dropped  = perigee.HandlingDropped
		accepted = perigee.HandlingAccepted
		refused  = perigee.HandlingRefused
		call     = `{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}`
	)
	return []perigee.FieldRule{
		{Field: "input[message] user, assistant", Handling: carried, Becomes: "turns; what one side says in a row is one turn", Example: items(`{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"hu"}`)},
		{Field: "input[message] system, developer", Handling: carried, Becomes: "systemInstruction, in order", Example: items(`{"role":"developer","content":"be brief"},{"role":"user","content":"hi"}`)},
		{Field: "input[].role", Handling: mapped, Becomes: "a system message in the middle goes to systemInstruction, too", Example: items(`{"role":"user","content":"hi"},{"role":"system","content":"be brief"}`)},
		{Field: "input[].content[input_text]", Handling: carried, Becomes: "text", Example: user(`{"type":"input_text","text":"hi"}`)},
		{Field: "input[].content[input_image].image_url", Handling: carried, Becomes: "inlineData from a data: URL, fileData from another", Example: user(`{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}`)},
		{Field: "input[].content[].detail", Handling: carried, Becomes: "mediaResolution of the whole request; of several, the finest", Example: user(`{"type":"input_image","detail":"low","image_url":"data:image/png;base64,iVBORw0KGgo="}`)},
		{Field: "input[].content[].detail original", Handling: mapped, Becomes: "MEDIA_RESOLUTION_HIGH, the finest there is", Example: user(`{"type":"input_image","detail":"original","image_url":"data:image/png;base64,iVBORw0KGgo="}`)},
		{Field: "input[].content[].file_id", Handling: refused, Becomes: "perigee keeps no files: send the data", Example: user(`{"type":"input_file","file_id":"file_1"}`)},
		{Field: "input[].content[input_file].file_data", Handling: carried, Becomes: "inlineData, its type from the data: URL or the filename", Example: user(`{"type":"input_file","filename":"a.pdf","file_data":"JVBERi0="}`)},
		{Field: "input[].content[input_file].file_url", Handling: carried, Becomes: "fileData", Example: user(`{"type":"input_file","file_url":"https://example.org/a.pdf"}`)},
		{Field: "input[].content[input_audio]", Handling: carried, Becomes: "inlineData", Example: user(`{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`)},
		{Field: "input[].content[].annotations", Handling: accepted, Becomes: "they came with an earlier answer", Example: items(`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"output_text","text":"ho","annotations":[]}]},{"role":"user","content":"hu"}`)},
		{Field: "input[function_call]", Handling: carried, Becomes: "functionCall, with its id", Example: loop(call, `{"type":"function_call_output","call_id":"c1","output":"x"}`)},
		{Field: "input[].arguments", Handling: mapped, Becomes: "arguments that are no JSON object are wrapped in one", Example: loop(`{"type":"function_call","call_id":"c1","name":"read","arguments":"{"}`, `{"type":"function_call_output","call_id":"c1","output":"x"}`)},
		{Field: "input[function_call_output]", Handling: carried, Becomes: "functionResponse; images and files inside it where the model reads them there, else behind the answers", Example: loop(call, `{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}`)},
		{Field: "input[custom_tool_call], its output", Handling: carried, Becomes: "functionCall and functionResponse", Example: loop(`{"type":"custom_tool_call","call_id":"c1","name":"patch","input":"x"}`, `{"type":"custom_tool_call_output","call_id":"c1","output":"done"}`)},
		{Field: "input[reasoning]", Handling: carried, Becomes: "thought parts, and the signatures of the calls that followed", Example: items(`{"role":"user","content":"hi"},{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},` + call)},
		{Field: "input[].encrypted_content", Handling: dropped, Becomes: "what is not perigee's own, or was changed, means nothing to the models", Example: items(`{"role":"user","content":"hi"},{"type":"reasoning","summary":[],"encrypted_content":"gAAAAA=="}`)},
		{Field: "input[additional_tools]", Handling: carried, Becomes: "as if its tools stood in tools", Example: items(`{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"read"}]},{"role":"user","content":"hi"}`)},
		{Field: "input[tool_search_call], its output", Handling: carried, Becomes: "functionCall and functionResponse; the tools found may be called", Example: loop(`{"type":"tool_search_call","call_id":"c1","arguments":{}}`, `{"type":"tool_search_output","call_id":"c1","tools":[{"type":"function","name":"read"}]}`)},
		{Field: "input[item_reference]", Handling: carried, Becomes: "the stored item", Example: items(`{"type":"item_reference","id":"msg_stored_i0"}`)},
		{Field: "input[item_reference], not stored", Handling: refused, Becomes: "an error: perigee has no item with this id, or it belongs to another key", Example: items(`{"type":"item_reference","id":"msg_none"}`)},
		{Field: "input[image_generation_call]", Handling: carried, Becomes: "inlineData of the model's", Example: items(`{"role":"user","content":"draw"},{"type":"image_generation_call","id":"ig_1","status":"completed","result":"iVBORw0KGgo="},{"role":"user","content":"bigger"}`)},
		{Field: "input[local_shell_call]", Handling: mapped, Becomes: "functionCall; shell, apply_patch and computer calls alike", Example: items(`{"role":"user","content":"hi"},{"type":"local_shell_call","call_id":"c1","action":{"type":"exec","command":["ls"]}}`)},
		{Field: "input[web_search_call]", Handling: dropped, Becomes: "the text of the answer goes on, and the model is not told again what it had searched for; as an item of an answer it stands before the message, or behind it in a stream whose provider tells late", Example: items(`{"role":"user","content":"hi"},{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}}`)},
		{Field: "input[file_search_call]", Handling: dropped, Becomes: "a call of a tool that only the vendor has; mcp and code_interpreter calls alike", Example: items(`{"role":"user","content":"hi"},{"type":"file_search_call","id":"fs_1","status":"completed","queries":["x"]}`)},
		{Field: "input[compaction]", Handling: dropped, Becomes: "a summary that only the vendor can read", Example: items(`{"role":"user","content":"hi"},{"type":"compaction","encrypted_content":"gAAAAA=="}`)},
	}
}

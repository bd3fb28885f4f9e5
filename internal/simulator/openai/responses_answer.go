package openai

import (
	"cmp"
	"encoding/json"

	"perigee/internal/simulator/completion"
)

// Blocked returns the error of a server that answers a blocked prompt with one, or nil.
func (c *Response) Blocked(r *completion.Reply) *Error {
	if r.Block != "" && c.in.Profile.Filters {
		return contentFilter("prompt")
	}
	return nil
}

// responseReply is a reply on its way into the form of Responses.
type responseReply struct {
	*Response
	*completion.Reply
	output []members
	events []completion.Event
}

// Body encodes an answer in one piece, and stores it.
func (c *Response) Body(r *completion.Reply) []byte {
	a := &responseReply{Response: c, Reply: r}
	a.items()
	status, _ := a.status()
	body := Encode(a.response(status))
	a.save(body)
	return body
}

// Count is the answer to a request for the number of tokens.
func (c *Response) Count(prompt int) any {
	return members{{"object", "response.input_tokens"}, {"input_tokens", prompt}}
}

func (a *responseReply) id() string { return "resp_" + a.ID("response", 48) }

// save stores the response, unless the request forbids it.
func (a *responseReply) save(body []byte) {
	if !a.keep {
		return
	}
	items := append([]any{}, a.input...)
	for _, item := range a.output {
		items = append(items, plain(item))
	}
	previous, _ := a.root["previous_response_id"].(string)
	a.in.Store.put(a.id(), &stored{org: a.in.Org, previous: previous, items: items, body: body, size: len(body) + len(a.in.Body)})
}

// status returns the status of the whole response, and of its last item.
func (a *responseReply) status() (whole, last string) {
	switch a.Candidates[0].Finish {
	case "STOP", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL":
		return "completed", "completed"
	case "MAX_TOKENS":
		return "incomplete", "incomplete"
	case "SAFETY", "PROHIBITED_CONTENT", "RECITATION", "BLOCKLIST", "SPII":
		if a.Block != "" {
			return "completed", "completed" // the message has a refusal
		}
		return "incomplete", "incomplete"
	}
	return "failed", "incomplete"
}

// response encodes the response object in a status.
func (a *responseReply) response(status string) members {
	given := func(name string, otherwise any) member {
		if v, ok := a.root[name]; ok && v != nil {
			return member{name, v}
		}
		return member{name, otherwise}
	}
	var failure, incomplete, usage any
	output := a.output
	switch status {
	case "failed":
		failure = members{{"code", "server_error"}, {"message", "The model failed to answer: " + a.Candidates[0].Finish}}
	case "incomplete":
		reason := "content_filter"
		if a.Candidates[0].Finish == "MAX_TOKENS" {
			reason = "max_output_tokens"
		}
		incomplete = members{{"reason", reason}}
	case "in_progress":
		output = nil
	}
	if output == nil {
		output = []members{}
	}
	if total, thoughts := a.Output(); status != "in_progress" && !a.NoUsage {
		usage = members{{"input_tokens", a.Prompt}, {"input_tokens_details", members{{"cached_tokens", a.Cached}, {"cache_write_tokens", 0}}},
			{"output_tokens", total}, {"output_tokens_details", members{{"reasoning_tokens", thoughts}}}, {"total_tokens", a.Prompt + total}}
	}
	reasoning := members{{"effort", nil}, {"summary", nil}}
	if asked, ok := a.root["reasoning"].(object); ok {
		reasoning = members{{"effort", asked["effort"]}, {"summary", asked["summary"]}}
	}
	text := object{"format": object{"type": "text"}, "verbosity": "medium"}
	if asked, ok := a.root["text"].(object); ok {
		for name, v := range asked {
			text[name] = v
		}
	}
	return members{{"id", a.id()}, {"object", "response"}, {"created_at", a.Created}, {"status", status}, {"background", false}, {"error", failure},
		{"incomplete_details", incomplete}, given("instructions", nil), given("max_output_tokens", nil), given("max_tool_calls", nil), {"model", a.name},
		{"output", output}, given("parallel_tool_calls", true), given("previous_response_id", nil), given("prompt_cache_key", nil), {"reasoning", reasoning},
		given("safety_identifier", nil), {"service_tier", "default"}, {"store", a.keep}, given("temperature", json.Number("1")), {"text", text},
		given("tool_choice", "auto"), given("tools", []any{}), {"top_logprobs", 0}, given("top_p", json.Number("1")), given("truncation", "disabled"),
		{"usage", usage}, given("user", nil), given("metadata", object{})}
}

// items encodes the output items and the events of each.
func (a *responseReply) items() {
	c := a.Candidates[0]
	text, thoughts := split(c)
	if thoughts != "" {
		a.reasoningItem(thoughts)
	}
	if c.Query != "" {
		a.searchItem(c.Query)
	}
	done := false
	for i, p := range c.Parts {
		switch {
		case p.Call != nil:
			a.callItem(p.Call, i)
		case p.Image != nil:
			a.imageItem(p.Image, i)
		case !p.Thought && !done:
			a.messageItem(c, text)
			done = true
		}
	}
	if a.Block != "" {
		a.refusalItem()
	}
}

// open emits the begin of an item and returns its place in the output.
func (a *responseReply) open(item members) int {
	a.event("response.output_item.added", members{{"output_index", len(a.output)}, {"item", item}})
	return len(a.output)
}

// done emits the end of an item and adds it to the output.
func (a *responseReply) done(item members) {
	a.event("response.output_item.done", members{{"output_index", len(a.output)}, {"item", item}})
	a.output = append(a.output, item)
}

// event adds an event; the type comes first and the sequence number last.
func (a *responseReply) event(kind string, content members) {
	body := append(members{{"type", kind}}, content...)
	body.put("sequence_number", len(a.events))
	a.events = append(a.events, completion.Event{Name: kind, Data: Encode(body)})
}

// reasoningItem encodes the thoughts: as a summary if the request asks for one, as plain text on
// servers that show it, and sealed if the request asks for that.
func (a *responseReply) reasoningItem(thoughts string) {
	id := "rs_" + a.ID("reasoning", 48)
	item := func(summary, content []any) members {
		m := members{{"id", id}, {"type", "reasoning"}, {"summary", summary}}
		if content != nil {
			m.put("content", content)
		}
		if a.encrypted {
			m.put("encrypted_content", a.in.Sealer.seal(a.in.Org, id))
		}
		return m
	}
	var content []any
	shown := a.in.Profile.shows(a.Response.Model) != reasoningHidden
	if shown {
		content = []any{}
	}
	at := a.open(item([]any{}, content))
	where := members{{"item_id", id}, {"output_index", at}}
	summary := []any{}
	switch {
	case shown:
		for _, piece := range a.Pieces(thoughts) {
			a.event("response.reasoning_text.delta", append(where[:2:2], member{"content_index", 0}, member{"delta", piece}))
		}
		a.event("response.reasoning_text.done", append(where[:2:2], member{"content_index", 0}, member{"text", thoughts}))
		content = []any{members{{"type", "reasoning_text"}, {"text", thoughts}}}
	case a.summary:
		where = append(where, member{"summary_index", 0})
		part := func(text string) members { return members{{"type", "summary_text"}, {"text", text}} }
		a.event("response.reasoning_summary_part.added", append(where[:3:3], member{"part", part("")}))
		sofar := ""
		for _, piece := range a.Pieces(thoughts) {
			sofar += piece
			if a.Repeated {
				piece = sofar
			}
			a.event("response.reasoning_summary_text.delta", append(where[:3:3], member{"delta", piece}))
		}
		a.event("response.reasoning_summary_text.done", append(where[:3:3], member{"text", thoughts}))
		a.event("response.reasoning_summary_part.done", append(where[:3:3], member{"part", part(thoughts)}))
		summary = []any{part(thoughts)}
	}
	a.done(item(summary, content))
}

// messageItem encodes the text.
func (a *responseReply) messageItem(c completion.Candidate, text string) {
	_, last := a.status()
	id := "msg_" + a.ID("message", 48)
	item := func(status string, content ...any) members {
		return members{{"id", id}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", append([]any{}, content...)}}
	}
	annotations := []any{}
	part := func(text string) members {
		return members{{"type", "output_text"}, {"text", text}, {"annotations", annotations}, {"logprobs", []any{}}}
	}
	where := members{{"item_id", id}, {"output_index", a.open(item("in_progress"))}, {"content_index", 0}}
	a.event("response.content_part.added", append(where[:3:3], member{"part", part("")}))
	for _, piece := range a.Pieces(text) {
		a.event("response.output_text.delta", append(where[:3:3], member{"delta", piece}, member{"logprobs", []any{}}))
	}
	for i, s := range c.Sources {
		annotation := append(members{{"type", "url_citation"}}, citation(s, text)...)
		annotations = append(annotations, annotation)
		a.event("response.output_text.annotation.added", append(where[:3:3], member{"annotation_index", i}, member{"annotation", annotation}))
	}
	a.event("response.output_text.done", append(where[:3:3], member{"text", text}, member{"logprobs", []any{}}))
	a.event("response.content_part.done", append(where[:3:3], member{"part", part(text)}))
	a.done(item(last, part(text)))
}

// refusalItem encodes a refusal.
func (a *responseReply) refusalItem() {
	id := "msg_" + a.ID("refusal", 48)
	item := func(status string, content ...any) members {
		return members{{"id", id}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", append([]any{}, content...)}}
	}
	part := func(text string) members { return members{{"type", "refusal"}, {"refusal", text}} }
	where := members{{"item_id", id}, {"output_index", a.open(item("in_progress"))}, {"content_index", 0}}
	a.event("response.content_part.added", append(where[:3:3], member{"part", part("")}))
	for _, piece := range a.Pieces(refusalText) {
		a.event("response.refusal.delta", append(where[:3:3], member{"delta", piece}))
	}
	a.event("response.refusal.done", append(where[:3:3], member{"refusal", refusalText}))
	a.event("response.content_part.done", append(where[:3:3], member{"part", part(refusalText)}))
	a.done(item("completed", part(refusalText)))
}

// callItem encodes a call of a function or of a custom tool.
func (a *responseReply) callItem(call *completion.Call, number int) {
	kind, field, prefix, event, input := "function_call", "arguments", "fc_", "response.function_call_arguments", string(call.Args)
	if a.custom[call.Name] {
		kind, field, prefix, event, input = "custom_tool_call", "input", "ctc_", "response.custom_tool_call_input", customInput(call)
	}
	id, callID := prefix+a.ID(completion.Name(kind, number), 48), "call_"+a.ID(completion.Name("call", number), 24)
	item := func(status, input string) members {
		m := members{{"id", id}, {"type", kind}, {"status", status}, {field, input}, {"call_id", callID}, {"name", call.Name}}
		if space := a.namespaces[call.Name]; space != "" {
			m.put("namespace", space)
		}
		return m
	}
	where := members{{"item_id", id}, {"output_index", a.open(item("in_progress", ""))}}
	for _, piece := range completion.Evenly(input, cmp.Or(a.Chunks, len(input)/argumentBytes+1)) {
		a.event(event+".delta", append(where[:2:2], member{"delta", piece}))
	}
	a.event(event+".done", append(where[:2:2], member{field, input}))
	a.done(item("completed", input))
}

// searchItem encodes a web search.
func (a *responseReply) searchItem(query string) {
	id := "ws_" + a.ID("search", 48)
	item := func(status string) members {
		return members{{"id", id}, {"type", "web_search_call"}, {"status", status}, {"action", members{{"type", "search"}, {"query", query}}}}
	}
	where := members{{"output_index", a.open(item("in_progress"))}, {"item_id", id}}
	for _, step := range []string{"in_progress", "searching", "completed"} {
		a.event("response.web_search_call."+step, where[:2:2])
	}
	a.done(item("completed"))
}

// imageItem encodes an image.
func (a *responseReply) imageItem(image *completion.Image, number int) {
	id := "ig_" + a.ID(completion.Name("image", number), 48)
	where := members{{"output_index", a.open(members{{"id", id}, {"type", "image_generation_call"}, {"status", "in_progress"}, {"result", nil}})}, {"item_id", id}}
	for _, step := range []string{"in_progress", "generating", "completed"} {
		a.event("response.image_generation_call."+step, where[:2:2])
	}
	a.done(members{{"id", id}, {"type", "image_generation_call"}, {"status", "completed"}, {"result", image.Data}, {"output_format", "png"}})
}

// Events encodes an answer as a stream, and stores it.
func (c *Response) Events(r *completion.Reply) []completion.Event {
	a := &responseReply{Response: c, Reply: r}
	for _, kind := range []string{"response.created", "response.in_progress"} {
		a.event(kind, members{{"response", a.response("in_progress")}})
	}
	a.items()
	status, _ := a.status()
	final := a.response(status)
	a.save(Encode(final))
	times := 1
	switch {
	case r.NoFinish:
		times = 0
	case r.DuplicateFinish:
		times = 2
	}
	for range times {
		a.event("response."+status, members{{"response", final}})
	}
	return a.events
}

// ResponseError returns an error inside an answer that has begun: the events of a stream, or a
// response that failed.
func (p *Profile) ResponseError(e *Error, stream bool, sent int) []completion.Event {
	code := cmp.Or(e.Code, "server_error")
	failed := members{{"id", "resp_failed"}, {"object", "response"}, {"created_at", 0}, {"status", "failed"},
		{"error", members{{"code", code}, {"message", e.Message}}}, {"incomplete_details", nil}, {"model", ""}, {"output", []any{}}, {"usage", nil}}
	if !stream {
		return []completion.Event{{Data: Encode(failed)}}
	}
	return []completion.Event{
		{Name: "error", Data: Encode(members{{"type", "error"}, {"code", code}, {"message", e.Message}, {"param", nil}, {"sequence_number", sent}})},
		{Name: "response.failed", Data: Encode(members{{"type", "response.failed"}, {"response", failed}, {"sequence_number", sent + 1}})},
	}
}

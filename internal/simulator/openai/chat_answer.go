package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee/internal/simulator/completion"
)

const refusalText = "I'm sorry, but I can't help with that."

// Blocked returns the error of a server that answers a blocked prompt with one, or nil.
func (c *Chat) Blocked(r *completion.Reply) *Error {
	switch {
	case r.Block == "":
		return nil
	case c.in.Profile.Filters:
		return contentFilter("")
	case c.in.Profile.Native:
		return &Error{Status: 403, Rule: "content_filter", Message: "Your chosen model requires moderation and your input was flagged"}
	}
	return nil
}

// contentFilter is Azure's error for a prompt that its filters refuse.
func contentFilter(param string) *Error {
	return &Error{Status: 400, Type: "", Param: param, Code: "content_filter", Rule: "content_filter",
		Message: "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry."}
}

// filtered are the results of Azure's content filter.
func filtered(hit bool) members {
	result := members{}
	for _, name := range []string{"hate", "self_harm", "sexual", "violence"} {
		severity := "safe"
		if hit && name == "violence" {
			severity = "medium"
		}
		result.put(name, members{{"filtered", hit && name == "violence"}, {"severity", severity}})
	}
	return result
}

// chatReply is a reply on its way into Chat's form.
type chatReply struct {
	*Chat
	*completion.Reply
	profile *Profile
	text    int // bytes sent so far, for usage in every chunk
	thought int
	events  []completion.Event
	usage   usagePlace
	begin   members // of each chunk
}

func (c *Chat) reply(r *completion.Reply) *chatReply {
	out := &chatReply{Chat: c, Reply: r, profile: c.in.Profile, usage: c.in.Profile.Usage}
	switch r.Usage {
	case "every":
		out.usage = usageEvery
	case "last":
		out.usage = usageFinish
	case "late":
		out.usage = usageAlways
	}
	return out
}

// Body encodes an answer in one piece.
func (c *Chat) Body(r *completion.Reply) []byte {
	a := c.reply(r)
	body := a.head("chat.completion")
	var choices []members
	for i, candidate := range r.Candidates {
		choice := members{{"index", i}, {"message", a.message(candidate, i)}}
		choices = append(choices, a.finish(choice, candidate))
	}
	body.put("choices", choices)
	if !r.NoUsage {
		total, thoughts := r.Output()
		body.put("usage", a.counts(total, thoughts))
	}
	if a.profile.Timings {
		body.put("timings", a.timings())
	}
	if a.profile.Filters {
		body.put("prompt_filter_results", []any{members{{"prompt_index", 0}, {"content_filter_results", filtered(false)}}})
	}
	if a.profile.Usage == usageGroq {
		body.put("x_groq", members{{"id", "req_" + r.ID("groq", 26)}})
	}
	return Encode(body)
}

// head returns the members that begin a body and every chunk.
func (a *chatReply) head(kind string) members {
	if a.begin == nil {
		a.begin = a.makeHead(kind)
	}
	return slices.Clip(a.begin)
}

func (a *chatReply) makeHead(kind string) members {
	id := "chatcmpl-" + a.ID("chat", 29)
	if a.profile.Native {
		return members{{"id", "gen-" + a.ID("chat", 20)}, {"provider", "Simulator"}, {"model", a.name}, {"object", kind}, {"created", a.Created}}
	}
	head := members{{"id", id}, {"object", kind}, {"created", a.Created}, {"model", a.name}}
	if a.profile.Limited {
		head.put("service_tier", "default")
	}
	head.put("system_fingerprint", "fp_"+strings.ToLower(a.ID("fingerprint", 10)))
	return head
}

// finish adds the end of a choice.
func (a *chatReply) finish(choice members, c completion.Candidate) members {
	reason := a.reason(c)
	choice.put("logprobs", nil)
	choice.put("finish_reason", reason)
	if a.profile.Native {
		choice.put("native_finish_reason", c.Finish)
	}
	if a.profile.Stops {
		var stop any
		if c.Stop != "" {
			stop = c.Stop
		}
		choice.put("stop_reason", stop)
	}
	if a.profile.Filters {
		choice.put("content_filter_results", filtered(reason == "content_filter"))
	}
	return choice
}

// reason maps the finish reasons of directives. A reason that it does not know is sent unchanged.
func (a *chatReply) reason(c completion.Candidate) string {
	switch c.Finish {
	case "STOP", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL":
		switch {
		case len(callsOf(c)) == 0:
			return "stop"
		case a.legacy:
			return "function_call"
		}
		return "tool_calls"
	case "MAX_TOKENS":
		return "length"
	case "SAFETY", "PROHIBITED_CONTENT", "RECITATION", "BLOCKLIST", "SPII":
		if a.Block != "" && a.profile.Strict {
			return "stop" // the message has a refusal
		}
		return "content_filter"
	}
	return c.Finish
}

func callsOf(c completion.Candidate) []*completion.Call {
	var calls []*completion.Call
	for _, p := range c.Parts {
		if p.Call != nil {
			calls = append(calls, p.Call)
		}
	}
	return calls
}

// split returns the text and the thoughts of a candidate.
func split(c completion.Candidate) (text, thoughts string) {
	for _, p := range c.Parts {
		switch {
		case p.Thought:
			thoughts += p.Text
		case p.Call == nil:
			text += p.Text
		}
	}
	return text, thoughts
}

// message encodes a whole message.
func (a *chatReply) message(c completion.Candidate, index int) members {
	text, thoughts := split(c)
	message := members{{"role", "assistant"}}
	var content any = text
	if text == "" && (len(c.Parts) == 0 || len(callsOf(c)) > 0) {
		content = nil
	}
	if a.shows == reasoningTags && thoughts != "" {
		content = tagged(thoughts) + text
	}
	if a.shows == reasoningParts && thoughts != "" {
		content = []any{thinkingPart(thoughts, true), members{{"type", "text"}, {"text", text}}}
	}
	message.put("content", content)
	if (a.shows == reasoningField || a.shows == reasoningContent) && thoughts != "" {
		message.put(string(a.shows), thoughts)
	}
	if a.profile.Details && thoughts != "" && a.shows != reasoningHidden {
		message.put("reasoning_details", a.details(thoughts))
	}
	if a.profile.Strict {
		var refusal any
		if a.Block != "" {
			refusal = refusalText
		}
		message.put("refusal", refusal)
		message.put("annotations", a.annotations(c, text))
	}
	var calls []members
	for i, call := range callsOf(c) {
		calls = append(calls, a.call(call, index, i))
	}
	switch {
	case len(calls) > 0 && a.legacy:
		message.put("function_call", calls[0][2].value)
	case len(calls) > 0:
		message.put("tool_calls", calls)
	}
	return message
}

func tagged(thoughts string) string { return "<think>\n" + thoughts + "\n</think>\n\n" }

func thinkingPart(text string, closed bool) members {
	part := members{{"type", "thinking"}, {"thinking", []any{members{{"type", "text"}, {"text", text}}}}}
	if closed {
		part.put("closed", true)
	}
	return part
}

// annotations are the sources of an answer.
func (a *chatReply) annotations(c completion.Candidate, text string) []any {
	list := []any{}
	for _, s := range c.Sources {
		list = append(list, members{{"type", "url_citation"}, {"url_citation", citation(s, text)}})
	}
	return list
}

// citation counts in characters, where a source counts in bytes.
func citation(s completion.Source, text string) members {
	characters := func(n int) int { return utf8.RuneCountInString(text[:min(n, len(text))]) }
	return members{{"start_index", characters(s.Start)}, {"end_index", characters(s.End)}, {"title", s.Title}, {"url", s.URL}}
}

// call encodes a whole tool call.
func (a *chatReply) call(call *completion.Call, numbers ...int) members {
	encoded := members{{"id", a.profile.callID(a.Reply, numbers...)}}
	if a.custom[call.Name] {
		return append(encoded, member{"type", "custom"}, member{"custom", members{{"name", call.Name}, {"input", customInput(call)}}})
	}
	return append(encoded, member{"type", "function"}, member{"function", members{{"name", call.Name}, {"arguments", string(call.Args)}}})
}

// customInput returns the text for a tool that takes text.
func customInput(call *completion.Call) string {
	var args struct {
		Input string `json:"input"`
	}
	if json.Unmarshal(call.Args, &args) != nil || args.Input == "" {
		return string(call.Args)
	}
	return args.Input
}

// details are OpenRouter's reasoning_details of a whole answer.
func (a *chatReply) details(thoughts string) []any {
	if strings.HasPrefix(a.name, "openai/") {
		return []any{a.detail("reasoning.summary", "summary", thoughts), a.sealedDetail()}
	}
	detail := a.detail("reasoning.text", "text", thoughts)
	detail.put("signature", a.in.Sealer.seal(detailOrg, a.ID("reasoning", 20)))
	return []any{detail}
}

func (a *chatReply) detail(kind, name, text string) members {
	return members{{"type", kind}, {name, text}, {"format", a.detailFormat()}, {"index", 0}}
}

// sealedDetail is the detail that ends the thoughts: their signature or their encrypted form.
func (a *chatReply) sealedDetail() members {
	sealed := a.in.Sealer.seal(detailOrg, a.ID("reasoning", 20))
	if strings.HasPrefix(a.name, "openai/") {
		return members{{"type", "reasoning.encrypted"}, {"data", sealed}, {"id", "rs_" + a.ID("reasoning", 40)}, {"format", a.detailFormat()}, {"index", 1}}
	}
	return members{{"type", "reasoning.text"}, {"text", ""}, {"signature", sealed}, {"format", a.detailFormat()}, {"index", 0}}
}

func (a *chatReply) detailFormat() string {
	switch vendor, _, _ := strings.Cut(a.name, "/"); vendor {
	case "openai":
		return "openai-responses-v1"
	case "anthropic":
		return "anthropic-claude-v1"
	}
	return "unknown"
}

// counts encodes the usage.
func (a *chatReply) counts(output, thoughts int) members {
	base := members{{"prompt_tokens", a.Prompt}, {"completion_tokens", output}, {"total_tokens", a.Prompt + output}}
	cached, reasoned := member{"cached_tokens", a.Cached}, member{"reasoning_tokens", thoughts}
	switch {
	case a.profile.Limited:
		base.put("prompt_tokens_details", members{cached, {"audio_tokens", 0}})
		base.put("completion_tokens_details", members{reasoned, {"audio_tokens", 0}, {"accepted_prediction_tokens", 0}, {"rejected_prediction_tokens", 0}})
	case a.profile.Native:
		base.put("cost", float64(3*a.Prompt+15*output)/1e6)
		base.put("is_byok", false)
		base.put("prompt_tokens_details", members{cached, {"cache_write_tokens", 0}})
		base.put("cost_details", members{{"upstream_inference_cost", nil}})
		base.put("completion_tokens_details", members{reasoned})
	case a.profile.Errors == errorFlat:
		base.put("num_cached_tokens", a.Cached)
	case a.profile.KeepReasoning:
		base.put("prompt_tokens_details", members{cached})
		base.put("completion_tokens_details", members{reasoned})
		base.put("prompt_cache_hit_tokens", a.Cached)
		base.put("prompt_cache_miss_tokens", a.Prompt-a.Cached)
	default:
		base.put("prompt_tokens_details", members{cached})
		base.put("completion_tokens_details", members{reasoned})
	}
	return base
}

// timings are those of llama.cpp.
func (a *chatReply) timings() members {
	output, _ := a.Output()
	return members{{"cache_n", a.Cached}, {"prompt_n", a.Prompt - a.Cached}, {"prompt_ms", 10.0}, {"prompt_per_second", 100 * float64(a.Prompt-a.Cached)},
		{"predicted_n", output}, {"predicted_ms", 20.0}, {"predicted_per_second", 50 * float64(output)}}
}

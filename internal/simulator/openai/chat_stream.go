package openai

import "perigee/internal/simulator/completion"

// argumentBytes is the size of a piece of arguments in a stream.
const argumentBytes = 16

// Events encodes an answer as a stream.
func (c *Chat) Events(r *completion.Reply) []completion.Event {
	a := c.reply(r)
	if a.profile.Comment != "" {
		a.events = append(a.events, completion.Event{Data: []byte(a.profile.Comment), Comment: true})
	}
	if a.profile.Filters {
		chunk := a.head("chat.completion.chunk")
		chunk.put("choices", []any{})
		chunk.put("prompt_filter_results", []any{members{{"prompt_index", 0}, {"content_filter_results", filtered(false)}}})
		a.emit(chunk)
	}
	for i, candidate := range r.Candidates {
		a.candidate(candidate, i)
	}
	if !r.NoFinish && !r.NoUsage {
		a.lastUsage()
	}
	a.events = append(a.events, completion.Event{Data: []byte("[DONE]")})
	return a.events
}

func (a *chatReply) emit(chunk members) {
	a.events = append(a.events, completion.Event{Data: Encode(chunk)})
}

// candidate streams one choice.
func (a *chatReply) candidate(c completion.Candidate, index int) {
	text, thoughts := split(c)
	first := members{{"role", "assistant"}, {"content", ""}}
	switch {
	case a.profile.Strict:
		first.put("refusal", nil)
	case a.profile.Timings:
		first = members{{"role", "assistant"}, {"content", nil}}
	}
	a.delta(index, first)
	a.thoughts(index, thoughts)
	if text != "" {
		for _, piece := range a.Pieces(text) {
			a.text += len(piece)
			a.delta(index, members{{"content", piece}})
		}
	}
	if a.Block != "" && a.profile.Strict {
		for _, piece := range a.Pieces(refusalText) {
			a.delta(index, members{{"refusal", piece}})
		}
	}
	for i, call := range callsOf(c) {
		a.streamCall(call, index, i)
	}
	if list := a.annotations(c, text); len(list) > 0 && a.profile.Strict {
		a.delta(index, members{{"annotations", list}})
	}
	if a.NoFinish {
		return
	}
	a.end(c, index)
	if a.DuplicateFinish {
		a.end(c, index)
	}
}

// thoughts streams the thoughts in the form of the server.
func (a *chatReply) thoughts(index int, thoughts string) {
	if thoughts == "" {
		return
	}
	if a.shows == reasoningHidden {
		a.thought += len(thoughts)
		return
	}
	sofar := ""
	for i, piece := range a.Pieces(thoughts) {
		a.thought += len(piece)
		sofar += piece
		if a.Repeated {
			piece = sofar
		}
		var delta members
		switch a.shows {
		case reasoningTags:
			if i == 0 {
				piece = "<think>\n" + piece
			}
			delta = members{{"content", piece}}
		case reasoningParts:
			delta = members{{"content", []any{thinkingPart(piece, false)}}}
		default:
			if a.profile.KeepReasoning {
				delta.put("content", nil)
			}
			delta.put(string(a.shows), piece)
		}
		if a.profile.Details {
			kind, name := "reasoning.text", "text"
			if a.detailFormat() == "openai-responses-v1" {
				kind, name = "reasoning.summary", "summary"
			}
			delta.put("reasoning_details", []any{a.detail(kind, name, piece)})
		}
		a.delta(index, delta)
	}
	if a.shows == reasoningTags {
		a.delta(index, members{{"content", "\n</think>\n\n"}})
	}
	if a.profile.Details {
		a.delta(index, members{{"content", ""}, {"reasoning", nil}, {"reasoning_details", []any{a.sealedDetail()}}})
	}
}

// streamCall streams a tool call: its id and name, then pieces of its arguments; or all at once.
func (a *chatReply) streamCall(call *completion.Call, index, number int) {
	whole := a.call(call, index, number)
	kind := whole[1].value.(string)
	inner := whole[2].value.(members)
	input := inner[1].value.(string)
	a.text += len(call.Name) + len(call.Args)
	place := func(m members) members {
		if a.profile.NoIndex {
			return m
		}
		return append(members{{"index", number}}, m...)
	}
	wrap := func(call members) members {
		if a.legacy {
			return members{{"function_call", call[len(call)-1].value}}
		}
		return members{{"tool_calls", []any{call}}}
	}
	if a.profile.WholeCalls {
		a.delta(index, wrap(place(whole)))
		return
	}
	a.delta(index, wrap(place(members{whole[0], whole[1], {kind, members{inner[0], {inner[1].key, ""}}}})))
	count := len(input)/argumentBytes + 1
	if a.Chunks > 0 {
		count = a.Chunks
	}
	for _, piece := range completion.Evenly(input, count) {
		next := members{{inner[1].key, piece}}
		if a.profile.EmptyNames {
			next = members{{"name", ""}, {inner[1].key, piece}}
		}
		a.delta(index, wrap(place(members{{kind, next}})))
	}
}

// delta streams one change of a choice.
func (a *chatReply) delta(index int, delta members) {
	choice := members{{"index", index}, {"delta", delta}, {"logprobs", nil}, {"finish_reason", nil}}
	if a.profile.Native {
		choice.put("native_finish_reason", nil)
	}
	if a.profile.Filters {
		choice.put("content_filter_results", members{})
	}
	chunk := a.head("chat.completion.chunk")
	chunk.put("choices", []any{choice})
	if a.profile.Usage == usageGroq && len(a.events) == 0 {
		chunk.put("x_groq", members{{"id", "req_" + a.ID("groq", 26)}})
	}
	a.emit(a.withUsage(chunk, false))
}

// end streams the finish reason.
func (a *chatReply) end(c completion.Candidate, index int) {
	delta := members{}
	if a.profile.NoChoice || a.profile.Errors == errorFlat {
		delta = members{{"content", ""}}
	}
	chunk := a.head("chat.completion.chunk")
	chunk.put("choices", []any{a.finish(members{{"index", index}, {"delta", delta}}, c)})
	if a.profile.Timings && !a.includeUsage {
		chunk.put("timings", a.timings())
	}
	a.emit(a.withUsage(chunk, index == len(a.Candidates)-1))
}

// withUsage adds the usage to a chunk, where the server has it.
func (a *chatReply) withUsage(chunk members, last bool) members {
	if a.NoUsage {
		return chunk
	}
	now := func() members {
		return a.counts(completion.Tokens(a.text)+completion.Tokens(a.thought), completion.Tokens(a.thought))
	}
	asked := a.includeUsage || a.profile.Usage != usageAsked
	switch {
	case a.usage == usageEvery && asked, a.usage == usageFinish && last && asked, a.continuous:
		chunk.put("usage", now())
	case a.usage == usageGroq && last:
		chunk.put("x_groq", members{{"id", "req_" + a.ID("groq", 26)}, {"usage", now()}})
	case a.includeUsage && a.profile.Limited:
		chunk.put("usage", nil)
	}
	return chunk
}

// lastUsage streams the usage in a chunk of its own, where the server has one.
func (a *chatReply) lastUsage() {
	total, thoughts := a.Output()
	chunk := a.head("chat.completion.chunk")
	switch {
	case a.usage == usageAsked && a.includeUsage, a.usage == usageAlways && a.includeUsage && !a.profile.Native:
		chunk.put("choices", []any{})
	case a.usage == usageAlways && a.profile.Usage != usageAsked:
		choice := members{{"index", 0}, {"delta", members{{"role", "assistant"}, {"content", ""}}}, {"finish_reason", nil}}
		if a.profile.Native {
			choice.put("native_finish_reason", nil)
		}
		chunk.put("choices", []any{choice})
	default:
		return
	}
	chunk.put("usage", a.counts(total, thoughts))
	if a.profile.Timings {
		chunk.put("timings", a.timings())
	}
	a.emit(chunk)
}

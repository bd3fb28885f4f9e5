package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const thinkingAdvice = " When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"

var idPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]+$`) })

// claudeRules returns the rules of the backend behind the gateway: it counts in messages and
// content blocks.
func claudeRules() []Rule {
	const (
		ask     = `user [{"text":"a"}]`
		thought = `{"text":"hm","thought":true,"thoughtSignature":"` + ClaudeSignature + `"}`
		call    = `{"functionCall":{"id":"t1","name":"f","args":{}}}`
		result  = `{"functionResponse":{"id":"t1","name":"f","response":{"result":"ok"}}}`
	)
	plain := func(turns ...string) Example { return onClaude(`{` + turnsJSON(turns...) + `}`) }
	thinking := func(turns ...string) Example {
		return onClaude(`{` + turnsJSON(turns...) + `,"generationConfig":{"maxOutputTokens":8192,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2048}}}`)
	}
	loop := plain(ask, `model [`+call+`]`, `user [`+result+`,{"text":"go on"}]`)
	return []Rule{
		{Name: "claude.cache_control", Section: "1.8", Step: 13, check: onlyClaude(checkCacheControl),
			Pass: plain(ask),
			Fail: plain(ask, `model [{"text":"b","cache_control":{"type":"ephemeral"}}]`, ask),
			Text: "messages.1.content.0.cache_control: Extra inputs are not permitted"},
		{Name: "claude.call_id", Section: "4.4", Step: 13, check: onlyClaude(checkCallIDs),
			Pass: loop,
			Fail: plain(ask, `model [`+strings.Replace(call, "t1", "call:1", 1)+`]`, `user [`+strings.Replace(result, "t1", "call:1", 1)+`]`),
			Text: "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"},
		{Name: "claude.call_id_twice", Section: "4.4", Step: 13, check: onlyClaude(checkCallIDsUnique),
			Pass: loop,
			Fail: plain(ask, `model [`+call+`,`+call+`]`, `user [`+result+`]`),
			Text: "messages: `tool_use` ids must be unique"},
		{Name: "claude.empty_text", Section: "4.10", Step: 13, check: onlyClaude(checkEmptyText),
			Pass: plain(ask),
			Fail: plain(`user [{"text":"a"},{"text":""}]`),
			Text: "messages.0: text content blocks must be non-empty"},
		{Name: "claude.signature_missing", Section: "4.10", Step: 13, check: onlyClaude(checkSignaturePresent),
			Pass: thinking(ask, `model [`+thought+`,{"text":"b"}]`, ask),
			Fail: thinking(ask, `model [{"text":"hm","thought":true},{"text":"b"}]`, ask),
			Text: "messages.1.content.0.thinking.signature: Field required"},
		{Name: "claude.result_missing", Section: "4.4", Step: 13, check: onlyClaude(checkResultsPresent),
			Pass: loop,
			Fail: plain(ask, `model [`+call+`]`, ask),
			Text: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
		{Name: "claude.result_unexpected", Section: "4.4", Step: 13, check: onlyClaude(checkResultsExpected),
			Pass: loop,
			Fail: plain(ask, `model [{"text":"b"}]`, `user [`+result+`]`),
			Text: "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
		{Name: "claude.trailing_model", Section: "4.2", Step: 13, check: onlyClaude(checkTrailingModel),
			Pass: plain(ask, `model [{"text":"b"}]`, ask),
			Fail: plain(ask, `model [{"text":"b"}]`),
			Text: "This model does not support assistant message prefill. The conversation must end with a user message."},
		{Name: "claude.thinking_order", Section: "4.2", Step: 13, check: onlyClaude(checkThinkingOrder),
			Pass: thinking(ask, `model [`+thought+`,{"text":"b"}]`, ask),
			Fail: thinking(ask, `model [{"text":"b"},`+thought+`]`, ask),
			Text: "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`." + thinkingAdvice},
		{Name: "claude.thinking_first", Section: "4.9", Step: 13, check: onlyClaude(checkThinkingFirst),
			Pass: thinking(ask, `model [`+thought+`,`+call+`]`, `user [`+result+`]`),
			Fail: thinking(ask, `model [`+call+`]`, `user [`+result+`]`),
			Text: "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`." + thinkingAdvice},
		{Name: "claude.thinking_disabled", Section: "4.10", Step: 13, check: onlyClaude(checkThinkingDisabled),
			Pass: plain(ask, `model [`+thought+`,{"text":"b"}]`, ask),
			Fail: plain(ask, `model [`+thought+`,`+call+`]`, `user [`+result+`]`),
			Text: "messages.1.content.0: When thinking is disabled, an assistant message in the final position cannot contain thinking. To use thinking blocks, enable `thinking` in your request."},
		{Name: "claude.signature_invalid", Section: "4.7", Step: 13, check: onlyClaude(checkSignatureValid),
			Pass: thinking(ask, `model [`+thought+`,{"text":"b"}]`, ask),
			Fail: thinking(ask, `model [`+strings.Replace(thought, ClaudeSignature, GeminiSignature, 1)+`,{"text":"b"}]`, ask),
			Text: "messages.1.content.0: Invalid `signature` in `thinking` block"},
	}
}

func onlyClaude(check func(*request) *Refusal) func(*request) *Refusal {
	return func(r *request) *Refusal {
		if !r.generating() || r.in.Model.Family != Claude {
			return nil
		}
		return check(r)
	}
}

var indexPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`contents\[(\d+)\](\.parts\[(\d+)\])?`) })

// checkCacheControl names the first place only, as the backend does.
func checkCacheControl(r *request) *Refusal {
	if r.extra == "" {
		return nil
	}
	where := "system"
	if m := indexPattern().FindStringSubmatch(r.extra); m != nil {
		where = "messages." + m[1]
		if m[3] != "" {
			where += ".content." + m[3]
		}
	}
	return refuse(where + ".cache_control: Extra inputs are not permitted")
}

// eachPart visits the conversation until a visit refuses.
func (r *request) eachPart(visit func(at place, p Part) *Refusal) *Refusal {
	for i, c := range r.parsed.Contents {
		for j, p := range c.Parts {
			if refusal := visit(place{i, j}, p); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

func (at place) String() string { return fmt.Sprintf("messages.%d.content.%d", at.content, at.part) }

func checkCallIDs(r *request) *Refusal {
	return r.eachPart(func(at place, p Part) *Refusal {
		id, field := "", ""
		switch {
		case p.Call != nil:
			id, field = p.Call.ID, "tool_use.id"
		case p.Response != nil:
			id, field = p.Response.ID, "tool_result.tool_use_id"
		default:
			return nil
		}
		if id == "" {
			return refuse(fmt.Sprintf("%v.%s: Field required", at, field))
		}
		if !idPattern().MatchString(id) {
			return refuse(fmt.Sprintf("%v.%s: String should match pattern '%s'", at, field, idPattern()))
		}
		return nil
	})
}

func checkCallIDsUnique(r *request) *Refusal {
	seen := map[string]bool{}
	return r.eachPart(func(_ place, p Part) *Refusal {
		if p.Call == nil {
			return nil
		}
		if seen[p.Call.ID] {
			return refuse("messages: `tool_use` ids must be unique")
		}
		seen[p.Call.ID] = true
		return nil
	})
}

func checkEmptyText(r *request) *Refusal {
	if system := r.root.get("systemInstruction"); system != nil {
		for _, p := range parseContent(system).Parts {
			if strings.TrimSpace(p.Text) == "" {
				return refuse("system: text content blocks must be non-empty")
			}
		}
	}
	return r.eachPart(func(at place, p Part) *Refusal {
		switch {
		case !p.HasText || p.Thought || strings.TrimSpace(p.Text) != "":
			return nil
		case p.Text == "":
			return refuse(fmt.Sprintf("messages.%d: text content blocks must be non-empty", at.content))
		}
		return refuse(fmt.Sprintf("messages.%d: text content blocks must contain non-whitespace text", at.content))
	})
}

// checkResultsPresent wants the results of a message's calls at the beginning of the next content,
// in one piece.
func checkResultsPresent(r *request) *Refusal {
	contents := r.parsed.Contents
	for _, run := range modelRuns(contents) {
		answered := map[string]bool{}
		if run[1] < len(contents) {
			for _, p := range contents[run[1]].Parts {
				if p.Response == nil {
					break
				}
				answered[p.Response.ID] = true
			}
		}
		var open []string
		for _, at := range parts(contents, run) {
			if c := contents[at.content].Parts[at.part].Call; c != nil && !answered[c.ID] {
				open = append(open, c.ID)
			}
		}
		if len(open) > 0 {
			return refuse(fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
				run[1]-1, strings.Join(open, ", ")))
		}
	}
	return nil
}

// checkResultsExpected refuses results without a call in the message before, and second results of
// one call.
func checkResultsExpected(r *request) *Refusal {
	contents := r.parsed.Contents
	called := map[int]map[string]bool{} // by the content that must answer
	for _, run := range modelRuns(contents) {
		ids := map[string]bool{}
		for _, at := range parts(contents, run) {
			if c := contents[at.content].Parts[at.part].Call; c != nil {
				ids[c.ID] = true
			}
		}
		called[run[1]] = ids
	}
	return r.eachPart(func(at place, p Part) *Refusal {
		if p.Response == nil {
			return nil
		}
		open, known := called[at.content][p.Response.ID]
		switch {
		case !known:
			return refuse(fmt.Sprintf("%v: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, p.Response.ID))
		case !open:
			return refuse(fmt.Sprintf("%v: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", at, p.Response.ID))
		}
		called[at.content][p.Response.ID] = false
		return nil
	})
}

func checkTrailingModel(r *request) *Refusal {
	if !userSide(r.parsed.Contents[len(r.parsed.Contents)-1]) {
		return refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

// thinkingOn: thoughts that are to be shown but have no budget do not switch thinking on.
func (r *request) thinkingOn() bool {
	b := r.parsed.Config.Thinking.Budget
	return b != nil && *b != 0
}

// block returns the backend's name for a part.
func block(p Part) string {
	switch {
	case p.Call != nil:
		return "tool_use"
	case p.Response != nil:
		return "tool_result"
	case p.Blob != nil || p.File != nil:
		return "image"
	case p.Thought:
		return "thinking"
	}
	return "text"
}

func expectedThinking(at place, p Part) *Refusal {
	return refuse(fmt.Sprintf("%v.type: Expected `thinking` or `redacted_thinking`, but found `%s`.", at, block(p)) + thinkingAdvice)
}

// checkThinkingOrder refuses a thinking block that comes after something else in its content, on or
// off.
func checkThinkingOrder(r *request) *Refusal {
	for i, c := range r.parsed.Contents {
		first := slices.IndexFunc(c.Parts, func(p Part) bool { return !p.Thought })
		if first < 0 || c.Role != "model" || !slices.ContainsFunc(c.Parts[first:], func(p Part) bool { return p.Thought }) {
			continue
		}
		return expectedThinking(place{i, first}, c.Parts[first])
	}
	return nil
}

// checkThinkingFirst wants the model's turn to begin with thinking while its tool loop is open.
func checkThinkingFirst(r *request) *Refusal {
	turn := r.openTurn()
	if !r.thinkingOn() || turn < 0 {
		return nil
	}
	for i, c := range r.parsed.Contents[turn:] {
		if userSide(c) {
			continue
		}
		if first := c.Parts[0]; !first.Thought {
			return expectedThinking(place{turn + i, 0}, first)
		}
		return nil
	}
	return nil
}

// checkThinkingDisabled looks at the open tool loop only: thinking of earlier turns is ignored by
// the backend.
func checkThinkingDisabled(r *request) *Refusal {
	turn := r.openTurn()
	if r.thinkingOn() || turn < 0 {
		return nil
	}
	return r.eachPart(func(at place, p Part) *Refusal {
		if at.content < turn || !p.Thought {
			return nil
		}
		return refuse(fmt.Sprintf("%v: When thinking is disabled, an assistant message in the final position cannot contain thinking. To use thinking blocks, enable `thinking` in your request.", at))
	})
}

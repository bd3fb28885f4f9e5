package anthropic

import (
	"slices"
	"strings"
)

// placed is a block with its place in the request.
type placed struct {
	Block
	message, index int
}

// merged is what the server makes of consecutive messages of one role. Messages of the system do
// not separate them.
type merged struct {
	role   string
	blocks []placed
}

func merge(messages []Turn) []merged {
	var out []merged
	for i, m := range messages {
		if m.Role == "system" {
			continue
		}
		if len(out) == 0 || out[len(out)-1].role != m.Role {
			out = append(out, merged{role: m.Role})
		}
		last := &out[len(out)-1]
		for j, b := range m.Blocks {
			last.blocks = append(last.blocks, placed{b, i, j})
		}
	}
	return out
}

func (m merged) of(kind string) (out []placed) {
	for _, b := range m.blocks {
		if b.Type == kind {
			out = append(out, b)
		}
	}
	return out
}

// turnRules check how messages follow each other.
func turnRules() []Rule {
	return []Rule{
		{Name: "turns.prefill", Section: "3.3", check: checkPrefill,
			Pass: on("claude-sonnet-4-5", "", hi, assistant(said("a"))), Fail: asked("", hi, assistant(said("a"))),
			Text: "This model does not support assistant message prefill. The conversation must end with a user message."},
		{Name: "turns.trailing", Section: "3.3", check: checkTrailing,
			Pass: on("claude-sonnet-4-5", "", hi, assistant(said("a"))), Fail: on("claude-sonnet-4-5", "", hi, assistant(said("a "))),
			Text: "messages: final assistant content cannot end with trailing whitespace"},
		{Name: "tool_use.unique", Section: "13", check: checkCallIDs,
			Pass: asked(declared, hi, assistant(call("a")), user(result("a")), assistant(call("b")), user(result("b"))),
			Fail: asked(declared, hi, assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))),
			Text: "messages.3.content.0: `tool_use` ids must be unique"},
		{Name: "tool_use.result", Section: "13", check: checkResults,
			Pass: asked(declared, hi, assistant(call("a")+","+call("b")), user(result("b")+","+result("a")+","+said("x"))),
			Fail: asked(declared, hi, assistant(call("a")+","+call("b")), user(result("a")+","+said("x")+","+result("b"))),
			Text: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
		{Name: "tool_result.use", Section: "13", check: checkCalls,
			Pass: asked(declared, hi, assistant(call("a")), user(result("a"))),
			Fail: asked(declared, hi, assistant(said("a")), user(said("x")+","+result("a"))),
			Text: "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: a. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
		{Name: "tool_result.single", Section: "13", check: checkSingle,
			Pass: asked(declared, hi, assistant(call("a")), user(result("a"))),
			Fail: asked(declared, hi, assistant(call("a")), user(result("a")+","+result("a"))),
			Text: "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a"},
		{Name: "tool_result.error", Section: "13", check: checkErrorText,
			Pass: asked(declared, hi, assistant(call("a")), user(`{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[`+said("no")+`]}`)),
			Fail: asked(declared, hi, assistant(call("a")), user(`{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[`+imageOf+`]}`)),
			Text: "messages.2.content.0: all content must be type `text` if `is_error` is true"},
	}
}

// paused reports whether the last message of the assistant waits for a tool of the provider.
func paused(m merged) bool {
	last := len(m.blocks) - 1
	return last >= 0 && (m.blocks[last].Type == "server_tool_use" || strings.HasSuffix(m.blocks[last].Type, "_tool_result"))
}

func checkPrefill(r *Request) *Refusal {
	turns := r.turns
	if last := turns[len(turns)-1]; last.role == "assistant" && !r.Model.Prefill && !paused(last) {
		return invalid("", "This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

func checkTrailing(r *Request) *Refusal {
	turns := r.turns
	last := turns[len(turns)-1]
	if last.role != "assistant" || len(last.blocks) == 0 {
		return nil
	}
	if b := last.blocks[len(last.blocks)-1]; b.Type == "text" && b.Text != strings.TrimRight(b.Text, " \t\n\r") {
		return invalid("", "messages: final assistant content cannot end with trailing whitespace")
	}
	return nil
}

func checkCallIDs(r *Request) *Refusal {
	seen := map[string]bool{}
	for _, m := range r.turns {
		for _, b := range m.of("tool_use") {
			if seen[b.ID] {
				return invalid("", "messages.%d.content.%d: `tool_use` ids must be unique", b.message, b.index)
			}
			seen[b.ID] = true
		}
	}
	return nil
}

func checkResults(r *Request) *Refusal {
	turns := r.turns
	for i, m := range turns {
		calls := m.of("tool_use")
		if len(calls) == 0 {
			continue
		}
		answered := map[string]bool{}
		if i+1 < len(turns) {
			for _, b := range turns[i+1].blocks {
				if b.Type != "tool_result" {
					break // results come first
				}
				answered[b.ID] = true
			}
		}
		calls = slices.DeleteFunc(calls, func(c placed) bool { return answered[c.ID] })
		if len(calls) == 0 {
			continue
		}
		var missing []string
		for _, c := range calls {
			missing = append(missing, c.ID)
		}
		return invalid("", "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
			calls[0].message, strings.Join(missing, ", "))
	}
	return nil
}

func checkCalls(r *Request) *Refusal {
	var calls []placed
	for _, m := range r.turns {
		for _, b := range m.of("tool_result") {
			if !slices.ContainsFunc(calls, func(c placed) bool { return c.ID == b.ID }) {
				return invalid("", "messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
					b.message, b.index, b.ID)
			}
		}
		calls = m.of("tool_use")
	}
	return nil
}

func checkSingle(r *Request) *Refusal {
	for _, m := range r.turns {
		seen := map[string]bool{}
		for _, b := range m.of("tool_result") {
			if seen[b.ID] {
				return invalid("", "messages.%d.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", b.message, b.index, b.ID)
			}
			seen[b.ID] = true
		}
	}
	return nil
}

func checkErrorText(r *Request) *Refusal {
	for i, m := range r.Messages {
		for j, b := range m.Blocks {
			if b.IsError && slices.ContainsFunc(b.Result, func(inner Block) bool { return inner.Type != "text" }) {
				return invalid("", "messages.%d.content.%d: all content must be type `text` if `is_error` is true", i, j)
			}
		}
	}
	return nil
}

// thinkingRules check the thinking blocks of the history.
func thinkingRules() []Rule {
	one, two := exampleSigner.Sign("1", "a"), exampleSigner.Sign("2", "b")
	first, second := thought("a", one), thought("b", two)
	hidden := exampleSigner.Redact("3")
	bound := exampleSigner.CallID("x", "claude-sonnet-4-6", []string{one, two})
	budget := declared + `,"thinking":{"type":"enabled","budget_tokens":1024}`
	adaptive := declared + `,"thinking":{"type":"adaptive"}`
	return []Rule{
		{Name: "thinking.signature", Section: "3.4", check: checkSignatures,
			Pass: asked("", hi, assistant(first+","+said("b")), hi), Fail: asked("", hi, assistant(thought("edited", one)+","+said("b")), hi),
			Text: "messages.1.content.0: Invalid `signature` in `thinking` block"},
		{Name: "thinking.data", Section: "3.4", check: checkRedacted,
			Pass: asked("", hi, assistant(`{"type":"redacted_thinking","data":"`+hidden+`"},`+said("b")), hi),
			Fail: asked("", hi, assistant(`{"type":"redacted_thinking","data":"`+one+`"},`+said("b")), hi),
			Text: "messages.1.content.0: Invalid `data` in `redacted_thinking` block"},
		{Name: "thinking.first", Section: "3.4", check: checkStart,
			Pass: asked(budget, hi, assistant(first+","+call("a")), user(result("a"))),
			Fail: asked(budget, hi, assistant(call("a")), user(result("a"))),
			Text: "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"},
		{Name: "thinking.modified", Section: "3.4", check: checkIntact,
			Pass: asked(adaptive, hi, assistant(first+","+second+","+call(bound)), user(result(bound))),
			Fail: asked(adaptive, hi, assistant(second+","+first+","+call(bound)), user(result(bound))),
			Text: "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."},
	}
}

func (b Block) thinks() bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }

func checkSignatures(r *Request) *Refusal {
	for i, m := range r.Messages {
		for j, b := range m.Blocks {
			if b.Type == "thinking" && !r.in.Signer.verify(b.Text, b.Signature) {
				return invalid("", "messages.%d.content.%d: Invalid `signature` in `thinking` block", i, j)
			}
		}
	}
	return nil
}

func checkRedacted(r *Request) *Refusal {
	for i, m := range r.Messages {
		for j, b := range m.Blocks {
			if b.Type == "redacted_thinking" && !r.in.Signer.verify(redacted, b.Signature) {
				return invalid("", "messages.%d.content.%d: Invalid `data` in `redacted_thinking` block", i, j)
			}
		}
	}
	return nil
}

// loop returns the messages of the assistant in the tool loop that the request continues: those
// after the last message of the user that has no results. It is empty if the last message of the
// user has no results.
func (r *Request) loop() []merged {
	turns := r.turns
	var out []merged
	for i := len(turns) - 1; i > 0; i -= 2 {
		if turns[i].role != "user" || len(turns[i].of("tool_result")) == 0 {
			break
		}
		out = append(out, turns[i-1])
	}
	slices.Reverse(out)
	return out
}

// Loops reports whether the request continues a tool loop.
func (r *Request) Loops() bool { return len(r.loop()) > 0 }

// Thinks reports whether the answer has thinking. Thinking that is switched on in the middle of a
// loop begins with the next one. A model with a budget thinks between calls only with the beta.
func (r *Request) Thinks() bool {
	if !r.Thinking.On || r.MaxTokens == 0 {
		return false
	}
	loop := r.loop()
	return len(loop) == 0 || loop[0].startsThinking() && (r.Thinking.Type != "enabled" || r.Model.Adaptive || hasBeta(r.in.Betas, "interleaved-thinking-")) ||
		r.Thinking.Type != "enabled" && !r.withoutThinking(loop[0])
}

func (m merged) startsThinking() bool { return len(m.blocks) > 0 && m.blocks[0].thinks() }

// withoutThinking reports whether an answer of this model was made without thinking.
func (r *Request) withoutThinking(m merged) bool {
	return slices.ContainsFunc(m.of("tool_use"), func(c placed) bool {
		own, intact := r.in.Signer.bound(c.ID, r.Model.ID, nil)
		return own && intact
	})
}

func checkStart(r *Request) *Refusal {
	if r.Thinking.Type != "enabled" {
		return nil
	}
	turns := r.turns
	var start merged
	if loop := r.loop(); len(loop) > 0 && !r.withoutThinking(loop[0]) {
		start = loop[0]
	} else if last := turns[len(turns)-1]; last.role == "assistant" && !paused(last) {
		start = last
	}
	if len(start.blocks) == 0 || start.startsThinking() {
		return nil
	}
	b := start.blocks[0]
	return invalid("", "messages.%d.content.%d.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
		b.message, b.index, b.Type)
}

// checkIntact compares the thinking of the open loop with the IDs of its calls. A client may send
// an answer as several messages, or several answers as one.
func checkIntact(r *Request) *Refusal {
	if !r.Thinking.On {
		return nil
	}
	for _, m := range r.loop() {
		all := signatures(m.blocks)
		for _, c := range m.of("tool_use") {
			own, intact := r.in.Signer.bound(c.ID, r.Model.ID, all)
			if !own || intact {
				continue
			}
			alone := slices.DeleteFunc(slices.Clone(m.blocks), func(b placed) bool { return b.message != c.message })
			if _, intact := r.in.Signer.bound(c.ID, r.Model.ID, signatures(alone)); intact {
				continue
			}
			at := c
			if i := slices.IndexFunc(alone, func(b placed) bool { return b.thinks() }); i >= 0 {
				at = alone[i]
			}
			return invalid("", "messages.%d.content.%d: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.", at.message, at.index)
		}
	}
	return nil
}

func signatures(blocks []placed) (out []string) {
	for _, b := range blocks {
		if b.thinks() {
			out = append(out, b.Signature)
		}
	}
	return out
}

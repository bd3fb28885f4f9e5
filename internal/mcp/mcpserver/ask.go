package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
	"perigee/internal/mcp/ask"
)

type askInput struct {
	Prompt         string        `json:"prompt"`
	Model          string        `json:"model"`
	Workspace      string        `json:"workspace"`
	Conversation   string        `json:"conversation"`
	TimeoutSeconds *int          `json:"timeout_seconds"`
	ReadOnly       bool          `json:"read_only"`
	Decision       *ask.Decision `json:"decision"`
}

// An askResult is the structured result of ask_antigravity: an answer with the usage in the form of
// the other tools.
type askResult struct {
	ask.Answer
	Usage *askUsage `json:"usage,omitempty"`
}

type askUsage struct {
	InputTokens    int64 `json:"input_tokens"`
	CachedTokens   int64 `json:"cached_tokens"`
	OutputTokens   int64 `json:"output_tokens"`
	ThinkingTokens int64 `json:"thinking_tokens"`
}

const maxTimeout = 3600 // seconds

func askTool() *tool {
	t := newTool("ask_antigravity", "Ask Antigravity",
		"Sends a prompt to the coding agent of the user's Antigravity IDE, or to a model if no agent is available, and returns the answer. "+
			"The agent can read and change files of its workspace. It can take minutes; the result has a status. "+
			"\"waiting\": the agent waits for a decision of the user, named in waiting_for. \"timeout\": it is still working, and text is "+
			"what there is so far. To continue, call again with the returned conversation.",
		arguments(
			prop("prompt", text, "What to ask. Empty only with a conversation: waits for the answer that is being written there."),
			prop("model?", text, "The model that answers, one of list_models. Default: what the agent or perigee is configured with."),
			prop("workspace?", text, "The directory that the agent works in: absolute path of a folder that is open in the IDE."),
			prop("conversation?", text, "The id of an earlier answer, to continue its conversation. Default: a new conversation."),
			prop("timeout_seconds?", between(1, maxTimeout), "Ends the call after this time, with what there is so far. "+
				"Default: it ends when nothing has happened for a while."),
			prop("read_only?", boolean, "The agent must not change anything. The call fails if that cannot be guaranteed."),
			prop("decision?", arguments(
				prop("allow", boolean, "Whether the agent may do what it waits for."),
				prop("text?", text, "The answer, if the agent has asked a question."),
			), "Answers what the agent of the conversation waits for (status \"waiting\"). Allow only what the user has agreed to."),
		),
		object(
			prop("text", text, "The answer, or what there is of it so far."),
			prop("conversation", text, "The id to continue the conversation with."),
			prop("status", oneOf("done", "waiting", "failed", "cancelled", "timeout"), "How the call has ended."),
			prop("waiting_for?", text, "What the agent waits for."),
			prop("source", text, "What has answered: ide, langserver, simulator, or the name of an upstream."),
			prop("model?", text, "The model that has answered."),
			prop("usage?", object(
				prop("input_tokens", integer, "Tokens of the prompt."),
				prop("cached_tokens", integer, "Tokens of the prompt that were cached."),
				prop("output_tokens", integer, "Tokens of the answer, with thinking."),
				prop("thinking_tokens", integer, "Tokens of thinking."),
			), "What the answer has cost."),
			prop("error?", object(
				prop("class", text, "The kind of the error."),
				prop("message", text, "What has happened."),
				prop("hint?", text, "What to do about it."),
			), "Why it has failed."),
			prop("skipped?", list(object(
				prop("source", text, "The source."),
				prop("reason", text, "Why it was not asked."),
			)), "Sources that come earlier in the configured order and were not asked."),
		))
	t.lenient = true // a missing prompt is an empty one
	open, destructive := true, true
	t.def.Annotations.ReadOnlyHint, t.def.Annotations.OpenWorldHint = false, &open
	t.def.Annotations.DestructiveHint = &destructive
	t.run = runAsk
	return t
}

func runAsk(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
	in, err := decode[askInput](c)
	if err != nil {
		return nil, err
	}
	r, err := c.askRequest(in)
	if err != nil {
		return nil, err
	}
	if c.session != nil {
		r.Roots = c.session.clientRoots(ctx, c.client)
	}
	if tools := c.server.o.Files(c.caller); len(r.Roots) == 0 && tools != nil {
		r.Roots = tools.Roots()
	}
	if c.caller.Admit != nil {
		release, err := c.caller.Admit(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	report := newReporter(ctx, c)
	answer, err := c.server.o.Backend.Ask(ctx, r, report.update)
	report.close()
	if err != nil {
		answer = ask.Fail(err)
		answer.Conversation = r.Conversation
	}
	if !c.caller.Trusted {
		answer = answer.ForClient()
	}
	return askAnswer(answer)
}

// askRequest checks the arguments.
func (c *call) askRequest(in askInput) (ask.Request, error) {
	r := ask.Request{
		Prompt: in.Prompt, Model: in.Model, Workspace: in.Workspace, Conversation: in.Conversation, Decision: in.Decision,
		ReadOnly: in.ReadOnly || c.server.o.ReadOnly(), Client: c.caller.Client, AllowsModel: c.caller.AllowsModel,
	}
	switch {
	case strings.TrimSpace(in.Prompt) == "" && in.Conversation == "":
		return r, c.badArguments("the prompt is empty, and there is no conversation to wait for")
	case len(in.Prompt) > maxPrompt:
		return r, perigee.Errorf(perigee.ClassInvalid, "the prompt has %d bytes, at most %d are accepted", len(in.Prompt), maxPrompt).
			WithHint("name files instead of quoting them")
	case in.Decision != nil && in.Conversation == "":
		return r, c.badArguments("a decision needs the conversation that waits for it")
	}
	if in.TimeoutSeconds != nil {
		if *in.TimeoutSeconds < 1 || *in.TimeoutSeconds > maxTimeout {
			return r, c.badArguments("timeout_seconds is %d, and must be between 1 and %d", *in.TimeoutSeconds, maxTimeout)
		}
		r.Timeout = time.Duration(*in.TimeoutSeconds) * time.Second
	}
	return r, nil
}

// askAnswer returns the result of an ask. Its first text is the answer; another one explains how
// to continue, for models that see texts only.
func askAnswer(a ask.Answer) (*mcp.CallToolResult, error) {
	out := askResult{Answer: a}
	out.Skipped = nil
	for _, s := range a.Skipped { // some clients show it to the model before the text
		out.Skipped = append(out.Skipped, ask.Skipped{Source: s.Source, Reason: perigee.Clip(s.Reason, 200)})
	}
	if u := a.Usage; u != nil {
		out.Usage = &askUsage{u.Input, u.Cached, u.Output, u.Thinking}
	}
	texts := []string{a.Text}
	switch a.Status {
	case ask.Failed:
		if a.Error == nil {
			out.Error = &ask.Failure{Class: perigee.ClassInternal, Message: "the answer has failed without a reason"}
		}
		why := (&perigee.Error{Message: out.Error.Message, Hint: out.Error.Hint}).Error()
		if a.Text == "" {
			texts = []string{why}
		} else {
			texts = append(texts, "The answer is not complete: "+why)
		}
	case ask.Waiting:
		texts = append(texts, fmt.Sprintf("The agent waits for a decision: %s\nAsk the user. Then call ask_antigravity with "+
			"conversation %q and decision {\"allow\": true} or {\"allow\": false}, and with text in it if it is a question.", a.WaitingFor, a.Conversation))
	case ask.Timeout:
		texts = append(texts, unfinished(a))
	case ask.Cancelled:
		texts = append(texts, "The answer is not complete: it was cancelled.")
	}
	result, err := structured(out, texts...)
	if err != nil {
		return nil, err
	}
	result.IsError = a.Status == ask.Failed
	return result, nil
}

// unfinished explains how to get the rest of an answer that has timed out. An agent is still
// working; a model was stopped.
func unfinished(a ask.Answer) string {
	switch {
	case a.Conversation == "":
		return "The answer is not complete: the time is over. Call ask_antigravity again with a larger timeout_seconds."
	case strings.HasPrefix(a.Conversation, ask.ModelConversation):
		return fmt.Sprintf("The answer is not complete: the time is over, and the model was stopped. Call ask_antigravity with "+
			"conversation %q and a prompt such as \"continue\".", a.Conversation)
	}
	return fmt.Sprintf("The answer is not complete: the agent is still working. Call ask_antigravity with conversation %q "+
		"and an empty prompt to wait for the rest.", a.Conversation)
}

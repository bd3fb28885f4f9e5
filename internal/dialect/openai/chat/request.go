package chat

import (
	"fmt"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A Request is a request of the Chat Completions API, and how its answer is to look.
type Request struct {
	*perigee.Request
	Style Style
}

// A Style has the options of a request about the form of its answer.
type Style struct {
	Usage     bool     // stream_options.include_usage: the last chunk of a stream has the usage
	Functions bool     // the request has functions instead of tools: a call becomes function_call
	Custom    []string // custom tools of the client, which the model gets as functions
	Cite      bool     // the answer may come with sources
	Logprobs  bool     // the answer should come with probabilities
}

// DecodeRequest reads the body of POST /v1/chat/completions. Changes and omissions are in Lost of
// the prompt. Prompt returns an error for a body that perigee does not understand: another server
// may.
func DecodeRequest(origin perigee.Origin) (*Request, error) {
	index, c, err := openai.OpenBody(origin.Body)
	if err != nil {
		return nil, err
	}
	d := &decoder{c: c}
	// The provider wants a result for each call.
	d.turns.Missing = func() { d.notes.Repaired("messages[].tool_calls[] without a result") }
	d.read()
	if err := c.Err(); err != nil {
		return nil, openai.InvalidBody(err)
	}
	d.finish()
	if d.wrong != nil {
		return nil, d.wrong
	}
	origin.Dialect = perigee.DialectOpenAIChat
	if d.session != "" && origin.Client.Session == "" {
		origin.Client.Session = d.session
	}
	prompt, unreadable := &d.prompt, error(nil)
	prompt.Dialect, prompt.Lost = origin.Dialect, d.notes.List()
	if d.err != nil {
		prompt, unreadable = nil, d.err
	}
	req := perigee.NewRequest(origin, d.model, d.stream, func() (*perigee.Prompt, error) { return prompt, unreadable })
	req.Index = index
	return &Request{Request: req, Style: d.style}, nil
}

// A decoder is a body while it is read. The members may come in any order, so fields that depend on
// several of them are set in finish.
type decoder struct {
	c      *rawjson.Cursor
	notes  perigee.Notes
	err    *perigee.Error // the first thing that perigee does not understand, or that is wrong
	wrong  *perigee.Error // the first thing that no server may get
	prompt perigee.Prompt
	turns  dialect.Builder
	seen   int            // messages so far
	calls  []perigee.Part // of the message that is read: memory for the next one
	style  Style

	model    string
	stream   bool
	session  string
	choice   toolChoice
	thinking thinking
	maxOld   *int64 // max_tokens
	logprobs bool
	topProbs *int64
}

// refuse records an error about one of the fields, unless there is one already.
func (d *decoder) refuse(param, format string, args ...any) {
	if d.err == nil {
		d.err = openai.Wrong(param, format, args...)
	}
}

// forbid records an error about a field that must not be forwarded either.
func (d *decoder) forbid(param, format string, args ...any) {
	if d.wrong == nil {
		d.wrong = openai.Wrong(param, format, args...)
	}
}

// read reads the members of the body. A null is a member that is not there.
func (d *decoder) read() {
	c, g := d.c, &d.prompt.Generation
	ignored := func() {}
	var members []any
	read := func() { c.Read(dialect.RestPresent(c, &d.notes, ""), members...) }
	members = []any{
		"model", func() { d.model = strings.TrimPrefix(c.String(), "models/") },
		"messages", d.messages,
		"stream", &d.stream,
		"stream_options", func() {
			padding := func() {} // against eavesdroppers, which TLS to loopback does not need
			c.Read(d.notes.Rest("stream_options."), "include_usage", &d.style.Usage, "include_obfuscation", padding)
		},
		"extra_body", read, // SDKs merge it into the body; hand-written clients may not

		"temperature", &g.Temperature, "top_p", &g.TopP, "top_k", &g.TopK,
		"presence_penalty", &g.PresencePenalty, "frequency_penalty", &g.FrequencyPenalty,
		"max_completion_tokens", func() { g.MaxOutputTokens = d.length("max_completion_tokens") },
		"max_tokens", func() { d.maxOld = d.length("max_tokens") },
		"n", d.candidates, "seed", &g.Seed, "stop", d.stops, "logprobs", &d.logprobs, "top_logprobs", &d.topProbs,
		"logit_bias", func() { g.LogitBias = openai.OfKind(c, rawjson.Object) },

		"response_format", d.responseFormat, "modalities", d.modalities,
		"audio", func() { d.notes.Dropped("audio") }, "verbosity", &g.Verbosity,

		"tools", d.tools, "functions", d.functions,
		"tool_choice", func() { d.toolChoice("tool_choice") }, "function_call", func() { d.toolChoice("function_call") },
		"parallel_tool_calls", &g.ParallelCalls,
		"web_search_options", func() {
			c.Read(d.notes.Rest("web_search_options."))
			d.builtin(perigee.BuiltinSearch, nil)
		},

		"reasoning_effort", func() { d.think(rankEffort, "reasoning_effort", d.effort("reasoning_effort", c.String())) },
		"reasoning", func() { d.think(rankReasoning, "reasoning", d.reasoningObject()) },
		"thinking", func() { d.think(rankThinking, "thinking", d.thinkingObject()) },
		"google", d.google,

		// The rest concerns the vendor's platform and not the model: names for its own records, and
		// hints that make an answer faster but no different.
		"prompt_cache_key", &d.session,
		"metadata", func() { openai.OfKind(c, rawjson.Object) },
		"user", ignored, "safety_identifier", ignored, "prompt_cache_retention", ignored, "prediction", ignored,
		"store", func() {
			if c.Bool() {
				d.notes.Dropped("store")
			}
		},
		"service_tier", &g.ServiceTier,
	}
	read()
}

// finish sets the fields that depend on several members.
func (d *decoder) finish() {
	if d.seen == 0 {
		d.refuse("messages", "want at least one message")
		return
	}
	if len(d.prompt.Contents) == 0 && d.prompt.System == nil {
		d.refuse(fmt.Sprintf("messages[%d].content", d.seen-1), "nothing is asked in any of the messages")
		return
	}
	d.finishTools()
	d.finishGeneration()
}

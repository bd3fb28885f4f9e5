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
	Style *Style // complete once Prompt was called; before that it has Usage only
}

// A Style has the options of a request about the form of its answer.
type Style struct {
	Usage     bool     // stream_options.include_usage: the last chunk of a stream has the usage
	Functions bool     // the request has functions instead of tools: a call becomes function_call
	Custom    []string // custom tools of the client, which the model gets as functions
	Cite      bool     // the answer may come with sources
	Logprobs  bool     // the answer should come with probabilities
}

// DecodeRequest reads the body of POST /v1/chat/completions. The conversation is decoded when Prompt
// is called, because a server of this API gets the body unread. Changes and omissions are in Lost of
// the prompt. Prompt returns an error for a body that perigee does not understand: another server
// may.
func DecodeRequest(origin perigee.Origin) (*Request, error) {
	index, c, err := openai.OpenBody(origin.Body)
	if err != nil {
		return nil, err
	}
	d := &decoder{c: c, index: index, style: &Style{}}
	d.outline()
	if d.wrong != nil {
		return nil, d.wrong
	}
	if err := c.Err(); err != nil {
		return nil, openai.InvalidBody(err)
	}
	origin.Dialect = perigee.DialectOpenAIChat
	if d.session != "" && origin.Client.Session == "" {
		origin.Client.Session = d.session
	}
	req := perigee.NewRequest(origin, d.model, d.stream, func() (*perigee.Prompt, error) { return readPrompt(index, d.style) })
	req.Index, req.Opening = index, func() *perigee.Prompt { return readOpening(index) }
	return &Request{Request: req, Style: d.style}, nil
}

// readPrompt reads the conversation, and the rest of the style.
func readPrompt(index *rawjson.Document, style *Style) (*perigee.Prompt, error) {
	d := &decoder{c: index.Cursor(), style: style}
	// The provider wants a result for each call.
	d.turns.Missing = func() { d.notes.Repaired("messages[].tool_calls[] without a result") }
	d.read()
	if err := d.c.Err(); err != nil {
		return nil, openai.InvalidBody(err)
	}
	d.finish()
	if d.err != nil {
		return nil, d.err
	}
	d.prompt.Dialect, d.prompt.Lost = perigee.DialectOpenAIChat, d.notes.List()
	return new(d.prompt), nil // not the decoder's own, which would keep all of it alive
}

// readOpening reads the conversation up to the model's first answer, or nothing if that is not
// possible.
func readOpening(index *rawjson.Document) *perigee.Prompt {
	d := &decoder{c: index.Cursor(), style: &Style{}}
	d.opening()
	if d.c.Err() != nil {
		return nil
	}
	d.endConversation()
	return &d.prompt
}

// A decoder is a body while it is read. The members may come in any order, so fields that depend on
// several of them are set in finish.
type decoder struct {
	c      *rawjson.Cursor
	index  *rawjson.Document // for outline
	notes  perigee.Notes
	err    *perigee.Error // the first thing that perigee does not understand, or that is wrong
	wrong  *perigee.Error // the first thing that no server may get
	prompt perigee.Prompt
	turns  dialect.Builder
	seen   int            // messages so far
	calls  []perigee.Part // of the message that is read: memory for the next one
	style  *Style

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
	if d.refuse(param, format, args...); d.wrong == nil {
		d.wrong = openai.Wrong(param, format, args...)
	}
}

// members reads members of the body as Cursor.Read does, also where they are in extra_body: SDKs
// merge it into the body, hand-written clients may not. A null is a member that is not there.
func (d *decoder) members(rest func(name []byte), into ...any) {
	var list []any
	read := func() { d.c.Read(rest, list...) }
	list = append(into, "extra_body", read)
	read()
}

// outline reads the members that every request needs, and finds what no server may get.
func (d *decoder) outline() {
	d.members(nil, "model", d.readModel, "stream", &d.stream, "stream_options", d.streamOptions, "prompt_cache_key", &d.session,
		"messages", d.media)
}

func (d *decoder) readModel() { d.model = strings.TrimPrefix(d.c.String(), "models/") }

func (d *decoder) streamOptions() {
	padding := func() {} // against eavesdroppers, which TLS to loopback does not need
	d.c.Read(d.notes.Rest("stream_options."), "include_usage", &d.style.Usage, "include_obfuscation", padding)
}

// read reads all members of the body.
func (d *decoder) read() {
	c, g := d.c, &d.prompt.Generation
	ignored := func() {}
	d.members(dialect.RestPresent(c, &d.notes, ""),
		"model", d.readModel, "messages", d.messages, "stream", &d.stream, "stream_options", d.streamOptions,

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
		"service_tier", &g.ServiceTier)
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

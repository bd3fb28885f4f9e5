package responses

import (
	"encoding/json"
	"fmt"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A Finder returns the stored response with an id, for a client that continues it. For an unknown
// id the error is of ClassNotFound.
type Finder func(id string) (*perigee.StoredResponse, error)

// A Request is a request of the Responses API, and the members that its answer repeats.
type Request struct {
	*perigee.Request
	Store      bool
	Background bool

	// Elsewhere is called with the start of an answer that the client gets byte for byte, before it
	// gets any of it: with Store, the provider stores that answer under its own id. It may be nil.
	Elsewhere func(start *perigee.Event)

	previous       string
	earlier        [2]json.RawMessage // the input and the output of the continued response, as arrays
	input          json.RawMessage    // raw JSON: a string or an array
	given          []givenItem        // its items, where it is an array and to be stored
	items          json.RawMessage    // the result of InputItems, set by KeepItems
	references     []json.RawMessage  // the items of the item_references of input, in order
	echo           [len(echoes)]json.RawMessage
	tools          *toolSet
	showSummary    bool // the client wants to read the thinking
	showSignatures bool // the client wants the thinking back in a form that it can send again
	showSources    bool // of a web search
	searches       bool // the model may search the web
	logprobs       bool // the client requests log probabilities
}

// DecodeRequest reads the body of POST /v1/responses. The conversation is decoded when Prompt is
// called, because a provider of this API gets the body unread, or at once if a part of it may be
// stored here; find may be nil where nothing is stored. An encoder of a translated answer gets its
// first event after that.
//
// Prompt returns an error for a body that perigee does not understand: the provider may. A request
// that continues a conversation which is stored here cannot be forwarded (perigee.Request.Verbatim),
// and one that continues a response at an upstream is pinned to that.
func DecodeRequest(origin perigee.Origin, find Finder) (*Request, error) {
	return decodeRequest(origin, find, true)
}

// DecodeCount reads the body of POST /v1/responses/input_tokens.
func DecodeCount(origin perigee.Origin, find Finder) (*perigee.Request, error) {
	req, err := decodeRequest(origin, find, false)
	if err != nil {
		return nil, err
	}
	return req.Request, nil
}

// decodeRequest reads a body. store is whether the answer is stored if the body has no such member.
func decodeRequest(origin perigee.Origin, find Finder, store bool) (*Request, error) {
	members, doc, err := membersOf(origin.Body)
	if err != nil {
		return nil, err
	}
	if got := doc.Cursor().Kind(); got != rawjson.Object {
		return nil, invalidBody("", fmt.Errorf("want %v, found %v", rawjson.Object, got))
	}
	d := &decoder{doc: doc, size: len(origin.Body), find: find, out: &Request{Store: store, tools: &toolSet{}}, prompt: &perigee.Prompt{}}
	d.read(members)
	if d.wrong != nil {
		return nil, d.wrong
	}
	pieces := doc.Count.Err
	if d.out.Store {
		pieces = doc.Count.ErrStored
	}
	if err := pieces(len(origin.Body)); err != nil {
		return nil, openai.TooManyPieces(err)
	}
	stored, err := d.previous()
	if err != nil {
		return nil, err
	}
	d.settings()
	refers, reasons := d.inspect()
	if d.wrong != nil {
		return nil, d.wrong
	}
	if d.session != "" && origin.Client.Session == "" {
		origin.Client.Session = d.session
	}
	origin.Dialect = perigee.DialectOpenAIResponses
	d.out.Request = perigee.NewRequest(origin, d.model, d.stream, func() (*perigee.Prompt, error) { return d.decode(stored) })
	d.out.Pinned, d.out.Index, d.out.PlainItems = d.pinned, doc, !refers && !reasons
	if stored == nil && !refers {
		return d.out, nil
	}
	if _, err := d.out.Prompt(); d.wrong != nil {
		return nil, err
	}
	if stored != nil || len(d.out.references) > 0 {
		return d.out, d.out.Translate()
	}
	return d.out, nil
}

// decode reads the conversation, after the one that the request continues.
func (d *decoder) decode(stored *perigee.StoredResponse) (*perigee.Prompt, error) {
	d.conversation(stored)
	switch {
	case d.wrong != nil:
		return nil, d.wrong
	case d.err != nil:
		return nil, d.err
	}
	d.prompt.Dialect, d.prompt.Lost = perigee.DialectOpenAIResponses, d.notes.List()
	return d.prompt, nil
}

// Translate has the request encoded anew for each provider: the body alone is not what the client
// means, or its answer is to be made here. It fails as Prompt does.
func (r *Request) Translate() error {
	prompt, err := r.Prompt()
	if err == nil {
		r.Request = r.WithPrompt(prompt)
	}
	return err
}

// A decoder is a body while it is read.
type decoder struct {
	recalled     map[string]bool // the ids of items that were read from the store
	recalledSize int
	carried      int // the thoughts and signatures in carriers
	size         int // of the body

	doc    *rawjson.Document
	find   Finder
	out    *Request
	prompt *perigee.Prompt
	notes  perigee.Notes
	err    error  // the first thing that perigee does not understand, or that is wrong
	wrong  error  // the first thing that no provider may get
	pinned string // the upstream that stores the response which the request continues

	model        string
	stream       bool
	session      string
	instructions perigee.Text
	rawTools     json.RawMessage
	rawPrompt    json.RawMessage
	rawChoice    json.RawMessage
	logprobs     bool
	topLogprobs  int64
	thinking     bool // the request has a member about reasoning
	effort       string

	keeping bool // the request's own input is being read, and will be stored

	turns      dialect.Builder
	signatures map[string]string // call id to signature, from the reasoning items
	known      itemIndex         // stored items that were read; nil until one is needed
}

// read reads the members of the body; a null is a member that is not there. Members that depend on
// other ones (the conversation calls tools, later turns refer to earlier ones) are only found here,
// and are read by conversation.
func (d *decoder) read(members []member) {
	var value json.RawMessage // of the member
	c, g := rawjson.NewCursor(nil), &d.prompt.Generation
	text := func() { _ = c.String() }
	notKept := func(name string) func() {
		return func() {
			d.refuse(openai.Wrong(name, "perigee keeps no %ss", name).
				WithHint("send the whole input, or go on with previous_response_id"))
		}
	}
	table := []any{
		"model", &d.model, "instructions", func() { d.instructions = perigee.Escaped(c.Inside()) }, "previous_response_id", &d.out.previous,
		"stream", &d.stream, "store", &d.out.Store, "background", &d.out.Background, "prompt_cache_key", &d.session,
		"input", func() { d.out.input = value },
		"tools", func() {
			if d.rawTools = value; c.Kind() != rawjson.Array {
				openai.OfKind(c, rawjson.Array) // fails
			}
		},
		"tool_choice", func() { d.rawChoice = value },
		"conversation", notKept("conversation"), "prompt", func() {
			d.rawPrompt = value
			notKept("prompt")()
		},

		"temperature", &g.Temperature, "top_p", &g.TopP,
		"presence_penalty", &g.PresencePenalty, "frequency_penalty", &g.FrequencyPenalty,
		"max_output_tokens", func() {
			n := c.Int64()
			if n < 1 && c.Err() == nil {
				d.refuse(openai.Wrong("max_output_tokens", "want at least 1, found %d", n))
			}
			g.MaxOutputTokens = &n
		},
		"top_logprobs", &d.topLogprobs, "text", func() { d.text(c) }, "reasoning", func() { d.reasoning(c) },
		"include", func() { d.include(c) }, "truncation", func() { d.truncation(c) },

		// Most of the rest does not affect the model.
		"metadata", func() { d.metadata(c) },
		"client_metadata", func() { openai.OfKind(c, rawjson.Object) },
		"user", text, "safety_identifier", text, "prompt_cache_retention", text,
		"parallel_tool_calls", &g.ParallelCalls, "service_tier", &g.ServiceTier,
		"stream_options", func() {
			padding := func() {} // would only make the events longer
			c.Read(d.notes.Rest("stream_options."), "include_obfuscation", padding)
		},
	}
	for i := range members {
		m := &members[i]
		value = m.value
		if c.Reset(value); c.Kind() == rawjson.Null {
			continue
		}
		if i := echoIndex(m.name); i >= 0 {
			d.out.echo[i] = echoOf(echoes[i].name, value)
		}
		name := string(m.name)
		if variable := rawjson.Named(name, table); variable != nil {
			c.Into(variable)
		} else {
			d.notes.Unknown("", m.name)
		}
		if err := c.Err(); err != nil {
			refuse := d.refuse
			if name == "model" || name == "stream" {
				refuse = d.forbid
			}
			refuse(invalidBody(name, err))
		}
	}
}

// usualTurn is how much agents send for each turn, or more.
const usualTurn = 2 << 10

// settings sets what depends on several members.
func (d *decoder) settings() {
	if d.out.Background && !d.out.Store {
		d.refuse(openai.Wrong("background", "an answer that is made in the background has to be stored").
			WithHint("remove store: false"))
	}
	// A client without stored responses needs the signatures to continue.
	d.out.showSignatures = d.out.showSignatures || !d.out.Store
	d.generation()
}

// conversation reads the members that read has collected, in the order of their dependencies, after
// the conversation that the request continues.
func (d *decoder) conversation(stored *perigee.StoredResponse) {
	d.turns = dialect.Builder{Contents: make([]perigee.Content, 0, 1+len(d.out.input)/usualTurn)}
	d.instruct(d.instructions)
	if d.rawTools != nil {
		d.tools("tools", d.rawTools, "")
	}
	if stored != nil {
		d.earlierTurns(stored)
	}
	d.ownInput()
	if d.err != nil {
		return
	}
	d.turns.Close()
	d.prompt.Contents = d.turns.Contents
	d.prompt.Tools = d.out.tools.declared
	d.toolChoice()
	if len(d.prompt.Contents) == 0 && d.prompt.System == nil {
		d.refuse(openai.Wrong("input", "nothing is asked"))
	}
}

// instruct adds to the system instruction.
func (d *decoder) instruct(text perigee.Text) {
	if text.Empty() {
		return
	}
	if d.prompt.System == nil {
		d.prompt.System = &perigee.Content{}
	}
	d.prompt.System.Parts = append(d.prompt.System.Parts, perigee.Part{Kind: perigee.PartText, Text: text})
}

// previous finds the response that the request continues. It returns nil if there is none, or if it
// is stored at an upstream: then only that can read the request.
func (d *decoder) previous() (*perigee.StoredResponse, error) {
	if d.out.previous == "" {
		return nil, nil
	}
	stored, err := d.findResponse(d.out.previous)
	if err != nil {
		return nil, err
	}
	if d.pinned = StoredAt(stored.Response); d.pinned != "" {
		d.refuse(lostResponse(d.out.previous).WithHint("the response is stored at the upstream %s; send the whole input to another one", d.pinned))
		return nil, nil
	}
	return stored, d.recall(d.out.previous, len(stored.Input)+len(stored.Output))
}

// earlierTurns puts the conversation that the request continues before the new input. It adds no
// notes, because its own request did.
func (d *decoder) earlierTurns(stored *perigee.StoredResponse) {
	d.out.earlier = [2]json.RawMessage{stored.Input, stored.Output}
	before := d.notes
	defer func() { d.notes = before }()
	for _, items := range d.out.earlier {
		c := rawjson.NewCursor(items)
		d.items(c)
		if err := c.Err(); err != nil {
			d.refuse(perigee.Errorf(perigee.ClassInternal, "the stored response %s is damaged: %w", d.out.previous, err))
		}
	}
}

func (d *decoder) findResponse(id string) (*perigee.StoredResponse, error) {
	if d.find == nil {
		return nil, lostResponse(id)
	}
	stored, err := d.find(id)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		return nil, lostResponse(id)
	}
	return stored, err
}

// lostResponse returns the error about a response that cannot be continued.
func lostResponse(id string) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid,
		Message: fmt.Sprintf("Previous response with id '%s' not found.", openai.Brief(id)),
		Hint:    "send the whole input instead",
		Cause:   &perigee.Fault{Param: "previous_response_id", Code: "previous_response_not_found"}}
}

func (d *decoder) ownInput() {
	if d.out.input == nil {
		return
	}
	c := d.doc.Value(d.out.input)
	switch c.Kind() {
	case rawjson.String:
		if text := c.Inside(); text != "" {
			d.turns.UserPart(perigee.Part{Kind: perigee.PartText, Text: perigee.Escaped(text)})
		}
	default:
		d.keeping = d.out.Store
		d.items(c)
		d.keeping = false
	}
	if err := c.Err(); err != nil {
		d.refuse(invalidBody("input", err))
	}
}

// forbid records an error about something that no provider may get, unless there is one already.
func (d *decoder) forbid(err error) {
	d.refuse(err)
	if d.wrong == nil {
		d.wrong = err
	}
}

// refuse records an error, unless there is one already.
func (d *decoder) refuse(err error) {
	if d.err == nil {
		d.err = err
	}
}

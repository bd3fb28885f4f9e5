package chat

import (
	"fmt"
	"strings"

	"perigee"
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
	Usage     bool     // stream_options.include_usage: a last chunk with the usage, and a null in all before it
	Functions bool     // the request used functions, which tools have replaced: calls answer as function_call
	Custom    []string // tools that are custom ones to the client and functions to the model
	Cite      bool     // the answer may come with sources
	Logprobs  bool     // the answer should come with probabilities
}

// DecodeRequest reads the body of POST /v1/chat/completions. What had to be changed or dropped is
// in Notes.
func DecodeRequest(origin perigee.Origin) (*Request, error) {
	if err := openai.CheckBody(origin.Body); err != nil {
		return nil, err
	}
	c := rawjson.NewCursor(origin.Body)
	if got := c.Kind(); got != rawjson.Object { // null would pass for an empty one
		return nil, openai.InvalidBody(fmt.Errorf("want %v, found %v", rawjson.Object, got))
	}
	d := &decoder{c: c}
	d.talk.notes, d.talk.prompt, d.talk.Missing = &d.notes, &d.prompt, d.talk.missing
	for key := range c.Object() {
		d.field(key)
	}
	if err := c.Err(); err != nil {
		return nil, openai.InvalidBody(err)
	}
	d.finish()
	if d.err != nil {
		return nil, d.err
	}
	origin.Dialect = perigee.DialectOpenAIChat
	origin.Note(d.notes.List()...)
	if d.session != "" && origin.Client.Session == "" {
		origin.Client.Session = d.session
	}
	prompt := &d.prompt
	req := perigee.NewRequest(origin, d.model, d.stream, func() (*perigee.Prompt, error) { return prompt, nil })
	return &Request{Request: req, Style: d.style}, nil
}

// A decoder is a body while it is read. The members may come in any order, so fields that depend on
// several of them are set in finish.
type decoder struct {
	c      *rawjson.Cursor
	notes  perigee.Notes
	err    *perigee.Error // the first thing that is wrong beyond types
	prompt perigee.Prompt
	talk   talk
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
	detail   openai.Detail
}

// refuse makes the request an error about one of its fields, the first of them counts.
func (d *decoder) refuse(param, format string, args ...any) {
	if d.err == nil {
		d.err = openai.Wrong(param, format, args...)
	}
}

// field reads one member of the body. A null is a member that is not there.
func (d *decoder) field(key []byte) {
	if d.c.Kind() == rawjson.Null {
		return
	}
	name := string(key)
	if d.basic(name) || d.sampling(name) || d.format(name) || d.tooling(name) || d.reasoning(name) || d.bookkeeping(name) {
		return
	}
	d.notes.Unknown("", key)
}

func (d *decoder) basic(name string) bool {
	switch name {
	case "model":
		d.model = strings.TrimPrefix(d.c.String(), "models/")
	case "messages":
		for i := range d.c.Array() {
			d.talk.Contents = rawjson.Reserve(d.c, d.talk.Contents)
			d.message(i)
		}
		d.talk.end()
	case "stream":
		d.stream = d.c.Bool()
	case "stream_options":
		padding := func() {} // against eavesdroppers, which TLS to loopback does not need
		d.c.Read(d.notes.Rest("stream_options."), "include_usage", &d.style.Usage, "include_obfuscation", padding)
	case "extra_body": // SDKs merge it into the body; hand-written clients may not
		for key := range d.c.Object() {
			d.field(key)
		}
	default:
		return false
	}
	return true
}

// bookkeeping reads the members that concern the vendor's platform and not the model.
func (d *decoder) bookkeeping(name string) bool {
	switch name {
	case "prompt_cache_key":
		d.session = d.c.String()
	case "metadata":
		openai.OfKind(d.c, rawjson.Object)
	case "user", "safety_identifier", "prompt_cache_retention", "prediction":
		// Names for the vendor's own records, and hints that make an answer faster but no
		// different.
	case "store":
		if d.c.Bool() {
			d.notes.Dropped("store")
		}
	case "service_tier":
		if tier := d.c.String(); tier != "auto" && tier != "default" {
			d.notes.Dropped("service_tier")
		}
	default:
		return false
	}
	return true
}

// finish sets the fields that depend on several members.
func (d *decoder) finish() {
	if d.talk.seen == 0 {
		d.refuse("messages", "want at least one message")
		return
	}
	if len(d.prompt.Contents) == 0 && d.prompt.System == nil {
		d.refuse(fmt.Sprintf("messages[%d].content", d.talk.seen-1), "nothing is asked in any of the messages")
		return
	}
	d.finishTools()
	d.finishGeneration()
}

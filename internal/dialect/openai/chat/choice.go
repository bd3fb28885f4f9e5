package chat

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A choice is the state of one of the answers while it is received.
type choice struct {
	index       int
	head        string // of each chunk of a stream, once there is one
	hasContent  bool   // there was content
	hasText     bool   // there was text
	hasLogprobs bool   // there were probabilities
	last        perigee.EventKind
	callCount   int
	open        openCall
	images      int
	signatures  signatures
	trail       dialect.Searches
	text        rawjson.Text // the text that the sources refer to
	finish      perigee.Finish

	// The content so far, collected or sent.
	reasoning rawjson.Text
	calls     []toolCall
	pictures  rawjson.Writer // the elements of images
	logprobs  rawjson.Writer // the elements of logprobs.content
}

// An openCall is a call of which pieces were written. The zero value is none.
type openCall struct {
	begun bool
	sent  int // bytes of the arguments, or of the input of a custom tool
	input openai.InputPieces
}

// rest returns the arguments of a call that were not written in pieces. The arguments of a function
// are written whole, or in pieces only.
func (o *openCall) rest(call *perigee.FunctionCall, custom bool) string {
	if custom {
		input := openai.Unwrap("input", call.Args)
		return input[min(o.sent, len(input)):]
	}
	if o.sent > 0 {
		return ""
	}
	return string(argumentsOf(call))
}

// A progress is the state of an answer while it is received.
type progress struct {
	answer  Answer
	started bool      // the model is known to the client
	choices []*choice // in the order in which they began
	usage   perigee.Usage
}

func newProgress(answer Answer) progress {
	if answer.Style == nil {
		answer.Style = &Style{}
	}
	return progress{answer: answer}
}

// choice returns the choice with the given index. There are as many as the client asked for, which
// is few.
func (p *progress) choice(index int) *choice {
	for _, c := range p.choices {
		if c.index == index {
			return c
		}
	}
	c := &choice{index: index}
	p.choices = append(p.choices, c)
	return c
}

// all returns the choices, of which there is at least one.
func (p *progress) all() []*choice {
	if len(p.choices) == 0 {
		p.choice(0)
	}
	return p.choices
}

// take applies an event. It returns the choice and the content that the event adds to it; ok is
// false if it adds none.
func (p *progress) take(ev *perigee.Event) (c *choice, add content, ok bool) {
	switch ev.Kind {
	case perigee.EventFrame:
		return nil, add, false
	case perigee.EventStart:
		if ev.Model != "" && !p.started {
			p.answer.Model = ev.Model
		}
		return nil, add, false
	case perigee.EventUsage:
		if ev.Usage != nil {
			p.usage = *ev.Usage
		}
		return nil, add, false
	}
	c = p.choice(ev.Candidate)
	switch ev.Kind {
	case perigee.EventGrounding:
		c.trail.Add(ev.Grounding)
	case perigee.EventFinish:
		if ev.Finish != nil {
			c.finish = *ev.Finish
			p.answer.noteNoLogprobs(c)
		}
	default:
		add, ok = c.take(ev)
	}
	return c, add, ok
}

// content is the change of the message by an event. The zero value adds nothing.
type content struct {
	text      string
	reasoning string
	call      *perigee.FunctionCall
	piece     bool // text is a piece of the arguments of call
	image     *perigee.Blob
	signed    bool   // the signatures of the choice have changed
	signature string // of the call, or of the call before
	logprobs  *perigee.Logprobs
}

// take returns the content that an event adds to the choice, and whether there is any.
func (c *choice) take(ev *perigee.Event) (add content, ok bool) {
	kind := ev.Kind
	switch kind {
	case perigee.EventText, perigee.EventThinking:
		if ev.Text == "" && ev.Signature == "" {
			return add, false
		}
		if kind == perigee.EventText {
			add.text = ev.Text
		} else {
			add.reasoning = ev.Text
		}
	case perigee.EventPart:
		if add.text = openai.CodeText(ev.Raw); add.text == "" {
			return add, false
		}
		kind = perigee.EventText
	case perigee.EventCall, perigee.EventCallPart:
		if ev.Call == nil {
			return add, false
		}
		add.call, add.signature = ev.Call, ev.Signature
		if kind == perigee.EventCallPart {
			add.piece, add.text, kind = true, ev.Text, perigee.EventCall
			c.hasContent, c.last = true, kind
			return add, true
		}
	case perigee.EventBlob:
		if ev.Blob == nil || ev.Thought { // a draft
			return add, false
		}
		add.image = ev.Blob
	case perigee.EventLogprobs:
		add.logprobs = ev.Logprobs
		c.hasLogprobs = true
		c.hasContent = c.hasContent || ev.Logprobs != nil
		return add, ev.Logprobs != nil
	case perigee.EventSignature:
		kind = c.last
		if kind == perigee.EventCall {
			add.signature = ev.Signature
			return add, ev.Signature != ""
		}
	default:
		return add, false
	}
	c.hasContent, c.last = true, kind
	c.hasText = c.hasText || add.text != ""
	add.signed = c.sign(kind, ev.Signature)
	return add, true
}

// sign keeps a signature that belongs to the text or to the thinking.
func (c *choice) sign(kind perigee.EventKind, signature string) bool {
	switch {
	case signature == "" || kind == perigee.EventCall:
		return false
	case kind == perigee.EventThinking:
		c.signatures.reasoning = signature
	default:
		c.signatures.text = signature
	}
	return true
}

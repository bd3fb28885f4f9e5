package antigravity

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/prepare"
	"perigee/internal/sse"
	"perigee/internal/upstream/wire"
	"perigee/internal/verdict"
)

// An answer is one stream of the provider's on its way to the caller. As long as it says nothing it is held back, so
// that something else can be tried.
type answer struct {
	call        *call
	relay       wire.Relay
	back        prepare.Back
	search      *prepare.Search // calls of this tool are ours to answer
	frames      bool            // the caller speaks this dialect and gets the provider's own chunks
	acceptEmpty bool
	token       perigee.Secret // that is asked with, which an error may repeat

	decoder  dialect.Decoder
	events   []perigee.Event
	start    perigee.Event
	usage    *perigee.Usage  // the last that was said
	held     []perigee.Event // what is shown when the answer turns out to be one
	weight   int             // of what is held, about, in bytes
	text     string          // of an answer that may be a refusal in the model's words
	thoughts []string        // what each candidate has thought so far in one go, where chunks may repeat it
	step     step
	kept     perigee.Tally // of step
	useless  error         // why the answer, which has ended, is none; what it cost may follow
}

func newAnswer(c *call, m *message) *answer {
	frames := c.req.Dialect == perigee.DialectGemini && c.req.Stream && !m.Back.Needed() && m.Search == nil
	relay := wire.NewRelay(&c.req.Origin, func(ev perigee.Event, _ error) bool { return c.send(ev) })
	return &answer{call: c, relay: relay, back: m.Back, search: m.Search, frames: frames, decoder: newDecoder()}
}

// reset forgets an attempt that came to nothing.
func (a *answer) reset() {
	a.kept.Drop(&a.call.req.Origin)
	*a = answer{call: a.call, relay: a.relay, back: a.back, search: a.search, frames: a.frames, acceptEmpty: a.acceptEmpty, events: a.events[:0], decoder: newDecoder()}
	if a.call.spent != (perigee.Usage{}) {
		a.frames = false // the provider's own chunks name only what this attempt costs
	}
}

// newDecoder reads chunks in the gateway's envelope.
func newDecoder() dialect.Decoder { return dialect.Decoder{Envelope: "response"} }

func (a *answer) stream(r *sse.Reader, dog *wire.Watchdog) error {
	err := a.relay.Stream(r, dog, a.call.upstream.opts.Idle, a)
	if a.useless != nil {
		return a.useless
	}
	return err
}

// Chunk takes one event of the stream.
func (a *answer) Chunk(data []byte, more bool) error {
	events, err := a.decoder.Decode(a.events[:0], data, more)
	if err != nil {
		if v, ok := verdict.ClassifyStreamError(withoutToken(data, a.token), a.call.upstream.opts.Now()); ok {
			return &verdictError{v}
		}
		return err
	}
	a.events = events
	if a.frames && a.useless == nil && !startsOnly(events) {
		a.show(perigee.Event{Kind: perigee.EventFrame, Frame: a.decoder.Chunk(), More: more || len(events) > 0}, says(events))
	}
	for i := range events {
		if a.call.left {
			return nil
		}
		ev := events[i]
		if a.search != nil { // the whole round is sent back to the model after a search
			if err := a.kept.Add(&a.call.req.Origin, roundFactor*ev.Size()); err != nil {
				return err
			}
		}
		ev.More = more || i < len(events)-1
		a.event(ev)
	}
	return nil
}

// roundFactor is what a byte of a round counts that may end with a search: it is kept, and sent once more.
const roundFactor = 2

// says reports whether events have something in them that a client would show, or could not do without.
func says(events []perigee.Event) bool {
	return slices.ContainsFunc(events, func(ev perigee.Event) bool {
		switch ev.Kind {
		case perigee.EventStart, perigee.EventUsage, perigee.EventFinish, perigee.EventSignature:
			return false
		}
		return true
	})
}

func startsOnly(events []perigee.Event) bool {
	return len(events) == 1 && events[0].Kind == perigee.EventStart
}

func (a *answer) event(ev perigee.Event) {
	if a.useless != nil {
		if ev.Kind == perigee.EventUsage {
			a.usage = ev.Usage
		}
		return
	}
	a.back.Event(&ev)
	switch ev.Kind {
	case perigee.EventStart:
		ev.Upstream, ev.Account = a.call.upstream.opts.Name, a.call.account
		a.start = ev
		return
	case perigee.EventUsage:
		a.usage = ev.Usage
		total := *ev.Usage
		add(&total, a.call.spent)
		ev.Usage = &total
		a.show(ev, false)
		return
	case perigee.EventFinish:
		a.finished(ev)
		return
	case perigee.EventThinking:
		if ev.Text = a.unrepeated(ev.Candidate, ev.Text); ev.Text == "" {
			if ev.Signature == "" {
				return
			}
			ev.Kind = perigee.EventSignature
		}
	}
	if ev.Kind != perigee.EventThinking && ev.Kind != perigee.EventSignature {
		clear(a.thoughts) // what comes after this is another thought
	}
	if a.search != nil {
		if !a.step.take(&ev, a.search.Name) {
			return
		}
		if a.search.HideThoughts && (ev.Kind == perigee.EventThinking || ev.Kind == perigee.EventSignature) {
			return
		}
	}
	if ev.Kind == perigee.EventText && !a.call.begun && !a.frames {
		a.text += ev.Text
		if verdict.MayRefuse(a.text) {
			a.hold(ev)
			return
		}
	}
	a.show(ev, ev.Kind != perigee.EventSignature)
}

// show passes an event on. As long as nothing has been said it is held back. Who gets chunks hears of their content as
// well, for those who watch.
func (a *answer) show(ev perigee.Event, says bool) {
	if !a.call.begun && !says {
		a.hold(ev)
		return
	}
	a.begin()
	a.relay.Send(ev)
}

// maxHeld is how many bytes are held back. A stream that has gone on for so long is shown, whatever comes of it.
const maxHeld = 256 << 10

func (a *answer) hold(ev perigee.Event) {
	ev.Frame = slices.Clone(ev.Frame)
	ev.More = true
	if n := len(a.held); n > 0 && ev.Kind == perigee.EventUsage && a.held[n-1].Kind == perigee.EventUsage {
		a.held[n-1] = ev // what was said last counts
		return
	}
	a.held = append(a.held, ev)
	if a.weight += 256 + len(ev.Frame) + len(ev.Text) + len(ev.Signature); a.weight > maxHeld {
		a.begin()
	}
}

// begin shows what was held back. From here on the call cannot be tried again.
func (a *answer) begin() {
	if a.call.begun {
		return
	}
	a.call.begun = true
	if a.call.loan != nil {
		a.call.loan.Answering()
	}
	for _, note := range a.call.pending {
		if !a.call.said[note] {
			a.call.said[note] = true
			a.relay.Send(perigee.Event{Kind: perigee.EventNote, Note: &note, More: true})
		}
	}
	a.start.Kind, a.start.More = perigee.EventStart, true
	a.start.Upstream, a.start.Account = a.call.upstream.opts.Name, a.call.account
	a.relay.Send(a.start)
	if a.call.spent != (perigee.Usage{}) {
		a.relay.Send(perigee.Event{Kind: perigee.EventUsage, Usage: new(a.call.spent), More: true}) // the last round may not say what it costs
	}
	for _, ev := range append(a.call.found, a.held...) {
		a.relay.Send(ev)
	}
	a.call.found, a.held = nil, nil
}

// finished takes the end of an answer. One that said nothing for no reason is none.
func (a *answer) finished(ev perigee.Event) {
	if !a.call.begun {
		if v, refused := verdict.ClassifyText(a.text); refused && a.text != "" {
			a.useless = &verdictError{v}
			return
		}
		if a.text == "" && !a.step.searches() && !a.acceptEmpty && forNoReason(ev.Finish.Reason) {
			a.useless = errEmpty
			return
		}
	}
	if a.step.searches() {
		return // we answer the model's question ourselves, and the answer goes on
	}
	a.begin()
	a.relay.Send(ev)
}

// errEmpty is an answer without anything in it.
var errEmpty = &verdictError{verdict.Verdict{Kind: kindEmpty, Blame: verdict.ScopeNobody,
	Error: &perigee.Error{Class: perigee.ClassUnavailable, Message: "the provider sent an answer without anything in it", Next: "try again", Cause: perigee.ErrNoAnswer}}}

// forNoReason says whether a finish reason does not explain why there is no answer.
func forNoReason(reason string) bool {
	switch strings.ToUpper(reason) {
	case "STOP", "OTHER", "FINISH_REASON_UNSPECIFIED", "UNKNOWN", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "":
		return true
	}
	return false
}

// End judges a stream that came to its end: one that never said why it stopped was cut short.
func (a *answer) End() error {
	switch {
	case a.decoder.Finished():
		return nil
	case !a.call.begun && a.text == "":
		return errEmpty
	}
	return &perigee.Error{Class: perigee.ClassUnavailable, Cause: io.ErrUnexpectedEOF, Next: "try again",
		Message: fmt.Sprintf("upstream %s: connection lost: the answer ended before it was finished", a.call.upstream.opts.Name)}
}

// repeats is the shortest thought that a chunk is believed to repeat: shorter ones may begin alike by chance.
const repeats = 24

// unrepeated returns what is new in a piece of thinking. Some models send all of it again with every chunk.
func (a *answer) unrepeated(candidate int, text string) string {
	if candidate < 0 || candidate >= 8 {
		return text
	}
	for len(a.thoughts) <= candidate {
		a.thoughts = append(a.thoughts, "")
	}
	before := a.thoughts[candidate]
	if len(before) >= repeats {
		if fresh, ok := strings.CutPrefix(text, before); ok {
			a.thoughts[candidate] = text
			return fresh
		}
	}
	if len(before) < repeats {
		a.thoughts[candidate] = before + text
	}
	return text
}

func add(total *perigee.Usage, more perigee.Usage) {
	total.Input += more.Input
	total.Cached += more.Cached
	total.Output += more.Output
	total.Thinking += more.Thinking
}

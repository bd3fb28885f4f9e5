package antigravity

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/providererr"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/sse"
	"perigee/internal/lib/wire"
	"perigee/internal/route/hold"
)

// An answer is one stream of the provider on its way to the caller. It is held back while it has no
// content, so that another attempt can be made.
type answer struct {
	call   *call
	relay  wire.Relay
	undo   adapt.Undo
	search *adapt.Search // perigee answers calls of this tool
	// the caller uses the Gemini dialect and gets the provider's own chunks
	frames      bool
	acceptEmpty bool
	token       perigee.Secret // of the request, which an error may repeat

	decoder dialect.Decoder
	events  []perigee.Event
	start   perigee.Event
	usage   *perigee.Usage // the last one
	held    hold.Events    // until the answer has content
	text    string         // of an answer that may be a refusal written by the model
	// complete thoughts of each candidate so far, because later chunks may repeat them
	thoughts [8]string
	step     step
	charged  perigee.Tally // memory charged for step
	// why the attempt failed although the answer has ended; its usage may follow
	useless error
}

func newAnswer(c *call, m *message) *answer {
	frames := c.req.Dialect == perigee.DialectGemini && c.req.Stream && !m.Undo.Needed() && m.Search == nil
	relay := wire.NewRelay(&c.req.Origin, func(ev perigee.Event, _ error) bool { return c.send(ev) })
	return &answer{call: c, relay: relay, undo: m.Undo, search: m.Search, frames: frames, decoder: newDecoder()}
}

// reset discards a failed attempt.
func (a *answer) reset() {
	a.charged.Drop(&a.call.req.Origin)
	*a = answer{call: a.call, relay: a.relay, undo: a.undo, search: a.search, frames: a.frames, acceptEmpty: a.acceptEmpty, events: a.events[:0], decoder: newDecoder()}
	if a.call.spent != (perigee.Usage{}) {
		a.frames = false // the provider's own chunks contain the usage of this attempt only
	}
}

// newDecoder reads chunks in the gateway's envelope.
func newDecoder() dialect.Decoder { return dialect.Decoder{Envelope: ResponseMember} }

func (a *answer) stream(r *sse.Reader, watchdog *wire.Watchdog) error {
	err := a.relay.Stream(r, watchdog, a.call.upstream.opts.Idle, a)
	if a.useless != nil {
		return a.useless
	}
	return err
}

// Chunk takes one event of the stream.
func (a *answer) Chunk(data []byte, more bool) error {
	events, err := a.decoder.Decode(a.events[:0], data)
	if err != nil {
		if v, ok := providererr.ClassifyStreamError(redact.New(a.token).Clean(data), a.call.upstream.opts.Now()); ok {
			return &diagnosisError{v}
		}
		return err
	}
	a.events = events
	if a.frames && a.useless == nil && !startsOnly(events) {
		a.emit(perigee.Event{Kind: perigee.EventFrame, Dialect: perigee.DialectGemini, Frame: a.decoder.Chunk(), More: more || len(events) > 0}, hasContent(events))
	}
	for i := range events {
		if a.call.left {
			return nil
		}
		ev := events[i]
		if a.search != nil { // the whole round is sent back to the model after a search
			if err := a.charged.Add(&a.call.req.Origin, roundFactor*ev.Size()); err != nil {
				return err
			}
		}
		ev.More = more || i < len(events)-1
		a.event(ev)
	}
	return nil
}

// roundFactor is the memory charged per byte of a round that may end with a search: the round is
// kept in memory and sent once more.
const roundFactor = 2

// hasContent reports whether events have content that a client shows or needs.
func hasContent(events []perigee.Event) bool {
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
	a.undo.Event(&ev)
	switch ev.Kind {
	case perigee.EventStart:
		ev.Upstream, ev.Account = a.call.upstream.opts.Name, a.call.account
		a.start = ev
		return
	case perigee.EventUsage:
		a.usage = ev.Usage
		ev.Usage = new(ev.Usage.Plus(a.call.spent))
		a.emit(ev, false)
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
		a.thoughts = [8]string{} // the next thought is a new one
	}
	if a.search != nil {
		if !a.step.take(&ev, a.search.Name) {
			return
		}
		if a.search.HideThoughts && (ev.Kind == perigee.EventThinking || ev.Kind == perigee.EventSignature) {
			return
		}
	}
	if ev.Kind == perigee.EventText && !a.call.started && !a.frames {
		a.text += ev.Text
		if providererr.MayRefuse(a.text) {
			a.hold(ev)
			return
		}
	}
	a.emit(ev, ev.Kind != perigee.EventSignature)
}

// emit passes an event on. It is held back while the answer has no content. Callers that get chunks
// get their content as events, too, which the recorder and package thoughtsig read.
func (a *answer) emit(ev perigee.Event, content bool) {
	if !a.call.started && !content {
		a.hold(ev)
		return
	}
	a.flushHeld()
	a.relay.Send(ev)
}

// maxHeld is the maximum number of bytes held back. A longer stream is emitted in any case.
const maxHeld = 256 << 10

func (a *answer) hold(ev perigee.Event) {
	ev.More = true
	_ = a.held.Add(ev) // cannot fail: such a small size is not charged to the memory budget
	if a.held.Size() > maxHeld {
		a.flushHeld()
	}
}

// flushHeld emits the events held back so far. After it the call cannot be retried.
func (a *answer) flushHeld() {
	if a.call.started {
		return
	}
	a.call.started = true
	if a.call.lease != nil {
		a.call.lease.Answering()
	}
	for _, note := range a.call.pending {
		a.call.req.Log.NoteOnce(note)
	}
	a.start.Kind, a.start.More = perigee.EventStart, true
	a.start.Upstream, a.start.Account = a.call.upstream.opts.Name, a.call.account
	a.relay.Send(a.start)
	if a.call.spent != (perigee.Usage{}) {
		// the last round may not report its usage
		a.relay.Send(perigee.Event{Kind: perigee.EventUsage, Usage: new(a.call.spent), More: true})
	}
	for _, ev := range append(a.call.searchResults, a.held.Take()...) {
		a.relay.Send(ev)
	}
	a.call.searchResults = nil
}

// finished handles the end of an answer. An empty answer without a reason counts as a failed
// attempt.
func (a *answer) finished(ev perigee.Event) {
	if !a.call.started {
		if v, refused := providererr.ClassifyText(a.text); refused && a.text != "" {
			a.useless = &diagnosisError{v}
			return
		}
		if a.text == "" && !a.step.searches() && !a.acceptEmpty && forNoReason(ev.Finish.Reason) {
			a.useless = errEmpty
			return
		}
	}
	if a.step.searches() {
		return // perigee answers the calls, and the answer continues
	}
	a.flushHeld()
	a.relay.Send(ev)
}

// errEmpty is the error for an answer without content.
var errEmpty = &diagnosisError{providererr.Diagnosis{Kind: kindEmpty, Scope: providererr.ScopeNone,
	Error: &perigee.Error{Class: perigee.ClassUnavailable, Message: "the provider sent an answer without anything in it", Hint: "try again", Cause: perigee.ErrNoAnswer}}}

// forNoReason reports whether a finish reason does not explain an empty answer.
func forNoReason(reason string) bool {
	switch strings.ToUpper(reason) {
	case "STOP", "OTHER", "FINISH_REASON_UNSPECIFIED", "UNKNOWN", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "":
		return true
	}
	return false
}

// End returns an error for a stream without a finish reason, which was cut short.
func (a *answer) End() error {
	switch {
	case a.decoder.Finished():
		return nil
	case !a.call.started && a.text == "":
		return errEmpty
	}
	return &perigee.Error{Class: perigee.ClassUnavailable, Cause: io.ErrUnexpectedEOF, Hint: "try again",
		Message: fmt.Sprintf("upstream %s: connection lost: the answer ended before it was finished", a.call.upstream.opts.Name)}
}

// repeats is the minimum length of a thought that is taken for a repetition when it starts like
// the one before.
const repeats = 24

// unrepeated returns the new text in a piece of thinking. Some models send all earlier text again
// with every chunk.
func (a *answer) unrepeated(candidate int, text string) string {
	if candidate < 0 || candidate >= len(a.thoughts) {
		return text
	}
	before := &a.thoughts[candidate]
	if len(*before) < repeats {
		*before += text
		return text
	}
	fresh, again := strings.CutPrefix(text, *before)
	if again {
		*before = text
	}
	return fresh
}

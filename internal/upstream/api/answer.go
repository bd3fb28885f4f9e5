package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
)

// An answer is one response on its way to the caller.
type answer struct {
	relay    wire.Relay
	upstream string
	dialect  perigee.Dialect // of the chunks
	header   http.Header     // for the caller
	frames   bool            // the caller uses this dialect and wants the provider's own chunks
	hides    func(chunk []byte) bool
	clean    func([]byte) []byte // removes the keys from a chunk with an error
	undo     adapt.Undo
	decoder  decoder
	events   []perigee.Event // events of the last chunk, kept to reuse their memory
	started  bool            // a chunk has arrived

	origin   *perigee.Origin
	reserved int64 // bytes of the memory budget for what the decoder keeps
}

// Chunk emits one chunk.
func (a *answer) Chunk(data []byte, more bool) error { return a.emit(data, data, more) }

// Block emits one event of a stream byte for byte. The mark behind the last chunk passes only if
// the answer is finished: some servers send it although the answer was cut short.
func (a *answer) Block(data, block []byte, more bool) error {
	switch {
	case len(data) > 0 && string(data) != wire.Done:
		return a.emit(data, block, more)
	case len(data) > 0 && !a.decoder.Finished():
		return a.End()
	}
	a.relay.Send(a.frame(block, true, more))
	return nil
}

// frame returns the event for bytes of the provider.
func (a *answer) frame(frame []byte, bare, more bool) perigee.Event {
	return perigee.Event{Kind: perigee.EventFrame, Dialect: a.dialect, Frame: frame, Bare: bare, More: more}
}

// emit emits a chunk. frame is its form for callers of the dialect.
func (a *answer) emit(data, frame []byte, more bool) error {
	events, err := a.decoder.Decode(a.events[:0], data)
	if err != nil && a.frames {
		// The other half of the character is in the next chunk. No decoder has read a part of this one.
		if whole := rawjson.ReplaceHalves(data); whole != nil {
			data = whole
			events, err = a.decoder.Decode(a.events[:0], data)
		}
	}
	if err != nil {
		return a.reported(err, data, frame)
	}
	a.events = events
	a.started = true
	if err := a.keep(); err != nil {
		return err
	}
	if len(events) > 0 && events[0].Kind == perigee.EventStart {
		events[0].Upstream, events[0].Header = a.upstream, a.header
		if a.frames {
			events[0].Dialect = a.dialect
		}
		if !a.relay.Send(events[0]) {
			return nil
		}
		events = events[1:]
	}
	if a.frames && (a.hides == nil || !a.hides(data)) {
		if !a.relay.Send(a.frame(frame, !hasContent(events), more || len(events) > 0)) {
			return nil
		}
	}
	for i := range events {
		if usage := events[i].Usage; usage != nil {
			usage.Bound()
		}
		if a.undo.Holds(&events[i]) {
			continue
		}
		a.undo.Event(&events[i])
		events[i].More = more || i < len(events)-1
		if !a.relay.Send(events[i]) {
			return nil
		}
	}
	return nil
}

const (
	// keptCopies is how often the budget counts what a decoder keeps: its buffer, which is copied when
	// it grows, and the event of all of it.
	keptCopies = 3
	// keptStep is the number of bytes that are reserved or released at once.
	keptStep = 64 << 10
)

// keep reserves memory for what the decoder keeps. The error is the memory budget's.
func (a *answer) keep() error {
	k, ok := a.decoder.(keeper)
	if !ok {
		return nil
	}
	need := keptCopies * k.Kept()
	switch {
	case need > a.reserved:
		more := need - a.reserved
		if more < keptStep {
			return nil
		}
		if err := a.origin.Reserve(more); err != nil {
			return err
		}
		a.reserved = need
	case need < a.reserved-keptStep:
		a.origin.Unreserve(a.reserved - need)
		a.reserved = need
	}
	return nil
}

// release releases the memory when the answer is over.
func (a *answer) release() {
	a.origin.Unreserve(a.reserved)
	a.reserved = 0
}

// hasContent reports whether any of the events is content, or the end of the answer.
func hasContent(events []perigee.Event) bool {
	for i := range events {
		if kind := events[i].Kind; kind != perigee.EventUsage && kind != perigee.EventStart {
			return true
		}
	}
	return false
}

// reported returns the error of a chunk. If the caller has the provider's chunks, and its clients
// take this one for an error, the caller gets it in place of perigee's error. A chunk with an error
// that they would overlook comes before perigee's, so that no stream ends without its end and
// without an error.
func (a *answer) reported(err error, data, frame []byte) error {
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok || !a.frames || !a.started {
		return err
	}
	if errors.Is(e, chat.ErrInChoice) {
		a.relay.Send(a.frame(a.clean(frame), true, false))
		return err
	}
	if !isErrorEvent(a.dialect, data) {
		return err
	}
	c := *e
	c.Raw = &perigee.RawError{Dialect: a.dialect, Body: bytes.Clone(frame)}
	return &c
}

// isErrorEvent reports whether clients of a dialect take an event of a stream for an error.
func isErrorEvent(d perigee.Dialect, data []byte) bool {
	c := rawjson.NewCursor(data)
	if rawjson.Check(data) != nil || c.Kind() != rawjson.Object {
		return false
	}
	var kind, failure json.RawMessage
	c.Read(nil, "type", &kind, "error", &failure)
	explained := len(failure) > len("{}") && (failure[0] == '{' || failure[0] == '"') // the libraries test its truth
	switch d {
	case perigee.DialectOpenAIChat:
		return explained
	case perigee.DialectOpenAIResponses:
		return explained || string(kind) == `"error"` || string(kind) == `"response.failed"`
	case perigee.DialectAnthropic:
		return explained && string(kind) == `"error"`
	}
	return false
}

// End returns an error for a response without its end, which was cut short.
func (a *answer) End() error {
	if a.decoder.Finished() {
		return nil
	}
	e := perigee.Errorf(perigee.ClassUnavailable, "connection lost: the provider's answer ended before it was finished")
	if !a.started {
		e.Cause = perigee.ErrNoAnswer
	}
	return e
}

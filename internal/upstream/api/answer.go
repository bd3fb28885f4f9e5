package api

import (
	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/lib/wire"
)

// An answer is one response on its way to the caller.
type answer struct {
	relay    wire.Relay
	upstream string
	dialect  perigee.Dialect // of the chunks
	frames   bool            // the caller uses this dialect and wants the provider's own chunks
	undo     adapt.Undo
	decoder  decoder
	events   []perigee.Event // events of the last chunk, kept to reuse their memory
	started  bool            // a chunk has arrived
}

// Chunk emits one chunk.
func (a *answer) Chunk(data []byte, more bool) error {
	events, err := a.decoder.Decode(a.events[:0], data)
	if err != nil {
		return err
	}
	a.events = events
	a.started = true
	if len(events) > 0 && events[0].Kind == perigee.EventStart {
		events[0].Upstream = a.upstream
		if !a.relay.Send(events[0]) {
			return nil
		}
		events = events[1:]
	}
	if a.frames {
		if !a.relay.Send(perigee.Event{Kind: perigee.EventFrame, Dialect: a.dialect, Frame: data, More: more || len(events) > 0}) {
			return nil
		}
	}
	for i := range events {
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

// Package hold keeps events of an answer back until it is certain that the client gets them:
// another attempt may answer instead (Events), or a text may be the beginning of a stop sequence
// (StopSequences).
package hold

import (
	"bytes"

	"perigee"
)

// Events are held back, in order. The zero value is ready to use; it reserves no memory and joins
// no texts.
type Events struct {
	Origin *perigee.Origin // the call that the memory counts for; nil if there is none
	Join   bool            // join the pieces of a text, of which there may be thousands

	list  []perigee.Event
	text  []byte // of the last event, while pieces are joined to it
	size  int64
	tally perigee.Tally

	framed bool // there was a frame, and only frames go into the response
}

const (
	// eventSize is the approximate size of an event in bytes, without its content.
	eventSize = 256
	// copies is how often the budget counts a held event: here, in the collector of the client's
	// dialect, and in the response. Events that follow a frame count once.
	copies = 3
	// maxText is the largest text buffer that is reused for the next event.
	maxText = 64 << 10
)

// Add holds an event back. Its frame is copied, because it is valid only until the next event. Of
// several consecutive usages only the last is held. The error is the memory budget's.
func (h *Events) Add(ev perigee.Event) error {
	last := len(h.list) - 1
	joins := h.Join && last >= 0 && continues(&h.list[last], &ev)
	weight := copies * ev.Size()
	if h.framed = h.framed || ev.Kind == perigee.EventFrame; h.framed && ev.Kind != perigee.EventFrame {
		weight = ev.Size()
	}
	if !joins {
		weight += 2 * eventSize
	}
	if err := h.tally.Add(h.Origin, weight); err != nil {
		return err
	}
	h.size += ev.Size()
	switch {
	case joins:
		h.text = append(h.text, ev.Text...)
		h.list[last].Signature = ev.Signature
		return nil
	case last >= 0 && ev.Kind == perigee.EventUsage && h.list[last].Kind == perigee.EventUsage:
		h.list[last] = ev
		return nil
	}
	h.complete()
	ev.Frame = bytes.Clone(ev.Frame)
	h.list = append(h.list, ev)
	h.size += eventSize
	if h.Join {
		h.text = append(h.text, ev.Text...)
	}
	return nil
}

// continues reports whether an event continues the text of the previous one.
func continues(before, ev *perigee.Event) bool {
	switch ev.Kind {
	case perigee.EventText, perigee.EventThinking:
		return before.Kind == ev.Kind && before.Candidate == ev.Candidate && before.Thought == ev.Thought && before.Signature == ""
	}
	return false
}

// complete sets the joined text of the last event.
func (h *Events) complete() {
	if last := len(h.list) - 1; last >= 0 && len(h.text) > len(h.list[last].Text) {
		h.list[last].Text = string(h.text)
	}
	if h.text = h.text[:0]; cap(h.text) > maxText {
		h.text = nil
	}
}

// All returns the events without removing them.
func (h *Events) All() []perigee.Event {
	h.complete()
	return h.list
}

// Take returns and removes the events. Their memory stays reserved, because they become part of the
// response.
func (h *Events) Take() []perigee.Event {
	list := h.All()
	h.list, h.size = nil, 0
	return list
}

// Size returns the approximate number of bytes held.
func (h *Events) Size() int64 { return h.size }

// Unreserve releases the memory that is reserved for the events, if they do not become part of the
// response.
func (h *Events) Unreserve() { h.tally.Drop(h.Origin) }

// Package hold keeps events of an answer back until it is certain that the client gets them:
// another attempt may answer instead (Events), or a text may be the beginning of a stop sequence
// (StopSequences).
package hold

import (
	"bytes"

	"perigee"
)

// Events are held back, in order. The zero value is ready; it reserves no memory and joins nothing.
type Events struct {
	Origin *perigee.Origin // whose memory budget the events count against; nil: none
	Join   bool            // pieces of one text become one event: a whole answer comes in thousands of them

	list  []perigee.Event
	text  []byte // of the last event, while pieces are joined to it
	size  int64
	tally perigee.Tally

	framed bool // there was a frame, which alone goes into the response
}

const (
	// eventSize is about how many bytes an event takes beside its content.
	eventSize = 256
	// copies is how often the budget counts what is held: here, in the collector of the client's
	// dialect, and in the response. Events that follow a frame are only here.
	copies = 3
	// maxText is how much memory for the text of one event is kept for the next one.
	maxText = 64 << 10
)

// Add holds an event back. Its frame is copied, since that is valid until the next event only. Of
// several usages in a row the last is held. The error is that of the memory budget.
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

// continues says whether an event is the next piece of the text of the one before.
func continues(before, ev *perigee.Event) bool {
	switch ev.Kind {
	case perigee.EventText, perigee.EventThinking:
		return before.Kind == ev.Kind && before.Candidate == ev.Candidate && before.Thought == ev.Thought && before.Signature == ""
	}
	return false
}

// complete gives the last event its text.
func (h *Events) complete() {
	if last := len(h.list) - 1; last >= 0 && len(h.text) > len(h.list[last].Text) {
		h.list[last].Text = string(h.text)
	}
	if h.text = h.text[:0]; cap(h.text) > maxText {
		h.text = nil
	}
}

// All returns the events. They stay held.
func (h *Events) All() []perigee.Event {
	h.complete()
	return h.list
}

// Take returns the events and holds them no longer. What they count against the budget stays, since
// they are on their way to the response.
func (h *Events) Take() []perigee.Event {
	list := h.All()
	h.list, h.size = nil, 0
	return list
}

// Size is about how many bytes are held.
func (h *Events) Size() int64 { return h.size }

// Unreserve releases the memory that the events count for, when the response will not have them.
func (h *Events) Unreserve() { h.tally.Drop(h.Origin) }

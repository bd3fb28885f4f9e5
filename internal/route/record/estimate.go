package record

import "perigee"

// received counts the content of an answer, to estimate its usage.
type received struct {
	text    int // bytes of text and calls
	thought int // bytes of thinking
	media   int
}

// add counts the content of an event. A frame has none of its own: its events follow it.
func (r *received) add(event *perigee.Event) {
	switch event.Kind {
	case perigee.EventText:
		r.text += len(event.Text)
	case perigee.EventThinking:
		r.thought += len(event.Text)
	case perigee.EventCall:
		if event.Call != nil {
			r.text += len(event.Call.Name) + len(event.Call.Args)
		}
	case perigee.EventBlob:
		r.media++
	}
}

// estimate completes the usage of an answer that was cut off before the provider reported its
// usage. Otherwise a client that disconnects just before the end of each answer would use no
// tokens.
func (o *Observation) estimate() {
	if failed := perigee.AsError(o.err); failed != nil && o.usage == (perigee.Usage{}) {
		o.usage = failed.Usage
	}
	u := o.usage
	if u.Input == 0 {
		u.Input = o.asked
	}
	if u.Input == 0 {
		u.Input = o.request.EstimateTokens() // the request was not released
	}
	u.Thinking = max(u.Thinking, perigee.EstimateTokens(o.received.thought, 0))
	u.Output = max(u.Output, u.Thinking+perigee.EstimateTokens(o.received.text, o.received.media))
	if u != o.usage {
		o.usage, o.estimated = u, true
	}
}

package hold

import (
	"context"
	"iter"
	"math"
	"slices"

	"perigee"
)

// StopSequences is an Upstream that ends answers at the stop sequences of their requests. It
// forwards the optional methods of the wrapped upstream.
type StopSequences struct{ perigee.Passthrough }

// AtStopSequences wraps an upstream in StopSequences. Providers obey stop sequences without
// reporting them: an answer that met one looks complete. For clients that ask for a report
// (perigee.Request.ReportStopSequence), the sequences are not sent to the provider; they are
// searched in the text as it arrives, and the finish names the one that was met. For all other
// clients, the same happens to the sequences beyond the provider's limit. Requests that the
// upstream forwards are not changed: providers report stop sequences where their own API does.
func AtStopSequences(next perigee.Upstream) *StopSequences {
	return &StopSequences{perigee.Passthrough{Upstream: next}}
}

// Stream asks the wrapped upstream. The answer ends with the first complete stop sequence of those
// that are not sent to the provider, and the stream is left early.
func (u *StopSequences) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	limit := 0
	if !req.ReportStopSequence {
		limit = u.StopLimit(req)
	}
	if limit == math.MaxInt || u.Forwards(req) {
		return u.Passthrough.Stream(ctx, req)
	}
	return func(yield func(perigee.Event, error) bool) {
		prompt, err := req.Prompt()
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		g := &prompt.Generation
		several := g.Candidates != nil && *g.Candidates > 1 // the first that is complete would end all
		if !req.ReportStopSequence && (len(g.Stop) <= limit || several) {
			u.Passthrough.Stream(ctx, req)(yield)
			return
		}
		if err := checkStops(g.Stop[limit:]); err != nil {
			yield(perigee.Event{}, err)
			return
		}
		a := answer{asked: prompt.EstimateTokens(), watch: newWatch(g.Stop[limit:]), log: req.Log, yield: yield}
		a.run(u.Passthrough.Stream(ctx, withStops(req, prompt, g.Stop[:limit])))
	}
}

// Each byte of the answer is compared with each sequence, so they are limited, far beyond real use.
const (
	maxStops     = 64
	maxStopBytes = 16 << 10 // together
)

// checkStops returns an error if there are more sequences to search for than the limits allow.
func checkStops(list []string) error {
	bytes := 0
	for _, s := range list {
		bytes += len(s)
	}
	if len(list) <= maxStops && bytes <= maxStopBytes {
		return nil
	}
	return perigee.Errorf(perigee.ClassInvalid, "the stop sequences beyond those that the provider takes are more than %d, or longer than %d bytes together",
		maxStops, maxStopBytes).WithHint("send fewer or shorter stop sequences")
}

// withStops returns the request with only some of its stop sequences. It requests a stream, which
// can be left early.
func withStops(req *perigee.Request, prompt *perigee.Prompt, stops []string) *perigee.Request {
	e := prompt.Edit()
	if e.Generation.Stop = slices.Clip(stops); len(stops) == 0 {
		e.Generation.Stop = nil
	}
	req = req.WithPrompt(e.Prompt)
	req.Stream, req.ReportStopSequence = true, false
	return req
}

// An answer is passed on until it meets a stop sequence.
type answer struct {
	asked   int64 // estimated tokens of the prompt, which is released during the answer
	watch   watch
	pending perigee.Event // a text that may be the beginning of a sequence; zero if there is none
	met     string        // the sequence that was met; empty if there is none yet
	log     *perigee.CallLog
	yield   func(perigee.Event, error) bool

	usage    perigee.Usage // the last that the provider reported
	reported bool          // usage was reported after the stop sequence
	size     perigee.AnswerSize
}

// run passes the stream on. After a stop sequence only events that are already available are read,
// because most providers report the usage with every chunk. Otherwise it is estimated: waiting for
// it would cost the rest of the answer.
func (a *answer) run(stream iter.Seq2[perigee.Event, error]) {
	for ev, err := range stream {
		if err != nil && a.met == "" {
			if a.release(false) {
				a.yield(perigee.Event{}, err)
			}
			return
		}
		if err != nil {
			break // the answer was complete before
		}
		if !a.pass(ev) {
			return
		}
		if a.met != "" && (a.reported || !ev.More) {
			break
		}
	}
	if a.met != "" {
		if a.reported || a.estimate() {
			a.yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP", Stop: a.met}}, nil)
		}
		return
	}
	a.release(false)
}

// estimate sends the estimated usage of the answer so far, with a note. It returns false when the
// caller has left.
func (a *answer) estimate() bool {
	u := a.size.Estimate(a.usage, a.asked)
	a.log.Note(perigee.EstimatedUsage)
	return a.yield(perigee.Event{Kind: perigee.EventUsage, Usage: &u, More: true}, nil)
}

// pass passes on the part of an event that belongs to the answer. It returns false when the caller
// has left.
func (a *answer) pass(ev perigee.Event) bool {
	a.size.Add(&ev)
	switch {
	case ev.Kind == perigee.EventUsage:
		a.usage, a.reported = *ev.Usage, a.met != ""
		return a.yield(ev, nil)
	case a.met != "":
		return true
	case ev.Kind == perigee.EventText:
		return a.text(ev)
	case ev.Kind == perigee.EventFlush, ev.Kind == perigee.EventLogprobs: // the text may continue after it
		return a.yield(ev, nil)
	}
	return a.release(true) && a.yield(ev, nil)
}

// text passes on the text that can no longer belong to a stop sequence, and holds the rest back.
func (a *answer) text(ev perigee.Event) bool {
	end, met := a.watch.read(ev.Text)
	ev.Text, end = a.pending.Text+ev.Text, end+len(a.pending.Text)
	a.pending = perigee.Event{}
	if met != "" {
		// The signature covers more than the remaining text.
		ev.Text, ev.Signature, a.met = ev.Text[:end-len(met)], "", met
		return ev.Text == "" || a.yield(ev, nil)
	}
	if open := a.watch.open(); open > 0 {
		cut := len(ev.Text) - open
		a.pending = perigee.Event{Kind: perigee.EventText, Text: ev.Text[cut:], Signature: ev.Signature}
		ev.Text, ev.Signature = ev.Text[:cut], ""
	}
	return ev.Text == "" && ev.Signature == "" || a.yield(ev, nil)
}

// release passes on the held text: the next event, if there is one, is not a text, so no sequence
// can be completed.
func (a *answer) release(more bool) bool {
	a.watch.reset()
	held := a.pending
	a.pending, held.More = perigee.Event{}, more
	return held.Text == "" || a.yield(held, nil)
}

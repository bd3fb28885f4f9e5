package route

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"time"

	"perigee"
)

// An attempt is one upstream's try at a call. What it says before its first content is held back, because it would be wrong if
// another upstream answered in the end; and where the caller wants the answer in one piece, all of it is.
type attempt struct {
	target    string
	model     string
	whole     bool
	native    bool // the client speaks the provider's own dialect, and has words for all its ends
	began     time.Time
	steps     int           // how many the call had before it
	spent     perigee.Usage // by tries before
	usage     perigee.Usage // by this one, as far as it is known
	held      []perigee.Event
	origin    *perigee.Origin
	kept      perigee.Tally      // of held
	pending   *perigee.LateNotes // has the notes among held
	text      []byte             // of the last one held, while it goes on
	content   bool               // something of an answer has come
	calls     bool               // also a tool call, which the client can act on however the answer ends
	mishap    *perigee.Finish
	answering bool // something has reached the caller
	yield     func(perigee.Event, error) bool
}

// ask lets one upstream try.
func (r *Router) ask(ctx context.Context, req *perigee.Request, target Target, note *perigee.Note, spent perigee.Usage, yield func(perigee.Event, error) bool) (*attempt, error) {
	a := &attempt{target: target.Name, model: req.Model, whole: !req.Stream, native: req.Dialect == perigee.DialectGemini, began: r.opts.Now(), steps: req.Steps.Len(), spent: spent, pending: req.Pending, yield: yield, origin: &req.Origin}
	a.pending.Clear()
	if note != nil {
		_ = a.hold(perigee.Event{Kind: perigee.EventNote, Note: note}) // which is too small to fail
	}
	err := a.run(target.Upstream.Stream(ctx, req), req)
	if err != nil {
		a.kept.Drop(a.origin)
	}
	return a, err
}

// run passes the stream on. It returns the stream's error; nil also when the caller went away. The request is released with the
// first content that the caller gets.
func (a *attempt) run(stream iter.Seq2[perigee.Event, error], req *perigee.Request) error {
	for ev, err := range stream {
		if err != nil {
			return err
		}
		about := ev.Kind == perigee.EventStart || ev.Kind == perigee.EventNote
		a.content = a.content || !about
		if ev.Kind == perigee.EventUsage {
			about = true // it may be all that comes before a failure, which then is not the middle of an answer
		}
		a.calls = a.calls || ev.Kind == perigee.EventCall
		switch {
		case ev.Kind == perigee.EventFinish && ev.Finish != nil && ev.Finish.Kind == perigee.FinishMishap && ev.Candidate == 0 && !a.native && !a.calls:
			a.mishap = ev.Finish // what was spent may come behind it
		case a.mishap != nil && !a.answering:
			if err := a.hold(ev); err != nil {
				return err
			}
		case a.answering:
			if !a.pass(ev) {
				return nil
			}
		case about || a.whole:
			if err := a.hold(ev); err != nil {
				return err
			}
		default:
			a.answering = true
			if !a.release() || !a.pass(ev) {
				return nil
			}
			req.Release()
		}
	}
	if a.mishap != nil {
		return a.astray()
	}
	if !a.answering {
		a.answering = true
		a.release()
	}
	return nil
}

// astray is the error about an answer that is none: clients would take its end for an ordinary one, and stop.
func (a *attempt) astray() error {
	message := a.mishap.Trouble
	if a.mishap.Message != "" {
		message += ": " + a.mishap.Message
	}
	return &perigee.Error{Class: perigee.ClassUnavailable, Message: message, Next: "ask again", Upstream: a.target, Model: a.model, Cause: perigee.ErrNoAnswer}
}

// pass hands an event to the caller. What was spent before counts, too.
func (a *attempt) pass(ev perigee.Event) bool {
	if ev.Kind == perigee.EventUsage && ev.Usage != nil && a.spent != (perigee.Usage{}) {
		ev.Usage = new(a.spent.Plus(*ev.Usage))
	}
	return a.yield(ev, nil)
}

// What an event that is held back counts: its content here, in the collector of the client's dialect, and in the answer that is made
// of it; and its place in the list.
const (
	heldFactor = 3
	heldEvent  = 512
)

// hold keeps an event for later. Neighbouring pieces of text become one: answers come in thousands of them.
func (a *attempt) hold(ev perigee.Event) error {
	weight := heldFactor * ev.Size()
	last := len(a.held) - 1
	same := last >= 0 && goesOn(&a.held[last], &ev)
	if !same {
		weight += heldEvent
	}
	if err := a.kept.Add(a.origin, weight); err != nil {
		return err
	}
	if ev.Kind == perigee.EventUsage && ev.Usage != nil {
		a.usage = *ev.Usage
	}
	if ev.Kind == perigee.EventNote {
		a.pending.Add(*ev.Note)
	}
	if same {
		a.text = append(a.text, ev.Text...)
		a.held[last].Signature = ev.Signature
		return nil
	}
	a.endText()
	ev.Frame = bytes.Clone(ev.Frame) // good until the next event only
	a.held = append(a.held, ev)
	a.text = append(a.text, ev.Text...)
	return nil
}

// endText completes the last event that is held.
func (a *attempt) endText() {
	if last := len(a.held) - 1; last >= 0 && len(a.text) > len(a.held[last].Text) {
		a.held[last].Text = string(a.text)
	}
	if a.text = a.text[:0]; cap(a.text) > maxText {
		a.text = nil
	}
}

// maxText is how much memory for the text of one event is kept for the next one.
const maxText = 64 << 10

// goesOn says whether an event is the next piece of what the one before says.
func goesOn(before, ev *perigee.Event) bool {
	switch ev.Kind {
	case perigee.EventText, perigee.EventThinking:
		return before.Kind == ev.Kind && before.Candidate == ev.Candidate && before.Thought == ev.Thought && before.Signature == ""
	}
	return false
}

// release hands out what was held back, with a start event that names the upstream. Notes come first: the start may be written to
// the client at once, and the head before it has room for notes.
func (a *attempt) release() bool {
	a.endText()
	for _, ev := range a.held {
		if ev.Kind == perigee.EventNote && !a.pass(ev) {
			return false
		}
	}
	if !a.yield(a.start(), nil) {
		return false
	}
	if a.spent != (perigee.Usage{}) && !a.yield(perigee.Event{Kind: perigee.EventUsage, Usage: &a.spent, More: true}, nil) {
		return false // the answer may not say what it costs, but what was spent before it is known
	}
	for _, ev := range a.held {
		if ev.Kind != perigee.EventStart && ev.Kind != perigee.EventNote && !a.pass(ev) {
			return false
		}
	}
	return true
}

// start is the event that says who answers.
func (a *attempt) start() perigee.Event {
	start := perigee.Event{Kind: perigee.EventStart}
	for _, ev := range a.held {
		if ev.Kind == perigee.EventStart {
			start = ev
		}
	}
	start.Upstream = a.target
	if start.Model == "" {
		start.Model = a.model
	}
	return start
}

// wentAstray says whether an answer of which the caller has seen nothing came to an end that says nothing about the next one: the
// connection was cut halfway through, or the model wrote what nobody can read.
func (a *attempt) wentAstray(ctx context.Context, err error) bool {
	if err == nil || a.answering || ctx.Err() != nil || perigee.AsError(err).Class != perigee.ClassUnavailable {
		return false
	}
	if a.mishap != nil {
		return true
	}
	if !a.whole {
		return false
	}
	broken, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.ErrUnexpectedEOF) || ok && a.content && broken.Op == "read"
}

// ended is how an attempt ended; without an error, with an answer.
func (r *Router) ended(req *perigee.Request, a *attempt, err error, why string) failure {
	f := failure{upstream: a.target, err: err, account: a.start().Account, why: why, took: r.opts.Now().Sub(a.began), told: req.Steps.Len() > a.steps}
	if f.usage = a.usage; f.usage == (perigee.Usage{}) && err != nil {
		f.usage = perigee.AsError(err).Usage
	}
	return f
}

package route

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"time"

	"perigee"
	"perigee/internal/route/hold"
)

// An attempt is the answer of one upstream to a call. Events before the first content are held
// back, because they would be wrong if another upstream answered in the end. For callers that do
// not stream, the whole answer is held back.
type attempt struct {
	*call
	target    string
	began     time.Time
	steps     int           // the number of attempts recorded before
	spent     perigee.Usage // the usage of earlier attempts
	usage     perigee.Usage // the usage of this attempt, as far as known
	pending   hold.Events
	content   bool // content has arrived
	calls     bool // a tool call has arrived, which the client can act on however the answer ends
	badFinish *perigee.Finish
	answering bool // something has reached the caller
	unread    bool // the request could not be decoded
}

// ask makes one attempt. spent is the usage of earlier attempts.
func (c *call) ask(ctx context.Context, target Target, spent perigee.Usage) (*attempt, error) {
	log := c.req.Log
	a := &attempt{call: c, target: target.Name, began: c.router.opts.Now(), steps: len(log.Attempts()), spent: spent,
		pending: hold.Events{Origin: &c.req.Origin, Join: true}}
	log.BeginAttempt()
	defer func() { log.EndAttempt(a.answering) }()
	if c.note != nil {
		log.Note(*c.note)
	}
	req, err := target.request(c.req)
	if a.unread = err != nil; err == nil {
		err = a.run(target.Upstream.Stream(ctx, req))
	}
	if err != nil {
		a.pending.Unreserve()
	}
	return a, err
}

// request returns the request as the upstream gets it: the client's, or with its prompt prepared.
func (t *Target) request(req *perigee.Request) (*perigee.Request, error) {
	f, ok := t.Upstream.(perigee.Forwarder)
	if ok && f.Forwards(req) {
		return req, nil
	}
	return req.Decoded(ok && f.ReadsURLs())
}

// run passes the stream on. It returns the stream's error, or nil if the stream completed or the
// caller left the loop. The request is released with the first content that the caller gets.
func (a *attempt) run(stream iter.Seq2[perigee.Event, error]) error {
	// The client gets all finish reasons of the provider.
	native := a.req.Dialect == perigee.DialectGemini
	for ev, err := range stream {
		if err != nil {
			return err
		}
		if ev.Kind == perigee.EventFlush && !a.answering { // it has no content, and nothing was sent
			continue
		}
		about := ev.Kind == perigee.EventStart || ev.Kind == perigee.EventFrame && ev.Bare
		native = native || ev.Kind == perigee.EventFrame
		a.content = a.content || !about
		if ev.Kind == perigee.EventUsage {
			about = true // a failure after it does not count as one in the middle of an answer
		}
		a.calls = a.calls || ev.Kind == perigee.EventCall
		switch {
		case ev.Kind == perigee.EventFinish && ev.Finish != nil && ev.Finish.Kind == perigee.FinishMalformed && ev.Candidate == 0 && !native && !a.calls:
			a.badFinish = ev.Finish // usage may follow it
		case a.badFinish != nil && !a.answering:
			if err := a.hold(ev); err != nil {
				return err
			}
		case a.answering:
			if !a.pass(ev) {
				return nil
			}
		case about || !a.req.Stream:
			if err := a.hold(ev); err != nil {
				return err
			}
		default:
			a.answering = true
			if !a.release(true) || !a.pass(ev) {
				return nil
			}
			a.req.Release()
		}
	}
	if a.badFinish != nil {
		return a.malformed()
	}
	if !a.answering {
		a.answering = true
		a.release(false)
	}
	return nil
}

// malformed returns the error for an answer that ended with FinishMalformed, which clients would
// treat as an ordinary end.
func (a *attempt) malformed() error {
	message := a.badFinish.Error
	if a.badFinish.Message != "" {
		message += ": " + a.badFinish.Message
	}
	return &perigee.Error{Class: perigee.ClassUnavailable, Message: message, Hint: "ask again", Upstream: a.target, Model: a.req.Model, Cause: perigee.ErrNoAnswer}
}

// pass sends an event to the caller. The usage of earlier attempts is added to its usage.
func (a *attempt) pass(ev perigee.Event) bool {
	if ev.Kind == perigee.EventUsage && ev.Usage != nil && a.spent != (perigee.Usage{}) {
		ev.Usage = new(a.spent.Plus(*ev.Usage))
	}
	return a.yield(ev, nil)
}

// hold keeps an event back.
func (a *attempt) hold(ev perigee.Event) error {
	if err := a.pending.Add(ev); err != nil {
		return err
	}
	if ev.Kind == perigee.EventUsage && ev.Usage != nil {
		a.usage = *ev.Usage
	}
	return nil
}

// release passes on the held events, after a start event that names the upstream. more is true if
// another event follows them. It first makes the notes of the attempt final, because the start may
// cause the response head to be sent, which contains the notes.
func (a *attempt) release(more bool) bool {
	a.req.Log.EndAttempt(true)
	start := a.start()
	start.More = start.More || more
	if !a.yield(start, nil) {
		return false
	}
	if a.spent != (perigee.Usage{}) && !a.yield(perigee.Event{Kind: perigee.EventUsage, Usage: &a.spent, More: true}, nil) {
		// The answer may not report its usage, but the usage of earlier attempts is known.
		return false
	}
	for _, ev := range a.pending.All() {
		ev.More = ev.More || more
		if ev.Kind != perigee.EventStart && !a.pass(ev) {
			return false
		}
	}
	return true
}

// start returns the event that names the upstream and the model that answer.
func (a *attempt) start() perigee.Event {
	start := perigee.Event{Kind: perigee.EventStart}
	for _, ev := range a.pending.All() {
		if ev.Kind == perigee.EventStart {
			start = ev
		}
	}
	start.Upstream = a.target
	if start.Model == "" {
		start.Model = a.req.Model
	}
	return start
}

// retryable reports whether the same upstream may be asked again: the caller has received nothing
// yet, and either the connection was cut in the middle of the answer, or the answer was malformed.
func (a *attempt) retryable(ctx context.Context, err error) bool {
	if err == nil || a.answering || ctx.Err() != nil || perigee.AsError(err).Class != perigee.ClassUnavailable {
		return false
	}
	if a.badFinish != nil {
		return true
	}
	if a.req.Stream {
		return false
	}
	broken, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.ErrUnexpectedEOF) || ok && a.content && broken.Op == "read"
}

// ended returns the outcome of an attempt. If err is nil, the attempt answered the call.
func (a *attempt) ended(err error, why string) failure {
	f := failure{upstream: a.target, err: err, unread: a.unread, account: a.start().Account, why: why,
		took: a.router.opts.Now().Sub(a.began), recorded: len(a.req.Log.Attempts()) > a.steps}
	if f.usage = a.usage; f.usage == (perigee.Usage{}) && err != nil {
		f.usage = perigee.AsError(err).Usage
	}
	return f
}

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
// back, because they would be wrong if another upstream answered in the end; for callers that do
// not stream, the whole answer is.
type attempt struct {
	target    string
	model     string
	whole     bool
	native    bool // the client uses the provider's own dialect, which has all finish reasons
	began     time.Time
	steps     int           // how many the call had before
	spent     perigee.Usage // by earlier attempts
	usage     perigee.Usage // by this one, as far as known
	held      hold.Events
	log       *perigee.CallLog
	content   bool // content has arrived
	calls     bool // so has a tool call, which the client can act on however the answer ends
	badFinish *perigee.Finish
	answering bool // something has reached the caller
	yield     func(perigee.Event, error) bool
}

// ask makes one attempt, after earlier ones have spent something.
func (c *call) ask(ctx context.Context, target Target, spent perigee.Usage) (*attempt, error) {
	req := c.req
	a := &attempt{
		target: target.Name, model: req.Model, whole: !req.Stream, native: req.Dialect == perigee.DialectGemini,
		began: c.router.opts.Now(), steps: len(req.Log.Attempts()), spent: spent, log: req.Log, yield: c.yield,
		held: hold.Events{Origin: &req.Origin, Join: true},
	}
	a.log.BeginAttempt()
	defer func() { a.log.EndAttempt(a.answering) }()
	if c.note != nil {
		a.log.Note(*c.note)
	}
	err := a.run(target.Upstream.Stream(ctx, req), req)
	if err != nil {
		a.held.Unreserve()
	}
	return a, err
}

// run passes the stream on. It returns the stream's error; nil also when the caller went away. The
// request is released with the first content that the caller gets.
func (a *attempt) run(stream iter.Seq2[perigee.Event, error], req *perigee.Request) error {
	for ev, err := range stream {
		if err != nil {
			return err
		}
		about := ev.Kind == perigee.EventStart
		a.content = a.content || !about
		if ev.Kind == perigee.EventUsage {
			about = true // it may be all that comes before a failure, which then is not the middle of an answer
		}
		a.calls = a.calls || ev.Kind == perigee.EventCall
		switch {
		case ev.Kind == perigee.EventFinish && ev.Finish != nil && ev.Finish.Kind == perigee.FinishMalformed && ev.Candidate == 0 && !a.native && !a.calls:
			a.badFinish = ev.Finish // what was spent may come behind it
		case a.badFinish != nil && !a.answering:
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
	if a.badFinish != nil {
		return a.malformed()
	}
	if !a.answering {
		a.answering = true
		a.release()
	}
	return nil
}

// malformed is the error for an answer that ended with a malformed finish, which clients would take
// for an ordinary one.
func (a *attempt) malformed() error {
	message := a.badFinish.Trouble
	if a.badFinish.Message != "" {
		message += ": " + a.badFinish.Message
	}
	return &perigee.Error{Class: perigee.ClassUnavailable, Message: message, Hint: "ask again", Upstream: a.target, Model: a.model, Cause: perigee.ErrNoAnswer}
}

// pass sends an event to the caller. Usage includes that of earlier attempts.
func (a *attempt) pass(ev perigee.Event) bool {
	if ev.Kind == perigee.EventUsage && ev.Usage != nil && a.spent != (perigee.Usage{}) {
		ev.Usage = new(a.spent.Plus(*ev.Usage))
	}
	return a.yield(ev, nil)
}

// hold keeps an event back.
func (a *attempt) hold(ev perigee.Event) error {
	if err := a.held.Add(ev); err != nil {
		return err
	}
	if ev.Kind == perigee.EventUsage && ev.Usage != nil {
		a.usage = *ev.Usage
	}
	return nil
}

// release hands out what was held back, with a start event that names the upstream. The notes are
// kept before that: the start may be written to the client at once, and the head before it has room
// for notes.
func (a *attempt) release() bool {
	a.log.EndAttempt(true)
	if !a.yield(a.start(), nil) {
		return false
	}
	if a.spent != (perigee.Usage{}) && !a.yield(perigee.Event{Kind: perigee.EventUsage, Usage: &a.spent, More: true}, nil) {
		return false // the answer may not say what it costs, but what was spent before it is known
	}
	for _, ev := range a.held.All() {
		if ev.Kind != perigee.EventStart && !a.pass(ev) {
			return false
		}
	}
	return true
}

// start is the event that names the upstream and the model that answer.
func (a *attempt) start() perigee.Event {
	start := perigee.Event{Kind: perigee.EventStart}
	for _, ev := range a.held.All() {
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

// retryable says whether the same upstream may be asked again: the caller has got nothing yet, and
// the connection was cut in the middle of the answer, or the model wrote something unreadable.
func (a *attempt) retryable(ctx context.Context, err error) bool {
	if err == nil || a.answering || ctx.Err() != nil || perigee.AsError(err).Class != perigee.ClassUnavailable {
		return false
	}
	if a.badFinish != nil {
		return true
	}
	if !a.whole {
		return false
	}
	broken, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.ErrUnexpectedEOF) || ok && a.content && broken.Op == "read"
}

// ended returns the outcome of an attempt; without an error it was answered.
func (c *call) ended(a *attempt, err error, why string) failure {
	f := failure{upstream: a.target, err: err, account: a.start().Account, why: why,
		took: c.router.opts.Now().Sub(a.began), recorded: len(c.req.Log.Attempts()) > a.steps}
	if f.usage = a.usage; f.usage == (perigee.Usage{}) && err != nil {
		f.usage = perigee.AsError(err).Usage
	}
	return f
}

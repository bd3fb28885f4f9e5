package record

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"

	"perigee"
)

// An Operation describes the request of a call.
type Operation struct {
	Name   string // perigee.OperationGenerate and the like
	Model  string // as the client named it
	Stream bool   // the client wants a streamed answer
	Quiet  bool   // the line about the call is logged with level debug
}

// An Observation collects the record of one call. Calls that do not go through Stream are recorded
// with Begin, Observe for each event of the answer, Fail for an error, and End. It belongs to the
// goroutine that runs the call.
type Observation struct {
	recorder *Recorder
	call     perigee.Call // the row so far
	log      *perigee.CallLog
	ownsLog  bool // the log was created here
	quiet    bool
	watchers watchers

	estimated bool // at least a part of the usage

	request  *perigee.Request // nil if the call is not a stream
	asked    int64            // estimated tokens of the request, set when it is released
	received perigee.AnswerSize
	event    perigee.Event // the last one

	content  bool // content of the answer has passed
	finished bool // the end of the answer has passed
	left     bool // the consumer left the loop
	err      error
}

// Begin records a call as open. It gives origin a log if it has none. The caller must call End.
func (r *Recorder) Begin(op Operation, origin *perigee.Origin) *Observation {
	o := &Observation{recorder: r, ownsLog: origin.Log == nil, quiet: op.Quiet}
	if o.ownsLog {
		origin.Log = &perigee.CallLog{}
	}
	o.log = origin.Log
	id := origin.ID
	if id == "" {
		id = rand.Text() // rows are stored by id, so a call without one needs a unique one
	}
	o.call = perigee.Call{
		ID:        id,
		Time:      r.opts.Now(),
		Operation: op.Name,
		Dialect:   origin.Dialect,
		Stream:    op.Stream,
		Client: perigee.Client{
			Name:    strings.ToLower(r.name(origin.Client.Name)), // redaction is case-sensitive
			Version: r.name(origin.Client.Version),
			Key:     perigee.Clip(origin.Client.Key, maxName),
			Session: r.name(origin.Client.Session),
			Agent:   r.name(origin.Client.Agent), ParentAgent: r.name(origin.Client.ParentAgent),
		},
		ModelAsked: r.name(op.Model),
		ReplayOf:   origin.Replay.Of,
		Outcome:    perigee.OutcomeOpen,
		BytesIn:    int64(len(origin.Body)),
	}
	r.writer.Put(id, o.call)
	o.watch(origin)
	return o
}

// Observe updates the record from an event. It runs for every event of every call, so it must be
// cheap.
func (o *Observation) Observe(event *perigee.Event) {
	for _, w := range o.watchers {
		w.Event(event)
	}
	switch event.Kind {
	case perigee.EventFrame, perigee.EventText, perigee.EventThinking, perigee.EventRedacted, perigee.EventCallPart, perigee.EventCall, perigee.EventBlob, perigee.EventPart:
		o.content = true
		o.received.Add(event)
	case perigee.EventStart:
		o.call.Upstream = cmp.Or(event.Upstream, o.call.Upstream)
		o.call.Account = cmp.Or(event.Account, o.call.Account)
		o.call.Model = cmp.Or(event.Model, o.call.Model)
		return
	case perigee.EventUsage:
		if event.Usage != nil {
			o.call.Usage = *event.Usage
		}
	case perigee.EventFinish:
		o.finished = true
		// The reason of the first candidate counts, or of another one until that is known.
		if event.Finish != nil && (o.call.Finish == "" || event.Candidate == 0) {
			o.call.Finish = event.Finish.Reason
		}
	}
	if o.call.FirstByte == 0 {
		// 0 would mean that there was none.
		o.call.FirstByte = max(o.recorder.opts.Now().Sub(o.call.Time), 1)
	}
}

// Fail sets the error that the call ends with.
func (o *Observation) Fail(err error) { o.err = err }

// End completes the record. It must be deferred: a panic of the call is recorded and continues. A
// call that has seen neither its finish nor an error counts as cut off, or as canceled when ctx has
// ended.
func (o *Observation) End(ctx context.Context) {
	if p := recover(); p != nil {
		o.complete(ctx, perigee.OutcomeFailed, perigee.Errorf(perigee.ClassInternal, "panic: %v", p))
		panic(p)
	}
	outcome, failed := o.outcome(ctx)
	if o.request != nil && (outcome == perigee.OutcomeCanceled && o.reached() || outcome == perigee.OutcomeCutOff && o.content) {
		o.estimate()
	}
	o.complete(ctx, outcome, failed)
}

// reached reports whether a provider has received the request. A call that ended before that, in a
// queue for example, has cost nothing.
func (o *Observation) reached() bool { return o.content || o.call.Upstream != "" || o.log.Reached() }

// outcome returns how the call ended, and the error if it was not done.
func (o *Observation) outcome(ctx context.Context) (perigee.Outcome, *perigee.Error) {
	gone, reason := ending(ctx)
	failed := perigee.AsError(o.err)
	if failed == nil && o.finished && !(o.left && gone) {
		return perigee.OutcomeDone, nil
	}
	// Calls that perigee has ended are "canceled" as well; then the cause is more specific.
	if reason != nil && (failed == nil || failed.Class == perigee.ClassCanceled) {
		failed = reason
	}
	switch {
	case failed == nil && (o.left || gone):
		return perigee.OutcomeCanceled, perigee.Errorf(perigee.ClassCanceled, "the client went away")
	case failed == nil:
		return perigee.OutcomeCutOff, perigee.Errorf(perigee.ClassUnavailable, "the answer stopped without saying that it was finished")
	case failed.Class == perigee.ClassCanceled:
		return perigee.OutcomeCanceled, failed
	case o.content:
		return perigee.OutcomeCutOff, failed
	case gone:
		return perigee.OutcomeCanceled, failed
	}
	return perigee.OutcomeFailed, failed
}

// ending distinguishes a client that went away from a ctx that ended for a reason: a deadline, or a
// cause that is a perigee.Error, such as the end of the daemon.
func ending(ctx context.Context) (gone bool, reason *perigee.Error) {
	if ctx.Err() == nil {
		return false, nil
	}
	cause := perigee.AsError(context.Cause(ctx))
	// A cause without a class means that the context was canceled.
	if cause.Class == perigee.ClassCanceled || cause.Class == perigee.ClassInternal {
		return true, nil
	}
	return false, cause
}

// complete completes the call's row, queues it and logs it.
func (o *Observation) complete(ctx context.Context, outcome perigee.Outcome, failed *perigee.Error) {
	call := &o.call
	call.Outcome = outcome
	call.Duration = o.recorder.opts.Now().Sub(call.Time)
	call.Model = o.recorder.name(call.Model)
	if e := perigee.AsError(o.err); e != nil && call.Usage == (perigee.Usage{}) {
		// An answer that had begun has reported its usage, including earlier attempts.
		call.Usage = e.Usage
	}
	notes := o.log.Notes()
	if o.estimated {
		notes = append(notes, perigee.EstimatedUsage)
	}
	for _, note := range notes {
		call.Notes = append(call.Notes, perigee.Clip(o.recorder.redact(note.String()), maxText))
	}
	call.Attempts = o.log.Attempts()
	for i := range call.Attempts {
		call.Attempts[i].Error = o.recorder.text(call.Attempts[i].Error)
	}
	if failed != nil {
		call.Class, call.Status = failed.Class, failed.Status
		call.Error = o.recorder.text(failed.Message)
		call.Model = cmp.Or(call.Model, o.recorder.name(failed.Model))
		call.Upstream = cmp.Or(call.Upstream, failed.Upstream)
		call.Account = cmp.Or(call.Account, failed.Account)
	}
	if call.ClientStatus = o.log.Status(); call.ClientStatus == 0 {
		call.ClientStatus = call.StatusOfOutcome() // the client gets it now
		if failed != nil && outcome == perigee.OutcomeFailed && failed.RawAnswer(call.Dialect) != nil {
			call.ClientStatus = failed.HTTPStatus(call.Dialect)
		}
	}
	if o.recorder.opts.Price != nil {
		call.Cost = o.recorder.opts.Price(call)
	}
	o.recorder.spending.ended(call) // before it can be saved
	o.recorder.writer.Put(call.ID, *call)
	o.recorder.log(ctx, call, o.quiet)
	if o.recorder.opts.Observe != nil {
		o.recorder.opts.Observe(call)
	}
	for _, w := range o.watchers {
		w.Ended(call)
	}
	if o.ownsLog {
		o.log.Close()
	}
}

package record

import (
	"context"
	"slices"
	"time"

	"perigee"
)

// A watch is what one call has shown so far. It belongs to the goroutine that runs the call; only row is
// shared, with the writer.
type watch struct {
	recorder *Recorder
	row      row
	start    time.Time

	notes     []perigee.Note
	late      *perigee.LateNotes
	steps     perigee.Steps
	model     string
	upstream  string
	account   string
	finish    string
	usage     perigee.Usage
	firstByte time.Duration

	request  *perigee.Request // nil: it is no stream
	asked    int64            // tokens of the request, about, once it was released
	received received

	content  bool // something of the answer itself has passed
	finished bool // and its end
	left     bool // the consumer left the loop
	err      error
}

// see takes from an event what the record needs. It runs for every event of every call, so it does no
// more than look at the kind.
func (w *watch) see(event *perigee.Event) {
	switch event.Kind {
	case perigee.EventFrame, perigee.EventText, perigee.EventThinking, perigee.EventCall, perigee.EventBlob, perigee.EventPart:
		w.content = true
		w.received.add(event)
	case perigee.EventStart:
		w.seeStart(event)
		return
	case perigee.EventNote:
		w.seeNote(event)
		return
	case perigee.EventUsage:
		if event.Usage != nil {
			w.usage = *event.Usage
		}
	case perigee.EventFinish:
		w.seeFinish(event)
	}
	if w.firstByte == 0 {
		w.firstByte = max(w.recorder.now().Sub(w.start), 1) // 0 means that there was none
	}
}

func (w *watch) seeStart(event *perigee.Event) {
	if event.Upstream != "" {
		w.upstream = event.Upstream
	}
	if event.Account != "" {
		w.account = event.Account
	}
	if event.Model != "" {
		w.model = event.Model
	}
}

func (w *watch) seeNote(event *perigee.Event) {
	if event.Note != nil {
		w.notes = append(slices.Clip(w.notes), *event.Note) // the slice we began with is the request's
	}
}

// seeFinish keeps the first candidate's reason; one of another candidate is better than none.
func (w *watch) seeFinish(event *perigee.Event) {
	w.finished = true
	if event.Finish != nil && (w.finish == "" || event.Candidate == 0) {
		w.finish = event.Finish.Reason
	}
}

// fail notes the error that the call returns and hands it back.
func (w *watch) fail(err error) error {
	w.err = err
	return err
}

// end is deferred around the call. A panic on its way through is recorded and goes on.
func (w *watch) end(ctx context.Context) {
	if p := recover(); p != nil {
		w.settle(ctx, perigee.OutcomeFailed, perigee.Errorf(perigee.ClassInternal, "panic: %v", p))
		panic(p)
	}
	outcome, trouble := w.outcome(ctx)
	if w.request != nil && (outcome == perigee.OutcomeCanceled || outcome == perigee.OutcomeCutOff && w.content) {
		w.estimate()
	}
	w.settle(ctx, outcome, trouble)
}

// outcome judges how the call ended, and what the trouble was if it was not done.
func (w *watch) outcome(ctx context.Context) (perigee.Outcome, *perigee.Error) {
	gone, reason := ending(ctx)
	trouble := perigee.AsError(w.err)
	if trouble == nil && w.finished && !(w.left && gone) {
		return perigee.OutcomeDone, nil
	}
	// "canceled" is also what a call says that we ended ourselves; then the reason we gave says more.
	if reason != nil && (trouble == nil || trouble.Class == perigee.ClassCanceled) {
		trouble = reason
	}
	switch {
	case trouble == nil && (w.left || gone):
		return perigee.OutcomeCanceled, perigee.Errorf(perigee.ClassCanceled, "the client went away")
	case trouble == nil:
		return perigee.OutcomeCutOff, perigee.Errorf(perigee.ClassUnavailable, "the answer stopped without saying that it was finished")
	case trouble.Class == perigee.ClassCanceled:
		return perigee.OutcomeCanceled, trouble
	case w.content:
		return perigee.OutcomeCutOff, trouble
	case gone:
		return perigee.OutcomeCanceled, trouble
	}
	return perigee.OutcomeFailed, trouble
}

// ending tells a client that went away from a ctx that was ended for a reason: a deadline, or a cause that
// is an error of ours, such as the daemon stopping.
func ending(ctx context.Context) (gone bool, reason *perigee.Error) {
	if ctx.Err() == nil {
		return false, nil
	}
	cause := perigee.AsError(context.Cause(ctx))
	// A cause that nobody classified is somebody's word for "canceled".
	if cause.Class == perigee.ClassCanceled || cause.Class == perigee.ClassInternal {
		return true, nil
	}
	return false, cause
}

// settle completes the call's row, queues it and logs it.
func (w *watch) settle(ctx context.Context, outcome perigee.Outcome, trouble *perigee.Error) {
	call := w.row.call // only ever replaced from here, so reading needs no lock
	call.Outcome = outcome
	call.Duration = w.recorder.now().Sub(w.start)
	call.FirstByte = w.firstByte
	call.Model, call.Upstream, call.Account = perigee.Clip(w.model, maxName), w.upstream, w.account
	call.Finish = w.finish
	call.Usage = w.usage
	if failed := perigee.AsError(w.err); failed != nil && call.Usage == (perigee.Usage{}) {
		call.Usage = failed.Usage // an answer that had begun has said what it cost, with everything before it
	}
	if notes := append(slices.Clip(w.notes), w.late.All()...); len(notes) > 0 {
		call.Notes = make([]string, len(notes))
		for i, note := range notes {
			call.Notes[i] = perigee.Clip(note.String(), maxText)
		}
	}
	call.Steps = w.steps.All()
	for i := range call.Steps {
		call.Steps[i].Error = redact(perigee.Clip(call.Steps[i].Error, maxText))
	}
	if trouble != nil {
		call.Class, call.Status = trouble.Class, trouble.Status
		call.Error = redact(perigee.Clip(trouble.Message, maxText))
		if call.Model == "" {
			call.Model = perigee.Clip(trouble.Model, maxName)
		}
		if call.Upstream == "" {
			call.Upstream = trouble.Upstream
		}
		if call.Account == "" {
			call.Account = trouble.Account
		}
	}
	w.recorder.spending.ended(&call) // before it can be saved
	w.recorder.put(&w.row, &call)
	w.recorder.log(ctx, &call)
}

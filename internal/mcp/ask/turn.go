package ask

import (
	"context"
	"errors"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/trajectory"
)

const (
	// patience is how long a conversation may be unreadable, for example while the language server
	// is restarted.
	patience = 15 * time.Second
	// decisionTime is how long a step may still wait after it got a decision.
	decisionTime = 5 * time.Second
	// maxAnswer bounds the text and the thinking of an answer, including rewritten text.
	maxAnswer = 64 << 20
	// maxWaiting bounds the line that describes the input that the agent waits for.
	maxWaiting = 1000
)

const stepsUsedUp = "the agent used up its steps; send another message to let it go on"

// A Following waits for the answer that the agent writes in a conversation.
type Following struct {
	Reader       trajectory.Reader
	Conversation string
	Cursor       trajectory.Cursor
	Turn         trajectory.Turn     // the part of the turn before Cursor
	Patience     time.Duration       // how long reading may fail; a minute if 0
	Progress     func(Progress)      // may be nil
	Observe      func(perigee.Event) // called with the first text; may be nil
	Cancel       func(ctx context.Context)
	// Explain returns the error of an answer that cannot be read to its end, given the error of
	// the reader.
	Explain func(err error) *perigee.Error

	decided  *trajectory.Waiting // the inputs that this ask has decided; nil if there are none
	reported Progress
	content  bool // the first text was observed
}

// Answer returns when the turn is over, when it can no longer be read, or when ctx is done. If the
// cause of that is not ask.ErrTimeout, the agent is stopped.
func (f *Following) Answer(ctx context.Context) Answer {
	for begun := time.Now(); ; {
		follower := trajectory.Follower{Reader: f.Reader, Cascade: f.Conversation,
			Cursor: f.Cursor, Patience: f.Patience}
		for event, err := range follower.Events(ctx) {
			if err != nil {
				return f.Interrupted(ctx, err)
			}
			if event.Kind == trajectory.KindDone {
				if f.undecided(event.Reason) && time.Since(begun) < decisionTime {
					break // the agent has not read the decision yet
				}
				return f.done(event.Reason)
			}
			f.take(event)
			if f.Turn.Read > maxAnswer {
				f.Cancel(ctx)
				e := perigee.Errorf(perigee.ClassUnavailable, "the agent wrote more than %d MiB", maxAnswer>>20)
				return f.failed(e.WithHint("start a new conversation"))
			}
		}
		f.Cursor = follower.Cursor
		f.Cursor.Over = false
	}
}

// undecided reports whether the agent still waits for the decision that it got.
func (f *Following) undecided(reason trajectory.Reason) bool {
	if reason != trajectory.ReasonWaiting || f.decided == nil || len(f.Turn.Waiting) == 0 {
		return false
	}
	w := f.Turn.Waiting[0].Waiting
	d := f.decided
	return w.Trajectory == d.Trajectory && w.Index == d.Index && w.Member == d.Member
}

// take adds an event, and reports changes.
func (f *Following) take(e trajectory.Event) {
	f.Turn.Take(e)
	p := Progress{Text: f.reported.Text, Steps: f.Turn.Steps()}
	switch e.Kind {
	case trajectory.KindTurn, trajectory.KindTruncated, trajectory.KindText, trajectory.KindTextReplaced:
		p.Text = f.Turn.Text()
	}
	if !f.content && e.Kind == trajectory.KindText {
		f.content = true
		if f.Observe != nil {
			f.Observe(perigee.Event{Kind: perigee.EventText, Text: e.Text})
		}
	}
	if p != f.reported {
		f.reported = p
		if f.Progress != nil {
			f.Progress(p)
		}
	}
}

// answer returns the answer so far.
func (f *Following) answer(status Status) Answer {
	a := Answer{Text: f.Turn.Text(), Conversation: f.Conversation, Status: status}
	if f.Turn.Usage != (trajectory.Usage{}) {
		a.Usage = f.Turn.Usage.Tokens()
	}
	return a
}

func (f *Following) failed(err error) Answer {
	a := f.answer(Failed)
	a.Error = Fail(err).Error
	return a
}

// done returns the answer of a turn that is over.
func (f *Following) done(reason trajectory.Reason) Answer {
	a := f.answer(Done)
	var err *perigee.Error
	switch reason {
	case trajectory.ReasonWaiting:
		a.Status, a.WaitingFor = Waiting, waitingFor(&f.Turn)
	case trajectory.ReasonMaxInvocations:
		a.Status, a.WaitingFor = Waiting, stepsUsedUp
	case trajectory.ReasonCancelled:
		a.Status = Cancelled
	case trajectory.ReasonError:
		switch err = f.Turn.Error; {
		case err == nil:
			err = perigee.Errorf(perigee.ClassUnavailable, "the language server ended the turn with an error that it does not name")
		case f.content && errors.Is(err, trajectory.ErrNoAnswer):
			err = perigee.Errorf(perigee.ClassUnavailable, "the language server was restarted meanwhile, and its agent does not continue").
				WithHint("look at what it has changed, and send another message to let it go on")
		}
	case trajectory.ReasonTimeout:
		if a.Status = Timeout; !f.Turn.Started {
			err = perigee.Errorf(perigee.ClassUnavailable, "the language server accepted the prompt, but its agent did not begin to answer").
				WithHint("ask with this conversation and an empty prompt to see whether it has begun")
		}
	default:
		if d, refused := providererr.ClassifyText(a.Text); refused {
			err = d.Error
		}
	}
	if err != nil {
		a.Status, a.Error = Failed, Fail(err).Error
	}
	return a
}

// waitingFor describes the input that the agent waits for, in one line.
func waitingFor(turn *trajectory.Turn) string {
	var list []string
	for _, e := range turn.Waiting {
		list = append(list, e.Waiting.String())
	}
	if len(list) == 0 {
		return "a decision in Antigravity"
	}
	return perigee.Clip(strings.Join(list, "; "), maxWaiting)
}

// Interrupted returns the answer if the turn cannot be followed to its end: the ask is out of time
// or was cancelled, or the conversation cannot be read.
func (f *Following) Interrupted(ctx context.Context, err error) Answer {
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrTimeout):
		return f.answer(Timeout)
	case ctx.Err() != nil:
		f.Cancel(ctx)
		return f.answer(Cancelled)
	}
	return f.failed(f.Explain(err))
}

// A turn is one ask in a conversation of the language server.
type turn struct {
	Following
	agent    *Agent
	request  *Request
	readOnly bool
	model    lsclient.Described
}

func (a *Agent) newTurn(r *Request, progress func(Progress)) *turn {
	t := &turn{agent: a, request: r, readOnly: r.ReadOnly || a.opts.ReadOnly}
	t.Following = Following{Reader: a.ls, Conversation: r.Conversation, Patience: patience,
		Progress: progress, Observe: t.observe, Cancel: t.cancel, Explain: explain}
	return t
}

func (t *turn) observe(e perigee.Event) {
	if t.request.Observe != nil {
		t.request.Observe(&e)
	}
}

// explain returns the error for a conversation that cannot be read.
func explain(err error) *perigee.Error {
	e := *perigee.AsError(err)
	switch {
	case errors.Is(err, errSent):
		e = *perigee.Errorf(perigee.ClassUnavailable, "it is not known whether the agent got the prompt: %s", e.Message)
		e.Hint = "ask with this conversation and an empty prompt to see whether it works; the prompt was not sent again"
	case e.Class == perigee.ClassNotFound:
		e.Class, e.Message = perigee.ClassUnavailable, "the language server was restarted meanwhile and no longer has the conversation"
		e.Hint = "look at what the agent has changed before you ask again"
	case e.Class == perigee.ClassInternal:
		e.Class = perigee.ClassUnavailable
	}
	if e.Hint == "" {
		e.Hint = "ask with this conversation and an empty prompt to see whether the agent goes on"
	}
	return &e
}

// cancel stops the agent. It waits for the language server for a limited time.
func (t *turn) cancel(ctx context.Context) {
	if err := t.agent.ls.Cancel(context.WithoutCancel(ctx), t.Conversation); err != nil {
		t.agent.opts.Logger.Warn("conversation not cancelled", "upstream", t.agent.opts.Upstream, "call", t.request.ID, "error", err)
	}
}

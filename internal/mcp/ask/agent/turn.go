package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/trajectory"
	"perigee/internal/mcp/ask"
)

const (
	// patience is how long a conversation may be impossible to read, for example while the language server is restarted.
	patience = 15 * time.Second
	// decisionTime is how long a step may still wait after it got a decision.
	decisionTime = 5 * time.Second
	// maxAnswer bounds the text and the thinking of an answer, with what was rewritten.
	maxAnswer = 64 << 20
	// maxWaiting bounds the line about what the agent waits for.
	maxWaiting = 1000
)

const usedUp = "the agent used up its steps; send another message to let it go on"

// A turn is one ask in a conversation.
type turn struct {
	agent    *Agent
	request  *ask.Request
	progress func(ask.Progress)
	readOnly bool

	id      string
	model   lsclient.Described
	turn    trajectory.Turn
	decided *trajectory.Waiting // what got a decision by this ask; nil: nothing
	told    ask.Progress
	content bool // some was observed
}

// follow waits for the end of the turn.
func (t *turn) follow(ctx context.Context, cursor trajectory.Cursor) ask.Answer {
	for begun := time.Now(); ; {
		f := trajectory.Follower{Reader: t.agent.ls, Cascade: t.id, Cursor: cursor, Patience: patience}
		for event, err := range f.Events(ctx) {
			if err != nil {
				return t.interrupted(ctx, err)
			}
			if event.Kind == trajectory.KindDone {
				if t.undecided(event.Reason) && time.Since(begun) < decisionTime {
					break // the agent has not read the decision yet
				}
				return t.done(event.Reason)
			}
			t.take(event)
			if t.turn.Read > maxAnswer {
				t.cancel(ctx)
				return t.failed(perigee.Errorf(perigee.ClassUnavailable, "the agent wrote more than %d MiB", maxAnswer>>20).WithHint("start a new conversation"))
			}
		}
		cursor = f.Cursor
		cursor.Over = false
	}
}

// undecided reports whether the agent still waits for the decision that it got.
func (t *turn) undecided(reason trajectory.Reason) bool {
	if reason != trajectory.ReasonWaiting || t.decided == nil || len(t.turn.Waiting) == 0 {
		return false
	}
	w := t.turn.Waiting[0].Waiting
	return w.Trajectory == t.decided.Trajectory && w.Index == t.decided.Index && w.Member == t.decided.Member
}

// take adds an event, and reports what is new.
func (t *turn) take(e trajectory.Event) {
	t.turn.Take(e)
	p := ask.Progress{Text: t.told.Text, Steps: t.turn.Steps()}
	switch e.Kind {
	case trajectory.KindTurn, trajectory.KindTruncated, trajectory.KindText, trajectory.KindTextReplaced:
		p.Text = t.turn.Text()
	}
	if !t.content && e.Kind == trajectory.KindText {
		t.content = true
		t.observe(perigee.Event{Kind: perigee.EventText, Text: e.Text})
	}
	if p != t.told {
		t.told = p
		if t.progress != nil {
			t.progress(p)
		}
	}
}

func (t *turn) observe(e perigee.Event) {
	if t.request.Observe != nil {
		t.request.Observe(&e)
	}
}

// answer is what there is so far.
func (t *turn) answer(status ask.Status) ask.Answer {
	a := ask.Answer{Text: t.turn.Text(), Conversation: t.id, Status: status, Source: t.agent.opts.Source, Model: t.model.Name()}
	if t.turn.Usage != (trajectory.Usage{}) {
		a.Usage = t.turn.Usage.Tokens()
	}
	return a
}

func (t *turn) failed(err error) ask.Answer {
	a := t.answer(ask.Failed)
	a.Error = ask.Fail(err).Error
	return a
}

// done is the answer of a turn that is over.
func (t *turn) done(reason trajectory.Reason) ask.Answer {
	a, end := t.answer(""), Outcome(&t.turn, reason)
	a.Status, a.WaitingFor, a.Error = end.Status, end.WaitingFor, end.Error
	if e := t.turn.Error; reason == trajectory.ReasonError && e != nil && t.content && errors.Is(e, trajectory.ErrNoAnswer) {
		a.Error = ask.Fail(perigee.Errorf(perigee.ClassUnavailable, "the language server was restarted meanwhile, and its agent does not continue").
			WithHint("look at what it has changed, and send another message to let it go on")).Error
	}
	return a
}

// Outcome is the answer of a turn that is over, as far as the turn tells: text, usage, status, what the agent waits for, and the error.
func Outcome(turn *trajectory.Turn, reason trajectory.Reason) ask.Answer {
	a := ask.Answer{Text: turn.Text(), Status: ask.Done}
	if turn.Usage != (trajectory.Usage{}) {
		a.Usage = turn.Usage.Tokens()
	}
	var err *perigee.Error
	switch reason {
	case trajectory.ReasonWaiting:
		a.Status, a.WaitingFor = ask.Waiting, waitingFor(turn)
	case trajectory.ReasonMaxInvocations:
		a.Status, a.WaitingFor = ask.Waiting, usedUp
	case trajectory.ReasonCancelled:
		a.Status = ask.Cancelled
	case trajectory.ReasonError:
		if err = turn.Error; err == nil {
			err = perigee.Errorf(perigee.ClassUnavailable, "the language server ended the turn with an error that it does not name")
		}
	case trajectory.ReasonTimeout:
		if a.Status = ask.Timeout; !turn.Begun {
			err = perigee.Errorf(perigee.ClassUnavailable, "the language server accepted the prompt, but its agent did not begin to answer").
				WithHint("ask with this conversation and an empty prompt to see whether it has begun")
		}
	default:
		if d, refused := providererr.ClassifyText(a.Text); refused {
			err = d.Error
		}
	}
	if err != nil {
		a.Status, a.Error = ask.Failed, ask.Fail(err).Error
	}
	return a
}

// waitingFor says in one line what the agent waits for.
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

// interrupted is the answer of a turn that cannot be followed to its end: the ask is out of time or was cancelled, or the language
// server is gone.
func (t *turn) interrupted(ctx context.Context, err error) ask.Answer {
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ask.ErrTimeout):
		return t.answer(ask.Timeout)
	case ctx.Err() != nil:
		t.cancel(ctx)
		return t.answer(ask.Cancelled)
	}
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
	return t.failed(&e)
}

// cancel stops the agent. It waits for the language server, but not for ever.
func (t *turn) cancel(ctx context.Context) {
	if err := t.agent.ls.Cancel(context.WithoutCancel(ctx), t.id); err != nil {
		t.agent.opts.Logger.Warn("conversation not cancelled", "upstream", t.agent.opts.Upstream, "call", t.request.ID, "error", err)
	}
}

package conversation

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	"perigee/internal/adapt/providererr"
	"perigee/internal/langserver/trajectory"
)

// rewritten is the note about text that the server replaced after the client had received it.
var rewritten = perigee.Note{Action: perigee.NoteMapped, Subject: "rewritten text to more text"}

// An answer passes the text of the agent to the client. If the client wants it in one piece it is
// held back until the end, because steps may be rewritten.
type answer struct {
	c       *call
	id      string
	started bool
	content bool // the client has received some

	turn    trajectory.Turn // as the server has it
	written strings.Builder
	// bytes at the end of written that are held back from the client, because they may be a refusal
	pending int
	thought bool // the client has received thinking
}

// hasStarted reports whether the client has received a part of the answer.
func (a *answer) hasStarted() bool { return a != nil && a.content }

// maxAnswer bounds the text and the thinking of an answer, including rewritten text: all of it is
// kept until the end.
const maxAnswer = 64 << 20

// take handles an event that does not end the turn. It returns false if the caller has left.
func (a *answer) take(e trajectory.Event) bool {
	before := a.turn.At(e.Step)
	a.turn.Take(e)
	switch e.Kind {
	case trajectory.KindText, trajectory.KindTextReplaced:
		return a.write(perigee.EventText, before.Text, e.Text, e.Kind == trajectory.KindTextReplaced)
	case trajectory.KindThinking, trajectory.KindThinkingReplaced:
		return a.write(perigee.EventThinking, before.Thinking, e.Text, e.Kind == trajectory.KindThinkingReplaced)
	case trajectory.KindUsage:
		return a.emit(perigee.Event{Kind: perigee.EventUsage, Usage: e.Usage.Tokens()})
	}
	return true
}

// write emits text that was appended to a step or that replaces the step's earlier text. Text that
// the client has received cannot be withdrawn; the new text follows it.
func (a *answer) write(kind perigee.EventKind, before, text string, replaced bool) bool {
	if !a.c.req.Stream || text == "" {
		return true
	}
	if replaced && before != "" {
		a.c.req.Log.NoteOnce(rewritten)
	}
	return a.writePart(kind, text, replaced || before == "")
}

// writePart sends text or thinking to the client. A part of another step starts after a separator.
// The start of an answer is held back as long as it may be the text with which the provider
// refuses a version.
func (a *answer) writePart(kind perigee.EventKind, text string, begins bool) bool {
	if kind == perigee.EventThinking {
		if begins && a.thought {
			text = trajectory.Separator + text
		}
		a.thought = true
		return a.emit(perigee.Event{Kind: kind, Text: text})
	}
	if begins && a.written.Len() > 0 {
		text = trajectory.Separator + text
	}
	a.written.WriteString(text)
	a.pending += len(text)
	if a.pending == a.written.Len() && providererr.MayRefuse(a.written.String()) {
		return true
	}
	return a.release()
}

// release sends the text that was held back.
func (a *answer) release() bool {
	text := a.written.String()[a.written.Len()-a.pending:]
	a.pending = 0
	return text == "" || a.emit(perigee.Event{Kind: perigee.EventText, Text: text})
}

// emit sends an event, preceded by the start event if it is the first. It returns false if the
// caller has left.
func (a *answer) emit(e perigee.Event) bool {
	if !a.started {
		a.started = true
		start := perigee.Event{Kind: perigee.EventStart, Upstream: a.c.u.opts.Name, Model: a.c.model, ResponseID: a.id, More: true}
		if !a.c.yield(start, nil) {
			a.c.left = true
			return false
		}
	}
	a.content = a.content || e.Kind != perigee.EventUsage
	if !a.c.yield(e, nil) {
		a.c.left = true
	}
	return !a.c.left
}

// finish ends the answer, or returns the error that ended the turn.
func (a *answer) finish(done trajectory.Event) error {
	if err := a.failure(done.Reason); err != nil {
		return err
	}
	if !a.c.req.Stream && !a.flush() {
		return nil
	}
	if d, refused := providererr.ClassifyText(a.written.String()); refused && a.pending > 0 {
		return d.Error
	}
	if done.Reason == trajectory.ReasonWaiting {
		a.c.req.Log.NoteOnce(perigee.Note{Action: perigee.NoteMapped, Subject: "question of the agent to text"})
		if !a.writePart(perigee.EventText, a.question(), true) {
			return nil
		}
	}
	if a.release() {
		a.emit(perigee.Event{Kind: perigee.EventFinish, Finish: finishOf(done)})
	}
	return nil
}

// flush sends a complete answer that was held back.
func (a *answer) flush() bool {
	for _, s := range a.turn.Written {
		if s.Thinking != "" && !a.writePart(perigee.EventThinking, s.Thinking, true) || s.Text != "" && !a.writePart(perigee.EventText, s.Text, true) {
			return false
		}
	}
	return true
}

// failure returns the error that ended a turn, or nil if there is none. A turn that was cut short
// by a restart of the server is lost.
func (a *answer) failure(reason trajectory.Reason) error {
	switch reason {
	case trajectory.ReasonError:
		if err := a.turn.Error; err != nil {
			if errors.Is(err, trajectory.ErrNoAnswer) {
				err = &perigee.Error{Class: err.Class, Message: err.Message, Hint: err.Hint, Cause: ErrLost}
			}
			return err
		}
		return perigee.Errorf(perigee.ClassUnavailable, "the language server ended the turn with an error that it does not name")
	case trajectory.ReasonTimeout:
		e := perigee.Errorf(perigee.ClassUnavailable, "nothing happens in the conversation of the language server any more")
		e.Status = http.StatusGatewayTimeout
		return e
	case trajectory.ReasonCancelled:
		e := perigee.Errorf(perigee.ClassUnavailable, "the conversation was canceled in the language server")
		if !a.c.u.opts.Attached { // it was not canceled by a person
			e.Cause = ErrLost
		}
		return e
	}
	return nil
}

// question describes the input that the agent waits for.
func (a *answer) question() string {
	what := "The agent waits for a decision that it can only get in Antigravity"
	var list []string
	for _, e := range a.turn.Waiting {
		list = append(list, e.Waiting.String())
	}
	if len(list) == 0 {
		return "[" + what + ".]"
	}
	return fmt.Sprintf("[%s: %s]", what, strings.Join(list, "; "))
}

// finishOf returns the reason why an answer ended, as the Gemini API names it.
func finishOf(done trajectory.Event) *perigee.Finish {
	if done.Reason == trajectory.ReasonMaxInvocations {
		return &perigee.Finish{Kind: perigee.FinishLength, Reason: "MAX_TOKENS", Message: "the agent used up its steps; another message lets it go on"}
	}
	switch done.Stop {
	case codeiumcommonpb.StopReason_STOP_REASON_MAX_TOKENS:
		return &perigee.Finish{Kind: perigee.FinishLength, Reason: "MAX_TOKENS"}
	case codeiumcommonpb.StopReason_STOP_REASON_CONTENT_FILTER:
		return &perigee.Finish{Kind: perigee.FinishFiltered, Reason: "SAFETY"}
	}
	return &perigee.Finish{Kind: perigee.FinishDone, Reason: "STOP"}
}

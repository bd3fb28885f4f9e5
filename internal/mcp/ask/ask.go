// Package ask answers prompts: with the agent of an open IDE, with the agent of a headless
// language server, or with a model. Each of these is an Asker.
//
// An Agent uses the agent of one language server. An ask is a message in a conversation, which is
// followed until the end of the turn; between asks it makes no calls. A ModelAsker uses a model
// and keeps its conversations in the store for 24 hours, for the key of the client.
package ask

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"perigee"
)

// An Asker answers prompts. Ask can be called concurrently; answers of several asks never mix.
//
// An error means that the prompt was not handed over, so nothing was done. It is a *perigee.Error;
// if it wraps ErrDeclined, another Asker may be tried. As soon as an agent or a model may have
// received the prompt, Ask returns an Answer and no error: an agent edits files, so a prompt that
// is handed over twice is worked on twice.
//
// If ctx ends with the cause ErrTimeout, Ask returns the answer so far with the status Timeout and
// leaves the agent working. If it ends with another cause, Ask stops the agent and returns the
// status Cancelled.
type Asker interface {
	// Ask calls progress, never concurrently and never after it has returned, when the text has
	// grown or was rewritten.
	Ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error)
}

// ErrDeclined is in the chain of an error after which another Asker may be tried: there is no
// window, none of them answers, it has no agent, or it is busy.
var ErrDeclined = errors.New("not handed over")

// busyHint is the hint of the error for a second ask in a conversation.
const busyHint = "wait for its answer, or leave conversation out to start another one"

// ErrTimeout is the cause with which a context ends when an ask is out of time.
var ErrTimeout = errors.New("the time limit was reached")

// Declined returns an error that wraps ErrDeclined.
func Declined(class perigee.Class, format string, args ...any) *perigee.Error {
	return Decline(perigee.Errorf(class, format, args...))
}

// Decline wraps an error so that it also wraps ErrDeclined.
func Decline(err error) *perigee.Error {
	e := *perigee.AsError(err)
	e.Cause = errors.Join(ErrDeclined, e.Cause)
	return &e
}

// A Request is a prompt with its options. All fields but Prompt are optional.
type Request struct {
	ID string `json:"id,omitzero"` // of the call
	// empty with a Conversation to wait for the answer that is being written
	Prompt string `json:"prompt"`
	Model  string `json:"model,omitzero"`
	// Workspace is the directory that the agent works in; a window with that directory open
	// answers.
	Workspace string `json:"workspace,omitzero"`
	// Roots are the directories of the client, which choose the window if there is no Workspace.
	Roots []string `json:"roots,omitzero"`
	// the conversation to continue; empty for a new one
	Conversation string `json:"conversation,omitzero"`
	// Timeout bounds the whole ask. If it is 0, the ask ends after the configured time without
	// progress.
	Timeout time.Duration `json:"timeout,omitzero"`
	// nothing may be changed; an Asker that cannot guarantee that refuses
	ReadOnly bool `json:"read_only,omitzero"`
	// Decision answers the input that the agent of Conversation waits for. Without one nothing is
	// ever approved.
	Decision *Decision `json:"decision,omitzero"`

	Client perigee.Client `json:"client,omitzero"`
	// AllowsModel reports whether the client's key allows a model. If it is nil, every model is
	// allowed.
	AllowsModel func(model string) bool `json:"-"`

	// Log collects notes and attempts for the record. If it is nil, they are discarded.
	Log *perigee.CallLog `json:"-"`
	// Observe may be called with events of the answer, in the goroutine of Ask, by an Asker that
	// has more details than its Answer: EventStart with the upstream, the account and the model,
	// EventUsage, EventFinish. It may be nil.
	Observe func(*perigee.Event) `json:"-"`
}

// Allows reports whether the client's key allows a model.
func (r *Request) Allows(model string) bool { return r.AllowsModel == nil || r.AllowsModel(model) }

// Forbidden returns the error for a model that the client's key does not allow.
func (r *Request) Forbidden(model string) *perigee.Error {
	return perigee.Errorf(perigee.ClassForbidden, "the key %q does not allow the model %s", r.Client.Key, perigee.Clip(model, 100)).
		WithHint("name a model that list_models has")
}

// ModelConversation is the prefix of IDs of conversations with models, which perigee stores
// itself. No other source has them.
const ModelConversation = "ask_"

// A Decision answers an agent that waits for a person: it allows or denies an action of the agent,
// or answers its question.
type Decision struct {
	Allow bool   `json:"allow"`
	Text  string `json:"text,omitzero"` // the answer to a question
}

// Progress is the progress of an answer. Text is the whole text so far, which may also be
// rewritten.
type Progress struct {
	Text  string `json:"text"`
	Steps int    `json:"steps,omitzero"` // of the agent
}

// A Status is the outcome of an ask.
type Status string

// The statuses.
const (
	Done      Status = "done"
	Waiting   Status = "waiting"   // waits for a person; WaitingFor describes the input
	Failed    Status = "failed"    // Error has the reason
	Cancelled Status = "cancelled" // by the client, or by a person in the IDE
	Timeout   Status = "timeout"   // Text is the answer so far; Conversation continues it
)

// An Answer is the end of an ask.
type Answer struct {
	Text         string `json:"text"`
	Conversation string `json:"conversation"`
	Status       Status `json:"status"`
	WaitingFor   string `json:"waiting_for,omitzero"`
	// Source is ide, langserver, simulator, or the name of an upstream.
	Source string         `json:"source"`
	Model  string         `json:"model,omitzero"`
	Usage  *perigee.Usage `json:"usage,omitzero"`
	Error  *Failure       `json:"error,omitzero"`
	// sources that were not used, with the reason
	Skipped []Skipped `json:"skipped,omitzero"`
}

// A Failure is the reason why an ask has failed.
type Failure struct {
	Class   perigee.Class `json:"class"`
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitzero"`

	Public string `json:"-"` // replaces Message and Hint for clients, as in perigee.Error
}

// Fail returns an answer that has failed with an error.
func Fail(err error) Answer {
	e := perigee.AsError(err)
	return Answer{Status: Failed, Error: &Failure{Class: e.Class, Message: e.Message, Hint: e.Hint, Public: e.Public}}
}

// Skipped is a source that was not used.
type Skipped struct {
	Source string `json:"source"`
	Reason string `json:"reason"`

	Public string `json:"-"` // replaces Reason for clients, as in perigee.Error
}

// ForClient returns the answer for a client that may not see details of this machine.
func (a Answer) ForClient() Answer {
	if a.Error != nil && a.Error.Public != "" {
		a.Error = &Failure{Class: a.Error.Class, Message: a.Error.Public}
	}
	a.Skipped = slices.Clone(a.Skipped)
	for i, s := range a.Skipped {
		a.Skipped[i].Reason = cmp.Or(s.Public, s.Reason)
	}
	return a
}

// Package trajectory follows one conversation of the language server and reports its changes as
// events.
//
// A conversation is a list of steps that are updated in place: the text of the last one grows, may
// be rewritten, and steps at the end may disappear. Tracker compares the state of a source with
// the state reported before; it has no clock and no network. Follower reads from a source until
// the turn is over: StreamAgentStateUpdates signals changes, and GetCascadeTrajectory and
// GetCascadeTrajectorySteps return them. Without the stream it polls. Database is a source that
// needs no language server.
package trajectory

import (
	"context"
	"iter"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// A Reader shows conversations. The clients of the language server and Database are readers.
type Reader interface {
	// Trajectory returns the state of a conversation. The answer may have fewer steps than it
	// counts.
	Trajectory(ctx context.Context, cascade string) (*languageserverpb.GetCascadeTrajectoryResponse, error)
	// Steps returns steps from an index on. The answer may end before the conversation does.
	Steps(ctx context.Context, cascade string, offset int) ([]*geminicoder.Step, error)
	// Updates yields an update for each change. The stream may end at any time.
	// errors.ErrUnsupported means that there is none.
	Updates(ctx context.Context, cascade string) iter.Seq2[*jetskicortexpb.AgentStateUpdate, error]
}

// A Kind is the kind of an Event. It determines which fields have a meaning.
type Kind uint8

// The kinds of events.
const (
	// a message of the user started a turn, with a usage of 0; Text
	KindTurn             Kind = iota + 1
	KindThinking              // Text is appended to the thinking of the step
	KindThinkingReplaced      // Text is the whole thinking of the step
	KindText                  // Text is appended to the text of the step
	KindTextReplaced          // Text is the whole text of the step
	KindCall                  // the model calls a tool
	KindResult                // a tool, or another step that is not a text, has ended
	KindWaiting               // Waiting: a step needs a decision of a person
	KindError                 // Error; the agent may try again
	KindUsage                 // Usage of the turn so far: replaces the earlier one
	KindTruncated             // Step and all steps after it are gone, with everything that was reported of them
	KindDone                  // Reason and Stop: the turn is over
)

// An Event is one thing that happened. Step is the index of the step that it is about.
type Event struct {
	Kind    Kind
	Step    int
	Text    string
	Waiting *Waiting
	Error   *perigee.Error
	Usage   Usage
	Reason  Reason
	Stop    codeiumcommonpb.StopReason // KindDone: why the model stopped, from its last step
}

// A Waiting describes an input that a step needs from a person. Trajectory and Index are
// parameters of HandleCascadeUserInteraction; they differ from the conversation and from
// Event.Step if a subagent waits.
type Waiting struct {
	Member     string // of CascadeUserInteraction: runCommand, filePermission, askQuestion …
	Trajectory string // empty if the source does not report it
	Index      int
	Subject    string // the command, the path, the address, the question

	question *cortexpb.CortexStepAskQuestion // nil if it is not a question
}

// A Reason is the reason why a turn is over.
type Reason string

// The reasons.
const (
	ReasonDone      Reason = "done"
	ReasonWaiting   Reason = "waiting"   // for a person
	ReasonError     Reason = "error"     // an event of KindError came before
	ReasonCancelled Reason = "cancelled" // by another client, or a person
	// the agent used up its steps; another message continues the turn
	ReasonMaxInvocations Reason = "max_invocations"
	ReasonTimeout        Reason = "timeout" // nothing happened for too long
)

// Usage counts the tokens of a turn. Input excludes tokens read from or written to the cache;
// Output includes Thinking.
type Usage struct {
	Input      uint64 `json:"i,omitzero"`
	Output     uint64 `json:"o,omitzero"`
	Thinking   uint64 `json:"t,omitzero"`
	CacheRead  uint64 `json:"r,omitzero"`
	CacheWrite uint64 `json:"w,omitzero"`
}

// Plus returns the sum.
func (u Usage) Plus(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, Thinking: u.Thinking + v.Thinking,
		CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite}
}

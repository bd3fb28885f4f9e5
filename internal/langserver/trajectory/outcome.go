package trajectory

import (
	"time"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
)

// How long nothing may have changed before a turn counts as over, by the state of the turn. The
// status is idle for a moment after a message was sent and between two steps.
const (
	quietComplete = 300 * time.Millisecond // idle, and the last step of the planner is complete
	quietWaiting  = 500 * time.Millisecond // a step waits: an automatic decision takes less
	quietIdle     = 1500 * time.Millisecond
	quietNoStatus = 2 * time.Second // the source has no status
	quietPending  = 5 * time.Second // idle, but a step has not ended, or a message is in the queue
	quietNoAnswer = 5 * time.Second // idle, but nothing follows the message
)

// An Outcome is the end of a turn.
type Outcome struct {
	Reason Reason
	Stop   codeiumcommonpb.StopReason
	// Silent means that the message was recorded and nothing was generated, not even an error.
	Silent bool
}

// Close records that the end of the turn was reported.
func (t *Tracker) Close() { t.active, t.cursor.Over = false, true }

// Outcome reports whether the turn is over after being quiet for the given time. The last
// observation must have had all steps.
func (t *Tracker) Outcome(quiet time.Duration) (Outcome, bool) {
	if !t.active {
		return Outcome{}, false
	}
	s := t.evidence()
	if s.waiting {
		return Outcome{Reason: ReasonWaiting, Stop: s.stop}, quiet >= quietWaiting
	}
	ended, known := t.termination(s)
	o := Outcome{Reason: s.reason(), Stop: s.stop}
	if known {
		o.Reason = reasonOf(ended, o.Reason)
	}
	switch {
	case t.status > cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE, t.children:
		return o, false
	case known && t.status != 0:
		return o, !s.pending || quiet >= quietIdle
	case s.pending:
		return o, t.status != 0 && quiet >= quietPending
	case s.answers == 0 && s.reason() == ReasonDone && !known:
		o.Reason, o.Silent = ReasonError, true
		return o, t.status != 0 && quiet >= quietNoAnswer
	case t.status == 0:
		return o, (known || s.complete || s.reason() != ReasonDone) && quiet >= quietNoStatus
	case s.complete:
		return o, quiet >= quietComplete
	}
	return o, quiet >= quietIdle
}

// evidence of the end of a turn is in its steps.
type evidence struct {
	waiting  bool
	pending  bool // a step has not ended, or a message is in the queue
	answers  int  // steps of the planner, messages to the user and errors
	planner  int  // index of the last of them that is not an error; -1 if there is none
	complete bool // the last step that counts is a text without calls, and its generation has ended normally
	failed   bool // the last step that counts is an error
	canceled bool // the last step that counts was canceled
	stop     codeiumcommonpb.StopReason
}

func (t *Tracker) evidence() evidence {
	s := evidence{planner: -1}
	c := &t.cursor
	for i := range c.Marks {
		m := &c.Marks[i]
		if c.First+i < c.Turn {
			continue
		}
		s.waiting = s.waiting || m.Status == cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_WAITING || len(m.Waiting) > 0
		s.pending = s.pending || !m.final() && !internalStep(m.Type)
		switch m.Type {
		case cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT:
			continue
		case cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, cortexpb.CortexStepType_CORTEX_STEP_TYPE_NOTIFY_USER:
			s.answers, s.planner, s.stop = s.answers+1, c.First+i, m.Stop
			s.complete = m.Status == cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE && len(m.Calls) == 0 && normalStop(m)
		default:
			if internalStep(m.Type) {
				continue
			}
			s.complete = false
		}
		if m.Error != 0 {
			s.answers++
		}
		s.failed = m.Error != 0
		s.canceled = m.Status == cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CANCELED ||
			m.Status == cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_INTERRUPTED ||
			m.Stop == codeiumcommonpb.StopReason_STOP_REASON_CLIENT_CANCELED
	}
	return s
}

// normalStop reports whether the planner has stopped by itself, or at a limit.
func normalStop(m *Mark) bool {
	if m.Type == cortexpb.CortexStepType_CORTEX_STEP_TYPE_NOTIFY_USER {
		return true
	}
	switch m.Stop {
	case codeiumcommonpb.StopReason_STOP_REASON_STOP_PATTERN, codeiumcommonpb.StopReason_STOP_REASON_MAX_TOKENS,
		codeiumcommonpb.StopReason_STOP_REASON_CONTENT_FILTER:
		return true
	}
	return false
}

// reason returns the reason of an end that the server does not explain.
func (s *evidence) reason() Reason {
	switch {
	case s.failed:
		return ReasonError
	case s.canceled:
		return ReasonCancelled
	}
	return ReasonDone
}

// termination returns why the executor has stopped, if that is about this turn: the server keeps
// the reasons of earlier turns.
func (t *Tracker) termination(s evidence) (cortexpb.ExecutorTerminationReason, bool) {
	e := t.executor
	if e.GetTerminationReason() == 0 {
		return 0, false
	}
	if id := e.GetExecutionId(); id != "" && t.execution != "" {
		return e.GetTerminationReason(), id == t.execution
	}
	return e.GetTerminationReason(), int(e.GetLastStepIdx()) >= max(s.planner, t.cursor.Turn+1)
}

// reasonOf converts the reason of the executor. An end that the executor calls normal may follow
// errors that were overcome.
func reasonOf(r cortexpb.ExecutorTerminationReason, otherwise Reason) Reason {
	switch r {
	case cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_ERROR:
		return ReasonError
	case cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_USER_CANCELED:
		return ReasonCancelled
	case cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_MAX_INVOCATIONS,
		cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_MAX_FORCED_INVOCATIONS:
		return ReasonMaxInvocations
	case cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_NO_TOOL_CALL,
		cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_TERMINAL_STEP_TYPE,
		cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_TERMINAL_CUSTOM_HOOK,
		cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_INJECTED_RESPONSE:
		return ReasonDone
	}
	return otherwise
}

// waits reports whether a step waits for a person.
func (t *Tracker) waits() bool { return t.evidence().waiting }

// unchanged returns the outcome if nothing happens after a turn that was reported as over.
func (t *Tracker) unchanged() Outcome {
	if t.waits() {
		return Outcome{Reason: ReasonWaiting}
	}
	return Outcome{Reason: ReasonTimeout}
}

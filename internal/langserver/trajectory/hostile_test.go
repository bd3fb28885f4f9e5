package trajectory

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// A hostile source answers as its functions say, and has no stream.
type hostile struct {
	trajectory func() *languageserverpb.GetCascadeTrajectoryResponse
	steps      func(offset int) []*geminicoder.Step
}

func (h hostile) Trajectory(ctx context.Context, _ string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	return h.trajectory(), ctx.Err()
}

func (h hostile) Steps(ctx context.Context, _ string, offset int) ([]*geminicoder.Step, error) {
	return h.steps(offset), ctx.Err()
}

func (hostile) Updates(context.Context, string) iter.Seq2[*jetskicortexpb.AgentStateUpdate, error] {
	return func(yield func(*jetskicortexpb.AgentStateUpdate, error) bool) { yield(nil, errors.ErrUnsupported) }
}

func written(text string, status cortexpb.CortexStepStatus) *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, Status: status,
		Step: &geminicoder.Step_PlannerResponse{PlannerResponse: &cortexpb.CortexStepPlannerResponse{Response: text}}}
}

// TestAStatusThatFlapsEndsTheTurn has a conversation that is busy and idle by turns, and in which
// nothing happens.
func TestAStatusThatFlapsEndsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := false
		h := hostile{trajectory: func() *languageserverpb.GetCascadeTrajectoryResponse {
			busy = !busy
			status := cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE
			if busy {
				status = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING
			}
			return &languageserverpb.GetCascadeTrajectoryResponse{Status: status}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var cursor Cursor
		for e, err := range followFrom(ctx, h, "c", &cursor) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == KindDone {
				return
			}
		}
		t.Error("no end")
	})
}

// TestStepsThatNeverEndAreBounded has a conversation that counts four thousand million steps, each
// of them unfinished.
func TestStepsThatNeverEndAreBounded(t *testing.T) {
	step := written("", cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_RUNNING) // each event would copy the cursor
	h := hostile{
		trajectory: func() *languageserverpb.GetCascadeTrajectoryResponse {
			return &languageserverpb.GetCascadeTrajectoryResponse{Status: cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING, NumTotalSteps: math.MaxUint32}
		},
		steps: func(int) []*geminicoder.Step { return slices.Repeat([]*geminicoder.Step{step}, 500) },
	}
	var cursor Cursor
	events := 0
	for _, err := range followFrom(t.Context(), h, "c", &cursor) {
		if err != nil {
			if perigee.AsError(err).Class != perigee.ClassUnavailable || !strings.Contains(err.Error(), "have not ended") {
				t.Errorf("got %v", err)
			}
			return
		}
		if events++; events > 10_000 {
			t.Fatal("no end")
		}
	}
	t.Error("no error")
}

// TestALongConversationIsReadInTime has more steps than a cursor that is copied with each event
// could have.
func TestALongConversationIsReadInTime(t *testing.T) {
	const count = 30_000
	steps := make([]*geminicoder.Step, count)
	for i := range steps {
		steps[i] = written("x", cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE)
	}
	tracker, marks, events := NewTracker(Cursor{}), 0, 0
	for range tracker.Apply(&Observation{Steps: steps, Total: count}) {
		marks = max(marks, len(tracker.Cursor().Marks))
		events++
	}
	if cursor := tracker.Cursor(); events != count || marks > 2*maxMarks || cursor.Size() != count {
		t.Errorf("%d events, up to %d marks, %d steps", events, marks, cursor.Size())
	}
}

package trajectory

import (
	"context"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// A Snapshot is a conversation at one moment.
type Snapshot struct {
	// position after all steps that were read; a Follower continues the turn there, or waits for
	// the next one if Over is set
	Cursor  Cursor
	Turn    Turn // the last one
	Running bool // the agent works, or waits for a person
	Model   codeiumcommonpb.Model
}

// Read reads a whole conversation. Steps that are added or changed during Read may be missing.
func Read(ctx context.Context, r Reader, cascade string) (*Snapshot, error) {
	answer, err := r.Trajectory(ctx, cascade)
	if err != nil {
		return nil, err
	}
	o := observation(answer)
	for len(o.Steps) < o.Total {
		steps, err := r.Steps(ctx, cascade, len(o.Steps))
		if err != nil {
			return nil, err
		}
		if len(steps) == 0 {
			return nil, errIncomplete
		}
		o.Steps = append(o.Steps, steps...)
	}
	s, t := &Snapshot{Model: modelOf(o.Steps)}, NewTracker(Cursor{})
	for event := range t.Apply(o) {
		s.Turn.Take(event)
	}
	if t.overflows() {
		return nil, errTooMany
	}
	s.Running = o.Status > cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE || t.waits()
	s.Cursor = t.Cursor()
	return s, nil
}

// modelOf returns the model of the last message that names one.
func modelOf(steps []*geminicoder.Step) codeiumcommonpb.Model {
	for i := len(steps) - 1; i >= 0; i-- {
		c := steps[i].GetUserInput().GetUserConfig().GetPlannerConfig()
		if m := max(c.GetRequestedModel().GetModel(), c.GetPlanModel()); m > 0 {
			return m
		}
	}
	return 0
}

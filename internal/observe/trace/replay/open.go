package replay

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/observe/trace"
)

// settleTime is how long the files of a call that has ended may take to be complete.
const settleTime = 2 * time.Second

// Open returns the trace of a call. Files are written in the background: if the call ended a moment
// ago, Open waits until they are complete.
func Open(ctx context.Context, open func(id string) (*trace.Trace, error), call *perigee.TraceRow) (*trace.Trace, error) {
	ended := call.Time.Add(time.Duration(call.DurationMS * float64(time.Millisecond)))
	for {
		t, err := open(call.ID)
		complete := err == nil && (t.Meta.Outcome != perigee.OutcomeOpen || call.Outcome == perigee.OutcomeOpen)
		if complete || time.Since(ended) > settleTime || !perigee.Pause(ctx, 20*time.Millisecond) {
			return t, err
		}
	}
}

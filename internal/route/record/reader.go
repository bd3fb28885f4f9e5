package record

import (
	"context"
	"time"

	"perigee"
)

// flushTime is how long a listing waits for calls that are queued for the store. While the store
// fails they stay queued.
const flushTime = time.Second

// A Reader reads recorded calls, including calls that have just ended.
type Reader struct {
	Recorder *Recorder
	Store    interface {
		perigee.UsageReader
		perigee.CallReader
	}
}

// Usage returns the usage of the selected calls.
func (r Reader) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	r.flush(ctx)
	return r.Store.Usage(ctx, q)
}

// Calls returns the selected calls.
func (r Reader) Calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	r.flush(ctx)
	return r.Store.Calls(ctx, q)
}

func (r Reader) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	r.Recorder.Flush(ctx)
}

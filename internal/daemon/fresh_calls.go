package daemon

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/record"
	"perigee/internal/sqlstore"
)

// flushTime is how long a listing waits for calls that are queued for the store. While the store fails they stay queued.
const flushTime = time.Second

// freshCalls reads what is recorded, with the call that ended a moment ago.
type freshCalls struct {
	recorder *record.Recorder
	store    *sqlstore.Store
}

func (f freshCalls) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	f.flush(ctx)
	return f.store.Usage(ctx, q)
}

func (f freshCalls) Calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	f.flush(ctx)
	return f.store.Calls(ctx, q)
}

func (f freshCalls) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	f.recorder.Flush(ctx)
}

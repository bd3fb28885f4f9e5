package daemon

import (
	"context"
	"net/http"
	"time"

	"perigee"
	"perigee/internal/observe/trace/replay"
)

// Times of a replay that the dashboard has begun.
const (
	replayTime = 15 * time.Minute        // how long it may take
	replayWait = 1500 * time.Millisecond // how long the page waits for its first byte, which has its ID
)

// replay sends a call again. It returns the ID of the new one as soon as its answer begins; the ID
// is empty if that takes longer. The call continues when ctx ends, because a browser that goes to
// another page does not cancel it.
func (o *observers) replay(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayTime)
	stop := context.AfterFunc(o.drained, cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, replay.Path+id, nil)
	if err != nil {
		return "", perigee.Errorf(perigee.ClassInvalid, "this is not the ID of a call: %w", err)
	}
	begun, failed := make(chan string, 1), make(chan error, 1)
	o.replays.Go(func() {
		defer cancel()
		defer stop()
		if err := o.newReplays().Send(&discard{header: http.Header{}, started: begun}, r, id, replay.Change{}); err != nil {
			failed <- err
		}
	})
	select {
	case id := <-begun:
		return id, nil
	case err := <-failed:
		return "", err
	case <-time.After(replayWait):
		return "", nil
	}
}

// shrink looks for the smallest request that fails as a call did. Drain ends it, and waits until it
// has ended.
func (o *observers) shrink(ctx context.Context, id string, progress func(replay.Progress)) (*replay.Shrunk, error) {
	o.replays.Add(1)
	defer o.replays.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.drained, cancel)()
	return o.newReplays().Shrink(ctx, id, progress)
}

// A discard is a response that is not read, except for the ID of the call.
type discard struct {
	header  http.Header
	started chan<- string // has room for one
	wrote   bool
}

// Header returns the headers.
func (d *discard) Header() http.Header { return d.header }

// WriteHeader reports the ID.
func (d *discard) WriteHeader(int) {
	if !d.wrote {
		d.wrote = true
		d.started <- d.header.Get("X-Perigee-Call")
	}
}

func (d *discard) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	return len(p), nil
}

// Flush is for handlers that ask for an http.Flusher.
func (d *discard) Flush() {}

package find

import (
	"context"
	"iter"
	"slices"
	"time"

	"perigee"
	"perigee/internal/langserver/trajectory"
)

// Times of following.
const (
	switchAfter = 5 * time.Second // how long a reader may fail before the next one is tried
	giveUpAfter = time.Minute     // how long all of them may fail
	roundPause  = time.Second     // after all of them have failed
)

// Follow yields what happens in a conversation from the message of a match on, until the turn is over: the last event is
// trajectory.KindDone, or there is an error. It begins with the reader that has shown the message. When that fails, the next one
// continues where it was; nothing is reported twice.
func Follow(ctx context.Context, m Match, readers []trajectory.Reader) iter.Seq2[trajectory.Event, error] {
	return func(yield func(trajectory.Event, error) bool) {
		f := follower{readers: slices.Clone(readers), healthy: time.Now()}
		if m.Reader != nil {
			f.readers = slices.DeleteFunc(f.readers, func(r trajectory.Reader) bool { return same(r, m.Reader) })
			f.readers = slices.Insert(f.readers, 0, m.Reader)
		}
		f.Cascade, f.Cursor.First = m.Conversation, m.Step
		if err := f.run(ctx, yield); err != nil {
			yield(trajectory.Event{}, err)
		}
	}
}

// A follower follows a conversation with several readers.
type follower struct {
	trajectory.Follower
	readers []trajectory.Reader
	healthy time.Time // when a reader has certainly worked
}

// run returns nil at the end of the turn, or if the caller has left.
func (f *follower) run(ctx context.Context, yield func(trajectory.Event, error) bool) error {
	if len(f.readers) == 0 {
		return perigee.Errorf(perigee.ClassUnavailable, "conversation %s cannot be followed: %w", f.Cascade, errNoReader)
	}
	if len(f.readers) > 1 {
		f.Patience = switchAfter
	}
	for {
		gone := true
		var last error
		for _, reader := range f.readers {
			f.Reader = reader
			began := time.Now()
			err := f.events(ctx, yield)
			if err == nil || ctx.Err() != nil {
				return err
			}
			if time.Since(began) > 2*switchAfter { // it has worked for a while
				f.healthy = time.Now().Add(-switchAfter)
			}
			last, gone = err, gone && perigee.AsError(err).Class == perigee.ClassNotFound
		}
		if gone || len(f.readers) == 1 || time.Since(f.healthy) >= giveUpAfter || !perigee.Pause(ctx, roundPause) {
			return last
		}
	}
}

// events passes on what one reader shows.
func (f *follower) events(ctx context.Context, yield func(trajectory.Event, error) bool) error {
	for event, err := range f.Events(ctx) {
		if err != nil {
			return err
		}
		f.healthy = time.Now()
		if !yield(event, nil) {
			return nil
		}
	}
	return nil
}

// same reports whether two readers are one. Readers that cannot be compared are different.
func same(a, b trajectory.Reader) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}

package trajectory

import (
	"context"
	"iter"
	"sync"
	"time"

	"perigee"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// switchAfter is how long a reader may fail before the next one is used.
const switchAfter = 5 * time.Second

// Failover returns a reader of one conversation that uses first. When first has failed for five
// seconds, or does not have the conversation, the next one is used. The error is "not found" only
// if all readers return that.
func Failover(first Reader, rest []Reader) Reader {
	readers := []Reader{first}
	for _, r := range rest {
		if r != first {
			readers = append(readers, r)
		}
	}
	return &failover{readers: readers}
}

type failover struct {
	readers []Reader

	mu      sync.Mutex
	at      int       // index of the current reader
	failing time.Time // start of its failures; zero if it works
}

func (f *failover) Trajectory(ctx context.Context, id string) (
	answer *languageserverpb.GetCascadeTrajectoryResponse, err error) {
	err = f.read(func(r Reader) (err error) {
		answer, err = r.Trajectory(ctx, id)
		return err
	})
	return answer, err
}

func (f *failover) Steps(ctx context.Context, id string, offset int) (
	steps []*geminicoder.Step, err error) {
	err = f.read(func(r Reader) (err error) {
		steps, err = r.Steps(ctx, id, offset)
		return err
	})
	return steps, err
}

func (f *failover) Updates(ctx context.Context, id string) (
	updates iter.Seq2[*jetskicortexpb.AgentStateUpdate, error]) {
	return f.current().Updates(ctx, id)
}

func (f *failover) current() Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readers[f.at]
}

func (f *failover) read(from func(Reader) error) (err error) {
	for range f.readers {
		now := from(f.current())
		if !f.switches(now) {
			return now
		}
		if err == nil || perigee.AsError(now).Class != perigee.ClassNotFound {
			err = now
		}
	}
	return err
}

// switches processes the result of the current reader, and reports whether to use the next one.
func (f *failover) switches(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.failing = time.Time{}
		return false
	}
	if f.failing.IsZero() {
		f.failing = time.Now()
	}
	if perigee.AsError(err).Class != perigee.ClassNotFound && time.Since(f.failing) < switchAfter {
		return false
	}
	f.at, f.failing = (f.at+1)%len(f.readers), time.Time{}
	return true
}

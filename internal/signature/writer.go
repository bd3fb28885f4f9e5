package signature

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"perigee"
)

const (
	linger       = 50 * time.Millisecond // how long signatures gather before they are written together
	maxQueue     = 10_000                // signatures kept while the store fails
	maxWaiting   = 16 << 20              // bytes of them
	firstBackoff = time.Second           // after the store has failed; twice as long each time
	lastBackoff  = 30 * time.Second
)

// A writer is the one goroutine that writes signatures to the store.
type writer struct {
	store  perigee.SignatureStore
	logger *slog.Logger
	linger time.Duration

	mu     sync.Mutex
	queue  []perigee.Signature
	bytes  int // of the queue
	closed bool

	queued  int           // signatures that were ever put
	tried   int           // of these, how many the store was given, whether it took them or not
	failing bool          // it did not take the last
	news    chan struct{} // closed when tried changes

	wake    chan struct{} // holds one token when signatures may be waiting
	closing chan struct{}
	done    chan struct{}
	failure error           // of the store; the goroutine's until done
	ctx     context.Context // of the store's work
	giveUp  context.CancelFunc
}

func startWriter(store perigee.SignatureStore, opts Options) *writer {
	w := &writer{store: store, logger: opts.Logger, linger: linger, wake: make(chan struct{}, 1), news: make(chan struct{}), closing: make(chan struct{}), done: make(chan struct{})}
	if opts.Shared {
		w.linger = 0 // the next request of the conversation may come to somebody else in a moment
	}
	w.ctx, w.giveUp = context.WithCancel(context.Background())
	go w.run()
	return w
}

// put queues a signature and never waits for the store.
func (w *writer) put(s perigee.Signature) {
	w.mu.Lock()
	if !w.closed && len(w.queue) < maxQueue && w.bytes+size(s) <= maxWaiting {
		w.queue = append(w.queue, s)
		w.bytes += size(s)
		w.queued++
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// settle waits until the store was given what is queued now, but not for a store that fails.
func (w *writer) settle(ctx context.Context) {
	w.mu.Lock()
	until := w.queued
	for w.tried < until && !w.failing {
		news := w.news
		w.mu.Unlock()
		select {
		case <-news:
		case <-w.done:
			return
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
	}
	w.mu.Unlock()
}

// close writes what is waiting and ends the goroutine. It gives up when ctx ends.
func (w *writer) close(ctx context.Context) error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if first {
		close(w.closing)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	w.giveUp()
	<-w.done
	if w.failure != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "some signatures were not kept: %w", w.failure)
	}
	return nil
}

func (w *writer) run() {
	defer close(w.done)
	for open := true; open; {
		select {
		case <-w.wake:
			open = w.wait(w.linger)
		case <-w.closing:
			open = false
		}
		for backoff := firstBackoff; !w.write(); backoff = min(2*backoff, lastBackoff) {
			// Closing does not wait for the usual pace, nor does it try faster than the store can fail.
			if !w.wait(backoff) {
				open = false
				if !w.pause(firstBackoff / 10) {
					return
				}
			}
		}
	}
}

// wait waits for d and says whether the writer is to go on; closing cuts it short.
func (w *writer) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.closing:
		return false
	}
}

// pause waits for d, and returns false when the time to try is over.
func (w *writer) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// write writes what is waiting. What the store does not take waits on.
func (w *writer) write() (ok bool) {
	w.mu.Lock()
	batch, queued := w.queue, w.queued
	w.queue, w.bytes = nil, 0
	w.mu.Unlock()
	if len(batch) == 0 {
		return true
	}
	err := w.store.SaveSignatures(w.ctx, latest(batch))
	if err != nil {
		w.putBack(batch)
	}
	switch {
	case err != nil && w.failure == nil:
		w.logger.Warn("signatures cannot be kept for now", "error", err)
	case err == nil && w.failure != nil:
		w.logger.Info("signatures are kept again")
	}
	w.failure = err
	w.mu.Lock()
	w.tried, w.failing = queued, err != nil
	close(w.news)
	w.news = make(chan struct{})
	w.mu.Unlock()
	return err == nil
}

// putBack puts a batch before what has come since. Beyond the limits the oldest are given up.
func (w *writer) putBack(batch []perigee.Signature) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := append(batch, w.queue...)
	first, bytes := len(list), 0
	for first > 0 && len(list)-first < maxQueue && bytes+size(list[first-1]) <= maxWaiting {
		first--
		bytes += size(list[first])
	}
	w.queue, w.bytes = list[first:], bytes
}

// latest keeps the last signature of each key.
func latest(batch []perigee.Signature) []perigee.Signature {
	at := make(map[string]int, len(batch))
	var list []perigee.Signature
	for _, s := range batch {
		if i, ok := at[s.Key]; ok {
			list[i] = s
			continue
		}
		at[s.Key] = len(list)
		list = append(list, s)
	}
	return list
}

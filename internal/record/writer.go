package record

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"perigee"
)

// How long to wait after the store has failed: twice as long each time.
const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
)

// A writer is the one goroutine that writes rows to the store. It sleeps while there are none.
type writer struct {
	store  perigee.CallStore
	logger *slog.Logger
	linger time.Duration

	mu      sync.Mutex
	queue   queue
	writing int   // rows taken from the queue and not written yet
	failure error // of the store, since it began to fail
	stopped bool

	wake      chan struct{}      // holds one token when rows may be waiting
	hurry     chan chan struct{} // who cannot wait for the linger, and wants to know when it is done
	closeOnce sync.Once
	closing   chan struct{}
	done      chan struct{}
	ctx       context.Context // of the store's work; ends when Close gives up
	giveUp    context.CancelFunc

	// Used by the goroutine alone.
	hurried bool            // it knows that Close was called
	waiting []chan struct{} // from hurry, until the next batch
	rows    []*row
	calls   []perigee.Call
}

func startWriter(opts Options) *writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{
		store:   opts.Store,
		logger:  opts.Logger,
		linger:  opts.Linger,
		queue:   queue{limit: opts.Limit},
		wake:    make(chan struct{}, 1),
		hurry:   make(chan chan struct{}),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		ctx:     ctx,
		giveUp:  cancel,
	}
	go w.run()
	return w
}

// put queues a row and never waits for the store.
func (w *writer) put(r *row, call perigee.Call) {
	w.mu.Lock()
	if !w.stopped {
		w.queue.put(r, call)
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// flush waits until what is queued now has been written, or has been tried and refused.
func (w *writer) flush(ctx context.Context) {
	written := make(chan struct{})
	select {
	case w.hurry <- written:
	case <-w.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}

func (w *writer) close(ctx context.Context) error {
	w.closeOnce.Do(func() { close(w.closing) })
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	w.giveUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	missing := w.queue.size() + w.writing
	if missing == 0 {
		return nil
	}
	cause := w.failure
	if cause == nil {
		cause = context.Cause(ctx)
	}
	return perigee.Errorf(perigee.ClassUnavailable, "%d calls were not recorded: %w", missing+w.queue.lost, cause)
}

func (w *writer) run() {
	defer close(w.done)
	for w.waitForRows() {
		if !w.hurried && len(w.waiting) == 0 {
			w.wait(w.linger)
		}
		w.writeAll()
	}
}

// waitForRows returns true when rows may be waiting, and false when the writer is closed and has done its work.
func (w *writer) waitForRows() bool {
	select {
	case <-w.wake:
		if w.ctx.Err() == nil {
			return true
		}
	case written := <-w.hurry:
		w.waiting = append(w.waiting, written)
		return true
	case <-w.closing:
		w.hurried = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = w.queue.size() == 0 || w.ctx.Err() != nil
	return !w.stopped
}

// wait waits for d, until somebody is in a hurry, until Close is called, or until it gives up. Close interrupts only once: what the store
// refuses after that is tried again at the usual pace.
func (w *writer) wait(d time.Duration) {
	closing := w.closing
	if w.hurried {
		closing = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case written := <-w.hurry:
		w.waiting = append(w.waiting, written)
	case <-closing:
		w.hurried = true
	case <-w.ctx.Done():
	}
}

// writeAll writes what is waiting, and keeps trying until the store takes it or Close gives up.
func (w *writer) writeAll() {
	for backoff := firstBackoff; !w.writeBatch(); backoff = min(2*backoff, lastBackoff) {
		w.wait(backoff)
		if w.ctx.Err() != nil {
			return
		}
	}
}

func (w *writer) writeBatch() (ok bool) {
	defer w.tellWaiting()
	w.mu.Lock()
	w.rows, w.calls = w.queue.take(w.rows[:0], w.calls[:0])
	w.writing = len(w.rows)
	w.mu.Unlock()
	if len(w.rows) == 0 {
		return true
	}
	err := w.store.SaveCalls(w.ctx, w.calls)

	w.mu.Lock()
	w.writing = 0
	if err != nil {
		w.queue.putBack(w.rows)
	}
	before := w.failure
	w.failure = err
	waiting, lost := w.queue.size(), w.queue.lost
	if err == nil {
		w.queue.lost = 0
	}
	w.mu.Unlock()

	w.forgetBatch()
	w.logChange(before, err, waiting, lost)
	return err == nil
}

// tellWaiting lets those go on who waited for this batch.
func (w *writer) tellWaiting() {
	for _, written := range w.waiting {
		close(written)
	}
	w.waiting = w.waiting[:0]
}

// forgetBatch lets go of what was written, and of the room that a burst needed.
func (w *writer) forgetBatch() {
	const usual = 1024
	if cap(w.calls) > usual {
		w.rows, w.calls = nil, nil
		return
	}
	clear(w.rows)
	clear(w.calls)
}

// logChange says when the store begins to fail and when it works again, not each time that it fails.
func (w *writer) logChange(before, now error, waiting, lost int) {
	switch {
	case before == nil && now != nil && w.ctx.Err() == nil:
		w.logger.Warn("calls cannot be recorded for now", keyError, now, keyWaiting, waiting)
	case before != nil && now == nil:
		w.logger.Info("calls are recorded again", keyLost, lost)
	case now == nil && lost > 0:
		w.logger.Warn("more calls than could be recorded", keyLost, lost)
	}
}

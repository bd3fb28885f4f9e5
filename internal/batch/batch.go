// Package batch has rows written to a store in the background, many at a time, so that whoever has a row to write never
// waits for the store and never fails with it. One goroutine lets rows gather for a moment, writes them together, and when
// the store fails tries again, less and less often.
//
// What waits, in which order, and what is given up when there is too much of it, is the business of the queue that its owner
// brings. The recorder of calls and the memory of signatures are such owners.
package batch

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// How long to wait after the store has failed: twice as long each time.
const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
)

// A Queue is the rows that wait, with B for many of them. All its methods are called with the Writer's lock held.
type Queue[B any] interface {
	Size() int               // how many rows wait
	Take() B                 // takes all of them
	Done(batch B, err error) // the batch has been written, or with an error has not: then its rows wait again
	Lost() int               // how many were given up, since this was last asked, because too many waited
}

// Words are what is logged about the store.
type Words struct {
	Failing string // it has begun to fail
	Again   string // it takes rows again
	TooMany string // it works, and more rows came than could wait for it
}

// Options say what is written, and where to.
type Options[B any] struct {
	Queue  Queue[B]
	Save   func(ctx context.Context, batch B) error
	Linger time.Duration // how long rows gather before they are written together
	Words  Words
	Logger *slog.Logger // nil: silent
}

// A Writer is the one goroutine that writes. It sleeps while no rows wait.
type Writer[B any] struct {
	opts Options[B]

	mu      sync.Mutex // over the queue, too
	writing int        // rows taken from the queue and not written yet
	failure error      // of the store, since it began to fail
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
}

// Start returns a Writer that runs until Close.
func Start[B any](opts Options[B]) *Writer[B] {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Writer[B]{
		opts:    opts,
		wake:    make(chan struct{}, 1),
		hurry:   make(chan chan struct{}),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
	w.ctx, w.giveUp = context.WithCancel(context.Background())
	go w.run()
	return w
}

// Add changes the queue, and never waits for the store. After the Writer has ended there is nobody to write what is added, and
// nothing is changed.
func (w *Writer[B]) Add(change func()) {
	w.mu.Lock()
	if !w.stopped {
		change()
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Failing says whether the store has refused the last batch that it was given.
func (w *Writer[B]) Failing() bool { return w.Failure() != nil }

// Failure is why the store has refused the last batch that it was given; nil: it has not.
func (w *Writer[B]) Failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// Flush waits until what is queued now has been written, or has been tried and refused; or until ctx ends.
func (w *Writer[B]) Flush(ctx context.Context) {
	w.mu.Lock()
	idle := w.pending() == 0
	w.mu.Unlock()
	if idle {
		return
	}
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

// Close writes what is waiting and ends the Writer. While the store fails it keeps trying until ctx ends; then it returns how
// many rows are not written, those included that were given up before, and why.
func (w *Writer[B]) Close(ctx context.Context) (missing int, err error) {
	w.closeOnce.Do(func() { close(w.closing) })
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUp() // with the lock held: what the store says to that is not why
	w.stopped = true
	if missing = w.pending(); missing == 0 {
		return 0, nil
	}
	missing += w.opts.Queue.Lost()
	if w.failure != nil {
		return missing, w.failure
	}
	return missing, context.Cause(ctx)
}

// pending is how many rows are not written. The lock is held.
func (w *Writer[B]) pending() int { return w.opts.Queue.Size() + w.writing }

func (w *Writer[B]) run() {
	defer close(w.done)
	for w.waitForRows() {
		if !w.hurried && len(w.waiting) == 0 {
			w.wait(w.opts.Linger)
		}
		w.writeAll()
	}
}

// waitForRows returns true when rows may be waiting, and false when the Writer is closed and has done its work.
func (w *Writer[B]) waitForRows() bool {
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
	w.stopped = w.opts.Queue.Size() == 0 || w.ctx.Err() != nil
	return !w.stopped
}

// wait waits for d, until somebody is in a hurry, until Close is called, or until it gives up. Close interrupts only once,
// which is what the result says: what the store refuses after that is tried again at the usual pace.
func (w *Writer[B]) wait(d time.Duration) (closed bool) {
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
		return true
	case <-w.ctx.Done():
	}
	return false
}

// writeAll writes what is waiting, and keeps trying until the store takes it or Close gives up.
func (w *Writer[B]) writeAll() {
	for backoff := firstBackoff; !w.writeBatch(); backoff = min(2*backoff, lastBackoff) {
		if w.wait(backoff) {
			backoff = firstBackoff / 2 // there is not much time left, so it is tried as often as at first
		}
		if w.ctx.Err() != nil {
			return
		}
	}
}

func (w *Writer[B]) writeBatch() (ok bool) {
	defer w.tellWaiting()
	queue := w.opts.Queue
	w.mu.Lock()
	w.writing = queue.Size()
	if w.writing == 0 {
		w.mu.Unlock()
		return true
	}
	batch := queue.Take()
	w.mu.Unlock()
	err := w.opts.Save(w.ctx, batch)

	w.mu.Lock()
	w.writing = 0
	queue.Done(batch, err)
	before := w.failure
	w.failure = err
	waiting, lost := queue.Size(), 0
	if err == nil {
		lost = queue.Lost()
	}
	w.mu.Unlock()

	w.logChange(before, err, waiting, lost)
	return err == nil
}

// tellWaiting lets those go on who waited for this batch.
func (w *Writer[B]) tellWaiting() {
	for _, written := range w.waiting {
		close(written)
	}
	w.waiting = w.waiting[:0]
}

// logChange says when the store begins to fail and when it works again, not each time that it fails.
func (w *Writer[B]) logChange(before, now error, waiting, lost int) {
	log, words := w.opts.Logger, w.opts.Words
	switch {
	case before == nil && now != nil && w.ctx.Err() == nil:
		log.Warn(words.Failing, "error", now, "waiting", waiting)
	case before != nil && now == nil:
		log.Info(words.Again, "lost", lost)
	case now == nil && lost > 0:
		log.Warn(words.TooMany, "lost", lost)
	}
}

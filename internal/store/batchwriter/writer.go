// Package batchwriter writes rows to a store in the background, many at a time: a caller with a row
// to write neither waits for the store nor fails with it. Rows gather for a moment and are written
// in one batch. While the store fails, the batch is retried with exponential backoff, and the
// oldest rows beyond the limits are dropped, counted and logged.
package batchwriter

import (
	"cmp"
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"
)

// The delay after a failed batch: it doubles each time.
const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
)

// Options set the function that writes rows, and how many rows may wait for it.
type Options[V any] struct {
	Save       func(ctx context.Context, batch []V) error
	Rows       string        // the name of the rows in the log
	Linger     time.Duration // how long rows gather before they are written together
	MaxRows    int           // that wait; 0 for any number
	MaxBytes   int           // of the rows that wait, as Size counts them; 0 for any number
	Size       func(V) int   // nil if rows have no size
	Expendable func(V) bool  // true for rows that are dropped first; nil if there is none
	Logger     *slog.Logger  // nil discards all records
}

// A Writer writes rows in the order in which they were put, and of several rows with the same key
// that wait only the last. Its goroutine runs while rows wait.
type Writer[K comparable, V any] struct {
	opts Options[V]

	mu      sync.Mutex
	queue   queue[K, V]
	writing int   // rows taken from the queue and not written yet
	lost    int   // rows dropped since that was last logged
	failure error // of the last batch
	flushes []chan struct{}
	running chan struct{} // closed when the goroutine ends; nil if there is none
	closing bool
	stopped bool

	hurry  chan struct{}   // interrupts a wait of the goroutine
	ctx    context.Context // of the store's work; ends when Close gives up
	giveUp context.CancelFunc
}

// New returns a Writer. It holds nothing that has to be released, but only Close waits for rows
// that are not written.
func New[K comparable, V any](opts Options[V]) *Writer[K, V] {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Size == nil {
		opts.Size = func(V) int { return 0 }
	}
	if opts.Expendable == nil {
		opts.Expendable = func(V) bool { return false }
	}
	w := &Writer[K, V]{opts: opts, hurry: make(chan struct{}, 1), queue: queue[K, V]{rows: map[K]*list.Element{}}}
	w.ctx, w.giveUp = context.WithCancel(context.Background())
	return w
}

// Put queues a row, in place of one with the same key that waits, and never waits for the store.
// After Close it does nothing.
func (w *Writer[K, V]) Put(key K, value V) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	r := &row[K, V]{key: key, value: value, size: w.opts.Size(value), expendable: w.opts.Expendable(value)}
	w.queue.remove(key)
	if w.opts.MaxBytes > 0 && r.size > w.opts.MaxBytes {
		w.lost++
		return
	}
	w.queue.add(r)
	w.shrink()
	if w.running == nil {
		w.running = make(chan struct{})
		go w.run()
	}
}

// shrink drops the oldest rows beyond the limits.
func (w *Writer[K, V]) shrink() {
	for o := &w.opts; o.MaxRows > 0 && len(w.queue.rows) > o.MaxRows || o.MaxBytes > 0 && w.queue.bytes > o.MaxBytes; w.lost++ {
		w.queue.dropOne()
	}
}

// Failure returns why the store has refused the last batch; nil if it has not.
func (w *Writer[K, V]) Failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// Flush waits until the rows that wait now have been written, or have been tried and refused; or
// until ctx ends.
func (w *Writer[K, V]) Flush(ctx context.Context) {
	w.mu.Lock()
	if w.running == nil {
		w.mu.Unlock()
		return
	}
	tried := make(chan struct{})
	w.flushes = append(w.flushes, tried)
	w.mu.Unlock()
	w.interrupt()
	select {
	case <-tried:
	case <-ctx.Done():
	}
}

// Close writes the rows that wait and ends the Writer. While the store fails it keeps trying until
// ctx ends; then it returns how many rows are not written, dropped ones included, and why.
func (w *Writer[K, V]) Close(ctx context.Context) (missing int, err error) {
	w.mu.Lock()
	running := w.running
	w.closing = true
	w.stopped = w.stopped || running == nil
	w.mu.Unlock()
	if running != nil {
		w.interrupt()
		select {
		case <-running:
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUp() // with the lock held: the error that the store returns for that is not the cause
	w.stopped = true
	if missing = len(w.queue.rows) + w.writing; missing == 0 {
		return 0, nil
	}
	missing += w.lost
	w.lost = 0
	return missing, cmp.Or(w.failure, context.Cause(ctx))
}

func (w *Writer[K, V]) interrupt() {
	select {
	case w.hurry <- struct{}{}:
	default:
	}
}

func (w *Writer[K, V]) run() {
	var backoff time.Duration
	for closing := false; ; {
		if !closing || backoff > 0 {
			called := w.wait(cmp.Or(backoff, w.opts.Linger), closing)
			if called && !closing {
				backoff = 0 // there is not much time left, so it is tried as often as at first
			}
			closing = called
		}
		if w.ctx.Err() == nil && w.write() != nil {
			backoff = min(max(2*backoff, firstBackoff), lastBackoff)
		} else {
			backoff = 0
		}
		if w.end() {
			return
		}
	}
}

// wait waits for d, until Flush is called, until Close is called for the first time, or until it
// gives up. It reports whether Close was called.
func (w *Writer[K, V]) wait(d time.Duration, wasClosing bool) (closing bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		w.mu.Lock()
		closing = w.closing
		hurried := len(w.flushes) > 0 || closing && !wasClosing
		w.mu.Unlock()
		if hurried {
			return closing
		}
		select {
		case <-timer.C:
			return closing
		case <-w.ctx.Done():
			return closing
		case <-w.hurry:
		}
	}
}

// write tries to write the rows that wait, once.
func (w *Writer[K, V]) write() error {
	w.mu.Lock()
	batch, values := w.queue.take()
	flushes := w.flushes
	w.writing, w.flushes = len(batch), nil
	w.mu.Unlock()
	err := w.opts.Save(w.ctx, values)

	w.mu.Lock()
	w.writing = 0
	lost := 0
	if err != nil {
		w.queue.putBack(batch)
		w.shrink()
	} else {
		lost, w.lost = w.lost, 0
	}
	before := w.failure
	w.failure = err
	waiting := len(w.queue.rows)
	w.mu.Unlock()

	log := w.opts.Logger
	switch { // a change is logged, not each failure
	case before == nil && err != nil && w.ctx.Err() == nil:
		log.Warn(w.opts.Rows+" cannot be recorded for now", "error", err, "waiting", waiting)
	case before != nil && err == nil:
		log.Info(w.opts.Rows+" are recorded again", "lost", lost)
	case lost > 0:
		log.Warn(w.opts.Rows+" lost: more came than could be recorded", "lost", lost)
	}
	for _, tried := range flushes {
		close(tried)
	}
	return err
}

// end reports whether there is nothing to do for the goroutine, and then ends calls of Flush and
// Close that wait for it.
func (w *Writer[K, V]) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue.rows) > 0 && w.ctx.Err() == nil {
		return false
	}
	w.stopped = w.stopped || w.closing
	for _, tried := range w.flushes {
		close(tried)
	}
	w.flushes = nil
	close(w.running)
	w.running = nil
	return true
}

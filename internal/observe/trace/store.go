package trace

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/redact"
)

// Options are the directory and the limits of a Store.
type Options struct {
	Dir  string // of all traces; it is created when the first call is written
	Keep int64  // bytes of all files together; beyond it, the oldest calls are removed. 0 means none
	// MaxCalls is how many calls have a trace at most. 0 means 10,000.
	MaxCalls int
	Bodies   bool // if false, only meta.json, notes.json and error.json are written

	// Redactor returns a redactor of the currently known secrets. It is called for each write,
	// because secrets become known while a call runs, such as its access token.
	Redactor func() *redact.Redactor

	Now    func() time.Time
	Logger *slog.Logger

	// Share is the part of the processor time of the process that writing may use over time. Beyond
	// it, only calls that fail are written. 0 means 0.02; from 1 on there is no limit.
	Share float64

	// Memory counts the bytes that wait to be written. If it is nil, they are not counted.
	Memory perigee.MemoryLease
	// Queue returns how many bytes may wait to be written, if that is less than 64 MiB. It may be
	// nil.
	Queue func() int64

	// Free returns the free bytes on the disk of a directory, if known. If it is nil, the system is
	// asked.
	Free func(dir string) (bytes int64, known bool)
}

const (
	maxQueue   = 64 << 20              // bytes that wait to be written
	maxFile    = 64 << 20              // bytes of a file
	linger     = 50 * time.Millisecond // between the beginning or the end of a call and writing
	flushPause = time.Second           // between writes of an open call
	urgentSize = 256 << 10             // bytes of a call that are written before the pause is over
	warnPause  = time.Minute           // between two warnings of a kind
	maxBehind  = 64                    // calls that wait to be written and are not held
)

// A Store writes a directory for each call that it watches, from a goroutine of its own. It neither
// delays nor fails a call: data that cannot be written in time is left out, and meta.json lists it
// as truncated. While its processor time is used up, it holds calls in memory, and writes those that
// fail. Close it after the last call.
type Store struct {
	opts   Options
	keep   atomic.Int64
	bodies atomic.Bool
	queued atomic.Int64 // bytes of memory
	budget budget

	mu      sync.Mutex
	urgent  []*watcher              // to be written after linger
	behind  atomic.Int64            // the number of them
	large   atomic.Pointer[watcher] // the call beyond sampleSize that is over and to be written
	open    map[*watcher]bool       // to be written after flushPause
	pressed bool                    // the queue was half full
	closed  bool
	wake    chan struct{}
	flushes chan chan struct{} // requests of Flush; each channel is closed when the data is written
	done    chan struct{}      // closed when everything is written
	stop    context.CancelFunc

	disk  disk // of the writing goroutine
	ring  ring // the same
	space space
	low   atomic.Bool // the disk has less free space than Reserve

	warnings struct {
		sync.Mutex
		last map[string]time.Time
	}
	skipped atomic.Int64 // calls without a trace since the last warning
	lost    atomic.Int64 // all of them
}

// New returns a Store and begins to look through the directory.
func New(opts Options) *Store {
	if opts.Share <= 0 {
		opts.Share = defaultShare
	}
	s := &Store{opts: opts, open: map[*watcher]bool{}, wake: make(chan struct{}, 1), flushes: make(chan chan struct{}), done: make(chan struct{})}
	if opts.Free == nil {
		opts.Free = atomicfile.Free
	}
	s.disk.dir, s.space = opts.Dir, space{dir: opts.Dir, free: opts.Free}
	s.low.Store(s.space.lacks() > 0)
	s.budget.share, s.budget.sample = opts.Share, samplePause
	s.warnings.last = map[string]time.Time{}
	s.keep.Store(opts.Keep)
	s.bodies.Store(opts.Bodies)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	found := make(chan []*entry, 1)
	go func() { found <- list(ctx, opts.Dir) }()
	s.ring.scan, s.ring.max = found, cmp.Or(opts.MaxCalls, MaxCalls)
	go s.run(ctx)
	return s
}

// SetLimits changes Options.Keep and Options.Bodies. Bodies counts for calls that begin afterwards;
// with keep 0, all traces of calls that have ended are removed.
func (s *Store) SetLimits(keep int64, bodies bool) {
	s.keep.Store(keep)
	s.bodies.Store(bodies)
	s.wakeUp()
}

// Watch follows a call that begins. It returns nil if the call is not traced: traces.keep is 0, the
// Store is closed, the disk is almost full, or the call is a trial: hundreds of almost equal requests
// would push out the calls of clients.
func (s *Store) Watch(call *perigee.Call, origin *perigee.Origin) perigee.Watcher {
	if s.keep.Load() <= 0 || !isName(call.ID) || origin.Replay.Trial {
		return nil
	}
	if s.low.Load() {
		s.skip()
		return nil
	}
	w := newWatcher(s, call, origin)
	w.urgent = s.stage(0) == stagePlenty
	if !s.enqueue(w, w.urgent) {
		return nil
	}
	return w
}

// stage returns the stage for a call with so many bytes. If many calls wait to be written, nothing is
// left for further ones: the budget has not been charged for them yet.
func (s *Store) stage(size int64) stage {
	if s.behind.Load() >= maxBehind && s.opts.Share < 1 {
		return stageSpent
	}
	return s.budget.stage(size)
}

// skip counts a call that is not traced.
func (s *Store) skip() {
	s.skipped.Add(1)
	s.lost.Add(1)
}

// hold counts bytes of memory that wait to be written. It returns false if there are too many.
func (s *Store) hold(bytes int64) bool {
	queued := s.queued.Add(bytes)
	if queued > s.maxQueue() || s.opts.Memory != nil && s.opts.Memory.Grow(bytes) != nil {
		s.queued.Add(-bytes)
		return false
	}
	if half := s.maxQueue() / 2; queued > half && queued-bytes <= half {
		s.mu.Lock()
		s.pressed = true
		s.mu.Unlock()
		s.wakeUp()
	}
	return true
}

// release releases memory that hold has counted.
func (s *Store) release(p *pending) {
	s.queued.Add(-p.weight)
	if s.opts.Memory != nil {
		s.opts.Memory.Shrink(p.weight)
	}
	p.free()
}

func (s *Store) maxQueue() int64 {
	if s.opts.Queue == nil {
		return maxQueue
	}
	return min(maxQueue, s.opts.Queue())
}

// forget removes a call from the queue of open ones.
func (s *Store) forget(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, w)
}

// GiveWay drops a large call that has succeeded and waits to be written. It is called when a large
// body is about to arrive, which needs the memory.
func (s *Store) GiveWay() {
	w := s.large.Load()
	if w == nil || !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if !w.gone && w.over() && w.expendable() {
		w.discard()
	}
}

// Skipped is how many calls were not traced because that would have used too much of the processor
// or of the disk. Calls that have failed are among them only if the disk was almost full.
func (s *Store) Skipped() int64 { return s.lost.Load() }

// isName reports whether an ID can be a part of the name of a directory.
func isName(id string) bool {
	if id == "" || len(id) > 100 {
		return false
	}
	for _, c := range []byte(id) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// Close writes pending data, and waits for that until ctx ends. The traces of calls that are still
// open stay incomplete.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wakeUp()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.stop()
		return perigee.Errorf(perigee.ClassUnavailable, "some traces were not written: %w", context.Cause(ctx))
	}
}

// Flush waits until the data of calls so far is written, or until ctx ends.
func (s *Store) Flush(ctx context.Context) {
	written := make(chan struct{})
	select {
	case s.flushes <- written:
	case <-s.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-written:
	case <-s.done:
	case <-ctx.Done():
	}
}

// enqueue queues a call to be written: after linger if it is urgent, otherwise after flushPause. It
// returns false after Close.
func (s *Store) enqueue(w *watcher, urgent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if urgent {
		s.urgent = append(s.urgent, w)
		s.behind.Add(1)
		s.wakeUp()
	} else {
		s.open[w] = true
	}
	return true
}

func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take removes and returns the calls to write: the urgent ones, or all of them, the oldest first.
func (s *Store) take(all bool) (list []*watcher, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind.Store(0)
	if list, s.urgent = s.urgent, nil; all || s.closed || s.pressed {
		open := slices.SortedFunc(maps.Keys(s.open), func(a, b *watcher) int { return a.watched.Compare(b.watched) })
		list = append(list, open...)
		clear(s.open)
		s.pressed = false
	}
	return list, s.closed
}

// run writes until the Store is closed.
func (s *Store) run(ctx context.Context) {
	var background sync.WaitGroup
	defer close(s.done)
	defer background.Wait()
	defer s.stop()
	defer s.disk.close()
	clock, unlock := threadTime()
	defer unlock()
	s.budget.charged = clock()
	next := time.Now().Add(flushPause)
	for {
		timer := time.NewTimer(time.Until(next))
		var written chan struct{} // closed after this round
		select {
		case <-s.wake:
			if !s.isClosed() {
				written = s.linger(ctx)
			}
		case written = <-s.flushes:
		case <-timer.C:
		case found := <-s.ring.scan:
			older := s.ring.add(found)
			background.Go(func() { s.redactUnended(ctx, older) })
		case <-ctx.Done():
			return
		}
		timer.Stop()
		all := written != nil || time.Now().After(next)
		list, closed := s.take(all)
		began := clock()
		s.write(ctx, list, clock)
		if all {
			// Writing to all open calls may take long. Then it is done less often, so that the
			// share is kept.
			used := float64(clock() - began)
			next = time.Now().Add(max(flushPause, time.Duration(used/s.opts.Share)))
		}
		s.ring.trim(&s.disk, s.keep.Load, s.warn)
		s.makeRoom()
		s.budget.charge(clock())
		s.warnOfSkipped()
		if written != nil {
			close(written)
		}
		if closed {
			s.logSkipped()
			return
		}
	}
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// linger waits for more data of calls, or until Flush is called. written is the channel of Flush,
// or nil.
func (s *Store) linger(ctx context.Context) (written chan struct{}) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case written = <-s.flushes:
	case <-ctx.Done():
	}
	return written
}

// write writes the pending data of calls. clock is the processor time of this goroutine.
func (s *Store) write(ctx context.Context, list []*watcher, clock func() time.Duration) {
	redactor := s.opts.Redactor()
	for i, w := range list {
		if ctx.Err() != nil {
			return
		}
		w.flush(redactor, s.isClosed() || s.queued.Load() > s.maxQueue()/2)
		s.budget.charge(clock())
		if i%64 == 63 { // secrets may have become known meanwhile
			redactor = s.opts.Redactor()
			s.ring.trim(&s.disk, s.keep.Load, s.warn)
		}
	}
}

// warn logs a problem, at most once in a minute for each message.
func (s *Store) warn(message string, args ...any) {
	if s.mayWarn(message) {
		s.opts.Logger.Warn(message, args...)
	}
}

// mayWarn reports whether a message was not logged in the last minute, and counts it as logged.
func (s *Store) mayWarn(message string) bool {
	s.warnings.Lock()
	defer s.warnings.Unlock()
	now := s.opts.Now()
	if last, ok := s.warnings.last[message]; ok && now.Sub(last) < warnPause {
		return false
	}
	s.warnings.last[message] = now
	return true
}

// warnOfSkipped logs how many calls were not traced.
func (s *Store) warnOfSkipped() {
	if s.skipped.Load() > 0 && s.mayWarn(notTraced) {
		s.logSkipped()
	}
}

const notTraced = "calls not traced"

// logSkipped logs the calls that were not traced since the last time, and the reason now.
func (s *Store) logSkipped() {
	reason := "writing their traces would use too much of the processor or of memory"
	if s.low.Load() {
		reason = "the disk is almost full"
	}
	if n := s.skipped.Swap(0); n > 0 {
		s.opts.Logger.Warn(notTraced, "calls", n, "reason", reason)
	}
}

// Package membudget bounds the bytes that all open calls hold in memory together: bodies that are
// read, prompts that are decoded and encoded, answers that are collected. A call has a Lease, which
// grows before the memory is used. A lease that cannot grow is an error of class capacity, which
// the client gets as 503 with Retry-After, in place of a process that the system kills.
//
// Bytes are counted, not measured: package server and the upstreams estimate the peak memory of a
// body or an answer, and this package adds up the estimates.
package membudget

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"perigee"
)

// Base is the size of every lease: the memory of an open call or stream without its body and its
// answer (goroutines, buffers of two connections, the request's head), measured as 64 to 79 KB for
// an idle stream, and output that is buffered for a slow client.
const Base = 80 << 10

// Sizes of leases. Small ones may use the whole budget, medium ones seven eighths of it, larger
// ones three quarters. A quarter is thus left for calls with up to 1 MiB of body, whatever the
// large ones do, and an eighth for those with up to 100 KB.
const (
	small  = Base + 4*100<<10
	medium = Base + 4*1<<20
)

// retry is the Retry of errors. Large calls hold their memory for seconds, not for minutes.
const retry = 2 * time.Second

// A Budget limits the sum of all leases. It is safe for concurrent use. A nil Budget has no limit.
type Budget struct {
	size  atomic.Int64 // limits.memory
	used  atomic.Int64
	watch func(delta int64)
}

// New returns a budget for a process that may use size bytes in total. If watch is not nil, it is
// called with each change of the bytes that leases hold beyond Base.
func New(size int64, watch func(delta int64)) *Budget {
	b := &Budget{watch: watch}
	b.Resize(size)
	return b
}

// Resize changes the size. Leases keep their bytes; if these exceed the new size, no lease grows
// until enough is released.
func (b *Budget) Resize(size int64) { b.size.Store(size) }

// Size returns the number of bytes that the process may use, or 0 if there is no limit.
func (b *Budget) Size() int64 {
	if b == nil {
		return 0
	}
	return b.size.Load()
}

// capacity is how much of the size leases may have: three quarters. The remainder is for the
// program itself, idle connections, caches and garbage that has not been collected yet.
func (b *Budget) capacity() int64 { return b.size.Load() / 4 * 3 }

// MaxCall returns the largest number of bytes that one call reserves in advance: half of the
// capacity for leases. A larger call is admitted if no other large call is open, so that
// limits.memory bounds how many large calls run at once and not the size of one.
func (b *Budget) MaxCall() int64 { return b.capacity() / 2 }

// Used returns the number of bytes that all leases hold.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// bound is up to where a lease of that size may fill the budget.
func (b *Budget) bound(lease int64) int64 {
	capacity := b.capacity()
	switch {
	case lease <= small:
		return capacity
	case lease <= medium:
		return capacity / 8 * 7
	}
	return capacity / 4 * 3
}

// take adds n to the used bytes if the sum is within bound, and reports whether it was.
func (b *Budget) take(n, bound int64) bool {
	for {
		used := b.used.Load()
		if used+n > bound {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// A Lease is the part of a budget that one call holds. The zero value has no budget: it always
// grows, and nothing is counted.
type Lease struct {
	budget *Budget
	forced bool
	bytes  atomic.Int64
}

// Open takes Base for the lease, which the caller closes if there is no error. A forced lease grows
// whether or not the budget is used up: it is for the owner's commands, which have to work just
// then. Open does nothing if the lease is open already.
func (l *Lease) Open(b *Budget, forced bool) error {
	if b == nil || l.budget != nil {
		return nil
	}
	l.budget, l.forced = b, forced
	if !l.add(Base) {
		l.budget = nil
		return b.full(Base)
	}
	return nil
}

// Grow implements perigee.MemoryLease. It does nothing if bytes is not positive.
func (l *Lease) Grow(bytes int64) error {
	if l.budget == nil || bytes <= 0 {
		return nil
	}
	if !l.add(bytes) {
		return l.budget.full(bytes)
	}
	if watch := l.budget.watch; watch != nil {
		watch(bytes)
	}
	return nil
}

// Fits returns the error that Grow would return now, and reserves nothing.
func (l *Lease) Fits(bytes int64) error {
	if b := l.budget; b != nil && !l.forced && b.used.Load()+bytes > b.bound(l.bytes.Load()+bytes) {
		return b.full(bytes)
	}
	return nil
}

func (l *Lease) add(bytes int64) bool {
	b := l.budget
	if l.forced {
		b.used.Add(bytes)
	} else if !b.take(bytes, b.bound(l.bytes.Load()+bytes)) {
		return false
	}
	l.bytes.Add(bytes)
	return true
}

// Shrink implements perigee.MemoryLease. It does nothing if bytes is not positive, and never
// releases more than Grow has reserved.
func (l *Lease) Shrink(bytes int64) {
	if l.budget == nil {
		return
	}
	bytes = l.remove(bytes)
	if bytes <= 0 {
		return
	}
	l.budget.used.Add(-bytes)
	if watch := l.budget.watch; watch != nil {
		watch(-bytes)
	}
}

// remove subtracts bytes from the held ones, but never goes below Base. It returns the number
// subtracted.
func (l *Lease) remove(bytes int64) int64 {
	for {
		held := l.bytes.Load()
		n := min(bytes, held-Base)
		if n <= 0 || l.bytes.CompareAndSwap(held, held-n) {
			return n
		}
	}
}

// Close releases everything. The lease can be opened again.
func (l *Lease) Close() {
	if l.budget == nil {
		return
	}
	l.Shrink(l.bytes.Load() - Base)
	l.bytes.Store(0)
	l.budget.used.Add(-Base)
	l.budget = nil
}

// full is the error for bytes that do not fit.
func (b *Budget) full(bytes int64) error {
	e := perigee.Errorf(perigee.ClassCapacity, "perigee is out of memory for this call: it needs %s more of limits.memory (%s)",
		mib(bytes), mib(b.size.Load())).WithHint("try again in a moment, send less at once, or raise limits.memory")
	e.Status, e.Retry, e.Cause = http.StatusServiceUnavailable, retry, perigee.ErrNoMemory
	return e
}

// mib writes a number of bytes for an error message.
func mib(bytes int64) string {
	if bytes < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

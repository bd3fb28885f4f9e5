package perigee

import "errors"

// ErrNoMemory is the cause of an Error about limits.memory: what a call needs does not fit beside what the open calls hold. No
// other upstream or account can change that.
var ErrNoMemory = errors.New("limits.memory is used up")

// A MemoryLease is the part of the memory budget that one call has reserved. All methods may be called concurrently. What the
// lease has at the end of the call is released then.
type MemoryLease interface {
	// Grow reserves more bytes. The error is an *Error of class capacity with the cause ErrNoMemory, and nothing is reserved then.
	Grow(bytes int64) error
	// Shrink releases bytes that were reserved with Grow.
	Shrink(bytes int64)
}

// Reserve reserves bytes of the memory budget for what the call keeps beside its request: answers that are read in one piece or
// collected. A request without a lease always gets them.
func (o *Origin) Reserve(bytes int64) error {
	if o == nil || o.Memory == nil || bytes <= 0 {
		return nil
	}
	return o.Memory.Grow(bytes)
}

// Unreserve releases bytes before the call is over.
func (o *Origin) Unreserve(bytes int64) {
	if o != nil && o.Memory != nil && bytes > 0 {
		o.Memory.Shrink(bytes)
	}
}

// tallyStep is how many bytes a Tally lets gather before it reserves them.
const tallyStep = 64 << 10

// A Tally reserves memory for what grows in small steps, such as the text of an answer. Its zero value is ready.
type Tally struct{ pending, reserved int64 }

// Add counts bytes, and reserves them with those before once there are 64 KiB.
func (t *Tally) Add(o *Origin, bytes int64) error {
	if t.pending += bytes; t.pending < tallyStep {
		return nil
	}
	if err := o.Reserve(t.pending); err != nil {
		return err
	}
	t.reserved += t.pending
	t.pending = 0
	return nil
}

// Drop releases what was counted.
func (t *Tally) Drop(o *Origin) {
	o.Unreserve(t.reserved)
	*t = Tally{}
}

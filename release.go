package perigee

import "sync/atomic"

// memory is what the copies of a request know of the bytes and the prompt that they share. Only the goroutine that runs the
// request's stream uses it, except for keepers.
type memory struct {
	copies   []*Request
	hooks    []func()
	released bool
	keepers  atomic.Int32 // the request itself is one until it is released
}

// Release drops Body and Prompt of r and of all its copies, after the functions given to OnRelease have run. Routing calls it
// when the first content of a streamed answer has been passed on: from then on nothing is asked again, and an answer may go on
// for minutes. A stage that needs more of the request during the answer than it has in its own variables takes it in OnRelease.
func (r *Request) Release() {
	m := r.memory
	if m == nil || m.released {
		return
	}
	m.released = true
	for _, hook := range m.hooks {
		hook()
	}
	for _, c := range m.copies {
		c.Body, c.prompt = nil, nil
	}
	m.copies, m.hooks = nil, nil
	r.done()
}

// OnRelease has f called when the request is released, before its memory is used for something else. It is not called for a
// stream that ends before.
func (r *Request) OnRelease(f func()) {
	if m := r.memory; m != nil && !m.released {
		m.hooks = append(m.hooks, f)
	}
}

// Keep keeps the memory of Body from other uses until done is called, also after Release: it is for callers that hold on to
// parts of Body or of the prompt, which may alias it. At the end of the stream it is taken back in any case.
func (r *Request) Keep() (done func()) {
	m := r.memory
	if m == nil {
		return func() {}
	}
	m.keepers.Add(1)
	return r.done
}

// done ends the need of one keeper, in whichever goroutine it noticed.
func (r *Request) done() {
	if r.memory.keepers.Add(-1) == 0 && r.Free != nil {
		r.Free()
	}
}

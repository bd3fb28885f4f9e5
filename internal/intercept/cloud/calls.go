package cloud

import (
	"context"
	"net/http"
	"sync"

	"perigee"
	"perigee/internal/lib/lru"
	"perigee/internal/lib/rawjson"
)

// maxOwn is the maximum number of cascades recorded as started by perigee. The least recently used
// one is dropped.
const maxOwn = 4096

// Calls are the calls of perigee that wait until a language server sends a request that can carry
// them. The zero value is not ready for use.
type Calls struct {
	mu      sync.Mutex
	waiting map[string]*Expected      // by cascade
	own     lru.Map[string, struct{}] // cascades
}

// NewCalls returns Calls without any.
func NewCalls() *Calls {
	return &Calls{waiting: map[string]*Expected{}, own: lru.Map[string, struct{}]{MaxEntries: maxOwn}}
}

// Own records that perigee has started a cascade. Its agent requests that no call waits for are
// answered with an empty final text, and do not reach the cloud.
func (c *Calls) Own(cascade string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own.Put(cascade, struct{}{})
}

// IsOwn reports whether perigee has started a cascade.
func (c *Calls) IsOwn(cascade string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, own := c.own.Get(cascade)
	return own
}

// A Call is the request that perigee puts into the next agent request of a cascade.
type Call struct {
	Model   string // model in the envelope
	Request []byte // the JSON object `request`; it must not be changed after that
	// Sent is called with the whole body before it goes to the cloud. It must not change the body,
	// or block. It may be nil.
	Sent func(body []byte)
}

// Expect makes a call wait for the next agent request of a cascade, which from then on counts as
// started by perigee. Only one call can wait for each cascade: an earlier one that still waits
// fails.
//
// Waiting ends with ctx, with Cancel, or with the request; the stream of the provider ends with
// ctx, or with the Body.
func (c *Calls) Expect(ctx context.Context, cascade string, call Call) *Expected {
	e := &Expected{calls: c, cascade: cascade, call: call, caller: ctx, taken: make(chan struct{}), done: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(ctx)
	c.Own(cascade)
	if err := rawjson.Check(call.Request); err != nil || rawjson.NewCursor(call.Request).Kind() != rawjson.Object {
		e.fail(perigee.Errorf(perigee.ClassInternal, "the request for a language server is no JSON object: %v", err))
		return e
	}
	c.mu.Lock()
	before := c.waiting[cascade]
	c.waiting[cascade] = e
	c.mu.Unlock()
	if before != nil {
		before.fail(perigee.Errorf(perigee.ClassUnavailable, "another call of the same conversation of the language server took its place").WithHint("try again"))
	}
	context.AfterFunc(e.ctx, e.leave)
	return e
}

// take returns the call that waits for a request of a cascade, or nil if there is none. A call is
// returned once. own reports whether perigee has started the cascade.
func (c *Calls) take(cascade string) (call *Expected, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call = c.waiting[cascade]
	delete(c.waiting, cascade)
	if call != nil {
		close(call.taken)
	}
	_, own = c.own.Get(cascade)
	return call, own
}

// failOne fails the waiting call of a cascade, and reports whether perigee has started the
// cascade.
func (c *Calls) failOne(cascade string, err error) bool {
	c.mu.Lock()
	call := c.waiting[cascade]
	delete(c.waiting, cascade)
	_, own := c.own.Get(cascade)
	c.mu.Unlock()
	if call != nil {
		call.fail(err)
	}
	return call != nil || own
}

// doubt sets the error with which waiting calls fail if no request comes for them, and reports
// whether there are any.
func (c *Calls) doubt(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.waiting {
		call.setDoubt(err)
	}
	return len(c.waiting) > 0
}

// An Expected is a call that waits for a request of a language server, and then for the answer of
// the cloud.
type Expected struct {
	calls   *Calls
	cascade string
	call    Call
	caller  context.Context    // context of Expect
	ctx     context.Context    // ends with caller, or earlier
	cancel  context.CancelFunc // of ctx
	taken   chan struct{}
	done    chan struct{} // closed when answer or err is set

	mu       sync.Mutex
	answer   *answer
	err      error
	doubt    error // why no request may come
	received bool  // Wait has returned the answer
}

// Taken is closed when the language server has sent its request.
func (e *Expected) Taken() <-chan struct{} { return e.taken }

// Wait returns the answer of the cloud, with any status, as soon as its header has arrived. Errors
// are a *perigee.Error, or the error of the context.
//
// The Body is decoded. The caller must read it to its end or close it: reading it keeps the stream
// of the provider moving, and closing it before its end closes the stream of the provider and cuts
// off the language server.
func (e *Expected) Wait() (*http.Response, error) {
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil:
		return nil, e.err
	case !e.received && e.ctx.Err() != nil: // the answer came too late
		return nil, e.ctx.Err()
	}
	e.received = true
	return e.answer.response, nil
}

// Cancel ends the waiting. If the language server has sent requests that cannot be changed, Wait
// returns that error. After Wait has returned an answer, Cancel does nothing.
func (e *Expected) Cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.received {
		e.cancel()
	}
}

func (e *Expected) setDoubt(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doubt = err
}

// fail ends the call with the error that Wait returns. It does nothing if the call has an answer
// or another error.
func (e *Expected) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answer == nil && e.err == nil {
		e.err = err
		close(e.done)
		e.cancel()
	}
}

// deliver sets the answer that Wait returns. It returns false if the call has failed or was
// canceled.
func (e *Expected) deliver(a *answer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || e.ctx.Err() != nil {
		return false
	}
	e.answer = a
	close(e.done)
	return true
}

// leave is called when ctx has ended.
func (e *Expected) leave() {
	e.calls.mu.Lock()
	if e.calls.waiting[e.cascade] == e {
		delete(e.calls.waiting, e.cascade)
	}
	e.calls.mu.Unlock()
	e.mu.Lock()
	a, reason := e.answer, e.doubt
	e.mu.Unlock()
	if reason == nil || e.caller.Err() != nil {
		reason = e.ctx.Err()
	}
	e.fail(reason)
	if a != nil {
		a.abort()
	}
}

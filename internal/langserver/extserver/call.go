package extserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"perigee/internal/lib/lazyregexp"
)

// A call is a request on its way through the handlers. It is the ResponseWriter that they get, and
// keeps the start of the answer, for the code of a call that ends before its method is reached.
type call struct {
	http.ResponseWriter
	controller *http.ResponseController
	status     int
	head       []byte
	code       string // of a method that was reached

	mu    sync.Mutex
	ended bool
}

type callKey struct{}

// endSoon gives the answer a second to end. After that its connection is closed. net/http clears
// the deadline before the next request of the connection, so it must not be set after the end of
// the call.
func (c *call) endSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		_ = c.controller.SetWriteDeadline(time.Now().Add(endTimeout))
	}
}

// end ends the call.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// endSoon calls endSoon of the call that ctx belongs to.
func endSoon(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.endSoon()
	}
}

// Unwrap is used by http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Flush is used by connect, which requires http.Flusher.
func (c *call) Flush() { _ = c.controller.Flush() }

// WriteHeader records the status.
func (c *call) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

const maxCodeHead = 512

// Write records the start of the body.
func (c *call) Write(p []byte) (int, error) {
	c.head = append(c.head, p[:min(len(p), maxCodeHead-len(c.head))]...)
	return c.ResponseWriter.Write(p)
}

var codeMember = lazyregexp.New(`"code"\s*:\s*"([a-z_]+)"`)

// result returns the code that the caller got.
func (c *call) result(streaming bool) string {
	if c.code != "" {
		return c.code
	}
	failed := c.status >= 400 || streaming && len(c.head) > 0 && c.head[0]&2 != 0
	if !failed {
		return "ok"
	}
	if code := codeMember().FindSubmatch(c.head); code != nil {
		return string(code[1])
	}
	if c.status >= 400 {
		return strconv.Itoa(c.status)
	}
	return "ok"
}

// watch is the interceptor that records the result of a method.
type watch struct{}

func (watch) note(ctx context.Context, err error) {
	c, ok := ctx.Value(callKey{}).(*call)
	switch {
	case !ok:
	case err == nil:
		c.code = "ok"
	case errors.Is(err, context.DeadlineExceeded):
		c.code = connect.CodeDeadlineExceeded.String()
	case ctx.Err() != nil:
		c.code = connect.CodeCanceled.String()
	default:
		c.code = connect.CodeOf(err).String()
	}
}

// WrapUnary is part of connect.Interceptor.
func (n watch) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		n.note(ctx, err)
		return res, err
	}
}

// WrapStreamingClient is part of connect.Interceptor.
func (watch) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler is part of connect.Interceptor.
func (n watch) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		err := next(ctx, conn)
		n.note(ctx, err)
		return err
	}
}

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// resendWithin is how long after it was sent a request counts as one that met a connection which
// the server was closing. A server that closes the connection later has received the request, and
// has worked on it.
const resendWithin = time.Second

// RoundTrip sends a request. When its connection turns out to be dead before anything was received,
// the request is sent once more on a new connection. When nothing was received because its time is
// over, later requests use new connections.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	first := &attempt{}
	used := t.current.Load()
	resp, err := first.send(used, req)
	switch {
	case err == nil || first.received.Load() || !first.connected.Load():
		return resp, err
	case req.Context().Err() != nil:
		if timedOut(req.Context()) {
			t.renew(used)
		}
		return nil, err
	case !first.connectionLost(err, t.resendWithin):
		return nil, err
	}
	t.renew(used)
	again, ok := rewind(req)
	if !ok {
		return nil, err
	}
	if notify, ok := req.Context().Value(resendKey{}).(func(error)); ok {
		notify(err)
	}
	return new(attempt).send(t.current.Load(), again)
}

type resendKey struct{}

// OnResend returns a context for requests. f is called with the error of the connection before a
// request is sent once more, after the functions that ctx already has for that.
func OnResend(ctx context.Context, f func(error)) context.Context {
	if earlier, ok := ctx.Value(resendKey{}).(func(error)); ok {
		later := f
		f = func(err error) {
			earlier(err)
			later(err)
		}
	}
	return context.WithValue(ctx, resendKey{}, f)
}

// timedOut reports whether the request ended because the provider was silent for too long, and not
// because the client left.
func timedOut(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ErrFirstByte) || errors.Is(cause, context.DeadlineExceeded)
}

// rewind returns a request with its body at the start. ok is false if the body can be read once
// only.
func rewind(req *http.Request) (again *http.Request, ok bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again = req.WithContext(req.Context()) // a copy
	again.Body = body
	return again, true
}

// An attempt is one request on its way. net/http may move it from one connection to the next before
// anything is sent; the fields are about the last connection.
type attempt struct {
	connected atomic.Bool               // it has a connection
	reused    atomic.Bool               // which has carried other requests before
	received  atomic.Bool               // some of a response has come
	sent      atomic.Pointer[time.Time] // when all of the request was written; nil if it was not
}

// send sends the request. A handshake that took too long is an error of dialing: nothing has
// reached the server.
func (a *attempt) send(through *http.Transport, req *http.Request) (*http.Response, error) {
	resp, err := through.RoundTrip(a.watch(req))
	if err != nil && !a.connected.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("no handshake of the proxy or the server within %s: %w", connectTimeout, err)}
	}
	return resp, err
}

// watch returns a copy of the request that reports to the attempt.
func (a *attempt) watch(req *http.Request) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) {
			a.connected.Store(false)
			a.sent.Store(nil)
		},
		GotConn: func(info httptrace.GotConnInfo) {
			// The deadline of the handshake may still be set, also where net/http reports that the
			// connection was used before: it reports so for one that it dialed for a request that
			// was then sent on another. This fails if the connection is closed already.
			_ = info.Conn.SetDeadline(time.Time{})
			a.reused.Store(info.Reused)
			a.connected.Store(true)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				a.sent.Store(new(time.Now()))
			}
		},
		GotFirstResponseByte: func() { a.received.Store(true) },
	}))
}

// connectionLost reports whether an attempt that received nothing failed with its connection, and
// not because of the request. A new connection that the server closes at once does not count,
// because the request may be the reason, and neither does a reused one that it closes later than
// within after the request was sent. One that has died in silence always counts.
func (a *attempt) connectionLost(err error, within time.Duration) bool {
	if stream := (streamError{}); errors.As(err, &stream) {
		return false // the server refuses this request, on a connection that works
	}
	sent := a.sent.Load()
	return a.reused.Load() && (sent == nil || time.Since(*sent) <= within) || silent(err)
}

// streamError has the fields of net/http's own type, which it converts itself to in errors.As.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream error" }

// silent reports whether a connection has died because the peer did not react, neither to a ping or
// a probe nor to sent bytes.
func silent(err error) bool {
	for _, lost := range []error{os.ErrDeadlineExceeded, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return strings.Contains(err.Error(), "http2: client connection lost") // net/http has no name for it
}

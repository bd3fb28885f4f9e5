package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"perigee"
	"perigee/internal/intercept/mitm"
)

// carry forwards a request of the language server with a call of perigee in it, and gives the
// answer to both. It continues after the language server has left, and ends when the call does.
func (h *Handler) carry(w http.ResponseWriter, r *http.Request, call *Expected, body []byte) {
	out := h.outgoing(r, call.ctx, body)
	response, err := h.opts.Transport.RoundTrip(out)
	if err != nil {
		if call.ctx.Err() != nil {
			panic(http.ErrAbortHandler) // the client has left
		}
		e := perigee.Errorf(perigee.ClassUnavailable, "the language server's cloud cannot be reached: %w", err).WithHint("try again")
		e.Public = "the language server's cloud cannot be reached"
		call.fail(e)
		h.unreachable(w, r, err)
		return
	}
	decoder, err := NewDecoder(response.Header.Get("Content-Encoding"), response.Body)
	if err != nil { // although no compression was requested
		_ = response.Body.Close()
		err = fmt.Errorf("the cloud compressed its answer in a way that perigee does not read: %s", response.Header.Get("Content-Encoding"))
		call.fail(perigee.Errorf(perigee.ClassUnavailable, "%w", err).WithHint("try again"))
		h.unreachable(w, r, err)
		return
	}
	a := newAnswer(call, response, decoder)
	if !call.deliver(a) {
		a.abort()
	}
	h.opts.Logger.Debug("call carried", "cascade", call.cascade, "status", response.StatusCode)
	if err := a.serve(w, r); err != nil {
		level := slog.LevelDebug
		if errors.Is(err, errBehind) || errors.Is(err, errEventSize) {
			level = slog.LevelWarn
		}
		h.opts.Logger.Log(context.WithoutCancel(r.Context()), level, "language server cut off from an answer", "cascade", call.cascade, "error", err)
		panic(http.ErrAbortHandler) // not a clean end
	}
}

// outgoing returns the request that carries a call to the cloud: with the header of the language
// server's own request, and with the context of the call.
func (h *Handler) outgoing(r *http.Request, ctx context.Context, body []byte) *http.Request {
	out := r.Clone(callContext{Context: ctx, request: r.Context()})
	out.RequestURI, out.Close = "", false
	mitm.RemoveHopByHop(out.Header)
	out.Header.Del("Expect") // the body has been read already
	out.Header.Set("Accept-Encoding", "identity")
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // otherwise Go would set its own
	}
	setBody(out, body)
	return out
}

// A callContext ends with a call, and also has the values of a request of the language server,
// such as the destination of its connection.
type callContext struct {
	context.Context
	request context.Context
}

func (c callContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.request.Value(key)
}

// maxBacklog is the number of bytes by which the language server may be behind the client. Beyond
// that it is cut off.
const maxBacklog = 8 << 20

// lastWrites is the time for sending the end of an answer to the language server, after the client
// has all of it.
const lastWrites = time.Minute

// An answer is the answer of the cloud to a call. The client reads it at its own pace; bytes that
// it has read are kept for the language server, which follows.
type answer struct {
	call     *Expected
	response *http.Response // for the client; its Body is the answer itself
	source   io.ReadCloser  // of the provider
	decoded  io.Reader      // of source

	mu sync.Mutex
	// bytes that the client has read and the language server has not received
	backlog []byte
	// nil if more is to come, io.EOF at the end; otherwise the language server is cut off
	end  error
	wake chan struct{} // has an element after each change
	// for writes to the language server; nil if it has left, or has not been served yet
	deadline func(time.Time)
}

// newAnswer returns an answer. A nil decoder means that it is not compressed.
func newAnswer(call *Expected, response *http.Response, decoder io.Reader) *answer {
	a := &answer{call: call, source: response.Body, decoded: response.Body, wake: make(chan struct{}, 1)}
	c := *response
	if decoder != nil {
		a.decoded = decoder
		c.Header = c.Header.Clone()
		c.Header.Del("Content-Encoding")
		c.Header.Del("Content-Length")
		c.ContentLength, c.Uncompressed = -1, true
	}
	c.Body = a
	a.response = &c
	return a
}

// Read is called by the client. All bytes that it reads are kept for the language server.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.decoded.Read(p)
	a.keep(p[:n], err)
	if err != nil {
		// releases the context; the language server still gets the end of the answer
		a.call.cancel()
		_ = a.source.Close()
	}
	return n, err
}

// Close is called by the client. Before the end of the answer it closes the stream of the provider
// and cuts off the language server.
func (a *answer) Close() error {
	a.abort()
	a.call.cancel()
	return nil
}

func (a *answer) abort() {
	a.keep(nil, errLeft)
	_ = a.source.Close() // also ends a Read that waits
}

// Reasons why the language server is cut off.
var (
	errLeft   = errors.New("the client has left")
	errBehind = errors.New("the language server is too far behind")
)

// keep stores bytes for the language server, and the end of the answer.
func (a *answer) keep(p []byte, end error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end != nil {
		return
	}
	if a.end = end; len(a.backlog)+len(p) > maxBacklog {
		a.end = errBehind
	}
	if a.end == nil || a.end == io.EOF {
		a.backlog = append(a.backlog, p...)
	} else {
		a.backlog = nil
	}
	if a.deadline != nil && a.end != nil {
		a.deadline(a.lastWrite())
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// lastWrite returns the deadline for writes to the language server.
func (a *answer) lastWrite() time.Time {
	if a.end == io.EOF {
		return time.Now().Add(lastWrites)
	}
	return time.Now()
}

// next returns the next bytes for the language server, and the end if it has been reached. It
// reuses the memory of sent.
func (a *answer) next(sent []byte) (p []byte, end error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cap(sent) > 64<<10 {
		sent = nil // a quiet stream keeps little memory
	}
	p, a.backlog = a.backlog, sent[:0]
	return p, a.end
}

// serve sends the answer to the language server. It returns the reason if the language server has
// not received all of it.
func (a *answer) serve(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	a.attach(func(t time.Time) { _ = control.SetWriteDeadline(t) })
	defer a.detach() // w must not be used after that
	copier := newCopier(a.response, w)
	maps.Copy(w.Header(), a.response.Header)
	mitm.RemoveHopByHop(w.Header())
	if copier.kind != copyBytes {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(a.response.StatusCode)
	_ = control.Flush() // a failure shows with the first write
	var p []byte
	for {
		var end error
		p, end = a.next(p)
		if end != nil && end != io.EOF {
			return end
		}
		if err := copier.write(p, end == io.EOF); err != nil {
			return a.reason(err)
		}
		if err := control.Flush(); (len(p) > 0 || end == io.EOF) && err != nil {
			return a.reason(err)
		}
		if end == io.EOF {
			// the connection is reused; on HTTP/2 the end of the stream is still to be sent
			if r.ProtoMajor == 1 {
				_ = control.SetWriteDeadline(time.Time{})
			}
			return nil
		}
		select {
		case <-a.wake:
		case <-r.Context().Done(): // the client continues alone
			return r.Context().Err()
		}
	}
}

// reason returns the reason why a write to the language server has failed: it may have been cut
// off here.
func (a *answer) reason(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end != nil && a.end != io.EOF {
		return a.end
	}
	return err
}

func (a *answer) attach(deadline func(time.Time)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline = deadline
	if a.end != nil {
		deadline(a.lastWrite())
	}
}

// detach records that the language server needs no more bytes.
func (a *answer) detach() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline, a.backlog = nil, nil
	if a.end == nil {
		a.end = errBehind // no more bytes are kept
	}
}

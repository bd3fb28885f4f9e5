package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"perigee"
)

// A Body is the body of a call on its way to the provider, in pieces that do not have to be joined.
// The transport may continue to read it after it has returned the response, so the owner of the
// bytes waits until all readers are closed.
type Body struct {
	size    int64
	log     *perigee.CallLog
	tap     perigee.Tap     // nil if there is none
	memory  *perigee.Buffer // of the pieces; nil if a tap has to copy them
	carried bool            // the transport sends another body, with this one in it
	readers sync.WaitGroup

	mu     sync.Mutex
	pieces net.Buffers
	opened []*bodyReader
	open   int    // of those, the ones that are not closed
	idle   func() // if not nil, called when the last reader is closed
}

// NewBody returns a body of these pieces, which must not change before Wait has returned.
func NewBody(pieces ...[]byte) *Body {
	b := &Body{pieces: pieces}
	for _, p := range pieces {
		b.size += int64(len(p))
	}
	return b
}

// ShowTo records in the log of a call when the request is sent, and copies the bytes of the request
// and of the answer to its tap, if it has one.
func (b *Body) ShowTo(log *perigee.CallLog) *Body {
	b.log, b.tap = log, log.Tap()
	return b
}

// In sets the memory of the pieces, so that a RequestTap need not copy them.
func (b *Body) In(memory *perigee.Buffer) *Body {
	b.memory = memory
	return b
}

// Carried sets whether the transport puts the body into another one. If so, the transport calls
// Sent when it sends that.
func (b *Body) Carried(carried bool) *Body {
	b.carried = carried
	return b
}

type sentKey struct{}

// Sent is for the transport of a carried body: the call with this context was sent to the provider,
// with this body.
func Sent(ctx context.Context, body []byte) {
	if sent, ok := ctx.Value(sentKey{}).(func(...[]byte)); ok {
		sent(body)
	}
}

// Do sends a request with the body, which may be nil.
func (b *Body) Do(client *http.Client, req *http.Request) (*http.Response, error) {
	if b == nil {
		return client.Do(req)
	}
	b.Attach(req)
	endpoint := req.URL.Scheme + "://" + req.URL.Host
	sent := func(pieces ...[]byte) { b.sent(endpoint, pieces...) }
	if b.carried {
		req = req.WithContext(context.WithValue(req.Context(), sentKey{}, sent))
	} else {
		sent(b.bytes()...)
		if b.tap != nil {
			req = req.WithContext(OnResend(req.Context(), func(error) { sent(b.bytes()...) }))
		}
	}
	resp, err := client.Do(req)
	if err == nil && b.tap != nil {
		if tap, ok := b.tap.(perigee.AttemptTap); ok {
			tap.ProviderStatus(resp.StatusCode)
		}
		resp.Body = &tappedAnswer{resp.Body, b.tap}
	}
	return resp, err
}

// bytes returns the current pieces.
func (b *Body) bytes() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.pieces)
}

// sent notes that a request with these bytes is on its way to an endpoint. A request that is sent
// again is shown again.
func (b *Body) sent(endpoint string, pieces ...[]byte) {
	b.log.SetReached()
	if b.tap == nil {
		return
	}
	if tap, ok := b.tap.(perigee.RequestTap); ok && b.memory != nil && !b.carried {
		tap.Request(perigee.TapProviderRequest, b.memory, pieces...)
	} else {
		b.tap.Body(perigee.TapProviderRequest, pieces...)
	}
	if tap, ok := b.tap.(perigee.AttemptTap); ok {
		tap.ProviderEndpoint(endpoint)
	}
}

// A tappedAnswer copies the bytes that are read of an answer to a tap.
type tappedAnswer struct {
	io.ReadCloser
	tap perigee.Tap
}

func (a *tappedAnswer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.tap.Body(perigee.TapProviderAnswer, p[:n])
	}
	return n, err
}

// Attach makes the bytes the body of a request. The transport may open it more than once: it sends
// a request again when a connection turns out to have been closed before it was used.
func (b *Body) Attach(req *http.Request) {
	req.ContentLength = b.size
	req.GetBody = func() (io.ReadCloser, error) { return b.reader(), nil }
	req.Body = b.reader()
}

func (b *Body) reader() io.ReadCloser {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers.Add(1)
	b.open++
	r := &bodyReader{Buffers: slices.Clone(b.pieces), left: b.size, done: b.closed}
	b.opened = append(b.opened, r)
	return r
}

// closed counts a reader that is closed.
func (b *Body) closed() {
	b.mu.Lock()
	var idle func()
	if b.open--; b.open == 0 {
		idle, b.idle = b.idle, nil
	}
	b.mu.Unlock()
	if idle != nil {
		idle()
	}
	b.readers.Done()
}

// ReleaseWith drops the bytes when the request that they were made of is released: the response has
// begun by then, but net/http refers to the body for as long as it lasts. Bytes that the transport
// is still reading are kept until it has read them. Then free is called, but not for a body that
// Wait has ended before.
func (b *Body) ReleaseWith(req *perigee.Request, free func()) {
	req.OnRelease(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.pieces == nil {
			return
		}
		if b.pieces = nil; b.open == 0 {
			free()
			return
		}
		done := req.Keep()
		b.idle = func() {
			free()
			done()
		}
	})
}

// waitTime is how long Wait leaves the transport time to close its readers.
const waitTime = 5 * time.Second

// Wait returns when the transport has let go of the bytes. That is at once after an ordinary
// answer, and after a canceled call as soon as the transport has noticed. Readers that are still
// open after waitTime are closed: when an HTTP/2 connection is lost, net/http may open a body for a
// second try that it then does not make, and never close it.
func (b *Body) Wait() {
	b.mu.Lock()
	open := b.open
	b.mu.Unlock()
	if open > 0 {
		defer time.AfterFunc(waitTime, b.closeAll).Stop()
	}
	b.readers.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pieces = nil
}

func (b *Body) closeAll() {
	b.mu.Lock()
	opened := slices.Clone(b.opened)
	b.mu.Unlock()
	for _, r := range opened {
		_ = r.Close()
	}
}

type bodyReader struct {
	mu     sync.Mutex // HTTP/2 closes a body from one goroutine while another reads it
	closed bool
	net.Buffers
	left int64
	done func()
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := r.Buffers.Read(p)
	r.advance(int64(n))
	return n, err
}

// WriteTo writes the remaining bytes. To a TCP connection it writes them without copying them; for
// TLS many short pieces would be as many records, so they are copied together.
func (r *bodyReader) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if _, ok := w.(*net.TCPConn); ok || len(r.Buffers) <= fewPieces {
		n, err := r.Buffers.WriteTo(w)
		r.advance(n)
		return n, err
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	// Other methods are hidden, because io.CopyBuffer would call them instead.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{&r.Buffers}, *buf)
	r.advance(n)
	return n, err
}

// fewPieces is the number of pieces up to which each is written by itself.
const fewPieces = 3

// advance counts bytes that were read. After the last byte the bytes are not needed any more,
// although HTTP/2 closes a body only with its stream.
func (r *bodyReader) advance(n int64) {
	if r.left -= n; r.left == 0 {
		r.end()
	}
}

// end releases the bytes, once.
func (r *bodyReader) end() {
	if r.done != nil {
		r.done()
		r.done, r.Buffers = nil, nil
	}
}

func (r *bodyReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.end()
	return nil
}

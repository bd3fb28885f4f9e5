package wire

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// A Body is the body of a call on its way to the provider. The transport may go on reading it after it has
// returned the response, so whoever owns the bytes waits until all readers are closed.
type Body struct {
	bytes   []byte
	readers sync.WaitGroup
}

// NewBody returns a body of these bytes, which nobody may change before Wait has returned.
func NewBody(b []byte) *Body { return &Body{bytes: b} }

// Attach makes the bytes the body of a request. The transport may open it more than once: it sends a request again
// when a connection turns out to have been closed before it was used.
func (b *Body) Attach(req *http.Request) {
	req.ContentLength = int64(len(b.bytes))
	req.GetBody = func() (io.ReadCloser, error) { return b.open(), nil }
	req.Body = b.open()
}

func (b *Body) open() io.ReadCloser {
	b.readers.Add(1)
	r := &bodyReader{close: sync.OnceFunc(b.readers.Done)}
	r.Reset(b.bytes)
	return r
}

// Wait returns when the transport has let go of the bytes. That is at once after an ordinary answer, and after a
// canceled call as soon as the transport has noticed.
func (b *Body) Wait() { b.readers.Wait() }

type bodyReader struct {
	bytes.Reader
	close func()
}

func (r *bodyReader) Close() error {
	r.close()
	return nil
}

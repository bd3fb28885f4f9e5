package gemini

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// A sent is the body of a call on its way to the provider. The transport may go on reading it after it has
// returned the response, so whoever owns the bytes waits until all readers are closed.
type sent struct {
	body    []byte
	readers sync.WaitGroup
}

// attach makes the bytes the body of a request. The transport may open it more than once: it sends a request again
// when a connection turns out to have been closed before it was used.
func (s *sent) attach(req *http.Request) {
	req.ContentLength = int64(len(s.body))
	req.GetBody = func() (io.ReadCloser, error) { return s.open(), nil }
	req.Body = s.open()
}

func (s *sent) open() io.ReadCloser {
	s.readers.Add(1)
	r := &sentReader{close: sync.OnceFunc(s.readers.Done)}
	r.Reset(s.body)
	return r
}

// wait returns when the transport has let go of the bytes. That is at once after an ordinary answer, and after a
// canceled call as soon as the transport has noticed.
func (s *sent) wait() { s.readers.Wait() }

type sentReader struct {
	bytes.Reader
	close func()
}

func (r *sentReader) Close() error {
	r.close()
	return nil
}

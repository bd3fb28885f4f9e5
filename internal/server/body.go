package server

import (
	"io"
	"net/http"
	"time"

	"perigee/internal/server/reqbody"
)

// readBody reads the whole request body within the limits of size and time.
func (c *call) readBody() ([]byte, error) {
	limit, setting := c.maxBody()
	if c.r.ContentLength > limit {
		return nil, reqbody.TooLarge(limit, setting)
	}
	defer c.arrived()
	if err := c.admitBody(); err != nil {
		return nil, err
	}
	plain := io.Reader(http.MaxBytesReader(c.w, c.r.Body, limit))
	src, err := reqbody.Decompress(plain, c.r.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, reqbody.Explain(c.r.Context(), err, limit, setting)
	}
	control := http.NewResponseController(c.w)
	start := time.Now()
	announced := c.r.ContentLength
	if src != plain {
		announced = -1 // Content-Length is the compressed size
	}
	body, err := reqbody.Read(src, announced, limit, c.reserveBody, func(received int) {
		_ = control.SetReadDeadline(start.Add(c.opts.BodyGrace + reqbody.Time(received)))
	})
	if err != nil {
		return nil, reqbody.Explain(c.r.Context(), err, limit, setting)
	}
	c.bodyRead()
	if err := c.trackBytes(body); err != nil {
		return nil, err
	}
	return body, nil
}

// expectBody starts the time within which the body of a request must begin to arrive.
func (c *call) expectBody() {
	if c.r.ProtoMajor == 1 && len(c.r.TransferEncoding) > 0 {
		// It may have had a Content-Length as well, which net/http removes without a trace. RFC
		// 9112, 6.1, has the connection closed then: a proxy that went by the length would take the
		// rest for another request. The price is a new connection after each request in chunks.
		c.w.Header().Set("Connection", "close")
	}
	if c.r.ContentLength != 0 {
		c.unread = true
		// Not every writer supports deadlines; then there is no limit.
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(c.opts.BodyGrace))
	}
}

// linger reads the rest of a body that was refused while it was being sent. A client that waits for
// permission to send (100-continue) has not begun.
func (c *call) linger() {
	if c.unread && c.r.Header.Get("Expect") == "" {
		c.end() // nothing is kept of the call
		reqbody.Linger(c.w, c.r.Body)
	}
}

// bodyRead removes the read deadline. It would otherwise end the call, because net/http keeps
// reading to detect that the client disconnects.
func (c *call) bodyRead() {
	c.unread = false
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
}

// freeBody releases the memory of the call's body, once: when the request is released, or when the
// answer is complete. The memory is recycled when the trace of the call has released it, too.
// freeBody is not called for a call that panicked or that continues in the background.
func (c *call) freeBody() {
	if c.drop() != nil {
		c.buffer.Release()
	}
}

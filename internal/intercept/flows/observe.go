// Package flows records the requests that pass a proxy: one line per finished flow, and a HAR
// file. It changes nothing, and requests never wait for a recording.
//
// Recordings have no secrets: package redact replaces them before anything is written.
package flows

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee/internal/lib/redact"
)

// A Flow is a finished request with its answer, or a finished tunnel.
type Flow struct {
	Time          time.Time `json:"time"`
	Method        string    `json:"method"`
	URL           string    `json:"url"`            // without secrets; host:port of a tunnel
	Status        int       `json:"status"`         // 0 if there was no answer
	RequestBytes  int64     `json:"request_bytes"`  // bytes of the body on the wire
	ResponseBytes int64     `json:"response_bytes"` // bytes of the body on the wire
	FirstByteMS   float64   `json:"first_byte_ms"`  // until the head of the answer
	DurationMS    float64   `json:"duration_ms"`
	HTTP          string    `json:"http"` // the version on the client's side: HTTP/1.1 or HTTP/2.0
	Error         string    `json:"error,omitempty"`
}

// Options configure an Observer.
type Options struct {
	Next  http.Handler
	Lines *Lines
	HAR   *HAR // if nil, bodies are counted and not kept
	// requests leave through another proxy, so that the address of the connection is not the
	// server's
	Proxied bool
}

// An Observer is a handler that passes requests on to another one and records them.
type Observer struct {
	Options
	open sync.WaitGroup
}

// New returns an Observer.
func New(o Options) *Observer { return &Observer{Options: o} }

// ServeHTTP passes a request on. A panic of the next handler passes through, and is recorded as an
// error.
func (o *Observer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{began: time.Now()}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	if o.HAR != nil {
		x.memory = &o.HAR.memory
		x.requestHeader = r.Header.Clone()
		ctx = httptrace.WithClientTrace(ctx, x.trace(!o.Proxied))
	}
	seen := r.WithContext(ctx)
	// The transport recognizes an empty body by its identity.
	if r.Body != nil && r.Body != http.NoBody {
		seen.Body = &requestBody{r.Body, x}
	}
	o.open.Add(1)
	defer o.open.Done()
	returned := false
	defer func() { o.end(x, r, w.Header(), returned) }()
	o.Next.ServeHTTP(&responseWriter{w, x}, seen)
	returned = true
}

// Wait waits until no request is open, or the context ends.
func (o *Observer) Wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.open.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Tunnel records the end of a tunnel. Its bytes were not seen.
func (o *Observer) Tunnel(f Flow) {
	f.Method, f.HTTP = http.MethodConnect, "HTTP/1.1"
	o.Lines.add(f)
}

type exchangeKey struct{}

// SetError records why a request failed, for a handler that answers with an error of its own. ctx
// is the context of the request.
func SetError(ctx context.Context, err error) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok && err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.failure == nil {
			x.failure = err
		}
	}
}

// Errors of a flow for which the handler reported none.
var (
	// errClientGone is used whether the client or the proxy has ended the connection.
	errClientGone = errors.New("the connection of the client was closed")
	errCutOff     = errors.New("the answer was cut off")
)

func (o *Observer) end(x *exchange, r *http.Request, header http.Header, returned bool) {
	x.mu.Lock()
	x.ended = time.Now()
	if x.status == 0 && returned {
		x.answered(http.StatusOK, header) // net/http sends it
	}
	switch gone := r.Context().Err() != nil || x.writeFailed || errors.Is(x.failure, context.Canceled); {
	case gone && !x.complete(header):
		x.failure = errClientGone
	case x.failure == nil && !returned && !gone: // clients may leave as soon as they have all of the answer
		x.failure = errCutOff
	}
	if x.memory != nil {
		x.trailers(header)
	}
	x.closed = true // the transport may still read the body of the request
	x.mu.Unlock()

	x.flow = Flow{Time: x.began, Method: r.Method, URL: urlOf(r), Status: x.status, RequestBytes: x.request.size, ResponseBytes: x.response.size,
		DurationMS: milliseconds(x.ended.Sub(x.began)), HTTP: r.Proto}
	if !x.head.IsZero() {
		x.flow.FirstByteMS = milliseconds(x.head.Sub(x.began))
	}
	if x.failure != nil {
		x.flow.Error = string(redact.Content([]byte(x.failure.Error())))
	}
	o.Lines.add(x.flow)
	if o.HAR != nil {
		x.host, x.rawQuery = r.Host, r.URL.RawQuery
		_, x.fromPort, _ = net.SplitHostPort(r.RemoteAddr)
		o.HAR.add(x)
	}
}

// urlOf returns the absolute URL of a request, without secrets.
func urlOf(r *http.Request) string {
	u := *r.URL
	if u.Host == "" {
		u.Scheme, u.Host = "http", r.Host
		if r.TLS != nil {
			u.Scheme = "https"
		}
	}
	return redact.URL(&u)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// An exchange is a request and its answer while they pass. The body of the request may be read by
// another goroutine than the one that writes the answer, even after the answer has ended.
type exchange struct {
	began  time.Time
	memory *memory // for bodies; if nil, they are only counted

	requestHeader http.Header // header as received

	mu             sync.Mutex
	closed         bool // nothing more is recorded
	request        recording
	response       recording
	status         int
	responseHeader http.Header // header as sent
	trailer        http.Header
	failure        error
	writeFailed    bool
	head, ended    time.Time
	bodyRead       time.Time // the end of the body of the request
	steps          steps

	// The fields below are set after the end; all but flow are for the HAR file.
	flow                     Flow
	host, rawQuery, fromPort string
}

// answered records the head of the answer. The caller holds the lock.
func (x *exchange) answered(status int, header http.Header) {
	if x.status != 0 {
		return
	}
	x.status, x.head = status, time.Now()
	if x.memory != nil {
		x.responseHeader = header.Clone()
	}
}

// complete reports whether the client has the whole answer before the handler returns, so that it
// may close the connection. The caller holds the lock.
func (x *exchange) complete(header http.Header) bool {
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	return x.status != 0 && err == nil && length == x.response.size
}

// trailers records the headers that came after the head. The caller holds the lock.
func (x *exchange) trailers(header http.Header) {
	for name, values := range header {
		plain := http.CanonicalHeaderKey(strings.TrimPrefix(name, http.TrailerPrefix))
		if _, early := x.responseHeader[name]; early || x.status == 0 {
			continue
		}
		if x.trailer == nil {
			x.trailer = http.Header{}
		}
		x.trailer[plain] = slices.Clone(values)
	}
}

// A requestBody is the body of a request, recorded while it is read.
type requestBody struct {
	io.ReadCloser
	x *exchange
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if !b.x.closed {
		b.x.request.add(p[:n], b.x.memory)
		if err != nil && b.x.bodyRead.IsZero() {
			b.x.bodyRead = time.Now()
		}
	}
	return n, err
}

// A responseWriter writes an answer and records it. http.ResponseController reaches other methods
// through Unwrap.
type responseWriter struct {
	http.ResponseWriter
	x *exchange
}

func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *responseWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) begin(status int) {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	w.x.answered(status, w.Header())
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	w.x.response.add(p[:max(n, 0)], w.x.memory)
	w.x.writeFailed = w.x.writeFailed || err != nil && !errors.Is(err, http.ErrBodyNotAllowed)
	return n, err
}

// FlushError sends buffered bytes, and the head if it was not sent.
func (w *responseWriter) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is FlushError for callers that need an http.Flusher.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// Hijack hands over the connection, for an upgrade. Bytes that pass it from then on count as the
// body of the request and of the answer.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u := &upgradedConn{Conn: conn, x: w.x, from: conn}
	if n := buffered.Reader.Buffered(); n > 0 {
		u.from = io.MultiReader(io.LimitReader(buffered.Reader, int64(n)), conn)
	}
	return u, bufio.NewReadWriter(bufio.NewReader(u), bufio.NewWriter(u)), nil
}

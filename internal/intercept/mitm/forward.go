package mitm

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"perigee/internal/lib/redact"
)

// ForwarderOptions configure a forwarder.
type ForwarderOptions struct {
	Transport TransportOptions
	// RoundTripper sends the requests. If it is nil, NewTransport makes one from Transport.
	RoundTripper http.RoundTripper
	Silence      time.Duration // the longest time without a byte of the server; 15 min if 0
	Logger       *slog.Logger  // nil discards all messages
	// Failed answers a request that got no answer; AnswerFailed if nil. It is not called if the
	// client has left.
	Failed func(http.ResponseWriter, *http.Request, error)
	// Broken is called before an answer is cut off for the client because the server has cut it
	// off. It may be nil.
	Broken func(*http.Request, error)
}

// NewForwarder returns a handler that forwards requests to the host of their URL, and answers as
// they arrive. Paths, queries, headers and bodies are not changed, except for hop-by-hop headers
// (RFC 9110, 7.6.1) and Alt-Svc, which would make clients bypass the proxy. When the client
// leaves, the request to the server is canceled. An answer that breaks off breaks off for the
// client: the connection is cut, or the stream reset. If the transport cannot be made, for example
// because its CA file is missing, each request fails with that error; NewTransport returns it
// earlier.
func NewForwarder(opts ForwarderOptions) http.Handler {
	opts.Silence = cmp.Or(opts.Silence, 15*time.Minute)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	f := &forwarder{opts: opts, next: opts.RoundTripper}
	if f.next == nil {
		var err error
		if f.next, err = NewTransport(opts.Transport); err != nil {
			f.next = failing{err}
		}
	}
	if proxy := opts.Transport.Proxy; proxy != nil && proxy.Scheme == "http" {
		f.absolute = true
	}
	return f
}

// failing is a transport that always returns an error.
type failing struct{ err error }

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, f.err
}

type forwarder struct {
	opts     ForwarderOptions
	next     http.RoundTripper
	absolute bool // requests to http:// hosts have their whole URL in the first line
}

// CloseIdleConnections closes the connections that no request uses.
func (f *forwarder) CloseIdleConnections() {
	if closer, ok := f.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

var errSilence = errors.New("the server has sent nothing for too long")

// ServeHTTP forwards a request.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	silence := time.AfterFunc(f.opts.Silence, func() { cancel(errSilence) })
	defer silence.Stop()
	progress := func() { silence.Reset(f.opts.Silence) }
	early := &earlyAnswers{w: w}
	out := outgoing(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: early.got}), r)
	out.URL = f.exactURL(r)
	body := sourceOf(w, r, progress)
	if body != nil {
		out.Body, _ = body.attempt()
		out.GetBody = body.attempt
	}
	resp, err := f.next.RoundTrip(out)
	early.stop()
	if body != nil {
		body.answered()
		if r.ProtoMajor == 1 && !body.ended.Load() {
			// Bytes after a body that was not read to its end, or cannot be, are not another
			// request.
			w.Header().Set("Connection", "close")
		}
	}
	if err != nil {
		f.fail(w, r, causeOf(ctx, err))
		return
	}
	answer := resp.Body
	defer func() { _ = answer.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		silence.Stop()
		f.upgrade(w, r, resp)
		return
	}
	header := w.Header()
	copyAnswerHeader(header, resp.Header)
	announced := len(resp.Trailer)
	for name := range resp.Trailer {
		header.Add("Trailer", name)
	}
	w.WriteHeader(resp.StatusCode)
	err = copyAnswer(w, resp, progress)
	if err == nil {
		// A server that detects the end of its request may end its answer, and the answer may
		// still be readable.
		err = context.Cause(ctx)
	}
	if err != nil {
		if r.Context().Err() == nil {
			f.opts.Logger.Info("answer broken off", "url", redact.URL(r.URL), "error", causeOf(ctx, err))
			if f.opts.Broken != nil {
				f.opts.Broken(r, causeOf(ctx, err))
			}
		}
		panic(http.ErrAbortHandler)
	}
	_ = answer.Close() // now resp.Trailer is complete
	prefix := ""
	if len(resp.Trailer) > 0 {
		flush(w) // so that the answer is chunked
		if len(resp.Trailer) != announced {
			prefix = http.TrailerPrefix
		}
	}
	for name, values := range resp.Trailer {
		header[prefix+name] = values
	}
}

// causeOf returns the reason for which ctx was canceled here, or else err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilence) {
		return cause
	}
	return err
}

// outgoing returns the request to the server, without its body.
func outgoing(ctx context.Context, r *http.Request) *http.Request {
	out := r.WithContext(ctx)
	out.RequestURI, out.Close = "", false
	out.Header = requestHeader(r)
	out.Body, out.GetBody = nil, nil
	return out
}

// sourceOf returns the body of a request, or nil if it has none. Over HTTP/1.1 it can be read
// while the answer is written.
func sourceOf(w http.ResponseWriter, r *http.Request, progress func()) *source {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	return newSource(r, progress)
}

// exactURL returns the URL of a request, with the path exactly as the client wrote it: net/url
// escapes some characters that clients do not.
func (f *forwarder) exactURL(r *http.Request) *url.URL {
	u := *r.URL
	raw, ok := rawPath(r.RequestURI)
	if !ok || raw == u.EscapedPath() || strings.HasPrefix(raw, "//") {
		return &u
	}
	u.Opaque = raw
	if f.absolute && u.Scheme == "http" {
		u.Opaque = "//" + u.Host + raw
	}
	return &u
}

// rawPath returns the path in the first line of a request, in origin or absolute form.
func rawPath(uri string) (path string, ok bool) {
	path, _, _ = strings.Cut(uri, "?")
	if !strings.HasPrefix(path, "/") {
		_, rest, found := strings.Cut(path, "://")
		slash := strings.IndexByte(rest, '/')
		if !found || slash < 0 {
			return "", false
		}
		path = rest[slash:]
	}
	return path, true
}

// hopByHop are the headers that concern one connection.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade"}

func requestHeader(r *http.Request) http.Header {
	h := maps.Clone(r.Header)
	upgrade := upgradeOf(r.Header)
	trailers := hasToken(r.Header["Te"], "trailers")
	RemoveHopByHop(h)
	if trailers {
		h["Te"] = []string{"trailers"}
	}
	if upgrade != "" && r.ProtoMajor == 1 {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{upgrade}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // or net/http adds its own
	}
	return h
}

// RemoveHopByHop removes the headers that concern one connection (RFC 9110, 7.6.1) from the header
// of a message.
func RemoveHopByHop(h http.Header) {
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// upgradeOf returns the protocol that a message requests to change to, or "" if there is none.
func upgradeOf(h http.Header) string {
	if !hasToken(h["Connection"], "upgrade") {
		return ""
	}
	return h.Get("Upgrade")
}

func hasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(textproto.TrimString(part), token) {
				return true
			}
		}
	}
	return false
}

func copyAnswerHeader(dst, src http.Header) {
	RemoveHopByHop(src)
	delete(src, "Alt-Svc")
	maps.Copy(dst, src)
	// net/http adds these headers if they have no entry.
	for _, name := range []string{"Date", "Content-Type"} {
		if _, ok := src[name]; !ok {
			dst[name] = nil
		}
	}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copyAnswer copies the body of an answer, each part when it arrives.
func copyAnswer(w http.ResponseWriter, resp *http.Response, progress func()) error {
	if resp.Body == http.NoBody {
		return nil
	}
	flush(w) // the head; the body may be late
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := resp.Body.Read(*buf)
		if n > 0 {
			progress()
			if _, err := w.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			// so that the client sees an answer that breaks off, and not a connection that it may
			// reuse
			flush(w)
			return err
		}
		flush(w)
	}
}

func flush(w http.ResponseWriter) {
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
		return
	}
	_ = http.NewResponseController(w).Flush()
}

// earlyAnswers forwards informational answers (1xx), which arrive before the answer.
type earlyAnswers struct {
	w    http.ResponseWriter
	mu   sync.Mutex
	over bool
}

func (e *earlyAnswers) got(status int, header textproto.MIMEHeader) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || status == http.StatusContinue { // net/http sends it when the body is read
		return nil
	}
	h := e.w.Header()
	before := h.Clone()
	maps.Copy(h, header)
	e.w.WriteHeader(status)
	clear(h)
	maps.Copy(h, before)
	return nil
}

func (e *earlyAnswers) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
}

// fail answers a request that got no answer.
func (f *forwarder) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
	f.opts.Logger.Info("request not answered", "url", redact.URL(r.URL), "error", err)
	if f.opts.Failed != nil {
		f.opts.Failed(w, r, err)
		return
	}
	AnswerFailed(w, r, err)
}

// AnswerFailed answers a request that got no answer: 502 or 504 with the reason as text; 400 or
// 408 if its body could not be read.
func AnswerFailed(w http.ResponseWriter, r *http.Request, err error) {
	status, text := explain(r.URL.Host, err)
	refuse(w, status, text)
}

// explain returns the status and the text for a server that did not answer.
func explain(host string, err error) (status int, text string) {
	var (
		certificate *tls.CertificateVerificationError
		dns         *net.DNSError
	)
	switch {
	case errors.Is(err, ErrBody) && errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "the request body did not arrive in time"
	case errors.Is(err, ErrBody):
		return http.StatusBadRequest, err.Error()
	case errors.As(err, &certificate):
		return http.StatusBadGateway, "the certificate of " + host + " is not valid, so the proxy does not connect to it: " + certificate.Err.Error()
	case errors.As(err, &dns):
		return http.StatusBadGateway, "the name " + host + " cannot be resolved: " + err.Error()
	case isTimeout(err), errors.Is(err, errSilence):
		return http.StatusGatewayTimeout, host + " does not answer: " + err.Error()
	}
	return http.StatusBadGateway, "no answer from " + host + ": " + err.Error()
}

package cloud

import (
	"net/http"
	"strings"
	"time"

	"perigee"
)

// An OwnRequest is a request of the language server itself that is forwarded to the cloud.
type OwnRequest struct {
	Method  string // method of the cloud, in lower case
	Path    string
	Model   string         // empty if the request names none
	Cascade string         // of a request of the agent; otherwise empty
	Token   perigee.Secret // the access token
	// the body as sent, which must not be changed; nil if it was not read, because it is not JSON
	Request []byte

	began time.Time
}

// Generation reports whether the request calls a model, and whether it requests a stream.
func (p *OwnRequest) Generation() (asks, stream bool) {
	return isGeneration(p.Method), p.Method == "streamgeneratecontent"
}

// A Follower follows the answer to a request that is forwarded. The methods are called one after
// the other, by the goroutine that answers the language server, so they must not block.
type Follower interface {
	Answer(status int, header http.Header)
	Body(p []byte) // the next piece, as sent; it is valid during the call only
	// End marks the end of the answer. left means that the language server has not waited for it.
	End(left bool)
}

// follows reports whether requests to a method are followed.
func (h *Handler) follows(method string) bool {
	return h.opts.Follow != nil && method != "" && !isTelemetry(method)
}

// pass forwards a request of the language server.
func (h *Handler) pass(w http.ResponseWriter, r *http.Request, p *OwnRequest) {
	followed := &followedWriter{ResponseWriter: w}
	if h.follows(p.Method) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		p.Token = perigee.NewSecret(token)
		if followed.follower = h.opts.Follow(*p); followed.follower != nil {
			w = followed
		}
	}
	ended := false
	defer func() { // also when the answer is cut off by a panic
		h.opts.Logger.Debug("request of the language server passed on", "path", r.URL.Path, "model", p.Model, "status", followed.status, "took", time.Since(p.began))
		if followed.follower != nil {
			followed.follower.End(!ended || r.Context().Err() != nil)
		}
	}()
	h.next.ServeHTTP(w, r)
	ended = true
}

// A followedWriter passes an answer to a Follower after the language server got it.
type followedWriter struct {
	http.ResponseWriter
	follower Follower
	status   int
}

func (w *followedWriter) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status >= 200 && w.status == 0 {
		w.status = status
		w.follower.Answer(status, w.Header())
	}
}

func (w *followedWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.follower.Body(p[:n])
	return n, err
}

// Flush sends buffered bytes.
func (w *followedWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is used by http.ResponseController.
func (w *followedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

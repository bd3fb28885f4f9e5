package cloud

import (
	"net/http"
	"strings"
	"time"

	"perigee"
)

// An OwnRequest is a request of the language server itself that is passed on to the cloud.
type OwnRequest struct {
	Method  string // of the cloud, in lower case
	Path    string
	Model   string         // empty: the request names none
	Cascade string         // of a request of the agent; empty: it is none
	Token   perigee.Secret // the access token
	Request []byte         // the body as sent; nil: it was not read, because it is not JSON. It must not be changed

	began time.Time
}

// Generation reports whether the request asks a model, and whether for a stream.
func (p *OwnRequest) Generation() (asks, stream bool) {
	return isGeneration(p.Method), p.Method == "streamgeneratecontent"
}

// A Follower follows the answer to a request that is passed on. The methods are called one after
// the other, by the goroutine that answers the language server, so they must not wait.
type Follower interface {
	Answer(status int, header http.Header)
	Body(p []byte) // the next piece, as it was sent; it is valid during the call only
	// End says that there is no more. left: the language server has not waited for the end.
	End(left bool)
}

// follows reports whether requests to a method are followed.
func (h *Handler) follows(method string) bool {
	return h.opts.Follow != nil && method != "" && !isTelemetry(method)
}

// pass sends a request of the language server on.
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

// A followedWriter shows an answer to a Follower after the language server got it.
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

// Flush passes on what was written.
func (w *followedWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (w *followedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Package cloud answers the requests that a language server makes to its cloud: it forwards them,
// and puts calls of perigee into the ones that were made for them. It adds no credentials, so it
// is of no use to other programs.
//
// A call of perigee waits until the language server makes an agent request for a certain
// conversation ("cascade"). The envelope of that request is kept, its prompt is replaced by the
// prompt of the call, and the answer of the cloud goes to the call and, without tool calls, to the
// language server. All other requests are forwarded unchanged, with one exception: a language
// server learns its project once, from its first account. With the access token of another account
// the cloud refuses that project, so the project is replaced by the token's project.
package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"perigee"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/rawjson"
)

// Options configure a handler.
type Options struct {
	Calls *Calls // if nil, all requests are forwarded
	// sends the requests, without decompressing; the default of net/http if nil
	Transport http.RoundTripper
	// URL that all requests are sent to, with their path and query; empty for the host of their
	// own URL
	Cloud string
	// Failed answers a forwarded request that got no answer, as in mitm.ForwarderOptions. If it is
	// nil, the answer has the form of the cloud.
	Failed func(http.ResponseWriter, *http.Request, error)
	// Project returns the project of the account that has an access token. If it returns "" or is
	// nil, the request is not changed.
	Project func(token string) string
	// Own reports whether an access token was given to the language server. Only requests with
	// such a token can be the reason why calls fail that wait for another request. If it is nil,
	// all tokens count.
	Own func(token string) bool
	// Outdated reports whether a language server uses an access token that it should have replaced
	// by now. Its request then does not carry the call that waits for it; that call fails with
	// ErrOutdatedToken. If it is nil, no token is outdated.
	Outdated func(token string) bool
	// Follow is called for each request of the language server itself that is forwarded, except
	// telemetry. It returns the follower of the answer, or nil. It may be nil.
	Follow         func(OwnRequest) Follower
	LocalTelemetry bool // telemetry is answered here with an empty success
	Logger         *slog.Logger
}

// A Handler answers the requests of a language server to its cloud.
type Handler struct {
	opts  Options
	cloud *url.URL     // nil for the URL of the request
	next  http.Handler // forwards a request to the host of its URL
}

// New returns a handler.
func New(opts Options) (*Handler, error) {
	h := &Handler{opts: opts}
	h.opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Cloud != "" {
		cloud, err := url.Parse(opts.Cloud)
		if err != nil {
			return nil, fmt.Errorf("address of the cloud: %w", err)
		}
		h.cloud = cloud
	}
	if opts.Transport == nil {
		h.opts.Transport = http.DefaultTransport
	}
	forward := mitm.ForwarderOptions{
		RoundTripper: h.opts.Transport, Failed: opts.Failed, Logger: opts.Logger,
	}
	if opts.Failed == nil {
		forward.Failed, forward.Logger = h.unreachable, nil // it logs errors itself
	}
	h.next = mitm.NewForwarder(forward)
	return h, nil
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(r.Context()) // a copy, which may be changed
	h.aim(r)
	if r.URL.Host == "" {
		writeError(w, http.StatusBadRequest, "the request does not say for which host it is")
		return
	}
	h.serve(w, r)
}

// aim makes the URL of a request absolute.
func (h *Handler) aim(r *http.Request) {
	if h.cloud == nil {
		return
	}
	to := *h.cloud
	to.Path = strings.TrimSuffix(to.Path, "/") + r.URL.Path
	to.RawPath = ""
	if r.URL.RawPath != "" {
		to.RawPath = strings.TrimSuffix(h.cloud.EscapedPath(), "/") + r.URL.RawPath
	}
	to.RawQuery, to.ForceQuery = r.URL.RawQuery, r.URL.ForceQuery
	r.URL, r.Host = &to, to.Host
	r.RequestURI = "" // it has the old path
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	method := methodOf(r)
	if h.opts.LocalTelemetry && isTelemetry(method) && answerTelemetry(w, r) {
		return
	}
	p := &OwnRequest{Method: method, Path: r.URL.Path, began: time.Now()}
	generation := h.opts.Calls != nil && isGeneration(method)
	if generation && !isJSON(r) {
		h.doubt(r, "the language server calls models in a format that perigee cannot change")
		generation = false
	}
	project := h.projectOf(r)
	if !generation && project == "" && !(h.follows(method) && isJSON(r)) {
		h.pass(w, r, p)
		return
	}
	text, err := readBody(r)
	var e envelope
	if err == nil {
		e, err = openEnvelope(text)
	}
	if err != nil {
		if generation && h.unreadable(r, text, err) || errors.Is(err, errBrokeOff) {
			writeError(w, http.StatusBadRequest, err.Error())
			return
		}
		h.pass(w, r, p)
		return
	}
	p.Model, p.Request = e.modelName(), text
	edits := e.fitProject(project)
	if len(edits) > 0 {
		h.opts.Logger.Debug("project of a call replaced", "path", r.URL.Path, "project", project)
	}
	if generation {
		if p.Cascade = e.cascade(); p.Cascade != "" && h.serveOwn(w, r, e, edits) {
			return
		}
	}
	if len(edits) > 0 {
		p.Request = e.splice(edits...)
		setBody(r, p.Request)
	}
	h.pass(w, r, p)
}

// serveOwn answers an agent request of a cascade that perigee has started. It returns false if
// perigee has not started it.
func (h *Handler) serveOwn(
	w http.ResponseWriter, r *http.Request, e envelope, edits []rawjson.Edit,
) bool {
	cascade := e.cascade()
	if h.outdated(r) && h.opts.Calls.failOne(cascade, errOutdated) {
		writeError(w, http.StatusServiceUnavailable, "the access token has been replaced")
		return true
	}
	call, own := h.opts.Calls.take(cascade)
	switch {
	case call != nil:
		body := e.splice(append(edits, e.carry(call.call)...)...)
		call.call.Request = nil // the project is in the body
		if call.call.Sent != nil {
			call.call.Sent(body)
		}
		h.carry(w, r, call, body)
	case own:
		h.opts.Logger.Debug("request of a language server that no call waits for answered with nothing", "cascade", cascade)
		answerNothing(w, r, &e)
	default:
		return false
	}
	return true
}

// unreadable fails the call that a request was for, as far as the request shows which one. It
// returns true if the request must not be forwarded.
func (h *Handler) unreadable(r *http.Request, text []byte, err error) bool {
	if errors.Is(err, errEncoding) {
		h.doubt(r, "the language server compresses its requests in a way that perigee does not read")
		return false
	}
	failure := perigee.Errorf(perigee.ClassUnavailable, "the language server sent a request that perigee cannot read: %w", err).WithHint("try again")
	cascade := guessCascade(text)
	if cascade == "" && errors.Is(err, errCompressed) { // it could be for any of them
		return h.isOwn(r) && h.opts.Calls.doubt(failure)
	}
	return h.opts.Calls.failOne(cascade, failure)
}

// formatHint is the hint for a language server with requests that cannot be changed.
const formatHint = "no setting of the language server or of perigee changes that: install another version of it and name that in binary, " +
	"or use an upstream of kind antigravity; attach: true works with any version, for text only"

// doubt records why the waiting calls may get no request: the requests of the language server
// cannot be changed. They are forwarded unchanged. A call fails with that reason if the language
// server ends its turn, or the call its waiting, without a request for it.
func (h *Handler) doubt(r *http.Request, why string) {
	kind, encoding := r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding")
	err := perigee.Errorf(perigee.ClassUnimplemented, "%s (%s)", why, strings.TrimSpace(kind+" "+encoding)).WithHint(formatHint)
	if h.isOwn(r) && h.opts.Calls.doubt(err) {
		h.opts.Logger.Warn("requests of the language server cannot be changed", "content_type", kind, "content_encoding", encoding)
	}
}

// isOwn reports whether a request comes from the language server, by its access token.
func (h *Handler) isOwn(r *http.Request) bool {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return h.opts.Own == nil || h.opts.Own(token)
}

// ErrOutdatedToken is in the error of a call for which the language server has used an access
// token that it should have replaced. The cloud was not called, and the language server will have
// the new token in a moment.
var ErrOutdatedToken = errors.New("outdated access token")

var errOutdated = perigee.Errorf(perigee.ClassUnavailable, "the language server does not use the account that it has been given: %w", ErrOutdatedToken).
	WithHint("try again")

func (h *Handler) outdated(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && h.opts.Outdated != nil && h.opts.Outdated(token)
}

// projectOf returns the project of the account that has the access token of a request. It returns
// "" if the request is not to be changed.
func (h *Handler) projectOf(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || h.opts.Project == nil || r.Method != http.MethodPost || !isJSON(r) {
		return ""
	}
	return h.opts.Project(token)
}

// unreachable answers a request that did not reach the cloud, in the form of the cloud's errors.
func (h *Handler) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the language server has left
	}
	if errors.Is(err, mitm.ErrBody) {
		writeError(w, http.StatusBadRequest, errBrokeOff.Error()+": "+err.Error())
		return
	}
	h.opts.Logger.Warn("cloud of the language server not reached", "path", r.URL.Path, "error", err)
	writeError(w, http.StatusServiceUnavailable, "perigee could not reach "+r.URL.Scheme+"://"+r.URL.Host+": "+err.Error())
}

// writeError answers with an error in the form of the cloud.
func writeError(w http.ResponseWriter, status int, message string) {
	name := "UNAVAILABLE"
	if status == http.StatusBadRequest {
		name = "INVALID_ARGUMENT"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%s,"status":"%s"}}`, status, rawjson.AppendString(nil, message), name)
}

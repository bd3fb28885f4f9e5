package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/responses"
)

// statusClientGone is what proxies log when the client left before the answer; nobody sees it.
const statusClientGone = 499

// statuses are the HTTP statuses of the classes.
var statuses = map[perigee.Class]int{
	perigee.ClassInvalid:         http.StatusBadRequest,
	perigee.ClassUnauthenticated: http.StatusForbidden, // perigee's own credentials; the client's are errBadKey
	perigee.ClassForbidden:       http.StatusForbidden,
	perigee.ClassNotFound:        http.StatusNotFound,
	perigee.ClassExhausted:       http.StatusTooManyRequests,
	perigee.ClassRateLimited:     http.StatusTooManyRequests,
	perigee.ClassCapacity:        http.StatusServiceUnavailable,
	perigee.ClassIdentity:        http.StatusForbidden,
	perigee.ClassVerification:    http.StatusForbidden,
	perigee.ClassCanceled:        statusClientGone,
	perigee.ClassUnavailable:     http.StatusServiceUnavailable,
	perigee.ClassUnimplemented:   http.StatusNotImplemented,
	perigee.ClassInternal:        http.StatusInternalServerError,
}

// peculiar are the statuses that a dialect has of its own.
var peculiar = map[perigee.Dialect]map[perigee.Class]int{
	perigee.DialectAnthropic: {perigee.ClassCapacity: 529},
}

// exact are the statuses that say more than the class of the error does, and are passed on.
var exact = map[int]bool{
	http.StatusMethodNotAllowed:            true,
	http.StatusRequestTimeout:              true,
	http.StatusRequestEntityTooLarge:       true,
	http.StatusUnsupportedMediaType:        true,
	http.StatusUpgradeRequired:             true,
	http.StatusRequestHeaderFieldsTooLarge: true,
	http.StatusInternalServerError:         true,
	http.StatusBadGateway:                  true,
	http.StatusGatewayTimeout:              true,
}

func statusOf(d perigee.Dialect, e *perigee.Error) int {
	if errors.Is(e, errBadKey) {
		return http.StatusUnauthorized
	}
	if errors.Is(e, perigee.ErrNoMemory) {
		return http.StatusServiceUnavailable // of perigee itself, in every dialect
	}
	if status, ok := peculiar[d][e.Class]; ok {
		return status
	}
	if exact[e.Status] {
		return e.Status
	}
	if status, ok := statuses[e.Class]; ok {
		return status
	}
	return http.StatusInternalServerError
}

var encodeError = map[perigee.Dialect]func(status int, err *perigee.Error) []byte{
	perigee.DialectGemini:          gemini.EncodeError,
	perigee.DialectOpenAIChat:      openai.EncodeError,
	perigee.DialectOpenAIResponses: responses.EncodeError,
}

// errorBody is an error in the shape of the dialect that was called.
func (c *call) errorBody(status int, e *perigee.Error) []byte {
	if c.dialect == perigee.DialectAnthropic {
		return anthropic.EncodeError(status, e, c.id)
	}
	return encodeError[c.dialect](status, e)
}

// requestIDs are the headers in which the official libraries look for the name of a request, to show it with an error.
var requestIDs = map[perigee.Dialect]string{
	perigee.DialectOpenAIChat:      "X-Request-Id",
	perigee.DialectOpenAIResponses: "X-Request-Id",
	perigee.DialectAnthropic:       "Request-Id",
}

// nameRequest sets that header.
func (c *call) nameRequest() {
	if header := requestIDs[c.dialect]; header != "" && strings.HasPrefix(c.path, "/v1/") {
		c.w.Header().Set(header, anthropic.RequestID(c.id))
	}
}

// fail answers with an error, in the shape of the dialect that was called.
func (c *call) fail(err error) {
	status, e := c.refusal(err)
	body := c.errorBody(status, e)
	if c.array {
		body = slices.Concat([]byte("["), body, []byte("]"))
	}
	c.writeJSON(status, body)
	if status != http.StatusRequestTimeout {
		c.linger()
	}
}

// refusal is what a client is told of an error. It sets the headers that belong to it, and logs it.
func (c *call) refusal(err error) (status int, e *perigee.Error) {
	e = c.trouble(err)
	status = statusOf(c.dialect, e)
	h := c.w.Header()
	if c.unread && c.r.ProtoMajor == 1 {
		h.Set("Connection", "close") // net/http would wait for the rest of the body before it answers
	}
	c.describe(e.Upstream, e.Model)
	h.Set("X-Perigee-Class", string(e.Class))
	if status == http.StatusTooManyRequests || e.Retry > 0 {
		h.Set("Retry-After", retryAfter(e))
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="perigee"`)
	}
	c.logRefusal(status, e)
	return status, e
}

// logRefusal logs a refusal, unless there is a line about it already.
func (c *call) logRefusal(status int, e *perigee.Error) {
	path, message := c.path, e.Message
	if c.opts.Redact != nil {
		path, message = c.opts.Redact(path), c.opts.Redact(message)
	}
	about := []any{"call", c.id, "method", shorten(c.r.Method), "path", shorten(path), "status", status, "class", e.Class, "error", message}
	if !c.known {
		c.failed.refused(addressOf(c.r), about...)
		return
	}
	level := slog.LevelInfo
	if c.asked || c.record(e, status) {
		level = slog.LevelDebug
	}
	c.opts.Logger.Log(c.r.Context(), level, "refused", about...)
}

// recordedRefusals is how many refused requests of a key are put on record in a minute, or of all that come without one. To be
// refused costs nothing, and rows are kept for months: a client that does not stop, or does not want to, would fill the disk, and
// crowd out what calls have cost while the database is slow.
const recordedRefusals = 60

// record tells the record of a request that was let in and then refused here, and says whether it did.
func (c *call) record(e *perigee.Error, status int) bool {
	if c.asks == "" || c.opts.Refused == nil {
		return false
	}
	refusals := &c.refusals
	if c.key != nil {
		refusals = c.key.refusals
	}
	if refusals.take(1, recordedRefusals, c.opts.Now()) > 0 {
		return true // those before it say it all
	}
	told := *e
	told.Status = status
	c.opts.Refused(c.r.Context(), c.asks, c.origin(nil), c.model, &told)
	return true
}

// longestWait is the most that a client is told to wait; quotas come back within weeks.
const longestWait = 30 * 24 * time.Hour

// retryAfter is the header of that name: whole seconds, at least one, also when nobody knows.
func retryAfter(e *perigee.Error) string {
	wait := e.Retry
	if wait <= 0 && e.Class == perigee.ClassExhausted {
		wait = time.Minute
	}
	wait = min(wait, longestWait)
	return strconv.FormatInt(max(1, int64((wait+time.Second-1)/time.Second)), 10)
}

// describe sets the headers that say who answered.
func (c *call) describe(upstream, model string) {
	if upstream != "" {
		c.w.Header().Set("X-Perigee-Upstream", upstream)
	}
	if model != "" {
		c.w.Header().Set("X-Perigee-Model", headerSafe(model))
	}
}

// headerSafe makes a text that a client or a provider chose fit for a header.
func headerSafe(s string) string {
	b := []byte(s)
	for i, ch := range b {
		if ch < 0x20 || ch >= 0x7f {
			b[i] = '?'
		}
	}
	if len(b) > 2000 {
		b = append(b[:2000:2000], "..."...)
	}
	return string(b)
}

// writeHead begins an answer, which the client must take within writeLimit: the head, and what is written without a deadline of its
// own. No handler writes a head in another way, except for images, which have more time.
func (c *call) writeHead(status int) {
	c.wrote = true
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer can; then there is no limit
	c.w.WriteHeader(status)
}

func (c *call) writeJSON(status int, body []byte) {
	h := c.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	c.writeHead(status)
	control := http.NewResponseController(c.w)
	for piece := range slices.Chunk(body, writePiece) {
		_ = control.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer can; then there is no limit
		if _, err := c.w.Write(piece); err != nil {
			return // a client that is gone cannot be told
		}
	}
}

// writePiece is how much of a large answer a client must take within writeLimit.
const writePiece = 256 << 10

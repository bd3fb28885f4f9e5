package server

import (
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"perigee"
	"perigee/internal/server/clientkey"
	"perigee/internal/server/mount"
)

// nameRequest sets the header in which the official libraries look for the id of a request.
func (c *call) nameRequest() {
	if header := c.dialect.requestID; header != "" && strings.HasPrefix(strings.TrimPrefix(c.path, ownPrefix), "/v1/") {
		c.w.Header().Set(header, perigee.RequestID(c.id))
	}
}

// fail answers with an error, in the shape of the dialect that was called.
func (c *call) fail(err error) {
	status, e := c.refusal(err)
	if raw := e.RawAnswer(c.dialect.name); raw != nil {
		c.writeJSON(status, raw.Body)
	} else {
		c.writeJSON(status, c.dialect.encodeError(c, status, e))
	}
	if status != http.StatusRequestTimeout {
		c.linger()
	}
}

// refusal returns the status and the error that the client gets, sets the headers that belong to
// it, and logs it.
func (c *call) refusal(err error) (status int, e *perigee.Error) {
	e = c.clientError(err)
	status = e.HTTPStatus(c.dialect.name)
	h := c.w.Header()
	if c.unread && c.r.ProtoMajor == 1 {
		// Otherwise net/http waits for the rest of the body before it answers.
		h.Set("Connection", "close")
	}
	c.describe(e.Upstream, e.Model)
	h.Set("X-Perigee-Class", string(e.Class))
	e.SetRetryHeaders(h, status)
	if raw := e.RawAnswer(c.dialect.name); raw != nil {
		c.setHeader(raw.Header)
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
	about := []any{"call", c.id, "method", mount.Shorten(c.r.Method), "path", mount.Shorten(path), "status", status, "class",
		e.Class, "error", message}
	if !c.keyChecked {
		c.failed.Refused(clientkey.AddressOf(c.r), about...)
		c.unrecorded(e)
		return
	}
	level := slog.LevelInfo
	if c.routed || c.record(e, status) {
		level = slog.LevelDebug
	}
	c.opts.Logger.Log(c.r.Context(), level, "refused", about...)
}

// record records a request that was admitted and then refused. It reports false if the request is
// not one to a model.
func (c *call) record(e *perigee.Error, status int) bool {
	if c.operation == "" || c.opts.Refused == nil {
		return false
	}
	refusals := c.refusals
	if c.key != nil {
		refusals = c.key.Refusals
	}
	if perigee.ReplayOf(c.r.Context()).Of == "" && !refusals.Record(c.opts.Now()) {
		c.unrecorded(e)
		return true // enough refusals are recorded already
	}
	public := *e
	public.Status = status
	origin := c.origin(c.body)
	origin.Log.SetStatus(status)
	c.opts.Refused(c.r.Context(), c.operation, origin, c.model, &public)
	return true
}

// unrecorded reports a refused request that is not recorded.
func (c *call) unrecorded(e *perigee.Error) {
	if c.operation != "" && c.opts.Unrecorded != nil {
		c.opts.Unrecorded(c.dialect.name, e.Class)
	}
}

// describe sets the headers that name the upstream and the model of an answer.
func (c *call) describe(upstream, model string) { mount.Describe(c.w, upstream, model) }

// setHeader sets the headers of the provider's answer that the client gets, in place of perigee's of
// the same name.
func (c *call) setHeader(h http.Header) { maps.Copy(c.w.Header(), h) }

// writeHead begins an answer, which the client must take within writeLimit: the head, and all data
// that is written without a deadline of its own. All handlers write heads with it.
func (c *call) writeHead(status int) {
	c.wrote = true
	c.log.SetStatus(status)
	// Not every writer supports deadlines; then there is no limit.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeLimit))
	c.w.WriteHeader(status)
}

func (c *call) writeJSON(status int, body []byte) {
	mount.WriteJSON(&mountWriter{c.w, c}, status, body)
}

// writePiece is how much of a large answer a client must take within writeLimit.
const writePiece = 256 << 10

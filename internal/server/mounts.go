package server

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"perigee/internal/server/mount"
)

// A Mount is a handler that the server answers a path with, after it has checked the head, Host,
// Origin and Access. The request carries a mount.Call, the response has the id of the call, and the
// body of the request is read within the limits of all bodies. Paths of the server itself come
// first.
type Mount = mount.Point

// mountRoute returns the route of a mount.
func mountRoute(m Mount) route {
	serve := func(c *call) error { return c.serveMount(m.Handler) }
	r := route{path: m.Path, access: m.Access, command: m.Command}
	if m.Methods == nil {
		r.any = serve
		return r
	}
	r.methods = methods{}
	for _, method := range m.Methods {
		r.methods[method] = serve
	}
	return r
}

// serveMount has a mounted handler answer the call.
func (c *call) serveMount(h http.Handler) error {
	if err := mount.CheckReplay(c.r); err != nil {
		return err
	}
	info := &mount.Call{ID: c.id, Trusted: c.trusted || c.owner, Anthropic: c.dialect == &anthropicDialect, Fail: c.fail,
		Explain: c.clientError, Admit: c.admitAsk}
	if c.key != nil {
		info.Key, info.AllowsModel = c.key.Name, c.key.Allows
	}
	r := c.r.WithContext(mount.WithCall(c.r.Context(), info))
	if r.URL.Path != c.path {
		u := *r.URL
		u.Path, u.RawPath = c.path, ""
		r.URL = &u
	}
	if c.unread {
		r.Body = &mountBody{call: c}
	}
	mount.SetWildcard(r, c.wildcard)
	h.ServeHTTP(&mountWriter{c.w, c}, r)
	return nil
}

// admitAsk applies the limits of the key and of the server to a mounted handler that asks a model.
func (c *call) admitAsk(ctx context.Context) (release func(), err error) {
	one := &call{Server: c.Server, state: c.settings.Load(), r: c.r.WithContext(ctx), key: c.key}
	if err = one.admit(); err == nil {
		err = one.acquire()
	}
	if err != nil {
		one.places.release()
		return nil, err
	}
	return one.places.release, nil
}

// A mountBody is the body of a request to a mounted handler. The first Read reads all of it, within
// the limits of size, time and memory.
type mountBody struct {
	call   *call
	reader *bytes.Reader
	err    error
}

func (b *mountBody) Read(p []byte) (int, error) {
	if b.reader == nil && b.err == nil {
		var body []byte
		body, b.err = b.call.readBody()
		b.reader = bytes.NewReader(body)
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.reader.Read(p)
}

func (b *mountBody) Close() error { return nil }

// A mountWriter notes when the answer of a mounted handler begins, and bounds the time that the
// client may take for it.
type mountWriter struct {
	http.ResponseWriter
	call *call
}

func (w *mountWriter) WriteHeader(status int) { w.call.writeHead(status) }

func (w *mountWriter) Write(p []byte) (n int, err error) {
	if !w.call.wrote {
		w.call.writeHead(http.StatusOK)
	}
	return w.call.writePieces(p)
}

// Flush implements http.Flusher for handlers that need it.
func (w *mountWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (w *mountWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// writePieces writes a large answer in pieces, each of which the client must take within
// writeLimit.
func (c *call) writePieces(p []byte) (n int, err error) {
	control := http.NewResponseController(c.w)
	for piece := range slices.Chunk(p, writePiece) {
		// Not every writer supports deadlines; then there is no limit.
		_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
		wrote, err := c.w.Write(piece)
		c.tapAnswer(piece[:wrote])
		if n += wrote; err != nil {
			return n, err
		}
	}
	return n, nil
}

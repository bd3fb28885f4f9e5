// Package mount is the interface between the HTTP server and its handlers other than dialects:
// pages, administration, and other mounted handlers. The server checks keys, Host, Origin and sizes
// before a handler is called, and encodes the errors that handlers return.
package mount

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"perigee"
)

// An Access is the credential that a request needs to reach a handler. The zero value requires a
// key, so that paths are closed by default.
type Access uint8

// The access levels. The owner's socket has access to all of them.
const (
	Client        Access = iota // a configured key, where there are any
	Public                      // nothing
	Admin                       // the admin token
	ClientOrOwner               // like Client, or the admin token, which makes the call trusted
	Socket                      // the owner's socket alone; see Point.Command
)

// A Point is a handler and the path that it answers.
type Point struct {
	Path    string // a * matches one or more characters; see Wildcard
	Access  Access
	Methods []string // the accepted methods; nil if the handler decides
	Handler http.Handler
	Command string // with Access Socket, the command that uses it, for the hint of errors
}

// MatchPath reports whether a pattern matches a path, and returns the text that its wildcard
// matched. A * matches one or more characters, any number before a suffix, and *:* matches text
// with a colon.
func MatchPath(pattern, path string) (wildcard string, ok bool) {
	prefix, suffix, wild := strings.Cut(pattern, "*")
	if !wild {
		return "", path == pattern
	}
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return "", false
	}
	if suffix == ":*" {
		return rest, strings.Contains(rest, ":")
	}
	rest, ok = strings.CutSuffix(rest, suffix)
	return rest, ok && (rest != "" || suffix != "")
}

// CleanPath folds the double slashes that come from base URLs with a slash at the end.
func CleanPath(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// A Call is the server's context of a request, for its handler.
type Call struct {
	ID      string // in x-perigee-call and the logs
	Trusted bool   // it came over the owner's socket, or with the admin token
	Key     string // the name of the key that was presented; empty if none is required
	// AllowsModel reports whether the key allows a model. If it is nil, every model is allowed.
	AllowsModel func(model string) bool
	// Anthropic is set if errors and lists have the format of that API.
	Anthropic bool
	// Admit applies the limits of the key and of the server, for a handler that calls a model. The
	// caller must call release, which may be called concurrently, and after the call.
	Admit func(ctx context.Context) (release func(), err error)
	// Fail answers with an error, in the shape of the dialect that the path belongs to.
	Fail func(err error)
	// Explain returns the error that the client gets for err, for an answer that has begun.
	Explain func(err error) *perigee.Error
}

// Allows reports whether the key of the call allows a model.
func (c *Call) Allows(model string) bool { return c.AllowsModel == nil || c.AllowsModel(model) }

type callKey struct{}

// WithCall returns a context with the call that is being answered.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the call of a request that the server has passed to a handler.
func CallOf(r *http.Request) *Call { return r.Context().Value(callKey{}).(*Call) }

const wildcard = "wildcard"

// SetWildcard stores the text that the wildcard of a path matched.
func SetWildcard(r *http.Request, text string) { r.SetPathValue(wildcard, text) }

// Wildcard returns the text that the wildcard of the path matched.
func Wildcard(r *http.Request) string { return r.PathValue(wildcard) }

// CheckReplay returns an error if the request is a replay: only calls of models are repeated. The
// path of a replay is read from a file, so it must not reach administrative paths or another
// replay.
func CheckReplay(r *http.Request) error {
	if of := perigee.ReplayOf(r.Context()).Of; of != "" {
		return perigee.Errorf(perigee.ClassInvalid, "call %s was recorded with the path %s, which is not that of a model", Shorten(of), Shorten(r.URL.Path))
	}
	return nil
}

// A Handler is a handler that may fail. The server encodes its error.
type Handler func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP calls h and answers with its error.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		CallOf(r).Fail(err)
	}
}

// Value returns a handler that answers with the result of ask as JSON.
func Value[T any](ask func(*http.Request) (T, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := ask(r)
		if err != nil {
			return err
		}
		return WriteValue(w, v)
	}
}

// List returns a handler that answers with the rows that ask returns, as a JSON array.
func List[T any](ask func(*http.Request) ([]T, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		rows, err := ask(r)
		if err != nil {
			return err
		}
		return WriteList(w, rows)
	}
}

// Methods are the handlers of a path by method.
type Methods map[string]Handler

// ServeHTTP calls the handler of the method. HEAD is answered like GET.
func (m Methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, ok := m[r.Method]
	if !ok && r.Method == http.MethodHead {
		h, ok = m[http.MethodGet]
	}
	if !ok {
		CallOf(r).Fail(NotAllowed(w, r.Method, strings.Join(m.Names(), ", ")))
		return
	}
	h.ServeHTTP(w, r)
}

// Names returns the methods in order.
func (m Methods) Names() []string {
	return slices.Sorted(maps.Keys(m))
}

// At returns a Point for path with the handlers m.
func (m Methods) At(path string, access Access) Point {
	return Point{Path: path, Access: access, Methods: m.Names(), Handler: m}
}

// NotAllowed sets the header that lists the methods of a path, and returns the error about another
// one.
func NotAllowed(w http.ResponseWriter, method, allowed string) error {
	w.Header().Set("Allow", allowed)
	e := perigee.Errorf(perigee.ClassInvalid, "method %s not allowed", Shorten(method)).WithHint("use %s", allowed)
	e.Status = http.StatusMethodNotAllowed
	return e
}

// WriteJSON answers with a JSON document.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// StreamHeader sets the headers of an answer that is sent piece by piece.
func StreamHeader(h http.Header, contentType string) {
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers the stream
}

// WriteValue answers with a value as JSON.
func WriteValue(w http.ResponseWriter, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		WriteJSON(w, http.StatusOK, raw)
	}
	return err
}

// WriteList answers with a JSON array.
func WriteList[T any](w http.ResponseWriter, rows []T) error {
	if rows == nil {
		rows = []T{}
	}
	return WriteValue(w, rows)
}

// Describe sets the headers that name the upstream and the model of an answer.
func Describe(w http.ResponseWriter, upstream, model string) {
	if upstream != "" {
		w.Header().Set("X-Perigee-Upstream", upstream)
	}
	if model != "" {
		w.Header().Set("X-Perigee-Model", HeaderSafe(model))
	}
}

// HeaderSafe converts a text of a client or a provider to a valid header value: at most 2,000 bytes
// of ASCII, with three periods for an ellipsis.
func HeaderSafe(s string) string {
	b := []byte(strings.ReplaceAll(s, "…", "..."))
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

// Shorten cuts a text of a client's that an error repeats.
func Shorten(s string) string { return perigee.Clip(s, 100) }

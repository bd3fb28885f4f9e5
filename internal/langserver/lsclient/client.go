// Package lsclient calls a language server: conversations, models, state. Calls are Connect with
// JSON over HTTP/1.1 to a port of this machine, so that fields and methods that differ between
// versions do not matter (see decode).
//
// Errors are *perigee.Error. A call is repeated by itself only if nothing of it was sent, or if the
// language server did not accept the CSRF token and there is a new one. Start and Send are safe to
// fail in between: see there.
package lsclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"perigee"
)

// Service is the path of the service, before the name of a method.
const Service = "/exa.language_server_pb.LanguageServerService/"

// An Endpoint is the ports and the token of a language server. A port is 0 if it has no such
// listener or the port is not known.
type Endpoint struct {
	HTTP, HTTPS int
	CSRF        perigee.Secret
}

// Known reports whether a port is known.
func (e Endpoint) Known() bool { return e.HTTP != 0 || e.HTTPS != 0 }

// Complete adds a port that is not known, if the other one shows that both endpoints are the same
// process.
func (e *Endpoint) Complete(other Endpoint) {
	if e.Known() && (e.HTTP == other.HTTP || e.HTTPS == other.HTTPS) {
		e.HTTP, e.HTTPS = cmp.Or(e.HTTP, other.HTTP), cmp.Or(e.HTTPS, other.HTTPS)
	}
}

// Options configure a client.
type Options struct {
	// Endpoint returns the endpoint of the language server, and may wait for it. It is called for
	// every call. stale means that the last endpoint does not work: its connection was refused, or
	// its token was not accepted.
	Endpoint func(ctx context.Context, stale bool) (Endpoint, error)

	// Version is the version of the IDE that requests name. If it is empty, they name none.
	Version string

	// Users returns the users that may run the language server, in addition to the user of this
	// process and root. It may be nil. A port that belongs to another user counts as one that
	// refuses connections: it gets neither the token nor a prompt.
	Users func() []int

	Logger *slog.Logger // nil discards all messages
}

// limits bound calls. Streams take as long as the caller allows.
type limits struct {
	control, read, send time.Duration // of one attempt
	idle                time.Duration // how long a stream may be silent before it counts as dead
	// how long an endpoint that refuses connections is tried, while Options.Endpoint keeps
	// returning it
	refused time.Duration
	// pauses before each search for a message that the language server may be about to record
	lookups []time.Duration
	answer  int64 // bytes of an answer, or of a frame of a stream
}

var defaultLimits = limits{
	control: 5 * time.Second, read: 30 * time.Second, send: 300 * time.Second, idle: 3 * time.Minute, refused: 5 * time.Second, answer: 64 << 20,
	lookups: []time.Duration{0, 200 * time.Millisecond, time.Second},
}

// A Client calls one language server. Its methods can be called concurrently.
type Client struct {
	options Options
	http    *http.Client
	limits  limits
}

// New returns a client. It makes no connections before the first call, and keeps none.
func New(options Options) *Client {
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	return &Client{options: options, http: newHTTPClient(options.dial), limits: defaultLimits}
}

var errNoOther = errors.New("there is no other endpoint")

// Fixed returns an Options.Endpoint function for one endpoint. A call fails at once if that is
// stale.
func Fixed(endpoint Endpoint) func(context.Context, bool) (Endpoint, error) {
	return func(_ context.Context, stale bool) (Endpoint, error) {
		if stale {
			return Endpoint{}, errNoOther
		}
		return endpoint, nil
	}
}

// NewID returns a random UUID.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

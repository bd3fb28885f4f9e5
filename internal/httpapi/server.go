// Package httpapi is the edge that clients talk to: it matches a URL to a dialect, lets the dialect decode the
// request, asks the Upstream behind it, and lets the dialect encode what comes back. It guards the door (Host
// and Origin, keys, sizes, times) and knows nothing of providers.
//
// The daemon builds one Server and serves it on TCP; Trusted is the same house through the back door, for the
// owner's socket.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/membudget"
)

// ErrShutdown is the cause to cancel the base context with when the daemon stops waiting for open streams. It is
// a perigee.Error so that the record says why the call ended.
var ErrShutdown error = perigee.Errorf(perigee.ClassUnavailable, "perigee is shutting down").WithNext("try again when it is back")

// Options are what a Server is built from. Upstream is required.
type Options struct {
	Upstream perigee.Upstream
	Model    func(name string) string // the model that Upstream would ask for a client's name; nil: names are models
	// Missing is the error that Upstream would give because nobody has the model of that name, as far as that can be told without a call.
	// Nil: it cannot.
	Missing   func(ctx context.Context, name string) error
	Usage     perigee.UsageReader
	Stored    perigee.UsageReader         // what keys with tokens_per_day have spent, as far as it is stored; nil: they have no limit
	Spent     SpentCounter                // nil: everything is stored
	Requests  RequestCounter              // nil: nobody else serves these keys
	Calls     perigee.CallReader          // nil: calls are not recorded
	Responses perigee.ResponseStore       // nil: nothing is kept between calls
	Keeper    StoreKeeper                 // nil: nothing is stored
	Images    ImageStore                  // nil: images stand in the answer itself
	Control   perigee.Control             // nil: there are no accounts to manage
	Audit     AuditLog                    // nil: administrative acts are not recorded
	Acts      perigee.AuditReader         // nil: they cannot be read
	Status    func() perigee.DaemonStatus // nil: there is no daemon
	// Ready lists why calls cannot be answered now, within about a second; nil: they always can.
	Ready func() []Unready
	// Admin says whether what a caller from the network offers opens the admin routes. Nil: nothing does.
	Admin     func(offer string) (bool, error)
	Redact    func(text string) string // replaces secrets in what is logged of a request; nil: nothing does
	Logger    *slog.Logger
	Now       func() time.Time
	NewID     func() string
	BodyGrace time.Duration // how long a small body may take to arrive; default 30 s
	// Memory bounds what all calls hold together; nil: nothing does.
	Memory *membudget.Budget
	// Refused is told of each request that asks for a model and is let in, but never gets as far as the upstream; nil: nobody wants to know.
	Refused func(ctx context.Context, operation string, origin perigee.Origin, model string, err *perigee.Error)
	// OnIdle is called when no call has begun for a while, with the number of calls that are open; nil: it is not.
	OnIdle func(open int)
}

// Settings can change while the server runs.
type Settings struct {
	Keys        []Key
	MaxBody     int64
	MaxHead     int // bytes; 0: 64 KiB
	Concurrency int // calls at once; 0: unlimited
	Strict      bool
	Loopback    bool          // listening on a loopback address: only loopback names are accepted as Host
	Origins     []string      // whose web pages may call, as browsers write them
	Hosts       []string      // further names in Host for a loopback listener
	Fetch       MediaFetcher  // nil: URLs of media go on as they are
	KeepAlive   time.Duration // how long a stream may be quiet before a sign of life is sent; 0: 15 s
}

// A Server answers HTTP. It is safe for concurrent use.
type Server struct {
	opts     Options
	settings atomic.Pointer[state]
	active   atomic.Int64
	idle     *time.Timer // nil: nobody wants to know
	behind   background
	sockets  sockets
	recent   recentAnswers
	together sharedCount
	uploads  uploads
	refusals keyUse       // of requests without a key that are put on record
	calls    atomic.Int64 // that limits.concurrency counts
	failed   failedAuth
}

// A state is the settings with what was worked out from them.
type state struct {
	Settings
	keys []*guardedKey
}

// New returns a server that answers under the given settings.
func New(opts Options, settings Settings) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.NewID == nil {
		opts.NewID = func() string { return newID(opts.Now()) }
	}
	if opts.Spent == nil {
		opts.Spent = func(string, time.Time) (ended, saved int64) { return 0, 0 }
	}
	if opts.Model == nil {
		opts.Model = func(name string) string { return name }
	}
	if opts.Missing == nil {
		opts.Missing = func(context.Context, string) error { return nil }
	}
	if opts.BodyGrace == 0 {
		opts.BodyGrace = 30 * time.Second
	}
	s := &Server{opts: opts, together: sharedCount{counter: opts.Requests, logger: opts.Logger}}
	s.refusals.allowed = recordedRefusals
	s.recent.memory = opts.Memory
	s.failed.now, s.failed.logger = opts.Now, opts.Logger
	if opts.OnIdle != nil {
		s.idle = time.AfterFunc(idleTime, s.rest)
	}
	s.Apply(settings)
	return s
}

// Apply makes new settings hold for every request from now on. What a key has used of its limits stays used.
func (s *Server) Apply(settings Settings) {
	if settings.KeepAlive == 0 {
		settings.KeepAlive = 15 * time.Second
	}
	var before []*guardedKey
	if old := s.settings.Load(); old != nil {
		before = old.keys
	}
	s.settings.Store(&state{Settings: settings, keys: guardKeys(settings.Keys, before)})
}

// Active is how many requests are being answered right now.
func (s *Server) Active() int { return int(s.active.Load()) }

// ServeHTTP answers a request from the network.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, false) }

// Trusted answers requests from the owner: no key is asked for, and no Host or Origin is checked. Serve it
// only where the operating system has checked who connects.
func (s *Server) Trusted() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, true) })
}

// A call is one request on its way through the house.
type call struct {
	*Server
	state   *state
	w       http.ResponseWriter
	r       *http.Request
	id      string
	start   time.Time
	path    string // cleaned
	rest    string // of the path, where the route ends in a wildcard
	dialect perigee.Dialect
	trusted bool
	key     *guardedKey // the key that was presented; nil when none is required
	unread  bool        // the body, or the rest of it, has not been read
	wrote   bool        // the head of the answer is out
	array   bool        // errors come as the one element of an array, as answers would
	asks    string      // what the request asks of a model, once it was let in; empty: nothing
	model   string      // that it asks, as far as it was read
	asked   bool        // the call went on to the upstream, which records how it ends
	body    []byte      // of the request, until its memory is given back
	kept    keptImages
	places  places
	known   bool // the client has shown a key, or needs none

	lease     membudget.Lease
	reserved  int64 // of the lease, for the body and for recalled
	uploading int64 // of that, while a large body arrives
	recalled  int64 // bytes of stored responses that are a part of the conversation
	keeps     bool  // the encoder keeps a streamed answer until its end
	content   int64 // bytes that a Responses answer has so far
	ongoing   bool  // the call goes on in the background, and ends there
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, trusted bool) {
	if !isProbe(r.URL.Path) {
		s.enter()
		defer s.leave()
	}
	c := &call{Server: s, state: s.settings.Load(), w: w, r: r, id: s.opts.NewID(), start: s.opts.Now(), trusted: trusted, known: trusted}
	c.path = cleanPath(r.URL.Path)
	c.dialect = dialectOf(c.path, r.Header)
	c.array = streamsArray(c.path, r.URL)
	w.Header().Set("X-Perigee-Call", c.id)
	c.nameRequest()
	c.describeOrigin()
	c.expectBody()
	defer c.end()
	defer c.survive()
	if err := c.answer(); err != nil {
		c.fail(err)
	}
}

// idleTime is how long after the beginning of the last call, and after the end of the last open one, OnIdle is called.
const idleTime = 2 * time.Second

// isProbe reports whether a path is one that load balancers ask every second. Such requests are not counted as calls: OnIdle would
// never be called.
func isProbe(path string) bool { return path == "/health" || path == "/ready" }

// enter begins a call.
func (s *Server) enter() {
	s.active.Add(1)
	if s.idle != nil {
		s.idle.Reset(idleTime)
	}
}

// leave ends it.
func (s *Server) leave() {
	if s.active.Add(-1) == 0 && s.idle != nil {
		s.idle.Reset(idleTime)
	}
}

// rest is called when no call has begun for a while.
func (s *Server) rest() { s.opts.OnIdle(s.Active()) }

// answer takes a request past each guard in turn to the handler that its route names.
func (c *call) answer() error {
	if err := c.checkHead(); err != nil {
		return err
	}
	if !c.trusted {
		if err := c.checkOrigin(); err != nil {
			return err
		}
	}
	if c.isPreflight() {
		return c.preflight()
	}
	route, rest := findRoute(c.path)
	if err := c.authorize(route); err != nil {
		return c.slowDown(err)
	}
	c.known = c.trusted || route == nil || route.access != public || len(c.state.keys) == 0
	if route == nil {
		return unknownPath(c.r.Method, c.path)
	}
	if err := checkQuery(c.r.URL.RawQuery); err != nil {
		return err
	}
	c.rest = rest
	if c.r.Method == http.MethodPost {
		c.asks = route.asks
	}
	handle, ok := route.methods[c.r.Method]
	if !ok && c.r.Method == http.MethodHead {
		handle, ok = route.methods[http.MethodGet]
	}
	if !ok {
		c.w.Header().Set("Allow", route.allow())
		e := perigee.Errorf(perigee.ClassInvalid, "method %s not allowed", shorten(c.r.Method)).WithNext("use %s", route.allow())
		e.Status = http.StatusMethodNotAllowed
		return e
	}
	defer c.places.release()
	return handle(c)
}

// survive turns a panic into an error answer, or into a cut connection when the answer had begun. The
// process lives either way.
func (c *call) survive() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	c.opts.Logger.Error("panic in a handler", "call", c.id, "panic", v, "stack", string(debug.Stack()))
	if c.wrote {
		panic(http.ErrAbortHandler)
	}
	c.fail(perigee.Errorf(perigee.ClassInternal, "internal error").
		WithNext("the log has the details of call %s; please report it", c.id))
}

// cleanPath folds the double slashes that come from base URLs with a slash at the end.
func cleanPath(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// shorten is for what a client wrote and is told of again.
func shorten(s string) string { return perigee.Clip(s, 100) }

// trouble makes err the client's: a call that ended because the daemon stops did not end because the client left, and what
// is wrong inside the house is for its owner.
func (c *call) trouble(err error) *perigee.Error {
	e := perigee.AsError(err)
	if e.Retry > 0 {
		timed := *e
		timed.RetryAt = c.opts.Now().Add(min(e.Retry, longestWait))
		e = &timed
	}
	if e.Class == perigee.ClassCanceled && errors.Is(context.Cause(c.r.Context()), ErrShutdown) {
		return &perigee.Error{Class: perigee.ClassUnavailable, Message: "perigee is shutting down",
			Next: "try again when it is back", Upstream: e.Upstream, Model: e.Model, Cause: err}
	}
	if e.Ours != "" && !c.trusted {
		if !c.asked { // otherwise the line about the call has it
			c.opts.Logger.Warn(e.Ours, "call", c.id, "error", e)
		}
		told := *e
		told.Message, told.Next, told.Details = e.Ours, "try again; perigee's log has the reason", nil
		return &told
	}
	return e
}

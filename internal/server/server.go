package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/server/admin"
	"perigee/internal/server/clientkey"
	"perigee/internal/server/membudget"
	"perigee/internal/server/mount"
	"perigee/internal/server/reqbody"
	"perigee/internal/server/responsesapi"
)

// ErrShutdown is the cause to cancel the base context with when the daemon stops waiting for open
// streams. It is a perigee.Error so that the record says why the call ended.
var ErrShutdown error = perigee.Errorf(perigee.ClassUnavailable, "perigee is shutting down").WithHint("try again when it is back")

// Options are what a Server is built from. Upstream is required.
type Options struct {
	Upstream perigee.Upstream
	Model    func(name string) string // the model that Upstream would ask for a client's name; nil: names are models
	// Missing returns the error of Upstream for a model that no upstream has, as far as that is
	// known without a call. Nil: it is not.
	Missing     func(ctx context.Context, name string) error
	Usage       perigee.UsageReader
	Stored      perigee.UsageReader            // what keys with a budget have spent, as stored; nil: they have no limit
	Spent       clientkey.SpentCounter         // nil: everything is stored
	Requests    clientkey.RequestCounter       // nil: no other server has these keys
	Calls       perigee.CallReader             // nil: calls are not recorded
	Responses   perigee.ResponseStore          // nil: nothing is kept between calls
	Keeper      admin.StoreKeeper              // nil: nothing is stored
	Images      ImageStore                     // nil: images stand in the answer itself
	Control     perigee.Control                // empty: there are no accounts to manage
	Audit       admin.AuditLog                 // nil: administrative acts are not recorded
	Acts        perigee.AuditReader            // nil: they cannot be read
	Status      func() perigee.DaemonStatus    // nil: there is no daemon
	Langservers func() []perigee.LangserverRow // the language servers that are supervised; nil: none are
	// Ready lists why calls cannot be answered now, within about a second; nil: they always can.
	Ready func() []Unready
	// Admin says whether what a caller from the network offers opens the admin routes. Nil: nothing
	// does.
	Admin     func(offer string) (bool, error)
	Redact    func(text string) string // replaces secrets in what is logged of a request; nil: nothing does
	Logger    *slog.Logger
	Now       func() time.Time
	NewID     func() string
	BodyGrace time.Duration // how long a small body may take to arrive; default 30 s
	// Memory bounds what all calls hold together; nil: nothing does.
	Memory *membudget.Budget
	// Refused is called for each request to a model that was admitted and then refused before the
	// upstream; nil: it is not.
	Refused func(ctx context.Context, operation string, origin perigee.Origin, model string, err *perigee.Error)
	// Unrecorded is called for each refused request to a model that is not recorded, because of a
	// wrong key or because many such were; nil: it is not.
	Unrecorded func(dialect perigee.Dialect, class perigee.Class)
	// OnIdle is called when no call has begun for a while, with the number of calls that are open;
	// nil: it is not.
	OnIdle func(open int)
	Mounts []Mount // answer further paths
	Home   Home    // answers GET / of browsers; nil: they get what programs get
	// Sessions checks the cookies for mounts that ask for a session. Nil: none is valid.
	Sessions SessionChecker
}

// A Key is what a client must present, and what it may do with it.
type Key = clientkey.Key

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
	opts        Options
	dialects    []*dialect
	routes      []route
	settings    atomic.Pointer[state]
	active      atomic.Int64
	idle        *time.Timer // nil: there is no OnIdle
	runs        responsesapi.Runs
	sockets     responsesapi.Hub
	sharedLimit clientkey.SharedLimit
	uploads     reqbody.Uploads
	refusals    *clientkey.Refusals // of requests without a key
	calls       atomic.Int64        // that limits.concurrency counts
	failed      clientkey.FailedAuth
}

// A state is the settings with what was worked out from them.
type state struct {
	Settings
	keys []*clientkey.Guarded
}

// New returns a server that answers under the given settings.
func New(opts Options, settings Settings) *Server { return newServer(opts, settings, dialects) }

func newServer(opts Options, settings Settings, dialects []*dialect) *Server {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.BodyGrace = cmp.Or(opts.BodyGrace, 30*time.Second)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.NewID == nil {
		opts.NewID = func() string { return perigee.NewCallID(opts.Now()) }
	}
	if opts.Spent == nil {
		opts.Spent = func(string, time.Time) (ended, saved perigee.Spent) { return ended, saved }
	}
	if opts.Model == nil {
		opts.Model = func(name string) string { return name }
	}
	if opts.Missing == nil {
		opts.Missing = func(context.Context, string) error { return nil }
	}
	s := &Server{opts: opts, dialects: dialects, refusals: clientkey.NewRefusals(),
		sharedLimit: clientkey.SharedLimit{Counter: opts.Requests, Logger: opts.Logger}}
	owned := admin.API{Control: opts.Control, Audit: opts.Audit, Acts: opts.Acts, Calls: opts.Calls, Usage: opts.Usage,
		Keeper: opts.Keeper, Status: opts.Status, Langservers: opts.Langservers, KeyNames: s.keyNames}
	open := systemPages{Upstream: opts.Upstream, Model: opts.Model, Control: opts.Control, Ready: opts.Ready,
		Langservers: opts.Langservers, Home: opts.Home, Status: opts.Status}
	kept := responsesapi.API{Store: opts.Responses, Runs: &s.runs, Memory: opts.Memory,
		KeepAlive: func() time.Duration { return s.settings.Load().KeepAlive }}
	s.routes = routesOf(dialects, slices.Concat([]Mount{imagePoint(opts.Images), kept.Point()}, open.Points(),
		owned.Points(), opts.Mounts))
	s.sockets.Logger, s.sockets.Memory, s.sockets.BodyGrace = opts.Logger, opts.Memory, opts.BodyGrace
	s.sockets.Settings, s.sockets.Stopping = s.socketSettings, perigee.AsError(ErrShutdown)
	s.failed.Now, s.failed.Logger = opts.Now, opts.Logger
	if opts.OnIdle != nil {
		s.idle = time.AfterFunc(idleTime/4, s.onIdle) // earlier than after a call: most of what the start has used is not needed again
	}
	s.Apply(settings)
	return s
}

// Apply makes new settings hold for every request from now on. What a key has used of its limits
// stays used.
func (s *Server) Apply(settings Settings) {
	settings.KeepAlive = cmp.Or(settings.KeepAlive, 15*time.Second)
	var before []*clientkey.Guarded
	if old := s.settings.Load(); old != nil {
		before = old.keys
	}
	s.settings.Store(&state{Settings: settings, keys: clientkey.Guard(settings.Keys, before)})
}

// Active is how many requests are being answered right now.
func (s *Server) Active() int { return int(s.active.Load()) }

// ServeHTTP answers a request from the network.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, false) }

// Trusted answers requests of the owner: it asks for no key, and checks neither Host nor Origin.
// Serve it only where the operating system checks the user that connects.
func (s *Server) Trusted() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, true) })
}

// Finish returns when no answer is being made in the background any more, or when ctx ends before.
// It comes after http.Server.Shutdown and Drain, which see to it that no request begins another
// one.
func (s *Server) Finish(ctx context.Context) error { return s.runs.Wait(ctx) }

// Close ends the answers that are being made in the background and over sockets, and waits until
// that is written down. The server takes no more of them.
func (s *Server) Close() {
	if s.idle != nil {
		s.idle.Stop()
	}
	s.failed.Close()
	s.sockets.CloseNow()
	s.runs.Close(ErrShutdown)
}

// Drain closes the sockets that clients have open: at once where nothing is being made, otherwise
// after the answers that are. No new ones are opened, and what is asked meanwhile is refused. It
// returns when all are closed, or when ctx ends before; what is still being made then goes on until
// the base context ends, or Close is called.
//
// It belongs beside http.Server.Shutdown, which does not know of sockets.
func (s *Server) Drain(ctx context.Context) error {
	select {
	case <-s.sockets.Drain():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A call is one request while it is answered.
type call struct {
	*Server
	state    *state
	w        http.ResponseWriter
	r        *http.Request
	id       string
	start    time.Time
	path     string // cleaned
	wildcard string // what stood in place of the wildcard of the route
	dialect  *dialect
	trusted  bool
	owner    bool               // it has the admin token, where that takes the place of a key
	key      *clientkey.Guarded // the key that was presented; nil when none is required
	unread   bool               // the body, or the rest of it, has not been read
	wrote    bool               // the head of the answer is out
	asks     string             // what the request asks of a model; empty: nothing
	model    string             // that it asks, as far as it was read
	asked    bool               // the call went on to the upstream, which records how it ends
	body     []byte             // of the request, until its memory is given back
	log      *perigee.CallLog   // of the request, once it was read
	places   places
	known    bool // the client has shown a key, or needs none

	lease     membudget.Lease
	reserved  int64 // of the lease, for the body, recalled and fetched
	uploading int64 // of that, while a large body arrives
	recalled  int64 // bytes of stored responses that are a part of the conversation
	fetched   int64 // bytes of media that the request points at
	keeps     bool  // the encoder keeps a streamed answer until its end
	content   int64 // bytes that a Responses answer has so far
	ongoing   bool  // the call goes on in the background, and ends there
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, trusted bool) {
	if !isProbe(r.URL.Path) { // or else OnIdle would never be called
		s.beginCall()
		defer s.endCall()
	}
	c := &call{Server: s, state: s.settings.Load(), w: w, r: r, id: s.opts.NewID(), start: s.opts.Now(), trusted: trusted,
		known: trusted}
	c.path = mount.CleanPath(r.URL.Path)
	c.dialect = s.dialectOf(c.path, r.Header)
	w.Header().Set("X-Perigee-Call", c.id)
	c.nameRequest()
	if !trusted {
		c.state.pages().Describe(w.Header(), r)
	}
	c.expectBody()
	defer c.end()
	defer c.survive()
	if err := c.answer(); err != nil {
		c.fail(err)
	}
}

// idleTime is how long after the beginning of the last call, and after the end of the last open
// one, OnIdle is called.
const idleTime = 2 * time.Second

// beginCall counts a call as open.
func (s *Server) beginCall() {
	s.active.Add(1)
	if s.idle != nil {
		s.idle.Reset(idleTime)
	}
}

// endCall ends it.
func (s *Server) endCall() {
	if s.active.Add(-1) == 0 && s.idle != nil {
		s.idle.Reset(idleTime)
	}
}

// onIdle is called when no call has begun for a while.
func (s *Server) onIdle() { s.opts.OnIdle(s.Active()) }

// answer takes a request past each guard in turn to the handler that its route names.
func (c *call) answer() error {
	if err := mount.CheckHead(c.r, cmp.Or(c.state.MaxHead, maxHead)); err != nil {
		return err
	}
	if !c.trusted {
		if err := c.state.pages().Check(c.r); err != nil {
			return err
		}
		if c.state.pages().IsPreflight(c.r) {
			return c.preflight()
		}
	}
	route, rest := c.findRoute(c.path)
	if route != nil && c.r.Method == http.MethodPost {
		c.asks = route.asks
	}
	if err := c.authorize(route); err != nil {
		return c.slowDown(err)
	}
	c.known = c.trusted || route == nil || route.access != mount.Public || len(c.state.keys) == 0
	if route == nil {
		return c.unknownPath(c.r.Method, c.path)
	}
	if err := mount.CheckQuery(c.r.URL.RawQuery); err != nil {
		return err
	}
	c.wildcard = rest
	handle := route.handler(c.r.Method)
	if handle == nil {
		return mount.NotAllowed(c.w, c.r.Method, route.allow())
	}
	defer c.places.release()
	return handle(c)
}

// survive turns a panic into an error answer, or into a cut connection when the answer had begun.
// The process lives either way.
func (c *call) survive() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	err := c.panicked("panic in a handler", v)
	if c.wrote {
		panic(http.ErrAbortHandler)
	}
	c.fail(err)
}

// panicked logs a panic and returns the error that the client gets.
func (c *call) panicked(where string, v any) error {
	c.opts.Logger.Error(where, "call", c.id, "panic", v, "stack", string(debug.Stack()))
	return perigee.Errorf(perigee.ClassInternal, "internal error").
		WithHint("the log has the details of call %s; please report it", c.id)
}

// clientError returns what the client gets of err: a call that ended because the daemon stops did
// not end because the client left, and errors about perigee's own parts are for its owner.
func (c *call) clientError(err error) *perigee.Error {
	e := perigee.AsError(err)
	if e.Retry > 0 {
		timed := *e
		timed.RetryAt = c.opts.Now().Add(min(e.Retry, perigee.MaxRetry))
		e = &timed
	}
	if e.Class == perigee.ClassCanceled && errors.Is(context.Cause(c.r.Context()), ErrShutdown) {
		return &perigee.Error{Class: perigee.ClassUnavailable, Message: "perigee is shutting down",
			Hint: "try again when it is back", Upstream: e.Upstream, Model: e.Model, Cause: err}
	}
	if e.Public != "" && !c.trusted {
		if !c.asked { // otherwise the line about the call has it
			c.opts.Logger.Warn(e.Public, "call", c.id, "error", e)
		}
		public := *e
		public.Message, public.Hint, public.Details = e.Public, "try again; perigee's log has the reason", nil
		return &public
	}
	return e
}

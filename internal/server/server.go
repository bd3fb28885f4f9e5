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
// streams. It is a perigee.Error so that the record has the reason.
var ErrShutdown error = perigee.Errorf(perigee.ClassUnavailable, "perigee is shutting down").WithHint("try again when it is back")

// Options are the dependencies of a Server. Upstream is required.
type Options struct {
	Upstream perigee.Upstream
	Model    func(name string) string // the model of a client's name; nil if names are models
	// Names returns the names by which the patterns of a key allow the model of a client's name; nil
	// if these are the client's own name and the result of Model.
	Names func(ctx context.Context, name string) []string
	// Missing returns the error of Upstream for a model that no upstream has, as far as that is
	// known without a call. It may be nil.
	Missing func(ctx context.Context, name string) error
	// Forwards reports whether the first upstream for a request gets the client's own bytes. If it is
	// nil, none does.
	Forwards  func(ctx context.Context, req *perigee.Request) bool
	Stored    perigee.UsageReader      // the stored usage of keys; nil means no budgets
	Spent     clientkey.SpentCounter   // nil if all usage is stored
	Requests  clientkey.RequestCounter // nil if no other server has these keys
	Responses perigee.ResponseStore    // nil if responses are not stored
	Images    ImageStore               // nil if images are inlined in answers
	// The services of the admin routes, which need all of them.
	Usage       perigee.UsageReader
	Calls       perigee.CallReader
	Keeper      admin.StoreKeeper
	Control     perigee.Control
	Audit       admin.AuditLog
	Acts        perigee.AuditReader
	Status      func() perigee.DaemonStatus
	Langservers func() []perigee.LangserverRow // those that are supervised
	// Ready returns the reasons why calls cannot be answered now, within about a second. If it is
	// nil, there are none.
	Ready func() []Unready
	// Admin reports whether a token gives access to the admin routes over the network. If it is
	// nil, no token does.
	Admin     func(offer string) (bool, error)
	Redact    func(text string) string // replaces secrets in log lines about requests; may be nil
	Logger    *slog.Logger
	Now       func() time.Time
	NewID     func() string
	BodyGrace time.Duration // how long a small body may take to arrive; default 30 s
	// Memory bounds the memory of all calls. If it is nil, there is no limit.
	Memory *membudget.Budget
	// Refused is called for each request to a model that was admitted and then refused before the
	// upstream. It may be nil.
	Refused func(ctx context.Context, operation string, origin perigee.Origin, model string, err *perigee.Error)
	// Unrecorded is called for each refused request to a model that is not recorded, because of a
	// wrong key or because there were many. It may be nil.
	Unrecorded func(dialect perigee.Dialect, class perigee.Class)
	// OnIdle is called when no call has begun for a while, with the number of open calls. It may be
	// nil.
	OnIdle func(open int)
	Mounts []Mount // answer further paths
	Home   Home    // answers GET / of browsers; if nil, they get the same answer as programs
}

// A Key is a key that clients present, with its permissions and limits.
type Key = clientkey.Key

// Settings can change while the server runs.
type Settings struct {
	Keys        []Key
	MaxBody     int64
	MaxHead     int // bytes; 0 means 64 KiB
	Concurrency int // calls at once; 0 means unlimited
	Strict      bool
	Loopback    bool          // only loopback names are accepted as Host
	Origins     []string      // the origins with web pages that may call, as browsers write them
	Hosts       []string      // further names in Host for a loopback listener
	Fetch       MediaFetcher  // if nil, URLs of media are passed on
	KeepAlive   time.Duration // the idle time of a stream before a keep-alive is sent; 0 means 15 s
}

// A Server answers HTTP. It is safe for concurrent use.
type Server struct {
	opts        Options
	upstream    perigee.Passthrough // around Options.Upstream
	dialects    []*dialect
	routes      []route
	settings    atomic.Pointer[state]
	active      atomic.Int64
	idle        *time.Timer // nil if there is no OnIdle
	idling      chan bool   // has one value, whether the Server is open; onIdle and Close take it
	runs        responsesapi.Runs
	sockets     responsesapi.Hub
	sharedLimit clientkey.SharedLimit
	uploads     reqbody.Uploads
	refusals    *clientkey.Refusals // of requests without a key
	calls       atomic.Int64        // that limits.concurrency counts
	failed      clientkey.FailedAuth
}

// A state is the settings and values derived from them.
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
	if opts.Names == nil {
		opts.Names = func(_ context.Context, name string) []string {
			return []string{cmp.Or(name, opts.Model(name)), opts.Model(name)}
		}
	}
	if opts.Missing == nil {
		opts.Missing = func(context.Context, string) error { return nil }
	}
	if opts.Forwards == nil {
		opts.Forwards = func(context.Context, *perigee.Request) bool { return false }
	}
	s := &Server{opts: opts, upstream: perigee.Passthrough{Upstream: opts.Upstream}, dialects: dialects, refusals: clientkey.NewRefusals(),
		sharedLimit: clientkey.SharedLimit{Counter: opts.Requests, Logger: opts.Logger},
		idling:      make(chan bool, 1)}
	s.idling <- true
	owned := admin.API{Control: opts.Control, Audit: opts.Audit, Acts: opts.Acts, Calls: opts.Calls, Usage: opts.Usage,
		Keeper: opts.Keeper, Status: opts.Status, Langservers: opts.Langservers, KeyNames: s.keyNames}
	open := systemPages{&s.opts}
	kept := responsesapi.API{Store: opts.Responses, Upstream: s.upstream, Runs: &s.runs, Memory: opts.Memory,
		KeepAlive: func() time.Duration { return s.settings.Load().KeepAlive }}
	own := slices.Concat([]Mount{imagePoint(opts.Images)}, owned.Points(), opts.Mounts)
	s.routes = routesOf(dialects, slices.Concat([]Mount{kept.Point()}, open.Points(), withOwnPaths(own)))
	s.sockets.Logger, s.sockets.Memory, s.sockets.BodyGrace = opts.Logger, opts.Memory, opts.BodyGrace
	s.sockets.Settings, s.sockets.Stopping = s.socketSettings, perigee.AsError(ErrShutdown)
	s.failed.Now, s.failed.Logger = opts.Now, opts.Logger
	if opts.OnIdle != nil {
		// Earlier than after a call: most memory of the start is not needed again.
		s.idle = time.AfterFunc(idleTime/4, s.onIdle)
	}
	s.Apply(settings)
	return s
}

// Apply sets the settings for all requests from now on. Keys keep the use of their limits.
func (s *Server) Apply(settings Settings) {
	settings.KeepAlive = cmp.Or(settings.KeepAlive, 15*time.Second)
	var before []*clientkey.Guarded
	if old := s.settings.Load(); old != nil {
		before = old.keys
	}
	s.settings.Store(&state{Settings: settings, keys: clientkey.Guard(settings.Keys, before)})
}

// Active returns the number of requests that are being answered.
func (s *Server) Active() int { return int(s.active.Load()) }

// ServeHTTP answers a request from the network.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, false) }

// Trusted answers requests of the owner: it asks for no key, and checks neither Host nor Origin.
// Serve it only where the operating system checks the user that connects.
func (s *Server) Trusted() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, true) })
}

// Finish waits until no answer is being made in the background, or until ctx ends. It is called
// after http.Server.Shutdown and Drain, when no request can start another answer.
func (s *Server) Finish(ctx context.Context) error { return s.runs.Wait(ctx) }

// Close ends the answers that are being made in the background and over sockets, and waits until
// they are stored. Later ones are refused.
func (s *Server) Close() {
	if s.idle != nil {
		s.idle.Stop()
	}
	<-s.idling
	s.idling <- false
	s.failed.Close()
	s.sockets.CloseNow()
	s.runs.Close(ErrShutdown)
}

// Drain closes the open sockets of clients: at once if they have no running requests, otherwise
// after these have ended. New sockets and new requests are refused. Drain returns when all sockets
// are closed, or when ctx ends; requests that still run then continue until the base context ends
// or Close is called.
//
// It complements http.Server.Shutdown, which does not handle hijacked connections.
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
	state      *state
	w          http.ResponseWriter
	r          *http.Request
	id         string
	start      time.Time
	path       string // cleaned
	wildcard   string // the text that the wildcard of the route matched
	dialect    *dialect
	trusted    bool
	owner      bool               // it has the admin token, where that takes the place of a key
	key        *clientkey.Guarded // the key that was presented; nil when none is required
	unread     bool               // the body, or the rest of it, has not been read
	wrote      bool               // the head of the answer is out
	operation  string             // the operation; empty if the request does not call a model
	model      string             // of the request; empty until it is read
	routed     bool               // the upstream has the call, and records its outcome
	body       []byte             // of the request, until it is released
	buffer     *perigee.Buffer    // its memory; nil until the request is read
	log        *perigee.CallLog   // of the request; nil until that is read
	places     places
	keyChecked bool // the client has presented a key, or needs none

	lease     membudget.Lease
	reserved  int64 // of the lease, for the body, recalled and fetched
	uploading int64 // of that, while a large body arrives
	recalled  int64 // bytes of stored responses that are a part of the conversation
	fetched   int64 // bytes of media that the request points at
	content   int64 // bytes that a Responses answer has so far
	ongoing   bool  // the call continues in the background, and ends there
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, trusted bool) {
	if !isProbe(r.URL.Path) { // or else OnIdle would never be called
		s.beginCall()
		defer s.endCall()
	}
	c := &call{Server: s, state: s.settings.Load(), w: w, r: r, id: s.opts.NewID(), start: s.opts.Now(), trusted: trusted,
		keyChecked: trusted}
	c.path = mount.CleanPath(r.URL.Path)
	c.dialect = s.dialectOf(c.path, r.Header)
	w.Header().Set("X-Perigee-Call", c.id)
	c.nameRequest()
	if !trusted {
		c.state.allowPage(w.Header(), r)
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

// onIdle is called when no call has begun for a while. Close waits for it.
func (s *Server) onIdle() {
	open := <-s.idling
	defer func() { s.idling <- open }()
	if open {
		s.opts.OnIdle(s.Active())
	}
}

// answer takes a request past each guard in turn to the handler that its route names.
func (c *call) answer() error {
	if err := mount.CheckHead(c.r, cmp.Or(c.state.MaxHead, maxHead)); err != nil {
		return err
	}
	if !c.trusted {
		if err := c.state.checkPage(c.r); err != nil {
			return err
		}
		if c.state.isPreflight(c.r) {
			return c.preflight()
		}
	}
	route, rest := c.findRoute(c.path)
	if route != nil && c.r.Method == http.MethodPost {
		c.operation = route.operation
	}
	if err := c.authorize(route); err != nil {
		return c.slowDown(err)
	}
	c.keyChecked = c.trusted || route == nil || route.access != mount.Public || len(c.state.keys) == 0
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

// survive turns a panic into an error answer, or closes the connection if the answer has begun. The
// process continues in both cases.
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

// clientError returns the error that the client gets for err. A cancellation because the daemon
// stops is reported as such, and details of errors inside perigee are left out.
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
		if !c.routed { // otherwise the line about the call has it
			c.opts.Logger.Warn(e.Public, "call", c.id, "error", e)
		}
		public := *e
		public.Message, public.Hint, public.Details = e.Public, cmp.Or(e.PublicHint, "try again; perigee's log has the reason"), nil
		return &public
	}
	return e
}

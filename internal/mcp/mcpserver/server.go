// Package mcpserver is perigee's MCP server: files of the machine, prompts for an agent or a
// model, and information about models, quota, usage and errors. The same tools are served over
// stdio and over HTTP, to clients of every revision of the protocol that the SDK supports.
package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/mcp/fixtures"
)

// Limits of a connection.
const (
	maxMessage   = 64 << 20 // bytes of a request's body
	maxPrompt    = 4 << 20  // bytes of a prompt
	maxCalls     = 32       // of tools, at once in a session
	maxKeyCalls  = 256      // the same for all requests of a key that have no session
	maxSessions  = 1000     // over HTTP
	idleSession  = 30 * time.Minute
	keepAlive    = 15 * time.Second // between comments on an event stream
	rootsTimeout = 5 * time.Second  // for a client to name its roots
)

// A Caller is the client of a request with its permissions.
type Caller struct {
	Key         string                  // name of its key; empty if none is required
	Client      perigee.Client          // set by the server
	AllowsModel func(model string) bool // nil allows every model
	// Trusted means the user of this machine: stdio, the owner's socket, or the admin token.
	Trusted bool
	// HostChecked means that the Host header of the request was accepted by the configuration.
	// Otherwise a request that comes in on a loopback address must name one.
	HostChecked bool
	// Admit applies the limits of the key to an ask. The caller calls release after the ask. If
	// Admit is nil, there are no limits.
	Admit func(ctx context.Context) (release func(), err error)
}

// Options configure a Server.
type Options struct {
	Backend Backend
	Version string // of perigee
	Logger  *slog.Logger
	Now     func() time.Time // time.Now if nil
	// Files returns the file tools of a caller, or nil if the caller has none. The server does not
	// close them.
	Files func(Caller) *filetool.Tools
	// ReadOnly reports whether nothing may be changed: write_file is not listed, and asks are sent
	// with ReadOnly.
	ReadOnly func() bool
	// Fixtures adds the tools, resources and prompts that the conformance suite of MCP requires by
	// name.
	Fixtures bool
}

// A Server serves MCP on any number of connections.
type Server struct {
	o   Options
	mcp func() *mcp.Server // made when the first client comes: the schemas of its tools take a while
	web web

	tools map[string]*tool // filled by mcp

	ctx    context.Context // ends with the server; calls of tools end with it
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	keys map[string]int // calls of tools without a session that are running, by key
}

var errClosed = errors.New("the server is closing")

// New returns a server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{o: o, tools: map[string]*tool{}, keys: map[string]int{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.mcp = sync.OnceValue(s.newMCP)
	s.web.init(s)
	return s
}

func (s *Server) newMCP() *mcp.Server {
	options := &mcp.ServerOptions{
		Instructions: instructions,
		Logger:       slog.New(quiet{s.o.Logger.Handler()}),
		// Tools are listed according to the key and the configuration at the time of the request.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.TTLMs, c.CacheScope = 0, "private" },
	}
	followRoots(options)
	if s.o.Fixtures {
		fixtures.Options(options)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "perigee", Title: "perigee", Version: s.o.Version}, options)
	for _, t := range allTools() {
		s.tools[t.def.Name] = t
		server.AddTool(t.def, s.handler(t))
	}
	if s.o.Fixtures {
		fixtures.Register(server)
	}
	server.AddReceivingMiddleware(s.receive)
	return server
}

const instructions = "perigee gives access to the files of this workspace, to the coding agent of the user's IDE (or to a model), and to " +
	"what perigee knows about models, quota, usage and errors. ask_antigravity can take minutes. Its result has a status: \"waiting\" " +
	"means that the agent waits for a decision of the user, \"timeout\" that it is still working; both are continued with the id in " +
	"\"conversation\"."

// Close ends all sessions and all calls of tools.
func (s *Server) Close() error {
	s.cancel(errClosed)
	s.web.close()
	return nil
}

type contextKey int

const (
	callerKey contextKey = iota
	sessionKey
)

// WithCaller returns a context for requests of a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey, c)
}

// callerOf returns the caller of a request over HTTP. A request without one has no key and no
// rights.
func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey).(Caller)
	return c
}

// receive wraps every method of the protocol. It filters the list of tools, and bounds, cancels
// and recovers tool calls.
func (s *Server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		switch method {
		case "initialize":
			if session := sessionOf(ctx); session != nil {
				session.bind(req.GetSession().(*mcp.ServerSession))
			}
		case "tools/list":
			result, err = next(ctx, method, req)
			if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
				list.Tools = s.visible(ctx, req, list.Tools)
			}
			return result, err
		case "tools/call":
			s.web.markToolCall(req)
			ctx, release, busy := s.begin(ctx)
			if busy != nil {
				return failed(Caller{Trusted: true}, busy), nil
			}
			defer release()
			defer func() {
				if v := recover(); v != nil {
					s.o.Logger.Error("a tool has panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
					err = nil
					result = failed(Caller{Trusted: true}, perigee.Errorf(perigee.ClassInternal, "internal error").WithHint("try again, and report it if it happens again"))
				}
			}()
			return next(ctx, method, req)
		}
		return next(ctx, method, req)
	}
}

// begin counts a tool call, and returns a context that also ends with the session and the server.
func (s *Server) begin(ctx context.Context) (context.Context, func(), *perigee.Error) {
	session, owner := sessionOf(ctx), s.ctx
	var done func()
	if session != nil {
		if !session.begin(maxCalls) {
			return nil, nil, tooMany(maxCalls, "this session")
		}
		owner, done = session.ctx, session.end
	} else {
		key := callerOf(ctx).Key
		if !s.countKey(key, 1) {
			return nil, nil, tooMany(maxKeyCalls, "this key")
		}
		done = func() { s.countKey(key, -1) }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(owner, func() { cancel(context.Cause(owner)) })
	return ctx, func() { stop(); cancel(nil); done() }, nil
}

func (s *Server) countKey(key string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key]+n > maxKeyCalls {
		return false
	}
	if s.keys[key] += n; s.keys[key] == 0 {
		delete(s.keys, key)
	}
	return true
}

func tooMany(limit int, where string) *perigee.Error {
	return perigee.Errorf(perigee.ClassRateLimited, "%d calls are already running in %s", limit, where).
		WithHint("wait for one of them to end, then call again")
}

// quiet logs messages of the SDK at level debug: most of them are about the behaviour of clients.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }

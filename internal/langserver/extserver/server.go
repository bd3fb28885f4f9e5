// Package extserver is the Extension Server that the language server of the IDE calls: it provides
// the access token and the settings as topics, and answers all calls about windows of an IDE as an
// IDE without windows would.
//
// Every method can be called as a unary call and as a server stream. Calls need the server's CSRF
// token. Options determine how the language server may use the workspace.
package extserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/connlimit"
	"perigee/internal/lib/filetool"
)

// Limits of the server.
const (
	maxBody        = 16 << 20 // of a request, also decompressed
	maxHead        = 32 << 10
	maxConnections = 1280 // a subscription takes one, with HTTP/1.1
	keepAlive      = 15 * time.Second
	endTimeout     = time.Second // for the last frame of a stream with a slow reader
)

// A Token is an access token of the account that the language server works with.
type Token struct {
	Access perigee.Secret
	Expiry time.Time // zero if unknown
}

// Options configure a Server.
type Options struct {
	// directory to which edits and commands are confined; both are disabled if it is empty
	Workspace    string
	AllowEdit    bool // WriteCascadeEdit and SaveDocument, inside Workspace
	AllowCommand bool // ExecuteCommand, starting inside Workspace
	Policies     Policies
	Home         string // HOME of commands; Workspace if empty
	// users with processes that may call, in addition to the user of perigee and root
	Users []int

	// Transient reports whether the summaries of a conversation are discarded, because it is about
	// to be deleted. If it is nil, all are kept.
	Transient func(cascade string) bool
	// Started is called with the endpoint that a language server reports after its start. It must
	// not block.
	Started func(lsclient.Endpoint)

	KeepAlive time.Duration // pause between keep-alive messages of a subscription; 15 s if 0
	Logger    *slog.Logger  // nil discards all messages
	Now       func() time.Time
}

// A Server is an Extension Server. It outlives language servers, which find it at the same port
// with the same token.
type Server struct {
	opts   Options
	topics *topicStore
	calls  counter
	http   *http.Server

	closing context.Context // done when streams are to end
	stop    context.CancelFunc
	open    openCalls
	served  chan struct{} // closed when the listener is

	// Set by Start.
	port  int
	csrf  perigee.Secret
	peer  func(*http.Request) bool // whether the caller is a process of this user
	files *filetool.Tools          // nil if the language server may not access the workspace

	mu    sync.Mutex
	token Token
}

// New returns a server that is not started.
func New(opts Options) *Server {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Started == nil {
		opts.Started = func(lsclient.Endpoint) {}
	}
	if opts.Transient == nil {
		opts.Transient = func(string) bool { return false }
	}
	opts.KeepAlive = cmp.Or(opts.KeepAlive, keepAlive)
	s := &Server{opts: opts, topics: newTopics(defaultTopicLimits), served: make(chan struct{})}
	s.closing, s.stop = context.WithCancel(context.Background())
	for row, value := range policy(opts.Policies) {
		s.topics.Set(row.topic, row.key, value)
	}
	return s
}

// Start listens on a random port of 127.0.0.1, with a new token. The server runs until Close, also
// when ctx is done.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("extension server: %w", err)
	}
	s.port = listener.Addr().(*net.TCPAddr).Port
	s.peer = newPeerCheck(ctx, s.opts.Users, s.opts.Logger)
	return s.serve(listener)
}

// serve answers calls on a listener, which it closes if it fails.
func (s *Server) serve(listener net.Listener) error {
	if s.opts.Workspace != "" && (s.opts.AllowEdit || s.opts.AllowCommand) {
		options := filetool.Options{Roots: []string{s.opts.Workspace}, Write: s.opts.AllowEdit}
		files, err := filetool.New(options)
		if err != nil {
			return errors.Join(fmt.Errorf("workspace of the language server: %w", err), listener.Close())
		}
		s.files = files
	}
	s.csrf = perigee.NewSecret(rand.Text())

	limiter := connlimit.New(s.opts.Logger)
	limiter.Apply(maxConnections, 32*maxConnections*maxHead/4)
	s.http = &http.Server{
		Handler:           limiter.Handler(s.handler()),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    maxHead,
		ConnState:         limiter.ConnState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(limiter.ConnContext(ctx, c), peerKey{}, &peer{conn: c})
		},
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(limiter.Listener(listener)) // ends with Close
	}()
	return nil
}

// Port returns the port that the server listens on, or 0 before Start.
func (s *Server) Port() int { return s.port }

// CSRF returns the token that calls need.
func (s *Server) CSRF() perigee.Secret { return s.csrf }

// Requests returns the number of calls that have ended, by method and code: "ok", a code of
// Connect, or the HTTP status of a call that was refused before it reached its method. Methods
// that the protocol does not have count as "other".
func (s *Server) Requests() map[string]map[string]int64 { return s.calls.all() }

// Close ends streams with an end frame, then the listener and its connections. It waits until ctx
// is done.
func (s *Server) Close(ctx context.Context) error {
	s.stop()
	s.topics.Close()
	if s.http == nil {
		return nil
	}
	select {
	case <-s.open.none():
	case <-ctx.Done():
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.served
	<-s.open.none() // every call ends with its connection
	if s.files != nil {
		err = errors.Join(err, s.files.Close())
	}
	return err
}

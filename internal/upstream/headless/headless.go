// Package headless runs a language server without an IDE. It connects the account that the
// language server is signed in with, the Extension Server that it calls, the supervised process,
// and the upstream that answers calls.
package headless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/account/roster"
	"perigee/internal/intercept/cloud"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/signin"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/lib/lru"
	"perigee/internal/lib/procgroup"
	"perigee/internal/store/config"
	"perigee/internal/upstream/conversation"
)

// StandIn is the value of binary that runs the built-in stand-in in place of a language server.
const StandIn = "simulator"

// Options describe a language server.
type Options struct {
	Upstream config.Upstream
	DataDir  string
	StandIn  []string // command of the stand-in

	AccountsOf string // name of the upstream that has the accounts
	Accounts   func() Accounts
	Feed       *roster.Feed

	// URL for calls of the language server; empty for the host that it calls itself
	Cloud string
	// models of the cloud; nil if there is no list
	Models func(context.Context) ([]perigee.Model, error)

	Transport    http.RoundTripper // to the cloud; it must not decompress
	Interception *Interception     // the proxy of the modes proxy and transparent
	// records the calls that the language server makes itself; nil if they are not recorded
	Recording *Recording
	Telemetry string // as in the configuration
	// how long the cloud may take to start an answer; 0 means no limit
	FirstByte time.Duration
	Idle      time.Duration // how long an answer may pause; 0 means no limit
	Logger    *slog.Logger
	Now       func() time.Time

	delays    delays
	processes discover.Options // options for finding the language server of an Attached
}

// delays are changed by tests. Zero values mean the defaults of langserver.Options and
// CarrierOptions.
type delays struct{ restartPause, settle, reuse, keep time.Duration }

// DefaultCloud is the URL that a language server sends its calls to.
const DefaultCloud = "https://daily-cloudcode-pa.googleapis.com"

// A Server is one language server that perigee runs.
type Server struct {
	opts      Options
	dir       string // directory with all files of this language server
	created   time.Time
	extension *extserver.Server
	carried   *cloud.Calls // requests that the language server carries to the cloud
	// the cloud address given to the language server; nil if it uses the cloud's own
	cloud   *cloud.Endpoint
	handler *cloud.Handler  // of the intercepting proxy; nil if it is not used
	user    *procgroup.User // the user that the process runs as; nil for the user of perigee
	signIn  *signin.SignIn
	client  *lsclient.Client // its calls wait until the language server is ready
	calls   atomic.Int64     // number of running calls

	// writes the records of own calls, which the language server does not wait for
	completing conversation.Background

	base    context.Context // done at Close
	cancel  context.CancelFunc
	working sync.WaitGroup

	turn    sync.Mutex // held while a credential is applied: to the Extension Server, to the process, at its start
	mu      sync.Mutex
	closed  bool
	changed chan struct{}          // closed and replaced on each change while there is no process
	process *supervisor.Supervisor // nil if not started yet
	launch  *launch                // the last attempt to start it
	account roster.Credential
	recent  []roster.Credential // tokens that calls may still have, the newest last
	holders lru.Map[perigee.Secret, holder]

	lastRefused perigee.Secret // the last token that the cloud has refused to the language server itself
}

// recentTokens is the number of tokens for which the project is kept.
const recentTokens = 8

// A launch finds and probes the binary, and starts the supervisor. After a failure a call repeats
// it, at most once a minute.
type launch struct {
	done  chan struct{} // closed at its end
	err   *perigee.Error
	since time.Time
}

// retryLaunch is the minimum time between a failed launch and the next one.
const retryLaunch = time.Minute

// New returns a server that is not started.
func New(opts Options) *Server {
	for _, path := range []*string{&opts.DataDir, &opts.Upstream.Workspace} { // the process has another working directory
		if whole, err := filepath.Abs(*path); err == nil && *path != "" {
			*path = whole
		}
	}
	s := &Server{opts: opts, dir: filepath.Join(opts.DataDir, "langserver", opts.Upstream.Name), carried: cloud.NewCalls()}
	if s.proxied() {
		s.carried = opts.Interception.calls
	}
	s.changed, s.created = make(chan struct{}), opts.Now()
	s.base, s.cancel = context.WithCancel(context.Background())
	s.client = lsclient.New(lsclient.Options{Endpoint: s.endpoint, Version: opts.Upstream.Version, Users: s.users, Logger: opts.Logger})
	s.signIn = signin.New(signin.Options{
		Name: opts.AccountsOf, Accounts: s.accountsInForce, Feed: opts.Feed, Email: opts.Upstream.Account,
		Changed: s.applyChange, Now: opts.Now, Logger: opts.Logger,
	})
	return s
}

// accountsInForce returns the accounts to choose from, or nil if there are none.
func (s *Server) accountsInForce() signin.Accounts {
	if list := s.opts.Accounts(); list != nil {
		return list
	}
	return nil
}

// Start opens the connection to the cloud and the Extension Server, and signs in. It deletes the
// files of forgotten conversations. The process follows in the background as soon as there is an
// account.
func (s *Server) Start(ctx context.Context, forgotten ...string) error {
	if err := s.intercept(ctx); err != nil {
		return err
	}
	for _, cascade := range forgotten {
		s.removeFiles(cascade)
	}
	if err := s.extend(ctx); err != nil {
		return errors.Join(err, s.leave())
	}
	s.signIn.Start()
	return nil
}

// extend opens the Extension Server.
func (s *Server) extend(ctx context.Context) error {
	u := s.opts.Upstream
	if s.user == nil { // the supervisor makes directories of another user
		for _, dir := range []string{s.home(), s.workspace()} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return fmt.Errorf("directory of the language server: %w", err)
			}
		}
	}
	s.extension = extserver.New(extserver.Options{
		Workspace: s.workspace(), AllowEdit: slices.Contains(u.Allow, "edit"), AllowCommand: slices.Contains(u.Allow, "command"), Home: s.home(),
		Policies: policiesOf(u.Policies), Users: s.users(), Started: s.setEndpoint, Transient: s.carried.IsOwn, Logger: s.opts.Logger, Now: s.opts.Now,
	})
	return s.extension.Start(ctx)
}

// policiesOf returns the policies of the configuration.
func policiesOf(p config.Policies) extserver.Policies {
	terminal := map[string]extserver.Terminal{"ask": extserver.MayAsk, "auto": extserver.NeverAsk}[p.Terminal]
	return extserver.Policies{Terminal: terminal, Browser: p.Browser, AllFiles: p.Files == "all"}
}

// intercept opens the endpoint or proxy that intercepts the calls of the language server to its
// cloud.
func (s *Server) intercept(ctx context.Context) error {
	opts := cloud.Options{
		Calls: s.carried, Transport: s.opts.Transport, Cloud: s.opts.Cloud, Project: s.projectOf, Own: s.isOwn, Outdated: s.isOutdated, Follow: s.follow,
		LocalTelemetry: s.opts.Telemetry == "local",
		Logger:         s.opts.Logger.With("upstream", s.opts.Upstream.Name),
	}
	if !s.proxied() {
		opts.Cloud = cmp.Or(opts.Cloud, DefaultCloud)
	} else if opts.Cloud == "" {
		if err := s.opts.Interception.passOn(&opts); err != nil {
			return err
		}
	}
	handler, err := cloud.New(opts)
	if err != nil {
		return err
	}
	if !s.proxied() {
		s.cloud, err = cloud.Listen(ctx, handler)
		return err
	}
	s.handler = handler
	s.user, err = s.opts.Interception.use(ctx, s.opts.Upstream.Intercept, handler)
	return err
}

// leave releases the resources that intercept has acquired.
func (s *Server) leave() error {
	if s.handler != nil {
		s.opts.Interception.release(s.handler)
	}
	if s.cloud != nil {
		return s.cloud.Close()
	}
	return nil
}

// proxied reports whether the language server calls its cloud through the intercepting proxy.
func (s *Server) proxied() bool {
	return s.opts.Upstream.Intercept == modeProxy || s.opts.Upstream.Intercept == modeTransparent
}

// projectOf returns the project of the account that has an access token, or "" if it is unknown.
func (s *Server) projectOf(token string) string {
	c, _ := s.credentialOf(token)
	return c.Project
}

// isOwn reports whether the language server was given an access token.
func (s *Server) isOwn(token string) bool {
	_, ok := s.credentialOf(token)
	return ok
}

// credentialOf returns the sign-in that has an access token, from those that the language server
// was given last.
func (s *Server) credentialOf(token string) (roster.Credential, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.recent) {
		if c.Access.Equal(token) {
			return c, true
		}
	}
	return roster.Credential{}, false
}

// home returns the home directory of the process. Another user cannot enter the directories of
// perigee.
func (s *Server) home() string {
	if s.user != nil {
		return filepath.Join(s.user.Home, "perigee", s.opts.Upstream.Name)
	}
	return filepath.Join(s.dir, "home")
}

// users returns the user of the process if it is not the user of perigee.
func (s *Server) users() []int {
	if s.user == nil {
		return nil
	}
	return []int{s.user.UID}
}

func (s *Server) workspace() string {
	own := filepath.Join(s.dir, "workspace")
	if s.user != nil {
		own = filepath.Join(s.home(), "workspace")
	}
	return cmp.Or(s.opts.Upstream.Workspace, own)
}

// Close stops the process, then the Extension Server that it uses.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.signIn.Close()
	s.working.Wait()
	var errs []error
	if process := s.supervisor(); process != nil {
		errs = append(errs, process.Stop(ctx))
	}
	if s.extension != nil {
		errs = append(errs, s.extension.Close(ctx))
	}
	errs = append(errs, s.leave())
	_ = s.completing.Close(context.Background()) // with a context that does not end
	return errors.Join(errs...)
}

func (s *Server) supervisor() *supervisor.Supervisor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// applyChange hands a new token to the language server, and starts it with the first one. Another
// account takes effect with the next call; only if its project is unknown, the process is
// restarted when it is idle, to learn it. A process of profile hub, which reads its token from a
// file, is restarted with each token, because it may read the file only once. A process that has
// failed with a refused token is restarted with the next one. Without an account the process is
// stopped.
func (s *Server) applyChange(change signin.Change) {
	s.turn.Lock()
	defer s.turn.Unlock()
	defer s.notifyChange()
	s.mu.Lock()
	before := s.account
	s.account = change.Credential
	if change.Email != "" {
		s.recent = append(s.recent, change.Credential)
		s.recent = s.recent[max(0, len(s.recent)-recentTokens):]
	}
	process, wasRefused := s.process, !before.Access.IsZero() && before.Access == s.lastRefused
	s.mu.Unlock()
	if change.Email != "" {
		s.recordHolder(change.Access, holder{email: change.Email})
	}
	if change.Email == "" {
		s.extension.SetToken(extserver.Token{})
		if process != nil {
			s.writeToken(process, change.Credential)
			_ = process.Stop(s.base)
		}
		return
	}
	s.extension.SetToken(extserver.Token{Access: change.Access, Expiry: change.Expiry})
	switch {
	case process == nil:
		s.startLaunch(s.base)
	case before.Email == "":
		s.writeToken(process, change.Credential)
		if err := process.Start(s.base); err != nil {
			s.opts.Logger.Warn("language server not started", "upstream", s.opts.Upstream.Name, "error", err)
		}
	default:
		s.writeToken(process, change.Credential)
		switch {
		case process.Status().State == supervisor.Failed && wasRefused && change.Access != before.Access:
			process.Restart("it has another token than the one that was refused")
		case process.Status().Profile == probe.Hub && change.Access != before.Access:
			process.RestartIdle("its token has changed")
		case change.Account && change.Project == "":
			process.RestartIdle("the account is " + change.Email + " now")
		}
	}
}

// writeToken writes the token file for a language server that reads one, and redacts the token in
// the output of the process.
func (s *Server) writeToken(process *supervisor.Supervisor, c roster.Credential) {
	process.HideToken(c.Access)
	if process.Status().Profile != probe.Hub {
		return
	}
	if err := process.SetToken(c.Access, c.Expiry); err != nil {
		s.opts.Logger.Warn("token of the language server not written", "upstream", s.opts.Upstream.Name, "error", err)
	}
}

// setEndpoint passes on the endpoint that the process has reported to the Extension Server.
func (s *Server) setEndpoint(e lsclient.Endpoint) {
	if process := s.supervisor(); process != nil {
		process.SetEndpoint(e)
	}
}

// Changed returns a channel that is closed when Status changes next.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return s.process.Changed()
	}
	return s.changed
}

func (s *Server) notifyChange() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// startLaunch starts a launch, unless one is running.
func (s *Server) startLaunch(ctx context.Context) *launch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.process != nil || s.launch != nil && s.launch.running() {
		return s.launch
	}
	l := &launch{done: make(chan struct{}), since: s.opts.Now()}
	s.launch = l
	s.working.Go(func() {
		defer s.notifyChange()
		defer close(l.done)
		if err := s.run(ctx); err != nil {
			l.err = err
			s.opts.Logger.Warn("language server not started", "upstream", s.opts.Upstream.Name, "error", err)
		}
	})
	return l
}

func (l *launch) running() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// run finds and probes the binary, and starts the supervisor.
func (s *Server) run(ctx context.Context) *perigee.Error {
	options, err := s.supervise(ctx)
	if err != nil {
		failed := perigee.Errorf(perigee.ClassUnavailable, "the language server of %s cannot be started: %v", s.opts.Upstream.Name, err)
		failed.Upstream = s.opts.Upstream.Name
		return failed.WithHint("run perigee langserver probe for more")
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	process := supervisor.New(options)
	s.mu.Lock()
	s.process = process
	account := s.account
	s.mu.Unlock()
	s.writeToken(process, account)
	if account.Email == "" {
		return nil // the account was removed; the next one starts the process
	}
	if err := process.Start(ctx); err != nil {
		s.mu.Lock()
		s.process = nil
		s.mu.Unlock()
		return perigee.AsError(err)
	}
	return nil
}

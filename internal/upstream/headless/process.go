package headless

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
)

// standInSettings is the environment variable of the stand-in.
const standInSettings = "PERIGEE_STANDIN"

// supervise probes the binary and returns the options of its supervisor.
func (s *Server) supervise(ctx context.Context) (supervisor.Options, error) {
	u := s.opts.Upstream
	command, env, err := s.command()
	if err != nil {
		return supervisor.Options{}, err
	}
	inspect := func(ctx context.Context) (probe.Result, error) {
		found, err := probe.Options{Command: command, Env: env, Version: s.version(env), Cache: filepath.Join(s.opts.DataDir, "langserver", "probes")}.Probe(ctx)
		switch {
		case err != nil || u.Profile == "auto":
		case found.Supports(u.Profile):
			found.Profile = u.Profile
		default:
			err = fmt.Errorf("it is a language server of profile %s, not %s; set profile: auto", found.Profile, u.Profile)
		}
		return found, err
	}
	found, err := inspect(ctx)
	if err != nil {
		return supervisor.Options{}, err
	}
	at := func(e supervisor.Endpoint) *lsclient.Client {
		return lsclient.New(lsclient.Options{
			Endpoint: lsclient.Fixed(e), Users: s.users, Logger: s.opts.Logger,
		})
	}
	endpoint, variables := DefaultCloud, map[string]string(nil)
	if s.proxied() {
		variables = s.opts.Interception.variables()
	} else {
		endpoint = s.cloud.URL()
	}
	return supervisor.Options{
		Name: u.Name, User: s.user, LockDir: s.dir, Command: command, Probe: found, Reprobe: inspect, Home: s.home(), Workspace: s.workspace(),
		Extension:     supervisor.Extension{Port: s.extension.Port(), CSRF: s.extension.CSRF()},
		CloudEndpoint: endpoint, Variables: variables, Args: u.Args, Env: env, StartTimeout: u.StartTimeout, RestartPause: s.opts.delays.restartPause, Memory: int64(u.Memory),
		Ready: func(ctx context.Context, e supervisor.Endpoint) error {
			return at(e).Ready(ctx, s.Status().Profile == probe.Classic)
		},
		Heartbeat: func(ctx context.Context, e supervisor.Endpoint) error { return at(e).Heartbeat(ctx) },
		Exit:      func(ctx context.Context, e supervisor.Endpoint) error { return at(e).Exit(ctx) },
		Busy:      func() bool { return s.calls.Load() > 0 },
		Logger:    s.opts.Logger, Now: s.opts.Now,
	}, nil
}

// standInVersion is the product version of the stand-in, unless its settings have another one. The
// stand-in has no installation from which to read it.
const standInVersion = "2.15.1"

// version returns the version that the configuration gives the language server, or "" if it gives
// none.
func (s *Server) version(env map[string]string) string {
	u := s.opts.Upstream
	if u.Version != "" || u.Binary != StandIn {
		return u.Version
	}
	for field := range strings.FieldsSeq(env[standInSettings]) {
		if set, ok := strings.CutPrefix(field, "version="); ok {
			return set
		}
	}
	return standInVersion
}

// command returns the command of the language server and the environment variables to add to the
// usual ones. The stand-in gets the configured profile.
func (s *Server) command() (command []string, env map[string]string, err error) {
	u := s.opts.Upstream
	if u.Binary != StandIn {
		path, err := probe.Find(u.Binary)
		return []string{path}, u.Env, err
	}
	env = maps.Clone(u.Env)
	if u.Profile == probe.Hub && !strings.Contains(env[standInSettings], "generation=") {
		if env == nil {
			env = map[string]string{}
		}
		env[standInSettings] = strings.TrimSpace(env[standInSettings] + " generation=hub")
	}
	return s.opts.StandIn, env, nil
}

// Wait waits until the language server can answer, or returns the reason why it cannot.
func (s *Server) Wait(ctx context.Context) error {
	_, err := s.endpoint(ctx, false)
	return err
}

// endpoint waits for the language server and returns its endpoint. stale means that the last
// endpoint does not work.
func (s *Server) endpoint(ctx context.Context, stale bool) (lsclient.Endpoint, error) {
	if _, err := s.signIn.Current(ctx); err != nil {
		return lsclient.Endpoint{}, err
	}
	process, err := s.awaitLaunch(ctx)
	if err != nil {
		return lsclient.Endpoint{}, err
	}
	wait := process.Wait
	if stale {
		wait = process.Recheck
	}
	return wait(ctx)
}

// awaitLaunch waits for a launch and returns the supervisor.
func (s *Server) awaitLaunch(ctx context.Context) (*supervisor.Supervisor, error) {
	s.mu.Lock()
	l, process := s.launch, s.process
	s.mu.Unlock()
	if process != nil && (l == nil || !l.running()) { // one that is being launched is not started yet
		return process, nil
	}
	if l == nil || !l.running() && s.opts.Now().Sub(l.since) >= retryLaunch {
		l = s.startLaunch(s.base)
	}
	if l == nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the language server of %s is being stopped", s.opts.Upstream.Name)
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.err != nil {
		failed := *l.err
		failed.Retry = max(retryLaunch-s.opts.Now().Sub(l.since), time.Second)
		return nil, &failed
	}
	return s.supervisor(), nil
}

// Begin records that a call is running, until the caller calls end. The process is not restarted
// in between.
func (s *Server) Begin() (end func()) {
	s.calls.Add(1)
	return func() {
		s.calls.Add(-1)
		if process := s.supervisor(); process != nil {
			process.CallEnded()
		}
	}
}

// Status describes the language server.
func (s *Server) Status() supervisor.Status {
	s.mu.Lock()
	process, l, account := s.process, s.launch, s.account.Email
	s.mu.Unlock()
	if process != nil {
		status := process.Status()
		status.Account = account
		return status
	}
	status := supervisor.Status{Upstream: s.opts.Upstream.Name, State: supervisor.Stopped, Since: s.created, Account: account}
	switch {
	case l == nil:
	case l.running():
		status.State, status.Since = supervisor.Starting, l.since
	case l.err != nil:
		status.State, status.Since, status.LastExit = supervisor.Failed, l.since, l.err.Message
	}
	return status
}

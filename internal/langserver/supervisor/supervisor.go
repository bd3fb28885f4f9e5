package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/langserver/probe"
	"perigee/internal/lib/procgroup"
	"perigee/internal/lib/redact"
)

// A State is the state of a supervised process.
type State string

// The states. A process that is started for the first time is starting; any later start is
// restarting.
const (
	Stopped    State = "stopped"
	Starting   State = "starting"
	Ready      State = "ready"
	Restarting State = "restarting"
	Failed     State = "failed"
)

// An Extension is the Extension Server that a language server of profile classic calls.
type Extension struct {
	Port int
	CSRF perigee.Secret
}

// Options are the settings of a Supervisor. Command, Probe and Home are required, and paths are
// absolute.
type Options struct {
	Name    string   // of the upstream
	Command []string // the binary, or a program and the arguments that make it a language server
	Probe   probe.Result
	// called before a start when the file has changed; if nil, Probe is used
	Reprobe   func(context.Context) (probe.Result, error)
	Home      string // HOME of the process, created when needed
	Workspace string // working directory; default: Home
	// user that runs the process and owns the directories, after Check; nil for the user of
	// perigee
	User    *procgroup.User
	LockDir string // with User: a directory of perigee, which is created when needed

	Extension     Extension
	CloudEndpoint string // URL; empty for the default of the binary
	Args          []string
	Env           map[string]string // additional environment; overrides Variables
	Variables     map[string]string // proxy and certificate variables

	StartTimeout time.Duration // from exec to ready; default 60 s
	RestartPause time.Duration // before the first restart after a failure, doubled for each further one; default 500 ms
	// bytes of the process group above which it is restarted between calls; 0 means no limit
	Memory int64

	// makes one attempt; if nil, the process is ready when a port is known
	Ready     func(context.Context, Endpoint) error
	Heartbeat func(context.Context, Endpoint) error // sent every 5 s while ready; may be nil
	// requests the process to end; if nil, it gets a signal at once
	Exit func(context.Context, Endpoint) error
	// reports whether calls are running; nil means never
	Busy func() bool

	Logger *slog.Logger
	Now    func() time.Time

	delays delays
}

// A Status describes a supervised process. The caller sets Account.
type Status struct {
	Upstream  string    `json:"upstream"`
	State     State     `json:"state"`
	PID       int       `json:"pid"` // 0 if there is no process
	HTTPPort  int       `json:"http_port"`
	HTTPSPort int       `json:"https_port"`
	Version   string    `json:"version"`
	Profile   string    `json:"profile"`
	Account   string    `json:"account"`
	Restarts  int       `json:"restarts"` // for any reason
	Since     time.Time `json:"since"`    // of the state
	LastExit  string    `json:"last_exit"`
	// bytes of the process group; 0 if the system does not report it
	Memory int64 `json:"memory"`
}

// A Supervisor runs one language server. Its methods may be used concurrently.
type Supervisor struct {
	o       Options
	log     *slog.Logger
	spawn   func(launch) (*child, error) // replaced by tests, like measure
	measure func(group int) int64
	wake    chan struct{} // the loop looks at its state again
	calls   chan struct{} // a call has ended

	// Fields of the loop and its worker, which do not run at the same time.
	file       os.FileInfo // of the binary that was probed
	lastMemory time.Time   // when memory was the reason of a restart
	holdInput  bool        // stdin of profile hub stays open. Some builds need that, some the opposite: it changes with failed starts

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced with each change of the fields below
	state    State
	since    time.Time
	probe    probe.Result
	child    *child         // nil if there is no process
	output   *output        // of child or of the last process
	csrf     perigee.Secret // token of the last process
	reported Endpoint       // endpoint that the process reported to the Extension Server
	printed  Endpoint       // endpoint that it printed or wrote into a file
	ports    Endpoint       // where it was found ready
	draining bool           // ready, but about to be restarted
	pending  *request
	token    perigee.Secret
	before   perigee.Secret // the token before that
	restarts int
	lastExit string
	reason   string        // of the last failure
	retryAt  time.Time     // when a call may cause another attempt, in state failed
	cancel   func()        // ends the loop; nil if there is none
	hurry    chan struct{} // when closed, a process that is being stopped is killed at once
	done     chan struct{} // closed at the end of the loop
}

// A request asks for a restart.
type request struct {
	reason string
	idle   bool // only when no call is running
}

// New returns a Supervisor in state stopped.
func New(o Options) *Supervisor {
	o.StartTimeout, o.RestartPause = cmp.Or(o.StartTimeout, time.Minute), cmp.Or(o.RestartPause, 500*time.Millisecond)
	if o.Busy == nil {
		o.Busy = func() bool { return false }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	o.delays = cmp.Or(o.delays, usualDelays)
	return &Supervisor{
		o: o, log: o.Logger.With("upstream", o.Name), spawn: startProcess, measure: groupMemory,
		probe: o.Probe, state: Stopped, since: o.Now(),
		wake: make(chan struct{}, 1), calls: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// Start starts the process in the background and returns at once. A Supervisor that was stopped can
// be started again.
func (s *Supervisor) Start(ctx context.Context) error {
	if len(s.o.Command) == 0 || s.o.Probe.Profile == "" {
		return errors.New("the language server has no command or no profile; probe its binary first")
	}
	for _, path := range []string{s.o.Command[0], s.o.Home} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("the language server cannot be started: %q is not an absolute path", path)
		}
	}
	if s.o.User != nil && !filepath.IsAbs(s.o.LockDir) {
		return fmt.Errorf("the language server cannot be started as %s without a directory for locks", s.o.User.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return errors.New("the language server is started already")
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.hurry, s.done = make(chan struct{}), make(chan struct{})
	s.pending, s.restarts, s.reason = nil, 0, ""
	s.set(Starting)
	go s.loop(ctx)
	return nil
}

// Stop ends the process and all of its group, and returns when they are gone. If ctx ends first,
// they are killed without further delay.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.mu.Lock()
	cancel, hurry, done := s.cancel, s.hurry, s.done
	s.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
	case <-ctx.Done():
		s.mu.Lock()
		select {
		case <-hurry:
		default:
			close(hurry)
		}
		s.mu.Unlock()
		<-done
	}
	return nil
}

// Restart ends the process and starts it again, also from state failed. It does not wait, and does
// not count as a failure.
func (s *Supervisor) Restart(reason string) { s.request(request{reason: reason}) }

// RestartIdle is like Restart, but waits in the background until no call is running.
func (s *Supervisor) RestartIdle(reason string) { s.request(request{reason: reason, idle: true}) }

func (s *Supervisor) request(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil && (s.pending == nil || s.pending.idle) {
		s.pending = &r
		s.wakeUp()
	}
}

// wakeUp makes the loop look at its state. It never blocks.
func (s *Supervisor) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// CallEnded notifies the supervisor that a call has ended: memory is measured, and a restart that
// waits for the end of calls takes place.
func (s *Supervisor) CallEnded() {
	select {
	case s.calls <- struct{}{}:
	default:
	}
}

// SetEndpoint sets the ports that the process reported to the Extension Server.
func (s *Supervisor) SetEndpoint(e Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Known() && s.state != Stopped && s.state != Failed {
		s.reported = e
		s.ports.Complete(e)
		s.notify()
	}
}

// addPrinted records ports from a less certain source.
func (s *Supervisor) addPrinted(from *output, e Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.output == from {
		s.printed.HTTP, s.printed.HTTPS = cmp.Or(e.HTTP, s.printed.HTTP), cmp.Or(e.HTTPS, s.printed.HTTPS)
		if s.printed.CSRF.IsZero() {
			s.printed.CSRF = e.CSRF
		}
		s.ports.Complete(s.printed)
		s.notify()
	}
}

// candidates returns the possible endpoints of the process, the most certain first. The lock is
// held.
func (s *Supervisor) candidates() []Endpoint {
	var all []Endpoint
	for _, e := range []Endpoint{s.ports, s.reported, s.printed} {
		if e.CSRF.IsZero() {
			e.CSRF = s.csrf
		}
		if e.Known() && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}

// Wait returns the endpoint of a process that is ready. It waits for a start or restart, at most
// for the start timeout. If the process has failed, the error has the cause and the time of the
// next attempt. Attempts are made once per minute, by the first Wait after that.
func (s *Supervisor) Wait(ctx context.Context) (Endpoint, error) {
	late := time.After(s.o.StartTimeout)
	for {
		e, changed, err := s.look()
		if err != nil || changed == nil {
			return e, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Endpoint{}, ctx.Err()
		case <-late:
			return Endpoint{}, s.startError()
		}
	}
}

// look returns the endpoint, an error, or the channel to wait for.
func (s *Supervisor) look() (Endpoint, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == Ready && !s.draining:
		return s.ports, nil, nil
	case s.state == Stopped:
		err := s.unavailable("the language server of %s is stopped", s.o.Name)
		return Endpoint{}, nil, err.WithHint("run perigee langserver status for the reason")
	case s.state == Failed && s.o.Now().Before(s.retryAt):
		return Endpoint{}, nil, s.failure()
	case s.state == Failed:
		s.set(Restarting)
		s.wakeUp()
	}
	return Endpoint{}, s.changed, nil
}

// failure returns the error of state failed. The lock is held.
func (s *Supervisor) failure() *perigee.Error {
	err := s.unavailable("the language server of %s failed: %s", s.o.Name, s.reason)
	err.Retry = max(s.retryAt.Sub(s.o.Now()), time.Second)
	return err.WithHint("%s; the next call after %v starts it again", Advice(s.reason), err.Retry.Round(time.Second))
}

// startError returns the error of a start that takes too long.
func (s *Supervisor) startError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.unavailable("the language server of %s was not ready within %v", s.o.Name, s.o.StartTimeout)
	if s.reason != "" {
		err.Message += ": " + strings.TrimPrefix(s.reason, s.notReady())
	}
	err.Retry = retryLate
	return err.WithHint("%s, or raise start_timeout", Advice(s.reason))
}

// notReady returns the start of the reason for a restart after a start that took too long.
func (s *Supervisor) notReady() string {
	return fmt.Sprintf("it was not ready within %v: ", s.o.StartTimeout)
}

func (s *Supervisor) unavailable(format string, args ...any) *perigee.Error {
	err := perigee.Errorf(perigee.ClassUnavailable, format, args...)
	err.Upstream = s.o.Name
	return err
}

// Recheck is Wait for a caller with a connection to an endpoint that was refused or cut: if the
// process does not answer now, it is restarted, and Recheck waits for that.
func (s *Supervisor) Recheck(ctx context.Context) (Endpoint, error) {
	s.mu.Lock()
	c, e, ready := s.child, s.ports, s.state == Ready && !s.draining
	s.mu.Unlock()
	if !ready {
		return s.Wait(ctx)
	}
	check := s.o.Heartbeat
	if check == nil {
		check = s.o.Ready
	}
	if check == nil {
		return e, nil
	}
	attempt, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if err := check(attempt, e); err != nil && ctx.Err() == nil {
		c.giveUp(fmt.Sprintf("it does not answer: %s", s.redacted(err.Error())))
		s.awaitEnd(ctx, c)
	}
	return s.Wait(ctx)
}

// awaitEnd returns when the loop has processed the end of c.
func (s *Supervisor) awaitEnd(ctx context.Context, c *child) {
	for {
		s.mu.Lock()
		same, changed := s.child == c, s.changed
		s.mu.Unlock()
		if !same {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Changed returns a channel that is closed on the next change of Status.
func (s *Supervisor) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// State returns the state.
func (s *Supervisor) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Status returns the current status of the process.
func (s *Supervisor) Status() Status {
	status := s.status()
	if status.PID != 0 {
		status.Memory = s.measure(status.PID)
	}
	return status
}

func (s *Supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{
		Upstream: s.o.Name, State: s.state, Version: s.probe.Version, Profile: s.probe.Profile, Restarts: s.restarts,
		Since: s.since.UTC().Truncate(time.Millisecond), LastExit: s.lastExit,
	}
	if s.child != nil {
		status.PID = s.child.pid
		if all := s.candidates(); len(all) > 0 {
			status.HTTPPort, status.HTTPSPort = all[0].HTTP, all[0].HTTPS
		}
	}
	return status
}

// redacted returns text without secrets.
func (s *Supervisor) redacted(text string) string {
	return redact.Credentials(redact.New(s.Secrets()...).Text(text))
}

// Secrets returns the CSRF tokens and the access tokens that the process has, for a redactor. Some
// may be empty.
func (s *Supervisor) Secrets() []perigee.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []perigee.Secret{s.csrf, s.reported.CSRF, s.printed.CSRF, s.o.Extension.CSRF, s.token, s.before}
}

// set changes the state. The lock is held.
func (s *Supervisor) set(state State) {
	if s.state != state {
		s.since = s.o.Now()
	}
	s.state, s.draining = state, false
	s.notify()
}

// notify wakes up all goroutines that wait for a change. The lock is held.
func (s *Supervisor) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

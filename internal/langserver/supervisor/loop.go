package supervisor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"perigee"
)

const (
	restartWindow = time.Minute // in which maxRestarts are made
	maxRestarts   = 3
	retryFailed   = time.Minute     // between attempts caused by calls, in state failed
	retryLate     = 5 * time.Second // Retry-After time of a call that waited too long

	attemptTimeout = 5 * time.Second // for one attempt of Options.Ready
	firstPoll      = 50 * time.Millisecond
	lastPoll       = 500 * time.Millisecond

	killPatience  = 10 * time.Second
	dyingPatience = 500 * time.Millisecond // for the end of a process that does not answer
)

// delays are the durations that tests with real processes shorten.
type delays struct {
	exit time.Duration // for the end of a process after the Exit call
	term time.Duration // the same after SIGTERM
}

var usualDelays = delays{exit: time.Second, term: 2 * time.Second}

// A policy counts restarts after failures.
type policy struct {
	pause    time.Duration // before the first one
	restarts []time.Time
}

// next returns the pause before a restart, or false if there have been too many. Restarts of a
// process that never became ready do not expire, so that a binary that needs longer than the
// window to fail is given up as well.
func (p *policy) next(now time.Time, wasReady bool) (time.Duration, bool) {
	for wasReady && len(p.restarts) > 0 && now.Sub(p.restarts[0]) >= restartWindow {
		p.restarts = p.restarts[1:]
	}
	if len(p.restarts) >= maxRestarts {
		return 0, false
	}
	p.restarts = append(p.restarts, now)
	return p.pause << (len(p.restarts) - 1), true
}

// An ending is the reason why a process is no longer used.
type ending struct {
	reason   string
	planned  bool // a restart that does not count as a failure
	ran      bool // there was a process
	wasReady bool
}

// loop runs one process after the other until ctx ends.
func (s *Supervisor) loop(ctx context.Context) {
	p := policy{pause: s.o.RestartPause}
	for {
		end := s.runProcess(ctx)
		if ctx.Err() != nil || !s.awaitRestart(ctx, &p, end) {
			break
		}
		s.mu.Lock()
		s.restarts++
		s.mu.Unlock()
	}
	s.log.Info("language server stopped")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.cancel, s.pending = nil, nil
	s.set(Stopped)
	close(s.done)
}

// awaitRestart waits until the next process is to be started. It returns false if the loop is to
// end.
func (s *Supervisor) awaitRestart(ctx context.Context, p *policy, end ending) bool {
	if end.planned {
		s.log.Info("language server restarting", "reason", end.reason)
		return true
	}
	pause, ok := p.next(s.o.Now(), end.wasReady)
	s.holdInput = s.holdInput != !end.wasReady
	s.mu.Lock()
	s.reason = end.reason
	if !end.ran {
		s.lastExit = end.reason
	}
	if ok {
		s.set(Restarting)
	} else {
		s.retryAt = s.o.Now().Add(retryFailed)
		s.set(Failed)
	}
	s.mu.Unlock()
	if ok {
		s.log.Warn("language server restarting", "reason", end.reason, "pause", pause)
		return s.pause(ctx, pause)
	}
	s.log.Error("language server failed", "reason", end.reason, "hint", Advice(end.reason))
	for {
		if s.takeCommand() {
			p.restarts = nil
			return true
		}
		if s.State() != Failed {
			return true // a call requested another attempt
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.wake:
		}
	}
}

// pause waits. A Restart ends it early.
func (s *Supervisor) pause(ctx context.Context, d time.Duration) bool {
	over := time.After(d)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return true
		case <-s.wake:
			if s.takeCommand() {
				return true
			}
		}
	}
}

// takeCommand takes a request for a restart while there is no process.
func (s *Supervisor) takeCommand() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil || s.pending.idle {
		return false
	}
	s.pending = nil
	s.set(Restarting)
	return true
}

// runProcess starts a process, waits until it must not be used any more, and ends it.
func (s *Supervisor) runProcess(ctx context.Context) ending {
	if err := s.refresh(ctx); err != nil {
		return ending{reason: err.Error()}
	}
	l, err := s.prepare(ctx)
	if err != nil {
		return ending{reason: err.Error()}
	}
	defer l.remove()
	s.mu.Lock()
	s.pending = nil // the new process fulfills the request
	s.output, s.csrf = l.out, l.csrf
	s.reported, s.printed, s.ports = Endpoint{}, Endpoint{}, Endpoint{}
	s.mu.Unlock()
	c, err := s.spawn(l)
	if err != nil {
		s.mu.Lock()
		s.output = nil
		s.mu.Unlock()
		return ending{reason: "it cannot be started: " + err.Error()}
	}
	s.mu.Lock()
	s.child = c
	s.notify()
	s.mu.Unlock()
	s.log.Info("language server started", "pid", c.pid, "profile", s.probe.Profile, "version", s.probe.Version)

	end := s.attend(ctx, c)
	s.mu.Lock()
	if s.draining = true; ctx.Err() == nil {
		s.set(Restarting)
	}
	s.mu.Unlock()
	s.end(c)
	s.recordExit(ctx, c, &end)
	return end
}

// recordExit records the end of a process.
func (s *Supervisor) recordExit(ctx context.Context, c *child, end *ending) {
	exit := "it could not be killed"
	select {
	case <-c.done:
		exit = s.redacted(c.exit)
	default:
		s.log.Error("language server could not be killed", "pid", c.pid)
	}
	switch {
	case end.reason == "" && ctx.Err() != nil:
		exit = "stopped (" + exit + ")"
	case end.planned:
		exit = "restarted: " + end.reason + " (" + exit + ")"
	case end.reason == "":
		end.reason = exit
		if detail := clipped(s.redacted(c.out.detail(c.failed))); detail != "" {
			end.reason += ": " + detail
		}
		exit = end.reason
	default:
		exit = end.reason + " (" + exit + ")"
	}
	s.mu.Lock()
	s.child, s.lastExit = nil, exit
	s.notify()
	s.mu.Unlock()
	s.log.Info("language server ended", "pid", c.pid, "exit", exit)
}

// attend waits until a process is ready and then until it must not be used any more: it has ended,
// hangs, or is to be restarted.
func (s *Supervisor) attend(ctx context.Context, c *child) ending {
	var work sync.WaitGroup
	inner, cancel := context.WithCancel(ctx)
	defer work.Wait()
	defer cancel()
	ready := make(chan struct{})
	var last error // of the checks; set when work is done
	work.Go(func() {
		var ok bool
		if ok, last = s.awaitReady(inner, c); ok {
			close(ready)
			s.inspect(inner, c)
		}
	})
	started, timeout := time.Now(), time.After(s.o.StartTimeout)
	end := ending{ran: true}
	for {
		if r, ok := s.due(); ok {
			end.reason, end.planned = r.reason, true
			return end
		}
		select {
		case <-ctx.Done():
			return end
		case <-c.done:
			return end
		case reason := <-c.hung:
			if !c.awaitEnd(dyingPatience, nil) { // a process that is dying does not answer either
				end.reason = reason
			}
			return end
		case <-timeout:
			cancel()
			work.Wait()
			end.reason = s.notReady() + s.redacted(perigee.AsError(last).Message) // the hint is for calls
			return end
		case <-ready:
			ready, timeout, end.wasReady = nil, nil, true
			s.mu.Lock()
			s.reason = ""
			s.set(Ready)
			e := s.ports
			s.mu.Unlock()
			s.log.Info("language server ready", "pid", c.pid, "http", e.HTTP, "https", e.HTTPS,
				"took", time.Since(started).Round(time.Millisecond))
		case <-s.wake:
		}
	}
}

// due takes a request for a restart that is due. Wait blocks while due checks whether a call is
// running.
func (s *Supervisor) due() (request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		return request{}, false
	}
	if s.pending.idle {
		s.draining = true
		s.mu.Unlock()
		busy := s.o.Busy()
		s.mu.Lock()
		if busy || s.pending == nil {
			s.draining = false
			s.notify()
			return request{}, false
		}
	}
	r := *s.pending
	s.pending = nil
	s.set(Restarting)
	return r, true
}

// awaitReady checks the possible endpoints of a process until one is ready, or until ctx ends. It
// also returns the error of the last check that failed before that, which is never nil.
func (s *Supervisor) awaitReady(ctx context.Context, c *child) (ready bool, last error) {
	last = perigee.Errorf(perigee.ClassUnavailable, "it reported no port")
	for poll := firstPoll; ; poll = min(poll*2, lastPoll) {
		s.mu.Lock()
		all, changed := s.candidates(), s.changed
		s.mu.Unlock()
		for _, e := range all {
			err := s.tryReady(ctx, e)
			if err == nil {
				s.mu.Lock()
				s.ports = e
				s.ports.Complete(s.reported)
				s.ports.Complete(s.printed)
				s.mu.Unlock()
				return true, last
			}
			if ctx.Err() == nil {
				last = err
			}
		}
		if len(all) == 0 {
			poll = firstPoll
			if found, ok := s.announced(c.pid); ok {
				s.addPrinted(c.out, found)
				continue
			}
		}
		select {
		case <-ctx.Done():
			return false, last
		case <-time.After(poll):
		case <-changed:
		}
	}
}

func (s *Supervisor) tryReady(ctx context.Context, e Endpoint) error {
	if s.o.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return s.o.Ready(ctx, e)
}

// end stops a process: by the Exit call, then by SIGTERM to the group, then by SIGKILL.
func (s *Supervisor) end(c *child) {
	s.mu.Lock()
	known, hurry := s.candidates(), s.hurry
	s.mu.Unlock()
	select {
	case <-c.done:
		return
	default:
	}
	if len(known) > 0 && s.o.Exit != nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.o.delays.exit)
		var work sync.WaitGroup
		work.Go(func() { _ = s.o.Exit(ctx, known[0]) })
		ended := c.awaitEnd(s.o.delays.exit, hurry)
		cancel()
		work.Wait()
		if ended {
			return
		}
	}
	c.terminate()
	if c.awaitEnd(s.o.delays.term, hurry) {
		return
	}
	c.kill()
	c.awaitEnd(killPatience, nil)
}

// refresh probes the binary again if the file has changed since the last probe.
func (s *Supervisor) refresh(ctx context.Context) error {
	path := s.o.Command[0]
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the binary is gone: %w", err)
	}
	if s.o.Reprobe == nil || s.file == nil || sameFile(s.file, info) {
		s.file = info
		return nil
	}
	found, err := s.o.Reprobe(ctx)
	if err != nil {
		return fmt.Errorf("probe the new binary: %w", err)
	}
	s.mu.Lock()
	s.probe = found
	s.mu.Unlock()
	s.file = info
	return nil
}

// Advice returns the hint for a failure.
func Advice(reason string) string {
	for _, known := range []struct{ sign, advice string }{
		{"GLIBC_", "the binary needs a newer glibc: use a newer distribution or container image"},
		{"flag provided but not defined", "check args, and run perigee langserver probe to list the flags of the binary"},
		{"signal: killed", "the system may have run out of memory: the language server needs up to 4 GB"},
		{"exec format error", "set binary to a language server for this system and processor"},
		{"permission denied", "make the binary executable"},
		{"the binary is gone", "install Antigravity again, or set binary to the path of the language server"},
	} {
		if strings.Contains(reason, known.sign) {
			return known.advice
		}
	}
	return "set log: debug in the configuration to see what it prints"
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"perigee/internal/server"
)

const (
	probeTime = 800 * time.Millisecond // how long the store may take to answer
	probeKeep = time.Second            // how long its answer counts
)

// unready lists why calls cannot be answered now. It makes no call to a provider, and takes about a
// second at most.
func (d *Daemon) unready() []server.Unready {
	var reasons []server.Unready
	if !d.started.Load() {
		return []server.Unready{{Reason: "perigee is starting"}}
	}
	if d.draining.Load() {
		reasons = append(reasons, server.Unready{Reason: "perigee is stopping"})
	}
	if err := d.storeProbe.result(d.checkStore); err != nil {
		reasons = append(reasons, server.Unready{Reason: "the database cannot be used", Detail: err.Error()})
	}
	if why := d.gateway.Unusable(); why != "" {
		reasons = append(reasons, server.Unready{Reason: "no upstream can be used", Detail: why})
	}
	d.logReadiness(reasons)
	return reasons
}

// logReadiness logs when GET /ready begins to answer otherwise than the last time.
func (d *Daemon) logReadiness(reasons []server.Unready) {
	var text string
	for _, r := range reasons {
		text = strings.TrimPrefix(text+"; "+strings.TrimSuffix(r.Reason+": "+r.Detail, ": "), "; ")
	}
	var now *string
	if text != "" {
		now = &text
	}
	switch before := d.lastUnready.Swap(now); {
	case now != nil && (before == nil || *before != text):
		d.opts.Logger.Warn("not ready", "reasons", text)
	case now == nil && before != nil:
		d.opts.Logger.Info("ready again")
	}
}

// StopTime returns how long Stop should be given to wait for open calls.
func (d *Daemon) StopTime() time.Duration {
	limits := d.loaded.Load().Config.Limits
	return limits.ShutdownDelay + limits.Drain
}

// announceStop makes GET /ready answer 503 and continues to answer calls for limits.shutdown_delay,
// or until ctx ends.
func (d *Daemon) announceStop(ctx context.Context) {
	if d.draining.Swap(true) {
		return
	}
	d.clients.limiter.Drain()
	delay := d.loaded.Load().Config.Limits.ShutdownDelay
	if delay <= 0 {
		return
	}
	d.opts.Logger.Info("stopping; calls are still accepted", "shutdown_delay", delay)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}

func (d *Daemon) checkStore(ctx context.Context) error {
	if err := d.store.Ping(ctx); err != nil {
		return err
	}
	if err := d.recorder.Failure(); err != nil {
		return fmt.Errorf("calls cannot be recorded: %w", err)
	}
	return nil
}

// A healthCheck runs a check when its last result is too old, once at a time, with a time-out.
type healthCheck struct {
	mu      sync.Mutex
	at      time.Time // of the last result
	err     error
	running chan struct{} // closed when the check that is running ends; nil if none is running
}

// result returns the outcome of a check that ended less than probeKeep ago.
func (p *healthCheck) result(check func(ctx context.Context) error) error {
	p.mu.Lock()
	if time.Since(p.at) < probeKeep {
		defer p.mu.Unlock()
		return p.err
	}
	if p.running == nil {
		p.running = make(chan struct{})
		go p.run(check, p.running)
	}
	running := p.running
	p.mu.Unlock()
	select {
	case <-running:
	case <-time.After(probeTime + 100*time.Millisecond): // a check that does not even end
		return errors.New("it does not answer")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *healthCheck) run(check func(ctx context.Context) error, done chan<- struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := check(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("it does not answer")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.err, p.running = time.Now(), err, nil
	close(done)
}

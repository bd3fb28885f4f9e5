package daemon_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// A steppedUpstream writes the steps of its life to a history. Its calls wait for goOn, if there is
// one, and then fail or answer.
type steppedUpstream struct {
	name     string
	history  *history
	startErr error
	asked    chan struct{} // told of each call; nil means not
	goOn     chan struct{}
	failure  error
}

func (u *steppedUpstream) Start(context.Context) error {
	u.history.add(u.name + " started")
	return u.startErr
}

func (u *steppedUpstream) Drain(context.Context) error {
	u.history.add(u.name + " draining")
	return nil
}

func (u *steppedUpstream) Close(ctx context.Context) error {
	u.history.add(u.name + " closed")
	return ctx.Err()
}

func (u *steppedUpstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		u.history.add(u.name + " asked")
		if u.asked != nil {
			u.asked <- struct{}{}
		}
		if u.goOn != nil {
			select {
			case <-u.goOn:
			case <-ctx.Done():
			}
		}
		if u.failure != nil {
			yield(perigee.Event{}, u.failure)
			return
		}
		_ = yield(perigee.Event{Kind: perigee.EventStart, Upstream: u.name, Model: req.Model}, nil) &&
			yield(perigee.Event{Kind: perigee.EventText, Text: "an answer"}, nil) &&
			yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Kind: perigee.FinishDone, Reason: "STOP"}}, nil)
	}
}

// stepped has upstreams of kind gemini be these, by name.
func stepped(list ...*steppedUpstream) func(*daemon.Options) {
	return func(o *daemon.Options) {
		o.BuildWith(config.KindGemini, func(u config.Upstream) perigee.Upstream {
			return list[slices.IndexFunc(list, func(s *steppedUpstream) bool { return s.name == u.Name })]
		})
	}
}

// A reload removes both upstreams of a call while the first has it. The failover to the second
// finds that one open.
func TestFailoverAfterAReloadFindsTheUpstreamOpen(t *testing.T) {
	t.Parallel()
	h := &history{}
	first := &steppedUpstream{name: "first", history: h, asked: make(chan struct{}), goOn: make(chan struct{}),
		failure: perigee.Errorf(perigee.ClassUnavailable, "out of order")}
	g, book, write := daemontest.FollowOn(t, children("first", "second"), map[string]string{"listen": "127.0.0.1:0"},
		stepped(first, &steppedUpstream{name: "second", history: h}, &steppedUpstream{name: "third", history: h}))
	answered := make(chan int, 1)
	go func() { answered <- daemontest.Status(t, g, "generateContent", "") }()
	await.Receive(t, first.asked, "the first upstream to be asked")
	write(children("third"))
	book.Line(t, "configuration reloaded")
	await.Until(t, "both are draining", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Contains(h.list, "first draining") && slices.Contains(h.list, "second draining")
	})
	close(first.goOn)
	if got := await.Receive(t, answered, "an answer"); got != http.StatusOK {
		t.Errorf("got status %d", got)
	}
	await.Until(t, "both are closed", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Contains(h.list, "first closed") && slices.Contains(h.list, "second closed")
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Index(h.list, "second asked") > slices.Index(h.list, "second closed") {
		t.Errorf("called after Close: %q", h.list)
	}
}

// An upstream that did not start is not drained or closed; one that did is, also when the daemon
// does not start.
func TestUpstreamIsClosedUnlessItDidNotStart(t *testing.T) {
	t.Parallel()
	h := &history{}
	_, err := daemontest.Launch(t.Context(), daemontest.Sources(children("one", "two"), daemontest.DataDir(t)),
		stepped(&steppedUpstream{name: "one", history: h}, &steppedUpstream{name: "two", history: h, startErr: errBroken}))
	if !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	h.wants(t, "one started", "two started", "one draining", "one closed")
}

// Routes that cannot be used leave no upstream behind.
func TestUpstreamIsClosedWhenRoutesCannotBeUsed(t *testing.T) {
	t.Parallel()
	h := &history{}
	_, err := daemontest.Launch(t.Context(), daemontest.Sources(children("one"), daemontest.DataDir(t)), func(o *daemon.Options) {
		stepped(&steppedUpstream{name: "one", history: h})(o)
		o.Loaded.Config.Models.Routes = []config.Route{{Match: "*", To: []string{"unknown"}}}
	})
	if err == nil || !strings.Contains(err.Error(), "unknown upstream") {
		t.Fatalf("got %v", err)
	}
	h.wants(t, "one started", "one draining", "one closed")
}

// Each step comes once, also when Stop is called again.
func TestStoppingTwiceEndsUpstreamsAndServicesOnce(t *testing.T) {
	t.Parallel()
	h := &history{}
	g := daemontest.Start(t, children("one"), func(o *daemon.Options) {
		stepped(&steppedUpstream{name: "one", history: h})(o)
		o.Services = []daemon.Service{steppedService{h}}
	})
	for range 2 {
		await.Receive(t, daemontest.Stopping(t.Context(), g), "the daemon to stop")
	}
	h.wants(t, "one started", "service started", "service draining", "service closed", "one draining", "one closed")
}

type steppedService struct{ history *history }

func (s steppedService) Start(context.Context, func(error)) error {
	s.history.add("service started")
	return nil
}

func (s steppedService) Drain(context.Context) error {
	s.history.add("service draining")
	return nil
}

func (s steppedService) Close(context.Context) error {
	s.history.add("service closed")
	return nil
}

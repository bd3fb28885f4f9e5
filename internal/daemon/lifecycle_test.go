package daemon_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/perigeetest/await"
	"perigee/internal/simulator"
)

// A steppedUpstream writes the steps of its life to a history. Its calls wait for goOn, if there is one, and then fail or answer.
type steppedUpstream struct {
	name     string
	history  *history
	startErr error
	asked    chan struct{} // told of each call; nil: not
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
			<-u.goOn
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

// A reload removes both upstreams of a call while the first has it. The failover to the second finds that one open.
func TestFailoverAfterAReloadFindsTheUpstreamOpen(t *testing.T) {
	t.Parallel()
	h := &history{}
	first := &steppedUpstream{name: "first", history: h, asked: make(chan struct{}), goOn: make(chan struct{}),
		failure: perigee.Errorf(perigee.ClassUnavailable, "out of order")}
	g, book, write := followOn(t, children("first", "second"), map[string]string{"listen": "127.0.0.1:0"},
		stepped(first, &steppedUpstream{name: "second", history: h}, &steppedUpstream{name: "third", history: h}))
	answered := make(chan int, 1)
	go func() { answered <- status(t, g, "generateContent", "") }()
	await.Receive(t, first.asked, "the first upstream to be asked")
	write(children("third"))
	book.line(t, "configuration reloaded")
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

// An upstream that did not start is not drained or closed; one that did is, also when the daemon does not start.
func TestUpstreamIsClosedUnlessItDidNotStart(t *testing.T) {
	t.Parallel()
	h := &history{}
	_, err := launch(t.Context(), sources(children("one", "two"), dataDir(t)),
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
	_, err := launch(t.Context(), sources(children("one"), dataDir(t)), func(o *daemon.Options) {
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
	g := start(t, children("one"), func(o *daemon.Options) {
		stepped(&steppedUpstream{name: "one", history: h})(o)
		o.Services = []daemon.Service{steppedService{h}}
	})
	for range 2 {
		await.Receive(t, stopping(t.Context(), g), "the daemon to stop")
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

// A gatedTransport holds the first model request until goOn is closed, and then refuses its access token.
type gatedTransport struct {
	first sync.Once
	asked chan struct{}
	goOn  chan struct{}
}

func (g *gatedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	first := false
	if strings.Contains(r.URL.Path, "streamGenerateContent") {
		g.first.Do(func() { first = true })
	}
	if !first {
		return http.DefaultTransport.RoundTrip(r)
	}
	_ = r.Body.Close()
	close(g.asked)
	<-g.goOn
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Status: "401 Unauthorized", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "invalid credentials"}}`)),
	}, nil
}

// The upstream is replaced while a call is open whose access token the provider then refuses. The call still gets another one.
func TestCallGetsAnAccessTokenAfterAReload(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	signIn(t, dir, signedIn(member(0), projectOf(member(0)), "refresh-of-ada"))
	_, url := startSimulator(t, simulator.Options{Accounts: []simulator.Account{
		{Email: member(0), RefreshToken: "refresh-of-ada", Project: projectOf(member(0)), Limits: unlimited}}})
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(more string) {
		err := os.WriteFile(path+".new", []byte(gravityConfig(url, more)), 0o600)
		if err := errors.Join(err, os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	transport := &gatedTransport{asked: make(chan struct{}), goOn: make(chan struct{})}
	book := make(logbook, 10_000)
	src := config.Sources{Path: path, Flags: map[string]string{"listen": "127.0.0.1:0", "data_dir": dir},
		Env: func(string) (string, bool) { return "", false }}
	g := startIn(t, src, func(o *daemon.Options) {
		o.Transport, o.Poll, o.Logger = transport, 5*time.Millisecond, slog.New(book)
	})
	type result struct {
		reply *reply
		err   error
	}
	answered := make(chan result, 1)
	go func() {
		r, err := askIn(context.Background(), g.URL(), &dialectRigs[1], false, "gemini-3-flash", "hello [[text: the answer is here]]")
		answered <- result{r, err}
	}()
	await.Receive(t, transport.asked, "the provider to be asked")
	write("max_wait: 2s")
	book.line(t, "configuration reloaded")
	close(transport.goOn)
	if got := await.Receive(t, answered, "an answer"); got.err != nil || !got.reply.answered() {
		t.Errorf("got %v, %v", got.reply, got.err)
	}
}

package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// helperVariable makes the test program the child process of a childUpstream: it sends back what it
// is sent until its input ends.
const helperVariable = "DAEMON_TEST_HELPER"

// A childUpstream answers with what its child process says. Each call says one thing at once and
// another when goOn is closed.
type childUpstream struct {
	t       *testing.T
	name    string
	history *history
	goOn    chan struct{}

	mu      sync.Mutex
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// A history is what happened to upstreams, in order.
type history struct {
	mu   sync.Mutex
	list []string
}

func (h *history) add(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, what)
}

func (h *history) has(what ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Equal(h.list, what)
}

func (h *history) wants(t *testing.T, what ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.list, what) {
		t.Fatalf("got %q, want %q", h.list, what)
	}
}

func (u *childUpstream) Start(context.Context) error {
	u.command = exec.CommandContext(u.t.Context(), os.Args[0])
	u.command.Env = append(os.Environ(), helperVariable+"=1")
	var err error
	if u.in, err = u.command.StdinPipe(); err != nil {
		return err
	}
	out, err := u.command.StdoutPipe()
	if err != nil {
		return err
	}
	u.out = bufio.NewScanner(out)
	if err := u.command.Start(); err != nil {
		return err
	}
	if _, err := u.say("ready"); err != nil {
		return err
	}
	u.history.add(u.name + " started")
	return nil
}

// say has the child process say something.
func (u *childUpstream) say(text string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := fmt.Fprintln(u.in, text); err != nil {
		return "", err
	}
	if !u.out.Scan() {
		return "", io.ErrUnexpectedEOF
	}
	return u.out.Text(), nil
}

func (u *childUpstream) Drain(context.Context) error {
	u.history.add(u.name + " draining")
	return nil
}

func (u *childUpstream) Close(ctx context.Context) error {
	_ = u.in.Close()
	exited := make(chan error, 1)
	go func() { exited <- u.command.Wait() }()
	defer u.history.add(u.name + " closed")
	select {
	case err := <-exited:
		return err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), u.command.Process.Kill())
	}
}

func (u *childUpstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		if !yield(perigee.Event{Kind: perigee.EventStart, Upstream: u.name, Model: req.Model}, nil) {
			return
		}
		for _, word := range []string{"first", "last"} {
			text, err := u.say(word)
			if err != nil {
				yield(perigee.Event{}, perigee.Errorf(perigee.ClassUnavailable, "the child process is gone: %w", err))
				return
			}
			if !yield(perigee.Event{Kind: perigee.EventText, Text: text}, nil) {
				return
			}
			select {
			case <-u.goOn:
			case <-ctx.Done():
				yield(perigee.Event{}, ctx.Err())
				return
			}
		}
		yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Kind: perigee.FinishDone, Reason: "STOP"}}, nil)
	}
}

// childRig is a daemon whose upstreams of kind gemini are childUpstreams.
type childRig struct {
	history *history
	goOn    chan struct{}
	change  func(*daemon.Options)
}

func newChildRig(t *testing.T) *childRig {
	r := &childRig{history: &history{}, goOn: make(chan struct{})}
	r.change = func(o *daemon.Options) {
		o.BuildWith(config.KindGemini, func(u config.Upstream) perigee.Upstream {
			return &childUpstream{t: t, name: u.Name, history: r.history, goOn: r.goOn}
		})
	}
	return r
}

// children is a configuration with these upstreams.
func children(names ...string) string {
	text := "upstreams:\n"
	for _, name := range names {
		text += "  - {name: " + name + ", kind: gemini, keys: [any]}\n"
	}
	return text
}

// begin opens a stream and returns when its first event has come.
func (r *childRig) begin(t *testing.T, g *daemontest.Gateway) (*http.Response, *bufio.Scanner) {
	t.Helper()
	resp := daemontest.Ask(t, g, daemontest.Streaming, "")
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"first"`) {
			return resp, lines
		}
	}
	t.Fatal("the stream ended before its first event")
	return nil, nil
}

// finish reads a stream to its end, which has to be a good one.
func (r *childRig) finish(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	var all string
	for lines.Scan() {
		all += lines.Text()
	}
	if !strings.Contains(all, `"last"`) || !strings.Contains(all, "STOP") {
		t.Errorf("the stream went on with %s", all)
	}
}

// A reload starts a new upstream, lets a removed one finish its open call before it is closed, and
// leaves alone what did not change.
func TestReloadDrainsAnUpstreamWithAChildProcess(t *testing.T) {
	t.Parallel()
	r := newChildRig(t)
	g, book, write := daemontest.FollowOn(t, children("one", "same"), map[string]string{"listen": "127.0.0.1:0"}, r.change)
	r.history.wants(t, "one started", "same started")
	_, lines := r.begin(t, g)
	write(children("two", "same"))
	book.Line(t, "configuration reloaded")
	await.Until(t, "the removed upstream drains", func() bool {
		return r.history.has("one started", "same started", "two started", "one draining")
	})
	close(r.goOn)
	r.finish(t, lines)
	await.Until(t, "it is closed after its last call", func() bool {
		return r.history.has("one started", "same started", "two started", "one draining", "one closed")
	})
	if got := daemontest.Status(t, g, "generateContent", ""); got != http.StatusOK {
		t.Errorf("the new upstream answers %d", got)
	}
	await.Receive(t, daemontest.Stopping(t.Context(), g), "the daemon to stop")
	r.history.wants(t, "one started", "same started", "two started", "one draining", "one closed",
		"two draining", "two closed", "same draining", "same closed")
}

// Stop waits for the open call, and then ends the child process.
func TestStopDrainsAnUpstreamWithAChildProcess(t *testing.T) {
	t.Parallel()
	r := newChildRig(t)
	g := daemontest.Start(t, children("one"), r.change)
	_, lines := r.begin(t, g)
	stopped := daemontest.Stopping(context.Background(), g)
	await.Until(t, "the daemon takes no connections", func() bool {
		resp, err := daemontest.Client.Get(g.URL() + "/health")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err != nil
	})
	r.history.wants(t, "one started")
	close(r.goOn)
	r.finish(t, lines)
	await.Receive(t, stopped, "the daemon to stop")
	r.history.wants(t, "one started", "one draining", "one closed")
}

// A call that does not end is cut off, and its upstream is closed all the same, also when it was
// removed before.
func TestStopClosesUpstreamsWithOpenCalls(t *testing.T) {
	t.Parallel()
	r := newChildRig(t)
	g, book, write := daemontest.FollowOn(t, children("one"), map[string]string{"listen": "127.0.0.1:0"}, r.change)
	resp, _ := r.begin(t, g)
	write(children("two"))
	book.Line(t, "configuration reloaded")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	await.Receive(t, daemontest.Stopping(ctx, g), "the daemon to stop")
	rest, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(rest), "shutting down") {
		t.Errorf("the stream ended with %q", rest)
	}
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	for _, what := range []string{"one closed", "two closed"} {
		if !slices.Contains(r.history.list, what) {
			t.Errorf("not %s: %q", what, r.history.list)
		}
	}
}

package relay

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/server/mount"
	"perigee/internal/testing/perigeetest/await"
)

// A script answers asks.
type script func(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error)

func (s script) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	return s(ctx, r, progress)
}

// newClient returns a client of a server whose asks a script answers.
func newClient(t *testing.T, s script) (*Client, *httptest.Server) {
	point := Point(s)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		point.Handler.ServeHTTP(w, r.WithContext(mount.WithCall(r.Context(), &mount.Call{ID: "call-1"})))
	}))
	t.Cleanup(server.Close)
	return &Client{HTTP: server.Client(), URL: server.URL}, server
}

func TestAskIsRelayedWithItsProgress(t *testing.T) {
	var got ask.Request
	client, _ := newClient(t, func(_ context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
		got = r
		progress(ask.Progress{Text: "one\n"})
		progress(ask.Progress{Text: "one\ntwo", Steps: 2})
		return ask.Answer{Text: "one\ntwo", Status: ask.Done, Source: "ide", Usage: &perigee.Usage{Input: 3}}, nil
	})
	var texts []string
	answer, err := client.Ask(t.Context(), ask.Request{Prompt: "count", Roots: []string{"/src"}, Client: perigee.Client{Name: "opencode"}},
		func(p ask.Progress) { texts = append(texts, p.Text) })
	if err != nil || answer.Text != "one\ntwo" || answer.Status != ask.Done || answer.Usage.Input != 3 {
		t.Errorf("answer %+v, error %v", answer, err)
	}
	if len(texts) != 2 || texts[1] != "one\ntwo" {
		t.Errorf("progress %q", texts)
	}
	if got.ID != "call-1" || got.Prompt != "count" || got.Roots[0] != "/src" || got.Client.Name != "opencode" {
		t.Errorf("the daemon got %+v", got)
	}
}

func TestRefusedAskIsAnError(t *testing.T) {
	client, server := newClient(t, func(context.Context, ask.Request, func(ask.Progress)) (ask.Answer, error) {
		return ask.Answer{}, perigee.Errorf(perigee.ClassNotFound, "no such conversation").WithHint("begin a new one")
	})
	_, err := client.Ask(t.Context(), ask.Request{Prompt: "x"}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassNotFound || e.Hint != "begin a new one" {
		t.Errorf("got %v", err)
	}
	server.Close()
	if _, err := client.Ask(t.Context(), ask.Request{Prompt: "x"}, nil); err == nil {
		t.Error("no error without a daemon")
	}
}

func TestAskThatWasHandedOverIsNeverAnError(t *testing.T) {
	started, cancelled := make(chan struct{}), make(chan struct{})
	client, server := newClient(t, func(ctx context.Context, _ ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
		progress(ask.Progress{Text: "half"})
		close(started)
		<-ctx.Done()
		close(cancelled)
		return ask.Answer{Status: ask.Cancelled}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if answer, err := client.Ask(ctx, ask.Request{Prompt: "x"}, nil); err != nil || answer.Status != ask.Cancelled {
		t.Errorf("cancelled: %+v, %v", answer, err)
	}
	await.Receive(t, cancelled, "the end of the ask")
	started, cancelled = make(chan struct{}), make(chan struct{})
	go func() { <-started; server.CloseClientConnections() }()
	if answer, err := client.Ask(t.Context(), ask.Request{Prompt: "x"}, nil); err != nil || answer.Status != ask.Failed {
		t.Errorf("the daemon has ended: %+v, %v", answer, err)
	}
	await.Receive(t, cancelled, "the end of the ask")
}

// A daemon that ends before the head of its answer has handed nothing over, so the ask can go elsewhere.
func TestAskOfADaemonThatEndsIsDeclined(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no head":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"draining": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		server := httptest.NewServer(handler)
		client := &Client{HTTP: server.Client(), URL: server.URL}
		if _, err := client.Ask(t.Context(), ask.Request{Prompt: "x"}, nil); !errors.Is(err, ask.ErrDeclined) {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}

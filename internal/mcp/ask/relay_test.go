package ask

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"perigee"
	"perigee/internal/server/mount"
	"perigee/internal/testing/perigeetest/await"
)

// A relayScript answers asks.
type relayScript func(ctx context.Context, r Request, progress func(Progress)) (Answer, error)

func (s relayScript) Ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error) {
	return s(ctx, r, progress)
}

// newClient returns a client of a server whose asks a relayScript answers.
func newClient(t *testing.T, s relayScript) (*RelayClient, *httptest.Server) {
	point := RelayPoint(s)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		point.Handler.ServeHTTP(w, r.WithContext(mount.WithCall(r.Context(), &mount.Call{ID: "call-1"})))
	}))
	t.Cleanup(server.Close)
	return &RelayClient{HTTP: server.Client(), URL: server.URL}, server
}

func TestAskIsRelayedWithItsProgress(t *testing.T) {
	var got Request
	client, _ := newClient(t, func(_ context.Context, r Request, progress func(Progress)) (Answer, error) {
		got = r
		progress(Progress{Text: "one\n"})
		progress(Progress{Text: "one\ntwo", Steps: 2})
		return Answer{Text: "one\ntwo", Status: Done, Source: "ide", Usage: &perigee.Usage{Input: 3}}, nil
	})
	var texts []string
	answer, err := client.Ask(t.Context(), Request{Prompt: "count", Roots: []string{"/src"}, Client: perigee.Client{Name: "opencode"}},
		func(p Progress) { texts = append(texts, p.Text) })
	if err != nil || answer.Text != "one\ntwo" || answer.Status != Done || answer.Usage.Input != 3 {
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
	client, server := newClient(t, func(context.Context, Request, func(Progress)) (Answer, error) {
		return Answer{}, perigee.Errorf(perigee.ClassNotFound, "no such conversation").WithHint("begin a new one")
	})
	_, err := client.Ask(t.Context(), Request{Prompt: "x"}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassNotFound || e.Hint != "begin a new one" {
		t.Errorf("got %v", err)
	}
	server.Close()
	if _, err := client.Ask(t.Context(), Request{Prompt: "x"}, nil); err == nil {
		t.Error("no error without a daemon")
	}
}

func TestAskThatWasHandedOverIsNeverAnError(t *testing.T) {
	started, cancelled := make(chan struct{}), make(chan struct{})
	client, server := newClient(t, func(ctx context.Context, _ Request, progress func(Progress)) (Answer, error) {
		progress(Progress{Text: "half"})
		close(started)
		<-ctx.Done()
		close(cancelled)
		return Answer{Status: Cancelled}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if answer, err := client.Ask(ctx, Request{Prompt: "x"}, nil); err != nil || answer.Status != Cancelled {
		t.Errorf("cancelled: %+v, %v", answer, err)
	}
	await.Receive(t, cancelled, "the end of the ask")
	started, cancelled = make(chan struct{}), make(chan struct{})
	go func() { <-started; server.CloseClientConnections() }()
	if answer, err := client.Ask(t.Context(), Request{Prompt: "x"}, nil); err != nil || answer.Status != Failed {
		t.Errorf("the daemon has ended: %+v, %v", answer, err)
	}
	await.Receive(t, cancelled, "the end of the ask")
}

// A daemon that ends before the head of its answer has handed nothing over, so the ask can go
// elsewhere.
func TestAskOfADaemonThatEndsIsDeclined(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no head":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"draining": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		server := httptest.NewServer(handler)
		client := &RelayClient{HTTP: server.Client(), URL: server.URL}
		if _, err := client.Ask(t.Context(), Request{Prompt: "x"}, nil); !errors.Is(err, ErrDeclined) {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}

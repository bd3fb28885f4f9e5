package limittests

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"perigee"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// background asks for a response that is made in the background, and returns its id.
func background(t *testing.T, g *daemontest.Gateway, key string) (status int, id string) {
	t.Helper()
	status, body := g.Request(t, http.MethodPost, "/v1/responses", key, `{"model":"gemini-2.5-flash","input":"Hi","background":true}`)
	var answer struct{ ID string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return status, answer.ID
}

// newSlowProvider is a provider whose answers in one piece wait for the test.
func newSlowProvider(t *testing.T) (url string, begun chan struct{}, goOn chan struct{}) {
	t.Helper()
	begun, goOn = make(chan struct{}, 100), make(chan struct{})
	url = daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		daemontest.Tell(begun)
		select {
		case <-goOn:
			_, _ = w.Write([]byte(daemontest.LastEvent))
		case <-r.Context().Done():
		}
	}))
	return url, begun, goOn
}

// Responses in the background count for limits.concurrency, and for the concurrency of their key,
// until they are complete.
func TestBackgroundCountsForConcurrency(t *testing.T) {
	t.Parallel()
	url, begun, goOn := newSlowProvider(t)
	g := daemontest.Start(t, daemontest.OneUpstream(url)+"limits: {concurrency: 2}\nkeys:\n  - {name: a, secret: secret-a, concurrency: 1}\n  - {name: b, secret: secret-b}\n", nil)
	want := func(what, key string, want int) {
		t.Helper()
		if got, _ := background(t, g, key); got != want {
			t.Errorf("%s: %d", what, got)
		}
	}
	want("the first", "secret-a", http.StatusOK)
	want("a second one of the same key", "secret-a", http.StatusTooManyRequests)
	want("one of another key", "secret-b", http.StatusOK)
	want("one more than limits.concurrency", "secret-b", http.StatusTooManyRequests)
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-b"); got != http.StatusTooManyRequests {
		t.Errorf("a stream beside them: %d", got)
	}
	for range 2 {
		await.Receive(t, begun, "the provider to be asked")
	}
	await.Until(t, "only these two are open", func() bool { return g.Active() == 2 }) // the refused ones may still be ending
	close(goOn)
	await.Until(t, "the places are free again", func() bool {
		one, _ := background(t, g, "secret-a")
		return one == http.StatusOK
	})
}

// Stop waits for responses in the background.
func TestStopLetsBackgroundResponsesFinish(t *testing.T) {
	t.Parallel()
	url, begun, goOn := newSlowProvider(t)
	g := daemontest.Start(t, daemontest.OneUpstream(url), nil)
	if got, _ := background(t, g, ""); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	await.Receive(t, begun, "the provider to be asked")
	stopped := daemontest.Stopping(context.Background(), g)
	await.Until(t, "the port is closed", func() bool {
		resp, err := daemontest.Client.Get(g.URL() + "/health")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err != nil
	})
	select {
	case <-stopped:
		t.Fatal("stopped with a response in the making")
	default:
	}
	close(goOn)
	await.Receive(t, stopped, "the daemon to stop")
	if c := g.Ended(t, perigee.OutcomeDone); c.Usage.Output != 3 {
		t.Errorf("recorded with %+v", c.Usage)
	}
}

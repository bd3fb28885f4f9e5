package accounttests

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// A gatedTransport holds the first model request until goOn is closed, and then refuses its access
// token.
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
	select {
	case <-g.goOn:
	case <-r.Context().Done():
	}
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Status: "401 Unauthorized", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "invalid credentials"}}`)),
	}, nil
}

// The upstream is replaced while a call is open whose access token the provider then refuses. The
// call still gets another one.
func TestCallGetsAnAccessTokenAfterAReload(t *testing.T) {
	t.Parallel()
	dir := daemontest.DataDir(t)
	daemontest.SignIn(t, dir, daemontest.SignedIn(member(0), projectOf(member(0)), "refresh-of-ada"))
	_, url := daemontest.StartSimulator(t, simulator.Options{Accounts: []simulator.Account{
		{Email: member(0), RefreshToken: "refresh-of-ada", Project: projectOf(member(0)), Limits: unlimited}}})
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(more string) {
		err := os.WriteFile(path+".new", []byte(daemontest.AntigravityConfig(url, more)), 0o600)
		if err := errors.Join(err, os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	transport := &gatedTransport{asked: make(chan struct{}), goOn: make(chan struct{})}
	book := make(daemontest.Logbook, 10_000)
	src := config.Sources{Path: path, Flags: map[string]string{"listen": "127.0.0.1:0", "data_dir": dir},
		Env: func(string) (string, bool) { return "", false }}
	g := daemontest.StartIn(t, src, func(o *daemon.Options) {
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
	book.Line(t, "configuration reloaded")
	close(transport.goOn)
	if got := await.Receive(t, answered, "an answer"); got.err != nil || !got.reply.answered() {
		t.Errorf("got %v, %v", got.reply, got.err)
	}
}

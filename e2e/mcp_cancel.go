package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// askEnds is how long the agent may go on after its ask was cancelled.
const askEnds = 2 * time.Second

// mcpCancels are asks that a client cancels while the answer is written.
func mcpCancels() client {
	return client{
		name: "mcp cancel", version: "go-sdk", install: headlessInstall, scenarios: []string{mcpStdio, mcpHTTP, mcpIDE, mcpLangserver}, together: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
			defer cancel()
			var together sync.WaitGroup
			for _, scenario := range c.scenarios {
				together.Go(func() {
					took, err := cancels(ctx, s, scenario)
					if err == nil {
						r.say(c, scenario, fmt.Sprintf("the call of the model ended after %s", took.Round(time.Millisecond)))
					}
					r.add(c, scenario, err)
				})
			}
			together.Wait()
		},
	}
}

// cancels has the model's call end because the client cancels its ask.
func cancels(ctx context.Context, s *stage, scenario string) (time.Duration, error) {
	cloud, err := newStreamWatch(s.provider.target)
	if err != nil {
		return 0, err
	}
	defer cloud.close()
	server, _, err := s.mcpBehind(ctx, scenario, "mcp-cancel-"+shortScenario[scenario], cloud.url())
	if err != nil {
		return 0, err
	}
	revision := mcpModern
	if scenario == mcpIDE || scenario == mcpLangserver {
		revision = mcpLegacy
	}
	session, err := server.connect(ctx, revision)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	word := newToken()
	ended := cloud.watch(word)
	result := make(chan error, 1)
	go func() {
		answer, err := session.ask(asked, object{"prompt": "[[text: one two three four five six seven eight nine ten]] [[chunks: 10]] [[pace: 5s]] " + word})
		if err == nil {
			err = fmt.Errorf("an ask that was cancelled is answered with %+v", answer)
		}
		result <- err
	}()
	select {
	case <-session.progress: // something of the answer is there
	case err := <-result:
		return 0, fmt.Errorf("before it was cancelled: %w", err)
	case <-ctx.Done():
		return 0, errors.New("no progress is reported")
	}
	start := time.Now()
	cancel()
	select {
	case <-ended:
	case <-time.After(askEnds):
		return 0, fmt.Errorf("the model is still asked %s after the ask was cancelled", askEnds)
	}
	took := time.Since(start)
	if err := <-result; !errors.Is(err, context.Canceled) {
		return 0, err
	}
	_, err = session.asksFor(ctx, server.source)
	return took, err
}

// A streamWatch passes calls on to a simulator, and tells when the caller of a watched one has
// gone.
type streamWatch struct {
	server *httptest.Server
	mu     sync.Mutex
	gone   map[string]chan struct{}
}

func newStreamWatch(target string) (*streamWatch, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	w := &streamWatch{gone: map[string]chan struct{}{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		defer w.over(r, body)
		proxy.ServeHTTP(rw, r)
	}))
	return w, nil
}

func (w *streamWatch) url() string { return w.server.URL }
func (w *streamWatch) close()      { w.server.Close() }

// watch returns what is closed when the caller of a call with a word in it has gone.
func (w *streamWatch) watch(word string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := make(chan struct{})
	w.gone[word] = gone
	return gone
}

// over looks at a call that has ended.
func (w *streamWatch) over(r *http.Request, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for word, gone := range w.gone {
		if bytes.Contains(body, []byte(word)) && r.Context().Err() != nil {
			close(gone)
			delete(w.gone, word)
		}
	}
}

package limittests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// embedBody asks for the vectors of n short texts.
func embedBody(n int) string {
	return `{"model":"gemini-embedding-001","dimensions":1,"input":["some text"` + strings.Repeat(`,"some text"`, n-1) + "]}"
}

// Every request that the provider gets for embeddings counts for rpm.
func TestEmbeddingsCountAsManyRequestsAsTheyMake(t *testing.T) {
	t.Parallel()
	provider := daemontest.NewSimulator(t, simulator.Options{})
	var asked atomic.Int64
	url := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		provider.ServeHTTP(w, r)
	}))
	clock := &perigeetest.Clock{}
	g := daemontest.StartIn(t, daemontest.Sources(daemontest.OneUpstream(url)+"keys:\n  - {name: few, secret: secret-few, rpm: 2}\n  - {name: more, secret: secret-more, rpm: 22}\n", daemontest.DataDir(t)),
		func(o *daemon.Options) { o.Now = clock.Now })
	for _, test := range []struct {
		key            string
		inputs, status int
		asked          int64
	}{
		{"secret-few", 201, http.StatusBadRequest, 0},
		{"secret-few", 1, http.StatusOK, 1}, // the one before was a request, too
		{"secret-few", 1, http.StatusTooManyRequests, 0},
		{"secret-more", 2048, http.StatusOK, 21},
		{"secret-more", 101, http.StatusTooManyRequests, 0},
	} {
		asked.Store(0)
		status, body := g.Request(t, http.MethodPost, "/v1/embeddings", test.key, embedBody(test.inputs))
		if status != test.status || asked.Load() != test.asked {
			t.Errorf("%s with %d inputs: %d after %d requests: %.200s", test.key, test.inputs, status, asked.Load(), body)
		}
	}
}

// What the client is told of the tokens of embeddings is recorded, and counts for tokens_per_day.
func TestTokensOfEmbeddingsCount(t *testing.T) {
	t.Parallel()
	_, url := daemontest.StartSimulator(t, simulator.Options{})
	g := daemontest.Start(t, daemontest.OneUpstream(url)+"keys: [{name: one, secret: secret-one, tokens_per_day: 300}]\n", nil)
	for range 2 {
		status, body := g.Request(t, http.MethodPost, "/v1/embeddings", "secret-one", embedBody(50))
		var told struct {
			Usage struct {
				Prompt int64 `json:"prompt_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(body), &told); err != nil || status != http.StatusOK || told.Usage.Prompt != 150 {
			t.Fatalf("got %d, %d tokens: %v", status, told.Usage.Prompt, err)
		}
	}
	if status, body := g.Request(t, http.MethodPost, "/v1/embeddings", "secret-one", embedBody(1)); status != http.StatusTooManyRequests {
		t.Errorf("with all tokens spent: %d %s", status, body)
	}
	_, usage := g.Request(t, http.MethodGet, "/v1/usage?by=key", "secret-one", "")
	if !strings.Contains(usage, `"input_tokens":300`) {
		t.Errorf("the usage is %s", usage)
	}
}

// An answer that the client does not wait for has cost what it asked.
func TestAbandonedEmbeddingsCount(t *testing.T) {
	t.Parallel()
	asked, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	url := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		daemontest.Tell(asked)
		<-r.Context().Done()
		daemontest.Tell(gone)
	}))
	g := daemontest.Start(t, daemontest.OneUpstream(url), nil)
	conn := daemontest.Dial(t, g)
	body := embedBody(10)
	if _, err := fmt.Fprintf(conn, "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, asked, "the provider to be asked")
	_ = conn.Close()
	await.Receive(t, gone, "the provider to notice")
	if c := g.Ended(t, perigee.OutcomeCanceled); c.Usage.Input != 30 {
		t.Errorf("recorded with %+v", c.Usage)
	}
}

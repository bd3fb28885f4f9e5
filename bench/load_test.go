package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serveTest serves one handler for all calls and returns its address.
func serveTest(t *testing.T, h http.HandlerFunc) string {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", h)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestClientTakesTheProvidersAnswer(t *testing.T) {
	addr := serveTest(t, new(provider).provide)
	clients, err := dialCrowd(t.Context(), 3, addr, newQuestion(gemini, quickModel, 20<<10))
	if err != nil {
		t.Fatal(err)
	}
	defer clients.close()
	samples, took, err := clients.ask(t.Context(), time.Hour, 4)
	if err != nil || len(samples) != 12 || took <= 0 {
		t.Fatalf("%d samples in %v, %v", len(samples), took, err)
	}
	for _, s := range samples {
		if s.first <= 0 || s.first > s.total {
			t.Errorf("first event after %v of %v", s.first, s.total)
		}
	}
}

func TestClientRefusesWrongAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"error": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			http.Error(w, "no such model", http.StatusNotFound)
		}, "status 404: no such model"},
		"too few events": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(answerChunks[0])
		}, "1 events instead of 20"},
		"broken off": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(answerChunks[0])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := dial(t.Context(), serveTest(t, test.handler), newQuestion(gemini, quickModel, 1000))
			if err != nil {
				t.Fatal(err)
			}
			defer c.conn.Close()
			if _, err := c.ask(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestCrowdStopsWhenItIsTold(t *testing.T) {
	clients, err := dialCrowd(t.Context(), 2, serveTest(t, new(provider).provide), newQuestion(gemini, quickModel, 1000))
	if err != nil {
		t.Fatal(err)
	}
	defer clients.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	samples, _, err := clients.ask(ctx, time.Hour, turnCalls)
	if err != context.Canceled || len(samples) != 2 {
		t.Errorf("%d samples, %v", len(samples), err)
	}
}

func TestProviderAnswersWhole(t *testing.T) {
	addr := serveTest(t, new(provider).provide)
	resp, err := http.Post("http://"+addr+"/v1beta/models/m:generateContent", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(string(body), `{"candidates"`) || !strings.HasSuffix(string(body), "}") {
		t.Errorf("%s, %v", body, err)
	}
}

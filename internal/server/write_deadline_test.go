package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perigee/internal/server"
)

// A deadlineRecorder knows whether an answer was begun without a deadline.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadline time.Time
	without  bool
}

func (w *deadlineRecorder) SetWriteDeadline(end time.Time) error { w.deadline = end; return nil }
func (w *deadlineRecorder) SetReadDeadline(time.Time) error      { return nil }

func (w *deadlineRecorder) check() { w.without = w.without || !w.deadline.After(time.Now()) }

func (w *deadlineRecorder) WriteHeader(status int) {
	w.check()
	w.ResponseRecorder.WriteHeader(status)
}

func (w *deadlineRecorder) Write(p []byte) (int, error) {
	w.check()
	return w.ResponseRecorder.Write(p)
}

// A client that opens no window for an answer would keep its connection for ever.
func TestEveryAnswerHasAWriteDeadline(t *testing.T) {
	api := server.New(server.Options{Upstream: answering{}},
		server.Settings{MaxBody: 1 << 20, Origins: []string{"https://app.example.com"}})
	const ask = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]`
	requests := map[string]string{"POST /v1/chat/completions": ask + "}", "POST /v1/messages": ask + `,"stream":true}`}
	for _, path := range []string{"/", "/health", "/ready", "/v1/models", "/v1/usage", "/v1/quota", "/v1/responses/x",
		"/v1/images/x",
		"/v1/accounts", "/v1beta/models", "/api/event_logging/batch", "/unknown"} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE"} {
			requests[method+" "+path] = ""
		}
	}
	for request, body := range requests {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if method == "OPTIONS" {
			r.Header.Set("Origin", "https://app.example.com")
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		}
		w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		if api.ServeHTTP(w, r); w.without {
			t.Errorf("%s: %d was written without a deadline", request, w.Code)
		}
	}
}

package gemini

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
)

// An upstream rests for a model when the provider has limited each of its keys, until the first cooldown ends.
func TestResting(t *testing.T) {
	var seconds atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", fmt.Sprint(seconds.Add(10)))
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down"}}`)
	}))
	defer server.Close()
	now := time.Unix(1000, 0)
	u := New(Options{Name: "s", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("a"), perigee.NewSecret("b")},
		Now: func() time.Time { return now }})
	defer u.Close()
	if why, _ := u.Resting("m"); why != "" {
		t.Errorf("before a call: %s", why)
	}
	req := request(t, true)
	req.Model = "m"
	if _, err := ask(t.Context(), u, req); err == nil {
		t.Fatal("the call was answered")
	}
	why, until := u.Resting("m")
	if why != "the provider has limited its 2 API keys" || !until.After(now) {
		t.Errorf("got %q until %v", why, until)
	}
	if why, _ := u.Resting("other"); why != "" {
		t.Errorf("another model: %s", why)
	}
	now = until
	if why, _ := u.Resting("m"); why != "" {
		t.Errorf("after the cooldown: %s", why)
	}
}

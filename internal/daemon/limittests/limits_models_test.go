package limittests

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"perigee/internal/adapt/models"
	"perigee/internal/testing/daemontest"
)

// A model that takes the place of another one answers only for keys that may use it, in every
// dialect.
func TestKeysAreNotAnsweredByModelsTheyMayNotUse(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{"gemini-3-pro-preview", "gemini-2.0-flash", "claude-opus-4-5-thinking", "gemini-3-pro-high", "gemini-3-flash"} {
		spec, ok := models.Lookup(asked)
		if !ok || spec.Instead == "" {
			t.Fatalf("nothing takes the place of %s", asked)
		}
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			var answered atomic.Int64
			url := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				switch {
				case r.Method == http.MethodGet:
					_, _ = fmt.Fprintf(w, `{"models":[{"name":"models/%s"}]}`, spec.Instead)
				case !strings.Contains(r.URL.Path, "/"+spec.Instead+":"):
					http.Error(w, `{"error":{"code":404,"message":"no such model","status":"NOT_FOUND"}}`, http.StatusNotFound)
				case strings.HasSuffix(r.URL.Path, ":countTokens"):
					answered.Add(1)
					_, _ = io.WriteString(w, `{"totalTokens":1}`)
				case strings.HasSuffix(r.URL.Path, ":streamGenerateContent"):
					answered.Add(1)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", daemontest.LastEvent)
				default:
					answered.Add(1)
					_, _ = io.WriteString(w, daemontest.LastEvent)
				}
			}))
			g := daemontest.Start(t, daemontest.OneUpstream(url)+fmt.Sprintf("keys:\n  - {name: old, secret: secret-old, models: [%q]}\n  - {name: both, secret: secret-both, models: [%q, %q]}\n", asked, asked, spec.Instead), nil)
			for path, body := range map[string]string{
				"/v1/chat/completions":                                 `{"model":"` + asked + `","messages":[{"role":"user","content":"Hi"}]}`,
				"/v1/chat/completions?":                                `{"model":"` + asked + `","stream":true,"messages":[{"role":"user","content":"Hi"}]}`,
				"/v1/messages":                                         `{"model":"` + asked + `","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`,
				"/v1/messages/count_tokens":                            `{"model":"` + asked + `","messages":[{"role":"user","content":"Hi"}]}`,
				"/v1/responses":                                        `{"model":"` + asked + `","input":"Hi"}`,
				"/v1beta/models/" + asked + ":generateContent":         daemontest.Question,
				"/v1beta/models/" + asked + ":" + daemontest.Streaming: daemontest.Question,
				"/v1beta/models/" + asked + ":countTokens":             daemontest.Question,
				"/v1beta/models/models/" + asked + ":generateContent":  daemontest.Question,
			} {
				if status, answer := g.Request(t, http.MethodPost, path, "secret-old", body); status == http.StatusOK || answered.Swap(0) != 0 {
					t.Errorf("%s: %d %.200s", path, status, answer)
				}
				if status, answer := g.Request(t, http.MethodPost, path, "secret-both", body); status != http.StatusOK || answered.Swap(0) == 0 {
					t.Errorf("%s with a key for both: %d %.200s", path, status, answer)
				}
			}
			for _, path := range []string{"/v1/models/", "/v1beta/models/"} {
				if status, answer := g.Request(t, http.MethodGet, path+spec.Instead, "secret-old", ""); status != http.StatusNotFound {
					t.Errorf("GET %s: %d %s", path, status, answer)
				}
			}
		})
	}
}

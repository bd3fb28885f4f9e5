package server_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/mount"
)

// askedIn are requests for a model in each dialect.
var askedIn = map[string][2]string{
	"chat":      {"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`},
	"responses": {"/v1/responses", `{"model":"m","input":"Hi"}`},
	"messages":  {"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`},
	"gemini":    {"/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"Hi"}]}]}`},
}

// The official libraries of OpenAI and Anthropic wait for as long as Retry-After says, without a
// word, unless x-should-retry forbids it.
func TestLibrariesDoNotWaitForAQuota(t *testing.T) {
	tests := []struct {
		class perigee.Class
		retry time.Duration
		want  string
	}{
		{perigee.ClassExhausted, time.Hour, "false"},
		{perigee.ClassExhausted, 5 * time.Second, "false"},
		{perigee.ClassExhausted, 0, "false"},
		{perigee.ClassRateLimited, 61 * time.Second, "false"},
		{perigee.ClassRateLimited, 60*time.Second + time.Millisecond, "false"},
		{perigee.ClassRateLimited, time.Minute, ""},
		{perigee.ClassRateLimited, 0, ""},
		{perigee.ClassUnavailable, time.Hour, "false"},
		{perigee.ClassUnavailable, time.Second, ""},
		{perigee.ClassInvalid, 0, ""},
	}
	for _, test := range tests {
		upstream := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
			yield(perigee.Event{}, &perigee.Error{Class: test.class, Message: "no", Retry: test.retry})
		})
		api := server.New(server.Options{Upstream: upstream}, server.Settings{MaxBody: 1 << 20, Loopback: true})
		for dialect, ask := range askedIn {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+ask[0], strings.NewReader(ask[1])))
			if got := w.Header().Get("X-Should-Retry"); got != test.want || w.Header().Get("X-Perigee-Class") != string(test.class) {
				t.Errorf("%s, %s, %v: %d with x-should-retry %q and Retry-After %q", dialect, test.class, test.retry, w.Code, got,
					w.Header().Get("Retry-After"))
			}
		}
		api.Close()
	}
}

// A spentRig is a store in which every key has spent more than it may.
type spentRig struct{}

func (spentRig) Usage(context.Context, perigee.UsageQuery) ([]perigee.UsageRow, error) {
	return []perigee.UsageRow{{InputTokens: 1000}}, nil
}

// A budget of perigee's own is a limit like that of a provider, on sockets and for MCP clients,
// too.
func TestLibrariesDoNotWaitForABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
			_ = yield(begin, nil) && yield(frame, nil) && yield(end, nil)
		})
		ask := func(_ http.ResponseWriter, r *http.Request) error {
			_, err := mount.CallOf(r).Admit(r.Context())
			return err
		}
		d := newSocketRig(t, upstream,
			server.Settings{Keys: []server.Key{{Name: "k", Secret: perigee.NewSecret("good"), TokensPerDay: 1}}},
			func(o *server.Options) {
				o.Stored = spentRig{}
				o.Mounts = []server.Mount{mount.Methods{http.MethodPost: ask}.At("/mcp", mount.Client)}
			})
		paths := maps.Clone(askedIn)
		paths["mcp"] = [2]string{"/mcp", "{}"}
		for dialect, ask := range paths {
			r := httptest.NewRequest(http.MethodPost, "http://localhost"+ask[0], strings.NewReader(ask[1]))
			r.Header.Set("Authorization", "Bearer good")
			w := httptest.NewRecorder()
			d.api.ServeHTTP(w, r)
			if w.Code != http.StatusTooManyRequests || w.Header().Get("X-Should-Retry") != "false" {
				t.Errorf("%s: %d with %v", dialect, w.Code, w.Header())
			}
		}
		p, _, err := d.dial(t, func(o *websocket.DialOptions) { o.HTTPHeader.Set("Authorization", "Bearer good") })
		if err != nil {
			t.Fatal(err)
		}
		p.say(`{"type":"response.create","model":"m","input":"Hi"}`)
		if got := p.hear(); got.Status != http.StatusTooManyRequests || got.Headers["x-should-retry"] != "false" {
			t.Errorf("on a socket: %+v", got)
		}
	})
}

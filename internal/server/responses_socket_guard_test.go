package server_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/server"
)

func withKey(secret string) func(*websocket.DialOptions) {
	return func(o *websocket.DialOptions) { o.HTTPHeader.Set("Authorization", "Bearer "+secret) }
}

func TestSocketIsOpenedOnlyToThoseWhoMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{}, server.Settings{Keys: []server.Key{{Name: "laptop", Secret: perigee.NewSecret("good")}}},
			nil)
		for name, test := range map[string]struct {
			change func(*websocket.DialOptions)
			status int
			says   string
		}{
			"no key":    {nil, 401, `"type":"authentication_error"`},
			"wrong key": {withKey("bad"), 401, "unknown key"},
			"another origin": {func(o *websocket.DialOptions) {
				withKey("good")(o)
				o.HTTPHeader.Set("Origin",
					"https://example.com")
			}, 403, "web page"},
			"another host": {func(o *websocket.DialOptions) { withKey("good")(o); o.Host = "example.com" }, 403, "example.com"},
		} {
			_, resp, err := d.dial(t, test.change)
			if err == nil || resp == nil {
				t.Errorf("%s: opened", name)
				continue
			}
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != test.status || !strings.Contains(string(body), test.says) ||
				!strings.HasPrefix(string(body), `{"error":`) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			}
		}
		if _, _, err := d.dial(t, withKey("good")); err != nil {
			t.Error(err)
		}
	})
}

// Each message is let in on its own, under the settings of the moment.
func TestEachMessageIsLetInOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []server.Key{{Name: "laptop", Secret: perigee.NewSecret("good"), Models: []string{"m"}, RPM: 3}}
		d := newSocketRig(t, &echoRig{}, server.Settings{Keys: keys}, nil)
		p, _, err := d.dial(t, withKey("good"))
		if err != nil {
			t.Fatal(err)
		}
		p.say(strings.Replace(hello, `"m"`, `"other"`, 1))
		if e := p.hear(); e.Status != http.StatusForbidden || e.Error.Code != "forbidden" {
			t.Errorf("heard %+v", e)
		}
		for range 2 {
			p.say(hello)
			p.until("response.completed")
		}
		p.say(hello)
		if e := p.hear(); e.Status != http.StatusTooManyRequests || e.Headers["retry-after"] != "20" {
			t.Errorf("heard %+v", e)
		}
		keys[0].Secret = perigee.NewSecret("changed")
		d.api.Apply(server.Settings{Keys: keys, MaxBody: 1 << 20, Loopback: true})
		p.say(hello)
		if e := p.hear(); e.Status != http.StatusUnauthorized {
			t.Errorf("heard %+v", e)
		}
	})
}

// limits.concurrency counts answers, not sockets.
func TestSocketsAreNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{wait: slowly}, server.Settings{Concurrency: 1}, nil)
		a, b := d.connect(t), d.connect(t)
		if n := d.api.Active(); n != 0 {
			t.Errorf("%d calls are open", n)
		}
		a.say(hello)
		a.until("response.in_progress")
		if n := d.api.Active(); n != 1 {
			t.Errorf("%d calls are open", n)
		}
		b.say(hello)
		if e := b.hear(); e.Status != http.StatusTooManyRequests || !strings.Contains(e.Error.Message, "limits.concurrency") {
			t.Errorf("heard %+v", e)
		}
		a.until("response.completed")
		synctest.Wait()
		c := d.connect(t)
		c.say(hello)
		c.until("response.completed")
	})
}

func TestHandshakeThatCannotBeAccepted(t *testing.T) {
	good := map[string]string{"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
	for name, test := range map[string]struct {
		header, value string
		status        int
	}{
		"version":    {"Sec-WebSocket-Version", "8", 426},
		"key":        {"Sec-WebSocket-Key", "short", 426},
		"connection": {"Connection", "close", 426},
		"upgrade":    {"Upgrade", "h2c", 405},
	} {
		bubble(name, t, func(t *testing.T) {
			d := newSocketRig(t, &echoRig{}, server.Settings{}, nil)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/responses", nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range good {
				req.Header.Set(name, value)
			}
			req.Header.Set(test.header, test.value)
			transport := &http.Transport{DialContext: d.pipes.Dial, DisableKeepAlives: test.header != "Connection"}
			defer transport.CloseIdleConnections()
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != test.status || !strings.HasPrefix(string(body), `{"error":`) {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
		})
	}
}

// An invalid message counts as a request of the key, as a request with an invalid body does, and a
// client that sends nothing else is disconnected.
func TestInvalidMessagesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		recorded := 0
		keys := []server.Key{{Name: "laptop", Secret: perigee.NewSecret("good"), RPM: 4}}
		d := newSocketRig(t, &echoRig{}, server.Settings{Keys: keys}, func(o *server.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			o.Refused = func(context.Context, string, perigee.Origin, string, *perigee.Error) { recorded++ }
		})
		p, _, err := d.dial(t, withKey("good"))
		if err != nil {
			t.Fatal(err)
		}
		invalid := func(want int) {
			t.Helper()
			p.say("nonsense")
			if e := p.hear(); e.Status != want {
				t.Errorf("heard %+v, want %d", e, want)
			}
		}
		invalid(http.StatusBadRequest)
		invalid(http.StatusBadRequest)
		if err := p.conn.Write(t.Context(), websocket.MessageBinary, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
		p.hear()
		p.say(hello)
		p.until("response.completed")
		for range 16 {
			invalid(http.StatusTooManyRequests)
		}
		if code := p.closed(); code != websocket.StatusPolicyViolation {
			t.Errorf("closed with %v", code)
		}
		synctest.Wait()
		if recorded != 19 || log.Len() > 0 {
			t.Errorf("%d refusals were recorded, and the log has %s", recorded, log.String())
		}
	})
}

package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

func postMessages(t *testing.T, c *http.Client, path, body string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Post("http://localhost/v1/messages"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

// A count that no upstream can make is estimated, and says so.
func TestAnthropicCountIsEstimated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := serve(t, script(nil), t.Context())
		resp, body := postMessages(t, client, "/count_tokens", `{"model":"m","messages":[{"role":"user","content":"12345678"}]}`)
		if body != `{"input_tokens":2}` || resp.Header.Get("X-Perigee-Notes") != "mapped token count: estimated" {
			t.Errorf("got %s with notes %q", body, resp.Header.Get("X-Perigee-Notes"))
		}
		if id := resp.Header.Get("Request-Id"); !strings.HasPrefix(id, "req_") {
			t.Errorf("the id of the request is %q", id)
		}
	})
}

// Signs of life are pings, also before anything is known about the answer.
func TestAnthropicStreamIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
			if quietFor(ctx, 16*time.Second); !yield(begin, nil) || !yield(perigee.Event{Kind: perigee.EventText, Text: "a"}, nil) {
				return
			}
			if quietFor(ctx, 16*time.Second); ctx.Err() == nil {
				yield(end, nil)
			}
		})
		_, client := serve(t, upstream, t.Context())
		_, body := postMessages(t, client, "", `{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}`)
		var names []string
		for line := range strings.Lines(body) {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		want := "ping message_start ping content_block_start content_block_delta ping content_block_stop message_delta message_stop"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

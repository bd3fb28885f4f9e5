package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/membudget"
)

// What is said about the bytes in the house adds up to none, however the calls end. Each runs in a
// bubble.
func TestBodiesInTheHouseAddUp(t *testing.T) {
	chat := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 100_000) + `"}]}`
	answer := func(_ context.Context, yield func(perigee.Event, error) bool) {
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "ok"}, nil) && yield(end, nil)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, chat)
	_ = z.Close()
	for _, test := range []struct {
		name, path, body string
		gzip             bool
		leave            time.Duration // after which the client does; 0 means it stays
		upstream         script
		none             bool // nothing is ever held
	}{
		{name: "answered", path: "/v1/chat/completions", body: chat, upstream: answer},
		{name: "streamed", path: "/v1/messages", body: `{"max_tokens":9,"stream":true,` + chat[1:], upstream: answer},
		{name: "packed", path: "/v1/chat/completions", body: zipped.String(), gzip: true, upstream: answer},
		{name: "counted", path: "/v1beta/models/m:countTokens", body: `{"contents":[]}`, upstream: answer},
		{name: "in the background", path: "/v1/responses", body: `{"model":"m","background":true,"input":"x"}`, upstream: answer},
		{name: "not JSON", path: "/v1/chat/completions", body: chat[1:], upstream: answer},
		{name: "too large", path: "/v1/chat/completions", body: strings.Repeat(chat, 20), upstream: answer, none: true},
		{name: "packed badly", path: "/v1/chat/completions", body: chat, gzip: true, upstream: answer},
		{name: "failed", path: "/v1/chat/completions", body: chat,
			upstream: func(_ context.Context, yield func(perigee.Event, error) bool) {
				yield(perigee.Event{}, perigee.Errorf(perigee.ClassCapacity, "no room"))
			}},
		{name: "left alone", path: "/v1/chat/completions", body: chat, leave: time.Second,
			upstream: func(ctx context.Context, yield func(perigee.Event, error) bool) {
				<-ctx.Done()
				yield(perigee.Event{}, ctx.Err())
			}},
		{name: "panicked", path: "/v1/chat/completions", body: chat,
			upstream: func(context.Context, func(perigee.Event, error) bool) { panic("oh") }},
		{name: "panicked after the head", path: "/v1/messages", body: `{"max_tokens":9,"stream":true,` + chat[1:],
			upstream: func(_ context.Context, yield func(perigee.Event, error) bool) {
				_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "ok"}, nil)
				panic("oh")
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				house := newSocketRig(t, test.upstream, server.Settings{}, func(o *server.Options) {
					o.Memory = membudget.New(1<<30, func(bytes int64) { most.Store(max(most.Load(), now.Add(bytes))) })
					o.Responses = &storeRig{}
				})
				ctx := t.Context()
				if test.leave > 0 {
					var leave context.CancelFunc
					ctx, leave = context.WithTimeout(ctx, test.leave)
					defer leave()
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+test.path, strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				if test.gzip {
					req.Header.Set("Content-Encoding", "gzip")
				}
				transport := &http.Transport{DialContext: house.pipes.Dial, DisableKeepAlives: true}
				if resp, err := transport.RoundTrip(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				synctest.Wait()
				if now.Load() != 0 || (most.Load() == 0) != test.none {
					t.Errorf("%d bytes are left of %d", now.Load(), most.Load())
				}
			})
		})
	}
}

// The same of what is asked over a socket.
func TestBodiesOfASocketAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		house := newSocketRig(t, &echoRig{}, server.Settings{}, func(o *server.Options) {
			o.Memory = membudget.New(1<<30, func(bytes int64) { most.Store(max(most.Load(), now.Add(bytes))) })
		})
		p := house.connect(t)
		p.say(`{"type":"response.create","model":"m","input":"hello"}`)
		p.until("response.completed")
		p.say(`{"type":"response.create","model":"m","input":7}`)
		p.until("error")
		p.say(`{"type":"something"}`)
		p.until("error")
		_ = p.conn.CloseNow() // what the socket remembers of its answers counts until then
		synctest.Wait()
		if now.Load() != 0 || most.Load() == 0 {
			t.Errorf("%d bytes are left of %d", now.Load(), most.Load())
		}
	})
}

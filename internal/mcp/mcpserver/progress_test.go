package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee/internal/mcp/ask"
	"perigee/internal/testing/perigeetest/await"
)

// TestProgressIsSentWhileAnAnswerGrows checks that values grow also when the text is rewritten, and
// that the last state is sent.
func TestProgressIsSentWhileAnAnswerGrows(t *testing.T) {
	const updates = 2000
	b := &backendRig{answer: func(_ context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
		progress(ask.Progress{Steps: 1})
		for i := range updates {
			progress(ask.Progress{Text: strings.Repeat("word ", i%100) + fmt.Sprint(i), Steps: 2})
		}
		return ask.Answer{Text: "done", Status: ask.Done}, nil
	}}
	s := newServer(t, Options{Backend: b})
	h := overHTTP(t, s)
	var mu sync.Mutex
	var got []*mcp.ProgressNotificationParams
	options := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Params)
	}}
	for name, c := range map[string]*mcp.ClientSession{"stdio": pipes(t, s, options, nil), "http": h.connect(t, "team", options)} {
		t.Run(name, func(t *testing.T) {
			mu.Lock()
			got = nil
			mu.Unlock()
			params := &mcp.CallToolParams{Name: "ask_antigravity", Arguments: map[string]any{"prompt": "p"}}
			params.SetProgressToken("token-" + name)
			if _, err := c.CallTool(soon(t), params); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the last message", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(got) > 0 && strings.HasSuffix(got[len(got)-1].Message, fmt.Sprint(updates-1))
			})
			mu.Lock()
			defer mu.Unlock()
			value := 0.0
			for _, p := range got {
				if p.ProgressToken != "token-"+name || p.Progress <= value || len(p.Message) > progressTail+len("…") {
					t.Errorf("got %+v after %v", p, value)
				}
				value = p.Progress
			}
		})
	}
	// Without a token there is no progress.
	c := pipes(t, s, options, nil)
	mu.Lock()
	got = nil
	mu.Unlock()
	callTool(t, c, "ask_antigravity", map[string]any{"prompt": "p"}, nil)
	callTool(t, c, "list_models", nil, nil)
	mu.Lock()
	defer mu.Unlock()
	if len(got) > 0 {
		t.Errorf("%d notifications without a token", len(got))
	}
}

func TestNotificationsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		var last string
		begun := time.Now()
		r := &reporter{changed: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
		r.send = func(_ float64, message string) { at, last = append(at, time.Since(begun)), message }
		go r.loop()
		for i := range 600 {
			r.update(ask.Progress{Text: fmt.Sprint(i)})
			time.Sleep(time.Millisecond)
		}
		r.close()
		want := []time.Duration{0, progressPause, 2 * progressPause, 600 * time.Millisecond}
		if !slices.Equal(at, want) || last != "599" {
			t.Errorf("notifications after %v, the last one is %q", at, last)
		}
	})
}

func TestProgressMessages(t *testing.T) {
	for _, c := range []struct {
		p    ask.Progress
		want string
	}{
		{ask.Progress{}, "working"},
		{ask.Progress{Steps: 3}, "working, step 3"},
		{ask.Progress{Text: " one\n\n two "}, "one two"},
		{ask.Progress{Text: strings.Repeat("é", 150)}, "…" + strings.Repeat("é", 100)},
	} {
		if got := progressMessage(c.p); got != c.want {
			t.Errorf("%+v: %q", c.p, got)
		}
	}
}

package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee/internal/ask"
)

// TestProgressIsSentWhileAnAnswerGrows checks that values grow also when the text is rewritten, that the last state is sent, and
// that notifications are few.
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
			at := time.Now()
			if _, err := c.CallTool(soon(t), params); err != nil {
				t.Fatal(err)
			}
			took := time.Since(at)
			last := func() string {
				mu.Lock()
				defer mu.Unlock()
				if len(got) == 0 {
					return ""
				}
				return got[len(got)-1].Message
			}
			for deadline := time.Now().Add(time.Minute); !strings.HasSuffix(last(), fmt.Sprint(updates-1)); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the last message is %q", last())
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if limit := int(took/progressPause) + 3; len(got) > limit {
				t.Errorf("%d notifications in %v, at most %d", len(got), took, limit)
			}
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

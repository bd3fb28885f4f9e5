package mcpserver

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee/internal/mcp/ask"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// TestManyAsks makes a thousand asks, twenty at a time. Each gets its own answer and its own
// progress.
func TestManyAsks(t *testing.T) {
	perigeetest.Slow(t)
	b := &backendRig{answer: func(_ context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
		progress(ask.Progress{Text: "p:" + r.Prompt})
		return ask.Answer{Text: "a:" + r.Prompt, Status: ask.Done, Conversation: "c:" + r.Prompt}, nil
	}}
	s := newServer(t, Options{Backend: b})
	var mu sync.Mutex
	seen := map[any][]string{}
	options := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Params.ProgressToken] = append(seen[r.Params.ProgressToken], r.Params.Message)
	}}
	for name, c := range map[string]*mcp.ClientSession{"stdio": pipes(t, s, options, nil), "http": overHTTP(t, s).connect(t, "team", options)} {
		var all sync.WaitGroup
		for worker := range 20 {
			all.Go(func() {
				for i := range 50 {
					prompt := fmt.Sprintf("%s-%d-%d", name, worker, i)
					params := &mcp.CallToolParams{Name: "ask_antigravity", Arguments: map[string]any{"prompt": prompt}}
					params.SetProgressToken(prompt)
					r, err := c.CallTool(soon(t), params)
					if err != nil || r.IsError || r.Content[0].(*mcp.TextContent).Text != "a:"+prompt {
						t.Errorf("%s: %v, %+v", prompt, err, r)
						return
					}
				}
			})
		}
		await.Return(t, all.Wait, "all asks")
	}
	mu.Lock()
	defer mu.Unlock()
	for token, messages := range seen {
		for _, m := range messages {
			if m != fmt.Sprintf("p:%v", token) {
				t.Errorf("%v got the progress %q", token, m)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) > 0 {
		t.Errorf("calls are counted that are over: %v", s.keys)
	}
}

func BenchmarkAsk(b *testing.B) {
	s := openServer(Options{})
	defer s.Close()
	clientSide, serverSide := mcp.NewInMemoryTransports()
	server, err := s.mcp().Connect(withSession(context.Background(), newSession(s, Caller{Trusted: true})), serverSide, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "bench"}, nil).Connect(context.Background(), clientSide, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if _, err := c.CallTool(context.Background(), &mcp.CallToolParams{Name: "ask_antigravity", Arguments: map[string]any{"prompt": "p"}}); err != nil {
			b.Fatal(err)
		}
	}
}

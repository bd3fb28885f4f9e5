package mcpserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"perigee"
)

// TestLimitsOfAKeyApplyToAsks refuses one ask and admits the next. Other tools have no such limit.
func TestLimitsOfAKeyApplyToAsks(t *testing.T) {
	b := &backendRig{}
	s := newServer(t, Options{Backend: b})
	h := overHTTP(t, s)
	var full atomic.Bool
	var admitted, released atomic.Int32
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), Caller{Key: "team", Admit: func(context.Context) (func(), error) {
			if full.Load() {
				return nil, perigee.Errorf(perigee.ClassRateLimited, "the key has used its requests").WithHint("wait")
			}
			admitted.Add(1)
			return func() { released.Add(1) }, nil
		}})))
	})
	c := h.connect(t, "team", nil)
	full.Store(true)
	if r := callTool(t, c, "ask_antigravity", map[string]any{"prompt": "p"}, nil); !r.IsError || !strings.Contains(textOf(t, r), "used its requests; wait") {
		t.Errorf("got %+v", r)
	}
	if len(b.asks) != 0 {
		t.Error("it was asked")
	}
	if r := callTool(t, c, "list_models", nil, nil); r.IsError {
		t.Errorf("list_models: %q", textOf(t, r))
	}
	full.Store(false)
	if r := callTool(t, c, "ask_antigravity", map[string]any{"prompt": "p"}, nil); r.IsError {
		t.Errorf("got %q", textOf(t, r))
	}
	if admitted.Load() != 1 || released.Load() != 1 {
		t.Errorf("%d admitted, %d released", admitted.Load(), released.Load())
	}
}

func TestDrainEndsStreamsBetweenCalls(t *testing.T) {
	s := newServer(t, Options{})
	h := overHTTP(t, s)
	id := h.open(t)
	stream := h.request(t, soon(t), "GET", "", "Mcp-Session-Id", id)
	if err := s.Drain(soon(t)); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream: %v", err)
	}
	if r := h.request(t, soon(t), "POST", askLine(3, "p"), "Mcp-Session-Id", id); r.StatusCode != 200 {
		t.Errorf("a call in the session: %d", r.StatusCode)
	}
}

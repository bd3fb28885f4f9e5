package antigravity

import (
	"strings"
	"sync"
	"testing"

	"perigee"
)

// bodies is a tap that keeps copies.
type bodies struct {
	mu       sync.Mutex
	requests []string
	answer   strings.Builder
}

func (b *bodies) Body(at perigee.TapPoint, pieces ...[]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	for _, p := range pieces {
		text.Write(p)
	}
	switch at {
	case perigee.TapProviderRequest:
		b.requests = append(b.requests, text.String())
	case perigee.TapProviderAnswer:
		b.answer.WriteString(text.String())
	}
}

func (b *bodies) Done() {}

// A tap sees the request in its envelope and the answer as the gateway sends it, and no access
// token.
func TestATapSeesTheEnvelope(t *testing.T) {
	r := newRig(t, nil)
	var tap bodies
	req := prompt(t, "gemini-3-flash", user("hello"))
	req.Log.SetTap(&tap)
	if heard := r.hear(req); !strings.Contains(heard, "finish STOP") {
		t.Fatal(heard)
	}
	if len(tap.requests) != 1 || !strings.Contains(tap.requests[0], `"project":`) || !strings.Contains(tap.requests[0], `"text":"hello"`) ||
		strings.Contains(tap.requests[0], "Bearer") {
		t.Errorf("sent %q", tap.requests)
	}
	if answer := tap.answer.String(); !strings.HasPrefix(answer, "data: ") || !strings.Contains(answer, `"candidates"`) {
		t.Errorf("answered %q", answer)
	}
}

package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/responses"
)

// memoryProvider answers every request from memory.
type memoryProvider struct{ stream, whole string }

func (p memoryProvider) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	body, kind := p.whole, "application/json"
	if req.URL.RawQuery != "" {
		body, kind = p.stream, "text/event-stream"
	}
	return &http.Response{StatusCode: http.StatusOK, Request: req, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// BenchmarkVerbatim measures a call of a client in the provider's own dialect.
func BenchmarkVerbatim(b *testing.B) {
	provider := memoryProvider{strings.Repeat("data: "+strings.Replace(finished, `,"finishReason":"STOP"`, "", 1)+"\r\n\r\n", 9) + "data: " + finished + "\r\n\r\n", finished}
	for _, stream := range []bool{true, false} {
		for _, size := range []int{1 << 10, 100 << 10} {
			b.Run(fmt.Sprintf("stream=%v/%d", stream, size), func(b *testing.B) {
				u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Keys: []perigee.Secret{perigee.NewSecret("k")}, Transport: provider})
				defer u.Close()
				body := []byte(`{"contents":[{"parts":[{"text":"` + strings.Repeat("x", size) + `"}]}]}`)
				b.ReportAllocs()
				for b.Loop() {
					req, err := dialect.DecodeRequest(perigee.Origin{Body: body}, "gemini-3-flash", stream)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := ask(b.Context(), u, req); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkForwardedItems decodes a Responses request of 100 KB and looks for items that its provider
// cannot read, of which there are none: without reasoning, with reasoning, and as a client sent it.
func BenchmarkForwardedItems(b *testing.B) {
	body := func(step string) []byte {
		var s strings.Builder
		s.WriteString(`{"model":"m","stream":true,"store":false,"reasoning":{"effort":"high"},"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Why?"}]}`)
		for n := 0; s.Len() < 100<<10; n++ {
			fmt.Fprintf(&s, step+`,{"type":"function_call","call_id":"call_%[1]d","name":"read","arguments":"{\"path\":\"/src/a.go\"}"},{"type":"function_call_output","call_id":"call_%[1]d","output":"%[2]s"}`,
				n, strings.Repeat(`\treturn nil, fmt.Errorf(\"load %q: %w\", id, err)\n`, 70))
		}
		return []byte(s.String() + `]}`)
	}
	bodies := map[string][]byte{
		"plain":     body(`,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look at the next file.\n"}]}`),
		"reasoning": body(`,{"type":"reasoning","id":"rs_%[1]d","summary":[],"encrypted_content":"gAAA` + strings.Repeat("x", 1000) + `"}`),
	}
	for _, c := range captures(b) {
		if c.Path == "/v1/responses" && len(c.Body) > len(bodies["capture"]) {
			bodies["capture"] = c.Body
		}
	}
	for _, name := range []string{"plain", "reasoning", "capture"} {
		body := bodies[name]
		asked := func() *perigee.Request {
			req, err := responses.DecodeRequest(perigee.Origin{Body: body}, nil)
			if err != nil {
				b.Fatal(err)
			}
			return req.Request
		}
		b.Run(fmt.Sprintf("decode/%s/%dKB", name, len(body)>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				asked()
			}
		})
		b.Run(fmt.Sprintf("items/%s/%dKB", name, len(body)>>10), func(b *testing.B) {
			req := asked()
			b.ReportAllocs()
			for b.Loop() {
				if rest, notes := ownItems(req); len(rest) != len(body) || notes != nil {
					b.Fatal(notes)
				}
			}
		})
	}
}

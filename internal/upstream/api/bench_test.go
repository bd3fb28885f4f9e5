package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
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

package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee"
)

// BenchmarkStream is one call with an answer of twenty chunks, which arrive one by one or all at
// once.
func BenchmarkStream(b *testing.B) {
	var chunks []string
	for i := range 20 {
		chunks = append(chunks, fmt.Sprintf(`data: {"candidates":[{"content":{"role":"model","parts":[{"text":"a few words, number %d"}]}}],`+
			`"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":%d,"totalTokenCount":%d},"modelVersion":"m","responseId":"r"}`+"\r\n\r\n", i, i, i+10))
	}
	chunks = append(chunks, "data: "+finished+"\r\n\r\n")
	for name, chunks := range map[string][]string{"apart": chunks, "together": {strings.Join(chunks, "")}} {
		for _, as := range []perigee.Dialect{perigee.DialectGemini, perigee.DialectOpenAIChat} {
			b.Run(name+"/"+string(as), func(b *testing.B) {
				u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Transport: replay(chunks)})
				defer u.Close()
				req := request(b, true)
				req.Dialect = as
				b.ReportAllocs()
				for b.Loop() {
					for _, err := range u.Stream(b.Context(), req) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// A replay answers every call with the same stream, of which each read returns one piece.
type replay []string

func (r replay) RoundTrip(req *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	var pieces []io.Reader
	for _, piece := range r {
		pieces = append(pieces, strings.NewReader(piece))
	}
	return &http.Response{StatusCode: http.StatusOK, Request: req, Body: io.NopCloser(io.MultiReader(pieces...))}, err
}

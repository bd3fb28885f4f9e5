package simulator

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func BenchmarkStream(b *testing.B) {
	server, err := New(Options{Now: fixedClock})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	client := &http.Client{Transport: server.Transport()}
	const address = "http://simulator/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse&key=k"
	body := prompt("[[tokens: 60]][[chunks: 10]]")
	for b.Loop() {
		response, err := client.Post(address, "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

package simulator_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"perigee/internal/simulator"
)

// A client in the same process needs no port: every address leads to the simulator.
func Example() {
	server, err := simulator.New(simulator.Options{Seed: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := &http.Client{Transport: server.Transport()}

	const address = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse&key=any"
	response, err := client.Post(address, "application/json", strings.NewReader(`{"contents":[{"parts":[{"text":"[[text: hello]][[finish: OTHER]]"}]}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.TrimSpace(string(body)))
	// Output:
	// data: {"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"finishReason":"OTHER","index":0}],"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":2,"totalTokenCount":10},"modelVersion":"gemini-2.5-flash","responseId":"s8XtMYc-3v3gXffSo_zAUQ"}
}

package daemon_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"perigee/internal/testing/daemontest"
)

// The spans of a call are sent, at the latest when the daemon stops. They belong to the trace of
// the client.
func TestTelemetryOfCalls(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var names []string
	collector := daemontest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		zip, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := io.ReadAll(zip)
		if err != nil {
			t.Error(err)
		}
		var data tracepb.TracesData
		if err := proto.Unmarshal(raw, &data); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range data.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					names = append(names, fmt.Sprintf("%s in %x", span.GetName(), span.GetTraceId()))
				}
			}
		}
	}))
	g := daemontest.Start(t, fmt.Sprintf("telemetry: {otlp_endpoint: %q}\n", collector), nil)
	postFor(t, g.URL()+"/v1/chat/completions", `{"model":"gemini-3-flash","messages":[{"role":"user","content":"hello"}]}`,
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	g.Daemon.Stop(t.Context())
	mu.Lock()
	defer mu.Unlock()
	if len(names) == 0 || names[len(names)-1] != "chat gemini-3-flash in 0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("spans %q", names)
	}
}

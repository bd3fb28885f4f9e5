package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzStdio sends any bytes between initialize and a ping. Whatever they are, the ping is answered,
// and the output is JSON-RPC.
func FuzzStdio(f *testing.F) {
	for _, line := range []string{
		"", "hello", "[]", "[[[", `{"jsonrpc":"2.0"}`, ping, "[" + ping + "," + ping + "]", askLine(1, "x"), initialize,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"usage","arguments":{"since":"1h"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\x00\xff",
	} {
		f.Add([]byte(line))
	}
	s := openServer(Options{})
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("the-last")) || bytes.Contains(data, []byte(`\u`)) {
			t.Skip("it may cancel the ping")
		}
		first := strings.Replace(initialize, `"id":0`, `"id":"the-first"`, 1)
		in := first + "\n" + string(data) + "\n" + `{"jsonrpc":"2.0","id":"the-last","method":"ping"}` + "\n"
		var out bytes.Buffer
		if err := s.ServeStdio(context.Background(), strings.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		answered := false
		for line := range bytes.Lines(out.Bytes()) {
			var m any
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			if o, ok := m.(map[string]any); ok {
				answered = answered || o["id"] == "the-last" && o["error"] == nil
				if o["jsonrpc"] != "2.0" {
					t.Fatalf("got %q", line)
				}
			}
		}
		if !answered {
			t.Fatalf("the ping was not answered after %q:\n%s", data, out.Bytes())
		}
	})
}

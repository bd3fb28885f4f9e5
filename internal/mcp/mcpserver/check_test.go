package mcpserver

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestMessagesAreCheckedBeforeTheyAreDecoded(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	batch := func(n int) string { return " [" + strings.Repeat(ping+",", n-1) + ping + "]" }
	for _, test := range []struct {
		name, message string
		code          int64
	}{
		{"a message", ping, 0},
		{"a large message", `{"jsonrpc":"2.0","id":1,"method":"a","params":"` + strings.Repeat("x", 20<<20) + `"}`, 0},
		{"the largest batch", batch(maxBatch), 0},
		{"no message", "7", 0},
		{"a larger batch", batch(maxBatch + 1), jsonrpc.CodeInvalidRequest},
		{"many small values", `{"params":[` + strings.Repeat("0,", 100_000) + "0]}", jsonrpc.CodeInvalidRequest},
		{"no JSON", "{", jsonrpc.CodeParseError},
		{"too deep", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), jsonrpc.CodeParseError},
	} {
		code := int64(0)
		if refused := checkMessage([]byte(test.message)); refused != nil {
			code = refused.Code
		}
		if code != test.code {
			t.Errorf("%s: got %d, want %d", test.name, code, test.code)
		}
	}
}

package responses

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkInputItems makes what is stored of the input of an agent's request of 100 KB.
func BenchmarkInputItems(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Why?"}]}`)
	for n := 0; body.Len() < 100<<10; n++ {
		fmt.Fprintf(&body, `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look at the next file.\n"}]}`+
			`,{"type":"function_call","call_id":"call_%d","name":"read","arguments":"{\"path\":\"/src/a.go\"}"},{"type":"function_call_output","call_id":"call_%d","output":"%s"}`,
			n, n, strings.Repeat(`\treturn nil, fmt.Errorf(\"load %q: %w\", id, err)\n`, 60))
	}
	body.WriteString(`]}`)
	r, _ := decode(b, body.String())
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r.InputItems("call")
	}
}

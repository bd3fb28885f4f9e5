package gemini

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
)

// BenchmarkDecoder reads a chunk in the middle of a stream, without an envelope and out of one.
func BenchmarkDecoder(b *testing.B) {
	const chunk = `{"candidates": [{"content": {"parts": [{"text": "The handler reads the whole body before it asks the store.\n"}],"role": "model"},"index": 0}],` +
		`"usageMetadata": {"promptTokenCount": 25317,"candidatesTokenCount": 18,"totalTokenCount": 25335},"modelVersion": "gemini-3-flash","responseId": "b3Blbi1iZW5jaA"}`
	for _, bench := range []struct {
		name    string
		decoder Decoder
		chunk   string
	}{
		{"plain", Decoder{}, chunk},
		{"in an envelope", Decoder{Envelope: "response"}, `{"response": ` + chunk + `,"traceId": "0123456789abcdef"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var events []perigee.Event
			b.SetBytes(int64(len(bench.chunk)))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if events, err = bench.decoder.Decode(events[:0], []byte(bench.chunk)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// agentBody is a request as agents send it: a long system instruction, tools with schemas, a history
// of calls and results.
func agentBody(size int) []byte {
	var b strings.Builder
	prose := strings.Repeat(`Keep the order of parts, and return every tool's \"result\".\n`, 8)
	fmt.Fprintf(&b, `{"systemInstruction":{"parts":[{"text":"%s"}]},"tools":[{"functionDeclarations":[`, strings.Repeat(prose, 10))
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"%s","parametersJsonSchema":{"type":"object","properties":{"path":{"type":"string","description":"a path"},"limit":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}}`, i, prose)
	}
	b.WriteString(`]}],"generationConfig":{"maxOutputTokens":8192},"contents":[{"role":"user","parts":[{"text":"Fix the bug."}]}`)
	signature := strings.Repeat("EjIKMJGItxJM", 20)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"model","parts":[{"text":"I look at file %d."},{"functionCall":{"name":"tool_%d","args":{"path":"src/main_%d.go","limit":100}},"thoughtSignature":"%s"}]}`, i, i%12, i, signature)
		fmt.Fprintf(&b, `,{"role":"user","parts":[{"functionResponse":{"name":"tool_%d","response":{"output":"%s"}}}]}`, i%12, prose)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// BenchmarkDecodeRequest decodes a request that is forwarded, with the search for wrapped signatures,
// and one that is translated.
func BenchmarkDecodeRequest(b *testing.B) {
	for _, size := range []int{10 << 10, 100 << 10, 1 << 20} {
		body := agentBody(size)
		for _, forwarded := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dKB/forwarded=%v", len(body)>>10, forwarded), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					req, err := DecodeRequest(perigee.Origin{Body: body}, "gemini-3-flash", true)
					if err == nil && forwarded {
						UnwrapSignatures(body)
					} else if err == nil {
						_, err = req.Prompt()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

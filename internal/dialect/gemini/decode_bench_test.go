package gemini

import (
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

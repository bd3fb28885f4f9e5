package gemini

import (
	"strings"
	"testing"

	"perigee"
)

func kinds(events []perigee.Event, err error) string {
	var list []string
	for _, ev := range events {
		list = append(list, map[perigee.EventKind]string{perigee.EventStart: "start", perigee.EventUsage: "usage", perigee.EventFinish: "finish"}[ev.Kind])
	}
	if err != nil {
		list = append(list, "error")
	}
	return strings.Join(list, " ")
}

// A chunk is taken out of its envelope, which must be whole.
func TestDecoderTakesChunksOutOfTheirEnvelope(t *testing.T) {
	const inner = `{"candidates":[{"finishReason":"STOP"}]}`
	for chunk, want := range map[string]string{
		`{"response":` + inner + `,"traceId":"x"}`:   "start finish",
		`{"traceId":"x","response": ` + inner + ` }`: "start finish",
		inner:                           "start finish",
		`{"response":null}`:             "start",
		`{"response":` + inner + `,"t"`: "error",
		`[]`:                            "error",
	} {
		d := Decoder{Envelope: "response"}
		if got := kinds(d.Decode(nil, []byte(chunk))); got != want {
			t.Errorf("%s: %q, want %q", chunk, got, want)
		}
		if want == "start finish" && string(d.Chunk()) != inner {
			t.Errorf("%s: the chunk is %s", chunk, d.Chunk())
		}
	}
}

package gemini

import (
	"strings"
	"testing"

	"perigee"
)

// An outline tells of the running totals only where no chunk follows, and of everything else at once.
func TestOutlineLeavesOutWhatOnlyGoesOn(t *testing.T) {
	const content = `{"candidates":[{"content":{"parts":[{"text":"finishReason, error, \"finishReason\":"}]}}],"usageMetadata":{"totalTokenCount":3}}`
	for _, test := range []struct{ chunk, more, last string }{
		{content, "", "usage"},
		{`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{}}`, "finish usage", "finish usage"},
		{`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finish_reason":"STOP"}]}`, "finish", "finish"},
		{`{"candidates":[{"\u0066inishReason":"STOP"}]}`, "finish", "finish"},
		{`{"promptFeedback":{"blockReason":"SAFETY"}}`, "finish", "finish"},
		{`{"error":{"code":503}}`, "error", "error"},
		{`{"candidates":[`, "error", "error"},
		{`7`, "", "error"}, // passed on like any other chunk that tells nothing
	} {
		for _, more := range []bool{true, false} {
			d := Decoder{Outline: true}
			if events, err := d.Decode(nil, []byte(content), true); err != nil || kinds(events, err) != "start usage" {
				t.Fatalf("the first chunk gave %s", kinds(events, err))
			}
			want := test.last
			if more {
				want = test.more
			}
			if got := kinds(d.Decode(nil, []byte(test.chunk), more)); got != want {
				t.Errorf("%s, more %v: %q, want %q", test.chunk, more, got, want)
			}
		}
	}
}

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
		if got := kinds(d.Decode(nil, []byte(chunk), false)); got != want {
			t.Errorf("%s: %q, want %q", chunk, got, want)
		}
		if want == "start finish" && string(d.Chunk()) != inner {
			t.Errorf("%s: the chunk is %s", chunk, d.Chunk())
		}
	}
}

package gemini

import "testing"

func TestPassingChunksAreThoseThatOnlyGoOn(t *testing.T) {
	for chunk, want := range map[string]bool{
		`{"candidates":[{"content":{"parts":[{"text":"finishReason, error, \"finishReason\":"}]}}],"usageMetadata":{"totalTokenCount":3}}`: true,
		`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`:                                                      false,
		`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finish_reason":"STOP"}]}`:                                                     false,
		`{"candidates":[{"\u0066inishReason":"STOP"}]}`:                                                                                    false,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`:                                                                                      false,
		`{"error":{"code":503}}`: false,
		`{"candidates":[`:        false,
	} {
		d := Decoder{Outline: true, started: true}
		if got := d.Passing([]byte(chunk)); got != want {
			t.Errorf("%s: %v, want %v", chunk, got, want)
		}
		if (&Decoder{Outline: true}).Passing([]byte(chunk)) || (&Decoder{started: true}).Passing([]byte(chunk)) {
			t.Errorf("%s: the first chunk, or one that is wanted whole, was passed over", chunk)
		}
	}
}

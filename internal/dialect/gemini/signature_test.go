package gemini

import (
	"encoding/base64"
	"testing"
)

// A body that is forwarded has signatures as they were, and nothing else is changed.
func TestForwardedSignaturesAreUnwrapped(t *testing.T) {
	const stand = "skip_thought_signature_validator"
	w := wrapSignature(stand)
	for body, want := range map[string]string{
		`{"contents":[{"parts":[{"text":"a"}]}]}`:                                                                     "",
		`{"contents":[{"parts":[{"functionCall":{},"thoughtSignature":"` + w + `"}]}]}`:                               `{"contents":[{"parts":[{"functionCall":{},"thoughtSignature":"` + stand + `"}]}]}`,
		`{"model":"x","contents":[{"parts":[{"thought_signature" : "` + w + `"},{"thoughtSignature":"` + w + `"}]}]}`: `{"model":"x","contents":[{"parts":[{"thought_signature" : "` + stand + `"},{"thoughtSignature":"` + stand + `"}]}]}`,
		`{"contents":[{"parts":[{"text":"` + w + `"}]}]}`:                                                             "",
		`{"contents":[{"parts":[{"text":"thoughtSignature: \"` + w + `"}]}]}`:                                         "",
		`{"contents":[{"parts":[{"thoughtSignature":"` + wrapped + `-"}]}]}`:                                          "",
	} {
		if want == "" {
			want = body
		}
		if got := UnwrapSignatures([]byte(body)); string(got) != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// Each signature is base64 for the client, comes back as it was, and is the same one if it is base64
// already.
func TestSignaturesAreBase64(t *testing.T) {
	for signature, same := range map[string]bool{
		"":                         true,
		"EjIKMJGItxJMj9/d1o3U+w==": true,
		"skipA+/9":                 true,
		"gAAAAABO-_bKkeqFbO54TA==": false, // the alphabet for URLs
		"abc":                      false,
		"ab=c":                     false,
		`{"id":"rs_1"}`:            false,
		"größe":                    false,
		wrapped + "abc":            false, // it looks like a wrapped one
	} {
		got := wrapSignature(signature)
		if _, err := base64.StdEncoding.DecodeString(got); err != nil || (got == signature) != same {
			t.Errorf("%q: got %q, %v", signature, got, err)
		}
		if back := unwrapSignature(got); back != signature {
			t.Errorf("%q comes back as %q", signature, back)
		}
	}
}

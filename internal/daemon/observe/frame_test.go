package observe

import "testing"

func TestFrameText(t *testing.T) {
	for _, test := range []struct{ frame, text, thinking string }{
		{`{"candidates":[{"content":{"parts":[{"text":"a","thought":true},{"text":"b"},{"text":"c"}]}}]}`, "bc", "a"},
		{`{"candidates":[{"index":1,"content":{"parts":[{"text":"second"}]}}]}`, "", ""},
		{`{"usageMetadata":{"promptTokenCount":1}}`, "", ""},
		{`{"candidates":`, "", ""},
		{``, "", ""},
	} {
		if text, thinking := frameText([]byte(test.frame)); text != test.text || thinking != test.thinking {
			t.Errorf("%s: %q, %q", test.frame, text, thinking)
		}
	}
}

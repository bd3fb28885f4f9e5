package openai

import (
	"strings"

	"perigee"
)

// Withheld returns the provider's reason for an answer that it withheld, as a sentence for clients
// that display a refusal. f may be nil.
func Withheld(f *perigee.Finish) string {
	text := "The provider withheld the answer"
	if f == nil {
		return text + "."
	}
	for _, why := range []string{f.Reason, f.Message} {
		if why != "" {
			text += ": " + why
		}
	}
	return strings.TrimSuffix(text, ".") + "."
}

// IsExplained reports whether there is an explanation of the provider why it withheld an answer, or
// the rest of one. f may be nil.
func IsExplained(f *perigee.Finish) bool {
	return f != nil && f.Kind == perigee.FinishFiltered && f.Message != ""
}

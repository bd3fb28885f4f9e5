package openai

import "perigee"

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
	return text + "."
}

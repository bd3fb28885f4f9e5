package openai

import "perigee"

// Withheld returns why there is no answer, for clients that display a refusal. The reasons are the
// provider's.
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

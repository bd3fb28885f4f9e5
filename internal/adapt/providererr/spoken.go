package providererr

import "strings"

// MayRefuse says whether an answer that begins with text may be a refusal that ClassifyText knows. The answer is held back as
// long as it may.
func MayRefuse(text string) bool {
	if len(text) > maxSpoken {
		return false
	}
	text = normalize(text)
	for i := range rules {
		if !rules[i].spoken {
			continue
		}
		for _, p := range rules[i].texts {
			if strings.HasPrefix(p, text) || strings.HasPrefix(text, p) {
				return true
			}
		}
	}
	return false
}

package adapt

import "unicode/utf8"

// maxClip is how many bytes of a word of the client a note repeats.
const maxClip = 80

// clip shortens a word of the client, between characters.
func clip(word string) string {
	if len(word) <= maxClip {
		return word
	}
	end := maxClip
	for end > maxClip-utf8.UTFMax && !utf8.RuneStart(word[end]) {
		end--
	}
	return word[:end] + "..."
}

package openai

import "slices"

// AudioFormat returns the name of a format of sound, for the part of its MIME type behind the slash.
func AudioFormat(subtype string) string {
	switch {
	case slices.Contains([]string{"mpeg", "mp3", "mpga"}, subtype):
		return "mp3"
	case slices.Contains([]string{"wav", "x-wav", "wave", "vnd.wave"}, subtype):
		return "wav"
	}
	return subtype
}

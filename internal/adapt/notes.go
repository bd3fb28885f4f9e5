package adapt

import (
	"slices"
	"unicode/utf8"

	"perigee"
)

// notes lists what was changed, each thing once.
type notes struct{ list []perigee.Note }

// maxNotes bounds the list for hostile histories, and the time to find a note in it.
const maxNotes = 64

// full says that no more notes are kept.
func (n *notes) full() bool { return len(n.list) > maxNotes }

func (n *notes) add(action, subject string) {
	note := perigee.Note{Action: action, Subject: subject}
	switch {
	case len(n.list) > maxNotes || slices.Contains(n.list, note):
	case len(n.list) == maxNotes:
		n.list = append(n.list, perigee.Note{Action: perigee.NoteMapped, Subject: "more than is named here"})
	default:
		n.list = append(n.list, note)
	}
}

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

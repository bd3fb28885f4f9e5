package prepare

import (
	"slices"
	"unicode/utf8"

	"perigee"
)

// notes gathers what was changed, each thing once.
type notes struct{ list []perigee.Note }

// maxNotes bounds what a hostile history can make us say, and the time it takes to say each thing once.
const maxNotes = 64

// full says that no more notes are kept, so none need be written.
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

// maxClip is how many bytes of a client's word a note repeats.
const maxClip = 80

// clip keeps a client's word from filling a header. It does not cut inside a character.
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

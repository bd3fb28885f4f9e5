package anthropic

import (
	"slices"

	"perigee"
)

// maxNotes bounds the notes of a request. Further unknown fields are counted, not named.
const maxNotes = 32

// notes are what was changed or dropped, each thing once.
type notes struct{ list []perigee.Note }

func (n *notes) add(action, subject string) {
	note := perigee.Note{Action: action, Subject: subject}
	if slices.Contains(n.list, note) {
		return
	}
	switch {
	case len(n.list) < maxNotes:
		n.list = append(n.list, note)
	case len(n.list) == maxNotes:
		n.list = append(n.list, perigee.Note{Action: perigee.NoteDropped, Subject: "other fields"})
	}
}

// dropped notes a field by where it stands and its name.
func (n *notes) dropped(where string, name []byte) { n.field(perigee.NoteDropped, where, name) }

func (n *notes) mapped(where string, name []byte) { n.field(perigee.NoteMapped, where, name) }

func (n *notes) field(action, where string, name []byte) {
	if len(n.list) <= maxNotes { // a million unknown fields should not cost a million names
		n.add(action, where+fieldName(name))
	}
}

// fieldName makes a name that a client chose fit to be repeated.
func fieldName(name []byte) string { return perigee.Clip(string(name), 60) }

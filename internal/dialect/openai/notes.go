package openai

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"perigee"
)

// maxNotes bounds what one request can make us say about it.
const maxNotes = 40

// notes gathers what a decoder changed or dropped, each thing once.
type notes struct{ list []perigee.Note }

func (n *notes) add(action, subject string) {
	note := perigee.Note{Action: action, Subject: subject}
	switch {
	case len(n.list) > maxNotes || slices.Contains(n.list, note):
	case len(n.list) == maxNotes:
		n.list = append(n.list, perigee.Note{Action: perigee.NoteDropped, Subject: "more than can be listed"})
	default:
		n.list = append(n.list, note)
	}
}

func (n *notes) dropped(subject string)  { n.add(perigee.NoteDropped, subject) }
func (n *notes) mapped(subject string)   { n.add(perigee.NoteMapped, subject) }
func (n *notes) repaired(subject string) { n.add(perigee.NoteRepaired, subject) }

// unknown notes a member that this dialect does not know, under the path of the object it stands in.
func (n *notes) unknown(path string, key []byte) {
	if len(n.list) <= maxNotes {
		n.dropped(path + brief(string(key)))
	}
}

// brief cuts what a client wrote to a length that fits into a message.
func brief(s string) string {
	const enough = 60
	if len(s) <= enough {
		return s
	}
	end := enough
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// invalid is an error that the client can avoid.
func invalid(format string, args ...any) *perigee.Error {
	return perigee.Errorf(perigee.ClassInvalid, format, args...)
}

// invalidBody says what is wrong with a body as JSON, or with the type of something in it.
func invalidBody(err error) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: fmt.Sprintf("invalid JSON payload: %v", err), Cause: err}
}

package openai

import (
	"fmt"
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// maxNotes bounds what one request can make us say about it.
const maxNotes = 40

// Notes gathers what a decoder changed or dropped, each thing once.
type Notes struct{ List []perigee.Note }

// Add notes something.
func (n *Notes) Add(action, subject string) {
	note := perigee.Note{Action: action, Subject: subject}
	switch {
	case len(n.List) > maxNotes || slices.Contains(n.List, note):
	case len(n.List) == maxNotes:
		n.List = append(n.List, perigee.Note{Action: perigee.NoteDropped, Subject: "more than can be listed"})
	default:
		n.List = append(n.List, note)
	}
}

// Dropped notes something that does not reach the model.
func (n *Notes) Dropped(subject string) { n.Add(perigee.NoteDropped, subject) }

// Mapped notes something that reaches the model as something else.
func (n *Notes) Mapped(subject string) { n.Add(perigee.NoteMapped, subject) }

// Repaired notes something that was set right.
func (n *Notes) Repaired(subject string) { n.Add(perigee.NoteRepaired, subject) }

// Unknown notes a member that this dialect does not know, under the path of the object it stands in.
func (n *Notes) Unknown(path string, key []byte) {
	if len(n.List) <= maxNotes {
		n.Dropped(path + Brief(string(key)))
	}
}

// Rest notes each member that it is called with as Unknown does, for Cursor.Read.
func (n *Notes) Rest(path string) func(key []byte) {
	return func(key []byte) { n.Unknown(path, key) }
}

// RestPresent is Rest for objects in which a null is as good as absent.
func (n *Notes) RestPresent(c *rawjson.Cursor, path string) func(key []byte) {
	return func(key []byte) {
		if c.Kind() != rawjson.Null {
			n.Unknown(path, key)
		}
	}
}

// Brief cuts what a client wrote to a length that fits into a message.
func Brief(s string) string { return perigee.Clip(s, 60) }

// Invalid is an error that the client can avoid.
func Invalid(format string, args ...any) *perigee.Error {
	return perigee.Errorf(perigee.ClassInvalid, format, args...)
}

// Wrong is an error about one field, which clients find in param.
func Wrong(param, format string, args ...any) *perigee.Error {
	message := param + ": " + fmt.Sprintf(format, args...)
	return &perigee.Error{Class: perigee.ClassInvalid, Message: message, Cause: &perigee.Fault{Param: param}}
}

// CheckBody validates a body as JSON, and refuses one that is cut into more pieces than its size allows.
func CheckBody(body []byte) error {
	count, err := rawjson.CheckCount(body)
	if err != nil {
		return InvalidBody(err)
	}
	if err := count.Err(len(body)); err != nil {
		return TooManyPieces(err)
	}
	return nil
}

// TooManyPieces is the error for a body that is cut into more pieces than its size allows.
func TooManyPieces(err error) error {
	return Invalid("%w", err).WithHint("join small messages and parts, or send less")
}

// InvalidBody says what is wrong with a body as JSON, or with the type of something in it.
func InvalidBody(err error) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: fmt.Sprintf("invalid JSON payload: %v", err), Cause: err}
}

package perigee

import (
	"slices"
	"unicode/utf8"
)

// The actions of a Note.
const (
	NoteDropped  = "dropped"  // it did not reach the model
	NoteMapped   = "mapped"   // it reached the model as something else
	NoteRenamed  = "renamed"  // the model gets it under another name
	NoteRepaired = "repaired" // it was invalid, and was corrected
	NoteAdded    = "added"    // the client did not send it
	NoteOmitted  = "omitted"  // the model no longer needs it

	NoteEstimated = "estimated" // the provider did not report it
)

// A Note is a short description of something that was changed or dropped: "dropped logprobs",
// "renamed tool 1mcp.read". Notes reach the client in x-perigee-notes. Under strict: true a note is
// an error, unless its action changes nothing that the client asks for: renamed, added, omitted.
type Note struct {
	Action  string
	Subject string // the object of the action, as the client names it
}

// OtherReasoning is the note on reasoning that a provider does not get, because another one has made
// it.
var OtherReasoning = Note{Action: NoteDropped, Subject: "reasoning of another model"}

// EstimatedUsage is the note about token counts that the provider did not report.
var EstimatedUsage = Note{Action: NoteEstimated, Subject: "usage"}

func (n Note) String() string { return n.Action + " " + n.Subject }

// maxNotes is how many notes Notes keeps of one request, however many fields a client invents.
const maxNotes = 64

// maxNoteName is how many bytes of a name that a client chose a note repeats.
const maxNoteName = 60

// Notes collects notes, each of them once and in the order in which they are added. It keeps 64;
// the first one after them is replaced by "dropped more than can be listed", and later ones are
// ignored. The zero value is empty. Notes is not safe for concurrent use.
type Notes struct{ list []Note }

// Add adds a note unless the list has it already or is full.
func (n *Notes) Add(action, subject string) {
	note := Note{Action: action, Subject: subject}
	switch {
	case n.Full() || slices.Contains(n.list, note):
	case len(n.list) == maxNotes:
		n.list = append(n.list, Note{Action: NoteDropped, Subject: "more than can be listed"})
	default:
		n.list = append(n.list, note)
	}
}

// Dropped notes something that does not reach the model.
func (n *Notes) Dropped(subject string) { n.Add(NoteDropped, subject) }

// Mapped notes something that reaches the model as something else.
func (n *Notes) Mapped(subject string) { n.Add(NoteMapped, subject) }

// Repaired notes something that was wrong and was corrected.
func (n *Notes) Repaired(subject string) { n.Add(NoteRepaired, subject) }

// Unknown notes that a member was dropped: path, which includes the separator, and the first bytes
// of its name. It does not copy the name if the list is full.
func (n *Notes) Unknown(path string, name []byte) {
	if !n.Full() {
		n.Dropped(path + Clip(string(name), maxNoteName))
	}
}

// Rest returns a function that calls Unknown with path, for decoders of objects.
func (n *Notes) Rest(path string) func(name []byte) {
	return func(name []byte) { n.Unknown(path, name) }
}

// Full reports whether further notes are ignored.
func (n *Notes) Full() bool { return len(n.list) > maxNotes }

// List returns the notes. The caller does not change them.
func (n *Notes) List() []Note { return n.list }

// Clip cuts text to at most limit bytes, between characters, and ends it with an ellipsis. It is
// for names of arbitrary length that clients and providers choose. The result of a cut does not
// share memory with text.
func Clip(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	// Step back by at most one character: if there is no start by then, text is not UTF-8.
	for range utf8.UTFMax - 1 {
		if end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
	}
	return text[:end] + ellipsis
}

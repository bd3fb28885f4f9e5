package perigee

// What a Note can say was done.
const (
	NoteDropped  = "dropped"  // it did not reach the model
	NoteMapped   = "mapped"   // it reached the model as something else
	NoteRenamed  = "renamed"  // it goes by another name on the way, and by its own again on the way back
	NoteRepaired = "repaired" // it was wrong, and was set right
	NoteAdded    = "added"    // the client did not send it
	NoteOmitted  = "omitted"  // the model does not need it any more

	NoteEstimated = "estimated" // the provider did not say it
)

// A Note says what was changed or dropped on the way, in the fewest words: "dropped logprobs", "renamed tool 1mcp.read". Notes
// reach the client in x-perigee-notes. Under strict: true a note is an error, unless its action changes nothing that the client
// asks for: renamed, added, omitted.
type Note struct {
	Action  string
	Subject string // what it was done to, in the client's words
}

// EstimatedUsage is the note about tokens that the provider has not named.
var EstimatedUsage = Note{Action: NoteEstimated, Subject: "usage"}

func (n Note) String() string { return n.Action + " " + n.Subject }

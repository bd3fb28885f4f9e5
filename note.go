package perigee

import (
	"slices"
	"sync"
)

// What a Note can say was done.
const (
	NoteDropped  = "dropped"  // it did not reach the model
	NoteMapped   = "mapped"   // it reached the model as something else
	NoteRenamed  = "renamed"  // it goes by another name on the way, and by its own again on the way back
	NoteRepaired = "repaired" // it was wrong, and was set right

	NoteEstimated = "estimated" // the provider did not say it
)

// A Note says what was changed or dropped on the way, in the fewest words: "dropped logprobs",
// "renamed tool 1mcp.read". Notes reach the client in x-perigee-notes, and under strict: true a note is an error.
type Note struct {
	Action  string
	Subject string // what it was done to, in the client's words
}

// EstimatedUsage is the note about tokens that the provider has not named.
var EstimatedUsage = Note{Action: NoteEstimated, Subject: "usage"}

func (n Note) String() string { return n.Action + " " + n.Subject }

// LateNotes are notes that come up only while an answer is written, when who records the call cannot see them pass. All
// methods may be called concurrently.
type LateNotes struct {
	mu   sync.Mutex
	list []Note
}

// Add takes a note. Nil forgets it.
func (l *LateNotes) Add(n Note) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, n)
}

// Clear forgets what was noted so far.
func (l *LateNotes) Clear() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// All returns what was noted so far. Nil has nothing.
func (l *LateNotes) All() []Note {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

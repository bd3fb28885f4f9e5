package trajectory

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
)

// A Summary describes one conversation, as far as a source does. Zero values mean unknown.
type Summary struct {
	ID         string
	Workspaces []string // paths of directories, or URIs

	Modified  time.Time
	Created   time.Time
	LastInput time.Time // the last message of the user

	Steps     int
	InputStep int // index of the last message of the user
}

// A Listing is the content of a source at one moment.
type Listing struct {
	Conversations []Summary
	// Degraded has a line for each thing that could not be read. The lines have no values.
	Degraded []string
}

// maxConversations bounds the conversations of one source.
const maxConversations = 50_000

// keep adds a conversation, if it has an ID.
func (l *Listing) keep(s Summary) {
	switch {
	case !plausibleID(s.ID):
		l.note("a conversation without an ID")
	case len(l.Conversations) >= maxConversations:
		l.note("there are too many conversations")
	default:
		l.Conversations = append(l.Conversations, s)
	}
}

// note adds a line to Degraded, once.
func (l *Listing) note(problem string) {
	if !slices.Contains(l.Degraded, problem) {
		l.Degraded = append(l.Degraded, problem)
	}
}

// maxID is longer than any ID: a UUID has 36 characters.
const maxID = 128

// plausibleID reports whether a text can be the ID of a conversation: it is a name in directories
// and in messages.
func plausibleID(id string) bool {
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	}
	return id != "" && len(id) <= maxID && !strings.ContainsAny(id, `/\`) && id[0] != '.' &&
		!strings.ContainsFunc(id, odd)
}

// A Source lists conversations. Several searches may call Summaries at once.
type Source struct {
	Name      string
	Summaries func(ctx context.Context) (Listing, error)
}

// merge completes the summary with one of another source. Fields that change are taken from the
// newer one.
func (s *Summary) merge(o Summary) {
	newer := o.Modified.After(s.Modified)
	if newer {
		s.Modified = o.Modified
	}
	if o.Steps > 0 && (newer || s.Steps == 0) {
		s.Steps = o.Steps
	}
	if o.InputStep > 0 && (newer || s.InputStep == 0) {
		s.InputStep = o.InputStep
	}
	if o.LastInput.After(s.LastInput) {
		s.LastInput = o.LastInput
	}
	if s.Created.IsZero() {
		s.Created = o.Created
	}
	if s.Workspaces == nil {
		s.Workspaces = o.Workspaces
	}
}

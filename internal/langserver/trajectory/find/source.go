// Package find finds the conversation that a prompt has begun which was submitted with a command of the IDE. Such a command
// returns nothing, so the conversation has to be recognised: it is new or has changed since, and its last message of the user is
// the prompt.
//
// Sources list conversations: the language server, the diagnostics of the IDE, its database, and the files of the conversations.
// Readers of package trajectory show the messages. None of them is documented, and each may be missing or differ between versions.
// What could not be read, or was read in another form than the known one, is reported and never an end of the search by itself.
package find

import (
	"context"
	"time"

	cortexpb "perigee/gen/exa/cortex_pb"
)

// A Summary is what a source knows of one conversation.
type Summary struct {
	ID           string
	Title        string
	TrajectoryID string
	Workspaces   []string // paths of directories, or URIs that name no file; nil: unknown

	Modified  time.Time // zero: unknown, as for all times
	Created   time.Time
	LastInput time.Time // the last message of the user

	Steps     int                       // -1: unknown
	InputStep int                       // index of the last message of the user; -1: unknown
	Status    cortexpb.CascadeRunStatus // 0: unknown
	Waiting   bool                      // for a person
}

// A Listing is what a source shows at one moment.
type Listing struct {
	Conversations []Summary
	// Degraded has a line for each difference from the form that is known. The lines have names of fields and no values.
	Degraded []string
}

// A Source lists conversations. Several searches may use it at once.
type Source interface {
	Name() string
	Summaries(ctx context.Context) (Listing, error)
}

// A Degradation is a source or a reader that cannot be used, or can in part.
type Degradation struct {
	Source  string
	Problem string
}

func (d Degradation) String() string { return d.Source + ": " + d.Problem }

// merge adds what another source says about a conversation. What changes is taken from the newer one.
func (s *Summary) merge(o Summary) {
	newer := o.Modified.After(s.Modified)
	if newer {
		s.Modified = o.Modified
	}
	if o.Steps >= 0 && (newer || s.Steps < 0) {
		s.Steps = o.Steps
	}
	if o.InputStep >= 0 && (newer || s.InputStep < 0) {
		s.InputStep = o.InputStep
	}
	if o.Status != 0 && (newer || s.Status == 0) {
		s.Status, s.Waiting = o.Status, o.Waiting
	}
	if o.LastInput.After(s.LastInput) {
		s.LastInput = o.LastInput
	}
	if s.Created.IsZero() {
		s.Created = o.Created
	}
	if s.Title == "" {
		s.Title = o.Title
	}
	if s.TrajectoryID == "" {
		s.TrajectoryID = o.TrajectoryID
	}
	if s.Workspaces == nil {
		s.Workspaces = o.Workspaces
	}
}

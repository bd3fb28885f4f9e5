package trajectory

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	"perigee/internal/langserver/lsclient"
)

// LanguageServerSource lists the conversations of a language server.
func LanguageServerSource(ls *lsclient.Client) Source {
	return Source{"language server", func(ctx context.Context) (l Listing, err error) {
		all, err := ls.Conversations(ctx)
		for id, m := range all {
			l.keep(summaryOf(id, m))
		}
		return l, err
	}}
}

// summaryOf converts the language server's summary of a conversation. The database of the IDE has
// the same message.
func summaryOf(id string, m *jetskicortexpb.CascadeTrajectorySummary) Summary {
	s := Summary{
		ID: id, Modified: timeOf(m.GetLastModifiedTime()), Created: timeOf(m.GetCreatedTime()),
		LastInput: timeOf(m.GetLastUserInputTime()), Steps: countOf(m.GetStepCount()),
		InputStep: countOf(m.GetLastUserInputStepIndex()),
	}
	for _, w := range m.GetWorkspaces() {
		if uri := w.GetWorkspaceFolderAbsoluteUri(); uri != "" {
			s.Workspaces = append(s.Workspaces, uri)
		}
	}
	return s
}

// timeOf returns a time, or zero if it is missing or implausible.
func timeOf(t *timestamppb.Timestamp) (at time.Time) {
	if t.IsValid() && plausibleTime(t.AsTime()) {
		at = t.AsTime()
	}
	return at
}

func plausibleTime(t time.Time) bool { return t.Year() > 1975 && t.Year() < 2200 }

// countOf returns a count, or zero if it is implausible.
func countOf(n uint32) int {
	if n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

package trajectory

import "context"

// RecentSource lists the conversations that the extension of a window finds in the diagnostics of
// the IDE. read returns them.
func RecentSource(read func(ctx context.Context) ([]Summary, error)) Source { return recent{read} }

type recent struct {
	read func(ctx context.Context) ([]Summary, error)
}

func (recent) Name() string { return "diagnostics of the IDE" }

func (s recent) Summaries(ctx context.Context) (l Listing, err error) {
	list, err := s.read(ctx)
	for _, c := range list {
		l.keep(c)
	}
	return l, err
}

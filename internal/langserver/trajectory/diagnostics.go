package trajectory

import "context"

// RecentSource lists the conversations that the extension of a window finds in the diagnostics of
// the IDE. read returns them.
func RecentSource(read func(ctx context.Context) ([]Summary, error)) Source {
	return Source{"diagnostics of the IDE", func(ctx context.Context) (l Listing, err error) {
		list, err := read(ctx)
		for _, c := range list {
			l.keep(c)
		}
		return l, err
	}}
}

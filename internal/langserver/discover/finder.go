package discover

import (
	"context"
	"sync"
)

// A Finder caches the language server of a workspace until it no longer works.
type Finder struct {
	options   Options
	workspace string

	mu    sync.Mutex // also held during a search, so that concurrent calls use its result
	found *Candidate
}

// NewFinder returns a finder for a workspace. For an empty workspace see Choose.
func NewFinder(options Options, workspace string) *Finder {
	return &Finder{options: options, workspace: workspace}
}

// Last returns the language server that the last search found, without a search.
func (f *Finder) Last() (Candidate, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		return Candidate{}, false
	}
	return *f.found, true
}

// Current returns the language server. It searches first if there is none yet, or the last is
// stale.
func (f *Finder) Current(ctx context.Context, stale bool) (Candidate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found != nil && !stale {
		return *f.found, nil
	}
	f.found = nil
	candidates, err := Find(ctx, f.options)
	if err != nil {
		return Candidate{}, err
	}
	c, err := Choose(candidates, f.workspace)
	if err != nil {
		return Candidate{}, err
	}
	f.found = &c
	return c, nil
}

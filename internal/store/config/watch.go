package config

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// A Watcher reads the configuration again when the content of the file, or of a file with a secret,
// changes.
//
// New content counts when consecutive reads agree on it (see reads), because a file may be read
// while it is written. Every file is read at each interval: that works on every file system and
// through renames, links and mounts, and size and modification time can stay the same when the
// content changes.
type Watcher struct {
	src    Sources
	onGood func(*Loaded)
	onBad  func(error)

	path    string  // the file of the last good configuration; empty if there is none
	blank   bool    // that file had only comments
	seen    []input // the last configuration that was reported, good or bad
	pending []input // new content on which too few reads have agreed so far; nil if there is none
	agreed  int     // reads that agreed on pending
}

// NewWatcher returns a Watcher for the files that current was loaded from. It calls onGood with
// each valid configuration. It calls onBad for an invalid one, once for each content, and for a
// file that is removed or has only comments: losing a file must not remove its keys.
func NewWatcher(src Sources, current *Loaded, onGood func(*Loaded), onBad func(error)) *Watcher {
	return &Watcher{src: src, onGood: onGood, onBad: onBad, path: current.Path, blank: current.blank, seen: current.inputs}
}

// Run reads the files at each interval until ctx ends. The functions are called on its goroutine.
func (w *Watcher) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.poll()
		}
	}
}

// poll reads the files once.
func (w *Watcher) poll() {
	if slices.ContainsFunc(w.seen, input.isStream) || w.pending == nil && w.unchanged() {
		return
	}
	l := newLoader(w.src)
	l.load()
	if slices.Equal(l.inputs, w.seen) {
		w.pending = nil
		return
	}
	if !slices.Equal(l.inputs, w.pending) {
		w.pending, w.agreed = l.inputs, 0
	}
	if w.agreed++; w.agreed < requiredReads(l.inputs) {
		return
	}
	w.pending, w.seen = nil, l.inputs
	err := l.err()
	switch {
	case w.path != "" && l.blank && !w.blank:
		w.onBad(fmt.Errorf("%s is empty; its last content stays in force. Start perigee again to run without it", w.path))
	case err != nil:
		w.onBad(err)
	case w.path != "" && l.Path == "":
		w.onBad(fmt.Errorf("%s is gone; its last content stays in force. Start perigee again to run without it", w.path))
	default:
		w.path, w.blank = l.Path, l.blank
		w.onGood(l.loaded())
	}
}

// requiredReads returns how many consecutive reads must agree on new content. A last line without a
// line break is common in a file that is still being written, and rare in a complete one.
func requiredReads(inputs []input) int {
	if slices.ContainsFunc(inputs, func(in input) bool { return in.unfinished }) {
		return 3
	}
	return 2
}

// unchanged reports whether the files still have the content that was reported.
func (w *Watcher) unchanged() bool {
	l := newLoader(w.src)
	for _, in := range w.seen {
		_, _ = l.read(in.path, in.limit)
	}
	return slices.EqualFunc(l.inputs, w.seen, func(a, b input) bool { return a.sum == b.sum && a.missing == b.missing })
}

// isStream reports whether the file is a pipe or a device, which can be read only once.
func (in input) isStream() bool {
	info, err := os.Stat(in.path)
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeDevice|os.ModeCharDevice) != 0
}

// Emptied returns the section that next removes completely, "" for none. A reload must not do that:
// without keys every caller would be answered, and without upstreams the simulator would answer.
func (c *Config) Emptied(next *Config) string {
	switch {
	case len(c.Keys) > 0 && len(next.Keys) == 0:
		return "keys"
	case len(c.Upstreams) > 0 && len(next.Upstreams) == 0:
		return "upstreams"
	}
	return ""
}

package config

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// Watch re-reads the configuration whenever the file, or a file that a secret comes from, has new content,
// and passes a valid configuration to onGood. An invalid one goes to onBad, once for each content of the files,
// and the last good configuration stays in force. A file that is removed, or has nothing in it but comments, also
// goes to onBad: losing a file must not remove the keys that it had.
//
// New content counts when consecutive reads agree on it, so that a file that is being written is not taken half
// (see reads). Watch reads every file at each interval until ctx ends, because reading works on every file system
// and through renames, links and mounts alike, and because size and modification time can stay the same while the
// content changes. The functions are called one at a time, on Watch's goroutine.
func Watch(ctx context.Context, src Sources, current *Loaded, every time.Duration, onGood func(*Loaded), onBad func(error)) {
	w := newWatcher(src, current, onGood, onBad)
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

// A watcher is the state between two polls.
type watcher struct {
	src    Sources
	onGood func(*Loaded)
	onBad  func(error)

	path    string  // the file of the last good configuration; empty: none
	blank   bool    // that file had nothing in it
	seen    []input // the files of the last configuration that was reported, good or bad
	pending []input // other content than seen, on which too few reads have agreed so far; nil: none
	agreed  int     // how many reads
}

func newWatcher(src Sources, current *Loaded, onGood func(*Loaded), onBad func(error)) *watcher {
	return &watcher{src: src, onGood: onGood, onBad: onBad, path: current.Path, blank: current.blank, seen: current.inputs}
}

// poll reads the files once.
func (w *watcher) poll() {
	if slices.ContainsFunc(w.seen, input.isStream) || w.pending == nil && w.unchanged() {
		return
	}
	l := newLoader(w.src)
	l.gather()
	if slices.Equal(l.inputs, w.seen) {
		w.pending = nil
		return
	}
	if !slices.Equal(l.inputs, w.pending) {
		w.pending, w.agreed = l.inputs, 0
	}
	if w.agreed++; w.agreed < reads(l.inputs) {
		return
	}
	w.pending, w.seen = nil, l.inputs
	problems := l.complaints()
	switch {
	case w.path != "" && l.blank && !w.blank:
		w.onBad(fmt.Errorf("%s is empty; its last content stays in force. Start perigee again to run without it", w.path))
	case problems != nil:
		w.onBad(problems)
	case w.path != "" && l.path == "":
		w.onBad(fmt.Errorf("%s is gone; its last content stays in force. Start perigee again to run without it", w.path))
	default:
		w.path, w.blank = l.path, l.blank
		w.onGood(l.loaded())
	}
}

// reads is how many consecutive reads have to agree before new content counts. A last line without a line break is
// usual in a file that is being written, which happens in blocks, and rare in one that is complete.
func reads(inputs []input) int {
	if slices.ContainsFunc(inputs, func(in input) bool { return in.unfinished }) {
		return 3
	}
	return 2
}

// unchanged reports whether the files still have the content that was reported last.
func (w *watcher) unchanged() bool {
	l := newLoader(w.src)
	for _, in := range w.seen {
		_, _ = l.read(in.path, in.limit)
	}
	return slices.EqualFunc(l.inputs, w.seen, func(a, b input) bool { return a.sum == b.sum && a.missing == b.missing })
}

// isStream reports whether the file is a pipe or a device: its content is gone after the first read, and a second one
// might wait forever.
func (in input) isStream() bool {
	info, err := os.Stat(in.path)
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeDevice|os.ModeCharDevice) != 0
}

// Emptied names what a reload may not remove altogether: keys, since calls without a key would be answered from then
// on, and upstreams, since the simulator would answer in their place. It is empty where next has some or c had none.
func (c *Config) Emptied(next *Config) string {
	switch {
	case len(c.Keys) > 0 && len(next.Keys) == 0:
		return "keys"
	case len(c.Upstreams) > 0 && len(next.Upstreams) == 0:
		return "upstreams"
	}
	return ""
}

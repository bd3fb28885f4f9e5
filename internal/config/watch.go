package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Watch re-reads the configuration whenever the file, or a file that a secret comes from, has new content,
// and gives what holds to onGood. What does not hold goes to onBad, once for each state of the files,
// and the last good configuration stays in force. Also reported, and not obeyed, is that the file is gone:
// losing a file must not open a door that its keys had closed.
//
// Watch looks every so often until ctx ends, because looking works on every file system and through
// renames, links and mounts alike. The functions are called one at a time, on Watch's goroutine.
func Watch(ctx context.Context, src Sources, current *Loaded, every time.Duration, onGood func(*Loaded), onBad func(error)) {
	w := newWatcher(src, current, onGood, onBad)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.poll(time.Now())
		}
	}
}

// A watcher remembers what it saw last.
type watcher struct {
	src    Sources
	onGood func(*Loaded)
	onBad  func(error)

	path    string  // the file that the current configuration came from; empty: none
	seen    []input // what the last attempt, good or bad, was made of
	looks   []look  // how those files looked before the last time they were read
	pending []input // a state that is likely to pass, see passing
}

// A look is what one can see of a file without reading it.
type look struct {
	info os.FileInfo // nil: it is not there
	at   time.Time
}

func newWatcher(src Sources, current *Loaded, onGood func(*Loaded), onBad func(error)) *watcher {
	return &watcher{src: src, onGood: onGood, onBad: onBad, path: current.Path, seen: current.inputs}
}

// poll looks once.
func (w *watcher) poll(now time.Time) {
	looks := w.look(now)
	if slices.ContainsFunc(looks, look.onlyOnce) {
		return
	}
	if w.looks != nil && slices.EqualFunc(looks, w.looks, look.surelySame) && w.pending == nil {
		return
	}
	loaded, problems, inputs := load(w.src)
	w.looks = looks
	if slices.Equal(inputs, w.seen) {
		w.pending = nil
		return
	}
	if passing(inputs) && !slices.Equal(inputs, w.pending) {
		w.pending = inputs
		return
	}
	w.pending, w.seen = nil, inputs
	w.looks = nil // there may be other files now, which have not been looked at before they were read
	switch {
	case w.path != "" && emptied(inputs, w.path):
		w.onBad(fmt.Errorf("%s is empty; what it said stays in force until it says something again", w.path))
	case problems != nil:
		w.onBad(problems)
	case w.path != "" && loaded.Path == "":
		w.onBad(fmt.Errorf("%s is gone; what it said stays in force until perigee is started anew", w.path))
	default:
		w.path = loaded.Path
		w.onGood(loaded)
	}
}

// passing says whether a state is one that files go through while they are being saved: missing between
// two renames, empty between truncating and writing. Such a state counts when it is still there the next time.
func passing(inputs []input) bool {
	nothing := sha256.Sum256(nil) // which is also the sum of what could not be read
	return slices.ContainsFunc(inputs, func(in input) bool { return in.sum == nothing })
}

// emptied says whether a file is there and has nothing in it. A file that lost its content must not open a door that
// its keys had closed, any more than one that is gone.
func emptied(inputs []input, path string) bool {
	nothing := sha256.Sum256(nil)
	return slices.ContainsFunc(inputs, func(in input) bool { return in.path == path && !in.missing && in.sum == nothing })
}

func (w *watcher) look(now time.Time) []look {
	looks := make([]look, len(w.seen))
	for i, in := range w.seen {
		looks[i].at = now
		if w.src.ReadFile != nil {
			looks[i].at = time.Time{} // the files are somewhere else
			continue
		}
		if info, err := os.Stat(in.path); err == nil {
			looks[i].info = info
		} else if !errors.Is(err, os.ErrNotExist) {
			looks[i].at = time.Time{} // no two of these are surely the same
		}
	}
	return looks
}

// onlyOnce says that the file is a pipe or a device: it has been read, and reading it again might wait forever.
func (l look) onlyOnce() bool {
	return l.info != nil && l.info.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeDevice|os.ModeCharDevice) != 0
}

// granularity is how coarse the times of a file system may be: what was changed so shortly before it was
// looked at can have been changed again without looking different.
const granularity = 2 * time.Second

// surelySame says whether the file cannot have changed between the look before and this one.
func (l look) surelySame(before look) bool {
	if l.info == nil || before.info == nil {
		return l.info == nil && before.info == nil && !l.at.IsZero() && !before.at.IsZero()
	}
	return os.SameFile(l.info, before.info) && l.info.Size() == before.info.Size() &&
		l.info.ModTime().Equal(before.info.ModTime()) &&
		before.at.Sub(before.info.ModTime()) >= granularity
}

package edit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// An Undo has the data that Revert needs to remove settings from a file. It can be stored as JSON.
type Undo struct {
	Was   []Change `json:"was"`
	Made  []Path   `json:"made,omitempty"`  // containers that did not exist, outermost first
	Empty []Change `json:"empty,omitempty"` // containers that had no members
	Root  *string  `json:"root,omitempty"`  // the whole text, if it had no values

	// Entries are containers with values that are of use only together, such as the entry of a
	// provider. Revert removes one that Apply has made as a whole, or leaves it as a whole if
	// something in it differs from the values that Apply has written. They are not stored.
	Entries []Path `json:"-"`
}

// A Change is a value before an edit, and the texts that replaced it.
type Change struct {
	Path Path `json:"path"`
	Value
	Wrote []string `json:"wrote,omitempty"` // the texts that every edit has written
	Part  Part     `json:"part,omitempty"`

	// First is the value before the first edit, if the value was changed between two edits. Value
	// is then the changed value.
	First *Value `json:"first,omitempty"`
}

// A Value is the text of a value, or its absence.
type Value struct {
	Text   string `json:"text,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

// equals reports whether v is the value of a file, or its absence if there is none.
func (v Value) equals(s syntax, value any, there bool) (bool, error) {
	if v.Absent || !there {
		return v.Absent && !there, nil
	}
	own, err := decoded(s, v.Text)
	return err == nil && reflect.DeepEqual(value, own), err
}

// record records the value at the path of a setting before the edit.
func (u *Undo) record(d document, written Change) error {
	path := written.Path
	for i := 1; i < len(path); i++ {
		container := path[:i:i]
		value, ok := Get(d.tree, container)
		switch {
		case !ok:
			u.addMade(container)
		case isEmpty(value) && find(u.Empty, container) < 0:
			was, ok, err := d.text(d.src, container)
			if err != nil {
				return fmt.Errorf("%s: %w", container, err)
			}
			if ok {
				u.Empty = append(u.Empty, Change{Path: container, Value: Value{Text: was}})
			}
		}
	}
	if at := find(u.Was, path); at >= 0 { // it is set twice
		u.Was[at].Wrote = append(u.Was[at].Wrote, written.Wrote...)
		return nil
	}
	was, ok, err := d.text(d.src, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	written.Value = Value{Text: was, Absent: !ok}
	u.Was = append(u.Was, written)
	return nil
}

func find(in []Change, path Path) int {
	return slices.IndexFunc(in, func(w Change) bool { return slices.Equal(w.Path, path) })
}

func (u *Undo) addMade(container Path) {
	if !u.hasMade(container) {
		u.Made = append(u.Made, container)
	}
}

// Merge returns an Undo for two edits of one file, of which u was the first. A value that was
// changed between the two is restored to that change, and every other one to its value before the
// first edit.
func (u *Undo) Merge(f Format, later *Undo) (*Undo, error) {
	s, ok := syntaxes[f]
	if !ok {
		return nil, fmt.Errorf("unknown format %q", f)
	}
	merged := &Undo{Was: slices.Clone(u.Was), Made: slices.Clone(u.Made), Empty: slices.Clone(u.Empty), Root: u.Root}
	for _, was := range later.Was {
		at := find(merged.Was, was.Path)
		if at < 0 {
			merged.Was = append(merged.Was, was)
			continue
		}
		first, err := merged.Was[at].then(s, was)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", was.Path, err)
		}
		merged.Was[at] = first
	}
	for _, path := range later.Made {
		merged.addMade(path)
	}
	return merged, nil
}

// then returns the Change of two edits.
func (w Change) then(s syntax, later Change) (Change, error) {
	var between any
	if !later.Absent {
		value, err := decoded(s, later.Text)
		if err != nil {
			return w, err
		}
		between = value
	}
	is, err := w.compare(s, between, !later.Absent)
	if err != nil {
		return w, err
	}
	switch {
	case is == initial:
		w.Value, w.First = *w.First, nil
	case is == changed && w.First == nil:
		w.First = new(w.Value)
		fallthrough
	case is == changed:
		w.Value = later.Value
	}
	w.Wrote = slices.Clone(w.Wrote)
	for _, text := range later.Wrote {
		if !slices.Contains(w.Wrote, text) {
			w.Wrote = append(w.Wrote, text)
		}
	}
	return w, nil
}

// Has reports whether a file has a value that an edit has written, other than one that the program
// maintains.
func (u *Undo) Has(f Format, src []byte) (bool, error) {
	d, err := parse(f, src)
	if err != nil {
		return false, err
	}
	for _, was := range u.Was {
		value, there := Get(d.tree, was.Path)
		is, err := was.compare(d, value, there)
		if err != nil || is == written && was.Part != Maintained {
			return err == nil, err
		}
	}
	return false, nil
}

// An origin is where a value comes from.
type origin int

const (
	original origin = iota // the value that undo restores
	written                // a value that an edit has written
	initial                // the value before the first edit, while undo would restore a later one
	changed                // it was set or removed since
)

// compare returns where the current value at the path of a Change comes from.
func (w *Change) compare(s syntax, value any, there bool) (origin, error) {
	candidates, origins := []Value{w.Value}, []origin{original}
	for _, text := range w.Wrote {
		candidates, origins = append(candidates, Value{Text: text}), append(origins, written)
	}
	if w.First != nil {
		candidates, origins = append(candidates, *w.First), append(origins, initial)
	}
	for i, candidate := range candidates {
		is, err := candidate.equals(s, value, there)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", w.Path, err)
		}
		if is {
			return origins[i], nil
		}
	}
	if w.Part == Maintained && there {
		return written, nil
	}
	return changed, nil
}

// A Reverted is a file without the settings of Apply.
type Reverted struct {
	Data []byte
	// Kept are the paths of values that were changed after Apply, or between two calls of it, and
	// keep that value, and of entries that stay.
	Kept []Path
	Gone []Path // of values that were removed in such a way, and are not there now
	Left *Undo  // for these values; nil if there are none
}

// Revert restores the values from before Apply and removes the values that Apply has added, in a
// file that may have been changed since. A value stays if it is not one that Apply has written, and
// so does everything else. A container that Apply has added is removed if nothing but companions
// would be left in it, and Entries stay or are removed as a whole.
func Revert(f Format, src []byte, undo *Undo) (Reverted, error) {
	d, err := parse(f, src)
	if err != nil {
		return Reverted{}, err
	}
	p, err := undo.plan(d)
	if err != nil {
		return Reverted{}, err
	}
	edited, want := d.src, d.tree
	for _, step := range p.steps {
		if edited, want, err = step.run(d, edited, want); err != nil {
			return Reverted{}, fmt.Errorf("%s: %w", step.path, err)
		}
	}
	if undo.Root != nil && len(want) == 0 && sameButSpace(string(edited), *undo.Root) {
		edited = []byte(*undo.Root)
	}
	if err := check(f, edited, want); err != nil {
		return Reverted{}, err
	}
	result := Reverted{Data: slices.Concat(d.mark, edited), Kept: p.entries}
	for _, was := range p.kept {
		if _, there := Get(want, was.Path); there {
			result.Kept = append(result.Kept, was.Path)
		} else {
			result.Gone = append(result.Gone, was.Path)
		}
	}
	if len(p.kept)+len(p.entries) > 0 {
		result.Left = &Undo{Was: append(p.kept, p.stay...), Made: undo.Made, Empty: undo.Empty, Root: undo.Root}
	}
	return result, nil
}

// sameButSpace reports whether two texts without values differ in white space only. An empty text
// is an empty object.
func sameButSpace(a, b string) bool {
	bare := func(text string) string {
		text = strings.Join(strings.Fields(text), "")
		if text == "{}" {
			return ""
		}
		return text
	}
	return bare(a) == bare(b)
}

// A step sets a value to a text, or removes it.
type step struct {
	path   Path
	text   string
	remove bool
}

func (st step) run(s syntax, text []byte, tree map[string]any) ([]byte, map[string]any, error) {
	if st.remove {
		edited, err := s.remove(text, st.path)
		return edited, without(tree, st.path), err
	}
	value, err := decoded(s, st.text)
	if err != nil {
		return nil, nil, err
	}
	edited, err := s.set(text, st.path, st.text)
	if err != nil {
		return nil, nil, err
	}
	want, err := assign(tree, st.path, value)
	return edited, want, err
}

// A plan has the changes that Revert makes.
type plan struct {
	steps []step
	kept  []Change // values that differ from those before the first edit when everything is done
	stay  []Change // companions of values that stay

	entries []Path // that stay as a whole
}

// plan returns the changes that remove the settings from a document.
func (u *Undo) plan(d document) (plan, error) {
	tree := d.tree
	changedEntries, entries, err := u.entries(d, tree)
	if err != nil {
		return plan{}, err
	}
	p := plan{entries: changedEntries}
	var ours, companions []Change
	left := tree // the tree when everything is done
	for _, entry := range entries {
		left = without(left, entry)
	}
	for _, was := range u.Was {
		value, there := Get(tree, was.Path)
		is, err := was.compare(d, value, there)
		if err != nil {
			return plan{}, err
		}
		// The same value, written as an edit has written it, is restored to its own form.
		if is == original && !was.Absent {
			if now, _, err := d.text(d.src, was.Path); err == nil && now != was.Text && slices.Contains(was.Wrote, now) {
				is = written
			}
		}
		if is == changed || was.First != nil && is != initial {
			p.kept = append(p.kept, was)
		}
		whole := slices.ContainsFunc(p.entries, func(entry Path) bool { return under(was.Path, entry) })
		switch {
		case is == written && whole && was.Absent:
			p.stay = append(p.stay, was)
		case is == written && u.isCompanion(was):
			companions = append(companions, was)
		case is == written:
			ours = append(ours, was)
			if was.Absent {
				left = without(left, was.Path)
			}
		}
	}
	left = u.dropContainers(left, companions)
	covered := func(path Path) bool {
		return slices.ContainsFunc(p.steps, func(st step) bool { return under(path, st.path) })
	}
	for _, path := range u.Made {
		_, there := Get(tree, path)
		if _, stays := Get(left, path); there && !stays && !covered(path) {
			p.steps = append(p.steps, step{path: path, remove: true})
		}
	}
	for _, was := range u.Empty {
		value, stays := Get(left, was.Path)
		if now, _ := Get(tree, was.Path); stays && isEmpty(value) && !isEmpty(now) {
			p.steps = append(p.steps, step{path: was.Path, text: was.Text})
		}
	}
	for _, was := range append(ours, companions...) {
		_, stays := Get(left, was.Path)
		switch {
		case covered(was.Path):
		case !was.Absent:
			p.steps = append(p.steps, step{path: was.Path, text: was.Text})
		case stays:
			p.stay = append(p.stay, was)
		default:
			p.steps = append(p.steps, step{path: was.Path, remove: true})
		}
	}
	return p, nil
}

// isCompanion reports whether a value goes with its container.
func (u *Undo) isCompanion(was Change) bool {
	if !was.Absent || was.Part == Independent && !selects(was.Path) {
		return false
	}
	container := was.Path[:len(was.Path)-1]
	if len(container) == 0 {
		return u.Root != nil
	}
	return find(u.Empty, container) >= 0 || u.hasMade(container)
}

func (u *Undo) hasMade(container Path) bool {
	return slices.ContainsFunc(u.Made, func(p Path) bool { return slices.Equal(p, container) })
}

// under reports whether a path leads to a container or to something in it.
func under(path, container Path) bool {
	return len(container) <= len(path) && slices.Equal(container, path[:len(container)])
}

// entries returns the entries of a tree that Apply has made. In changed ones something differs from
// the values that Apply has written: a value that was changed since or between two edits, or one
// that Apply does not write.
func (u *Undo) entries(s syntax, tree map[string]any) (changedEntries, unchanged []Path, err error) {
	for _, entry := range u.Entries {
		value, there := Get(tree, entry)
		if !there || !u.hasMade(entry) {
			continue
		}
		own := u.isForeign(entry, value)
		for _, was := range u.Was {
			value, there := Get(tree, was.Path)
			if !there || !under(was.Path, entry) {
				continue
			}
			is, err := was.compare(s, value, there)
			if err != nil {
				return nil, nil, err
			}
			own = own || is == changed || !was.Absent
		}
		if own {
			changedEntries = append(changedEntries, entry)
		} else {
			unchanged = append(unchanged, entry)
		}
	}
	return changedEntries, unchanged, nil
}

// isForeign reports whether a value, or one in it, is at no path that Apply has set.
func (u *Undo) isForeign(at Path, value any) bool {
	if find(u.Was, at) >= 0 {
		return false
	}
	members, ok := value.(map[string]any)
	for name, member := range members {
		if u.isForeign(append(at[:len(at):len(at)], name), member) {
			return true
		}
	}
	return !ok
}

// dropContainers removes the containers that Apply has added, innermost first, and then the
// companions in other containers, if there is nothing else in them.
func (u *Undo) dropContainers(tree map[string]any, companions []Change) map[string]any {
	made := slices.Clone(u.Made)
	slices.SortStableFunc(made, func(a, b Path) int { return len(b) - len(a) })
	left := tree
	alone := func(path Path) bool {
		value, there := Get(left, path)
		if list, ok := value.([]any); ok {
			return len(list) == 0
		}
		members, ok := value.(map[string]any)
		for name := range members {
			ok = ok && find(companions, append(path[:len(path):len(path)], name)) >= 0
		}
		return there && ok
	}
	for _, path := range made {
		if alone(path) {
			left = without(left, path)
		}
	}
	var lonely []Path // decided before the first of a container is removed
	for _, was := range companions {
		if alone(was.Path[:len(was.Path)-1]) {
			lonely = append(lonely, was.Path)
		}
	}
	for _, path := range lonely {
		left = without(left, path)
	}
	return left
}

// selects reports whether a path leads to the member that selects an item of a list.
func selects(path Path) bool {
	if len(path) < 2 {
		return false
	}
	member, _, ok := selector(path[len(path)-2])
	return ok && member == path[len(path)-1]
}

package edit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// A Copy is a copy of a JSON file, with settings of its own, that a program reads and changes in
// place of the file.
type Copy struct {
	Original []byte // the file when the copy was made
	Made     []byte // the content when the copy was made
	Undo     *Undo  // of the settings that only the copy has
	// Entries are objects that are only in the copy, with everything in them, if the copy has added
	// them, as in an Undo.
	Entries []Path
	Needed  []Path // settings of the copy without which the program ignores a file
}

// Return makes the changes of a copy in the file: the differences between the original content of
// the copy and the current one. The settings that only the copy has are not changes; settings that
// the program has added next to them are. A value that was changed in the file as well stays; kept
// are the paths of such values.
func (c Copy) Return(now, file []byte) (data []byte, kept []Path, err error) {
	trees := make([]map[string]any, 4)
	for i, text := range [][]byte{c.Original, c.Made, now, file} {
		if trees[i], err = Parse(JSON, text); err != nil {
			return nil, nil, err
		}
	}
	original, made, after, there := trees[0], trees[1], trees[2], trees[3]
	var set []Setting
	remove := new(Undo)
	for _, path := range c.changes(nil, made, after, there) {
		was, existed := Get(original, path)
		is, exists := Get(there, path)
		text, stays, err := textOf(now, path)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		case existed != exists || !reflect.DeepEqual(was, is):
			if value, _ := Get(after, path); exists != stays || !reflect.DeepEqual(value, is) {
				kept = append(kept, path)
			}
		case stays:
			set = append(set, Setting{Path: path, Value: Raw(text)})
		case exists:
			text, _, err := textOf(file, path)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
			remove.Was = append(remove.Was, Change{Path: path, Value: Value{Absent: true}, Wrote: []string{text}})
		}
	}
	for _, path := range c.Needed {
		if text, has, err := textOf(now, path); len(set) > 0 && has && err == nil {
			if _, exists := Get(there, path); !exists {
				set = append(set, Setting{Path: path, Value: Raw(text)})
			}
		}
	}
	reverted, err := Revert(JSON, file, remove)
	if err != nil {
		return nil, nil, err
	}
	data, _, err = Apply(JSON, reverted.Data, set)
	return data, kept, err
}

// textOf returns the text of a value in a JSON file.
func textOf(file []byte, path Path) (string, bool, error) {
	d, err := parse(JSON, file)
	if err != nil {
		return "", false, err
	}
	return d.text(d.src, path)
}

// changes returns the paths of the values that differ between two objects, in order. An object that
// is new here and in the file is compared by its members.
func (c Copy) changes(at Path, before, after, file map[string]any) []Path {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, after)
	var changed []Path
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := append(at[:len(at):len(at)], name)
		was, existed := before[name]
		is, exists := after[name]
		inner, isObject := was.(map[string]any)
		innerNow, isObjectNow := is.(map[string]any)
		innerFile, isObjectInFile := file[name].(map[string]any)
		switch {
		case isObjectNow && (isObject || !existed && isObjectInFile) && !c.isEntry(path):
			changed = append(changed, c.changes(path, inner, innerNow, innerFile)...)
		case (existed != exists || !reflect.DeepEqual(was, is)) && !c.own(path):
			changed = append(changed, path)
		}
	}
	return changed
}

// isEntry reports whether path is an entry which was added.
func (c Copy) isEntry(path Path) bool {
	return c.Undo.hasMade(path) && slices.ContainsFunc(c.Entries, func(p Path) bool { return slices.Equal(p, path) })
}

// own reports whether a path leads to a setting that only the copy has, or to a container of one.
func (c Copy) own(path Path) bool {
	return c.Undo.hasMade(path) || slices.ContainsFunc(c.Undo.Was, func(w Change) bool { return under(w.Path, path) })
}

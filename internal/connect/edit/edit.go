// Package edit changes single values in the settings files of other programs. Every byte that does not belong to a changed value
// stays as it is: comments, order, indentation, line ends and values that the package does not know. An edit that would change
// anything else is refused.
package edit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Format is the syntax of a settings file.
type Format string

// The formats.
const (
	JSON   Format = "json" // also with comments and trailing commas
	TOML   Format = "toml"
	YAML   Format = "yaml"
	Dotenv Format = "dotenv"
)

// MaxSize is the size of the largest file that is edited, in bytes.
const MaxSize = 4 << 20

// maxBrackets bounds the nesting of a file, and with it the stack of the parsers.
const maxBrackets = 100_000

// A Path leads from the root of a file to a value, by the names of members. Below a list, an element "name=x" is the item whose
// member name is x; an item that is missing is added in front.
type Path []string

func (p Path) String() string { return strings.Join(p, ".") }

// selector returns the member and the value that select an item of a list.
func selector(element string) (member, value string, ok bool) { return strings.Cut(element, "=") }

// A Setting is a value to set. Value is a string, a bool, a number, or in JSON a Raw.
type Setting struct {
	Path  Path
	Value any
	Part  Part
}

// A Part is how a setting depends on the rest of its container.
type Part string

// The parts.
const (
	Independent Part = ""
	// A Companion is only of use together with other values: the label of an entry, the version of a file. If Apply has added it to
	// a container without values, Revert removes it when only companions would be left there.
	Companion Part = "companion"
	// Maintained is a Companion whose value the program itself changes, such as the time of the last change.
	Maintained Part = "maintained"
)

// Raw is the text of a JSON value.
type Raw string

// An Undo is what Revert needs to take settings out of a file again. It can be stored as JSON.
type Undo struct {
	Was   []Was   `json:"was"`
	Made  []Path  `json:"made,omitempty"`  // containers that did not exist, outermost first
	Empty []Was   `json:"empty,omitempty"` // containers that had no members
	Root  *string `json:"root,omitempty"`  // the whole text, if it had no values
}

// A Was is the text of a value before an edit, and what was written in its place.
type Was struct {
	Path   Path     `json:"path"`
	Text   string   `json:"text,omitempty"`
	Absent bool     `json:"absent,omitempty"`
	Wrote  []string `json:"wrote,omitempty"` // the texts that every edit has written
	Part   Part     `json:"part,omitempty"`
}

// A syntax edits texts of one format. Texts have no byte order mark.
type syntax interface {
	// decode returns the content of a text as maps, lists and values.
	decode(src []byte) (map[string]any, error)
	// text returns the text of a value, and of a container only whether it is there. ok is false if there is no value.
	text(src []byte, path Path) (text string, ok bool, err error)
	// set sets a value to what a text stands for, and adds the containers that are missing.
	set(src []byte, path Path, text string) ([]byte, error)
	// remove removes a value or a container.
	remove(src []byte, path Path) ([]byte, error)
	// encode returns the text of a value.
	encode(value any) (string, error)
}

var syntaxes = map[Format]syntax{JSON: jsonSyntax{}, TOML: tomlSyntax{}, YAML: yamlSyntax{}, Dotenv: dotenvSyntax{}}

var byteOrderMark = []byte("\xef\xbb\xbf")

// open checks a text and separates its byte order mark.
func open(f Format, src []byte) (s syntax, mark, text []byte, err error) {
	s, ok := syntaxes[f]
	switch {
	case !ok:
		return nil, nil, nil, fmt.Errorf("unknown format %q", f)
	case len(src) > MaxSize:
		return nil, nil, nil, fmt.Errorf("it has %d bytes, and at most %d are read", len(src), MaxSize)
	case !utf8.Valid(src):
		return nil, nil, nil, errors.New("it is not valid UTF-8")
	case bytes.IndexByte(src, 0) >= 0:
		return nil, nil, nil, errors.New("it contains a null byte")
	case bytes.Count(src, []byte("["))+bytes.Count(src, []byte("{")) > maxBrackets:
		return nil, nil, nil, errors.New("it has too many brackets")
	}
	if rest, ok := bytes.CutPrefix(src, byteOrderMark); ok {
		return s, byteOrderMark, rest, nil
	}
	return s, nil, src, nil
}

// Parse returns the content of a file as maps, lists and values. Duplicate keys are an error.
func Parse(f Format, src []byte) (map[string]any, error) {
	s, _, text, err := open(f, src)
	if err != nil {
		return nil, err
	}
	return s.decode(text)
}

// Get returns the value at a path of what Parse has returned.
func Get(tree map[string]any, path Path) (value any, ok bool) {
	value = tree
	for _, element := range path {
		switch container := value.(type) {
		case map[string]any:
			if value, ok = container[element]; !ok {
				return nil, false
			}
		case []any:
			at := itemIndex(container, element)
			if at < 0 {
				return nil, false
			}
			value = container[at]
		default:
			return nil, false
		}
	}
	return value, true
}

// itemIndex is the index of the item that a path element selects, or -1.
func itemIndex(list []any, element string) int {
	member, value, ok := selector(element)
	return slices.IndexFunc(list, func(item any) bool {
		members, isMap := item.(map[string]any)
		return ok && isMap && members[member] == value
	})
}

// Apply sets values, in order. The result differs from src in these values only; it is src itself if the values are there already.
func Apply(f Format, src []byte, settings []Setting) ([]byte, *Undo, error) {
	s, mark, text, err := open(f, src)
	if err != nil {
		return nil, nil, err
	}
	before, err := s.decode(text)
	if err != nil {
		return nil, nil, err
	}
	undo, edited, want := new(Undo), text, before
	if len(before) == 0 {
		root := string(text)
		undo.Root = &root
	}
	for _, setting := range settings {
		encoded, err := s.encode(setting.Value)
		if text, ok := setting.Value.(string); ok && (!utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)) {
			err = errors.New("the value has characters that cannot be written")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", setting.Path, err)
		}
		if err := undo.note(s, text, before, Was{Path: setting.Path, Wrote: []string{encoded}, Part: setting.Part}); err != nil {
			return nil, nil, err
		}
		value, err := decoded(s, encoded)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", setting.Path, err)
		}
		if text, ok := setting.Value.(string); ok && value != any(text) {
			return nil, nil, fmt.Errorf("%s: the value cannot be written to this file", setting.Path)
		}
		have, ok := Get(want, setting.Path)
		if ok && reflect.DeepEqual(have, value) {
			continue
		}
		if _, raw := setting.Value.(Raw); !raw && !isEmpty(have) && isContainer(have) {
			return nil, nil, fmt.Errorf("%s: a value with members is in its place", setting.Path)
		}
		if edited, err = s.set(edited, setting.Path, encoded); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", setting.Path, err)
		}
		if want, err = assign(want, setting.Path, value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", setting.Path, err)
		}
	}
	if err := check(f, edited, want); err != nil {
		return nil, nil, err
	}
	return append(slices.Clone(mark), edited...), undo, nil
}

// decoded returns the value that a text stands for, in the types of the format.
func decoded(s syntax, text string) (any, error) {
	probe, err := s.set(nil, Path{"x"}, text)
	if err != nil {
		return nil, err
	}
	tree, err := s.decode(probe)
	if err != nil {
		return nil, err
	}
	return tree["x"], nil
}

// errForeign is the error of an edit that would change more than it should.
var errForeign = errors.New("the change would affect other settings")

// check refuses a text whose content is not the wanted one.
func check(f Format, text []byte, want map[string]any) error {
	s, _, text, err := open(f, text)
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	have, err := s.decode(text)
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	if !reflect.DeepEqual(have, want) {
		return errForeign
	}
	return nil
}

// note records what is at the path of a setting now.
func (u *Undo) note(s syntax, text []byte, tree map[string]any, written Was) error {
	path := written.Path
	for i := 1; i < len(path); i++ {
		container := path[:i:i]
		value, ok := Get(tree, container)
		switch {
		case !ok:
			u.made(container)
		case isEmpty(value) && find(u.Empty, container) < 0:
			was, ok, err := s.text(text, container)
			if err != nil {
				return fmt.Errorf("%s: %w", container, err)
			}
			if ok {
				u.Empty = append(u.Empty, Was{Path: container, Text: was})
			}
		}
	}
	if at := find(u.Was, path); at >= 0 { // it is set twice
		u.Was[at].Wrote = append(u.Was[at].Wrote, written.Wrote...)
		return nil
	}
	was, ok, err := s.text(text, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	written.Text, written.Absent = was, !ok
	u.Was = append(u.Was, written)
	return nil
}

func find(in []Was, path Path) int {
	return slices.IndexFunc(in, func(w Was) bool { return slices.Equal(w.Path, path) })
}

func (u *Undo) made(container Path) {
	if !slices.ContainsFunc(u.Made, func(p Path) bool { return slices.Equal(p, container) }) {
		u.Made = append(u.Made, container)
	}
}

func isContainer(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func isEmpty(value any) bool {
	switch container := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(container) == 0
	case []any:
		return len(container) == 0
	}
	return false
}

// Merge returns an Undo for two edits of one file, of which u was the first. What was there before the first counts, unless the
// value was changed between the two.
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
		first := merged.Was[at]
		var between any
		if !was.Absent {
			value, err := decoded(s, was.Text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", was.Path, err)
			}
			between = value
		}
		is, err := first.compare(s, between, !was.Absent)
		if err != nil {
			return nil, err
		}
		if is == changed {
			first.Text, first.Absent = was.Text, was.Absent
		}
		first.Wrote = slices.Clone(first.Wrote)
		for _, text := range was.Wrote {
			if !slices.Contains(first.Wrote, text) {
				first.Wrote = append(first.Wrote, text)
			}
		}
		merged.Was[at] = first
	}
	for _, path := range later.Made {
		merged.made(path)
	}
	return merged, nil
}

// An origin is where a value comes from.
type origin int

const (
	original origin = iota // it is what was there before the first edit
	written                // it is what an edit has written
	changed                // it was set or removed since
)

// compare returns where the value at the path of a Was comes from.
func (w *Was) compare(s syntax, value any, there bool) (origin, error) {
	if !there {
		if w.Absent {
			return original, nil
		}
		return changed, nil
	}
	texts := w.Wrote
	if !w.Absent {
		texts = append([]string{w.Text}, texts...)
	}
	for i, text := range texts {
		was, err := decoded(s, text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", w.Path, err)
		}
		if reflect.DeepEqual(value, was) {
			if i == 0 && !w.Absent {
				return original, nil
			}
			return written, nil
		}
	}
	if w.Part == Maintained {
		return written, nil
	}
	return changed, nil
}

// A Reverted is a file without what Apply has set.
type Reverted struct {
	Data []byte
	Kept []Path // of values that were changed or removed since Apply, and are left as they are
	Left *Undo  // for the values that are left; nil: there are none
}

// Revert puts back what was there before Apply and removes what was not, in a file that may have been changed since. A value stays
// if it is not one that Apply has written, and so does everything else. A container that Apply has added is removed if nothing
// but companions would be left in it.
func Revert(f Format, src []byte, undo *Undo) (Reverted, error) {
	s, mark, text, err := open(f, src)
	if err != nil {
		return Reverted{}, err
	}
	want, err := s.decode(text)
	if err != nil {
		return Reverted{}, err
	}
	p, err := undo.plan(s, want)
	if err != nil {
		return Reverted{}, err
	}
	edited := text
	for _, step := range p.steps {
		if edited, want, err = step.run(s, edited, want); err != nil {
			return Reverted{}, fmt.Errorf("%s: %w", step.path, err)
		}
	}
	if undo.Root != nil && len(want) == 0 && sameButSpace(string(edited), *undo.Root) {
		edited = []byte(*undo.Root)
	}
	if err := check(f, edited, want); err != nil {
		return Reverted{}, err
	}
	result := Reverted{Data: append(slices.Clone(mark), edited...)}
	for _, was := range p.kept {
		result.Kept = append(result.Kept, was.Path)
	}
	if len(p.kept) > 0 {
		result.Left = &Undo{Was: append(p.kept, p.stay...), Made: undo.Made, Empty: undo.Empty, Root: undo.Root}
	}
	return result, nil
}

// sameButSpace reports whether two texts without values differ in white space only. An empty text is an empty object.
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

// A plan is what Revert does.
type plan struct {
	steps []step
	kept  []Was // values that were changed since
	stay  []Was // companions of values that stay
}

// plan works out how to take the settings out of a tree.
func (u *Undo) plan(s syntax, tree map[string]any) (plan, error) {
	var p plan
	var ours, companions []Was
	left := tree // the tree when everything is done
	for _, was := range u.Was {
		value, there := Get(tree, was.Path)
		is, err := was.compare(s, value, there)
		switch {
		case err != nil:
			return plan{}, err
		case is == changed:
			p.kept = append(p.kept, was)
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
		return slices.ContainsFunc(p.steps, func(st step) bool { return len(st.path) <= len(path) && slices.Equal(st.path, path[:len(st.path)]) })
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
func (u *Undo) isCompanion(was Was) bool {
	if !was.Absent || was.Part == Independent && !selects(was.Path) {
		return false
	}
	container := was.Path[:len(was.Path)-1]
	if len(container) == 0 {
		return u.Root != nil
	}
	return find(u.Empty, container) >= 0 || slices.ContainsFunc(u.Made, func(p Path) bool { return slices.Equal(p, container) })
}

// dropContainers removes the containers that Apply has added, innermost first, and then the companions in other containers, if
// there is nothing else in them.
func (u *Undo) dropContainers(tree map[string]any, companions []Was) map[string]any {
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

// assign returns a tree with a value at a path. It shares what has not changed.
func assign(tree map[string]any, path Path, value any) (map[string]any, error) {
	assigned, err := assignIn(tree, path, value)
	if err != nil {
		return nil, err
	}
	return assigned.(map[string]any), nil
}

func assignIn(container any, path Path, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	member, selected, selects := selector(path[0])
	switch c := container.(type) {
	case nil:
		if selects {
			return assignIn([]any{}, path, value)
		}
		return assignIn(map[string]any{}, path, value)
	case map[string]any:
		inner, err := assignIn(c[path[0]], path[1:], value)
		if err != nil {
			return nil, err
		}
		changed := maps.Clone(c)
		if changed == nil {
			changed = map[string]any{}
		}
		changed[path[0]] = inner
		return changed, nil
	case []any:
		if !selects {
			break
		}
		changed := slices.Clone(c)
		at := itemIndex(changed, path[0])
		if at < 0 {
			changed, at = slices.Insert(changed, 0, any(map[string]any{member: selected})), 0
		}
		inner, err := assignIn(changed[at], path[1:], value)
		changed[at] = inner
		return changed, err
	}
	return nil, errors.New("another kind of value is in its place")
}

// without returns a tree without the value at a path. It shares what has not changed.
func without(tree map[string]any, path Path) map[string]any {
	if len(path) == 0 || tree == nil {
		return tree
	}
	if _, ok := Get(tree, path); !ok {
		return tree
	}
	return withoutIn(tree, path).(map[string]any)
}

func withoutIn(container any, path Path) any {
	switch c := container.(type) {
	case map[string]any:
		changed := maps.Clone(c)
		if len(path) == 1 {
			delete(changed, path[0])
		} else {
			changed[path[0]] = withoutIn(c[path[0]], path[1:])
		}
		return changed
	case []any:
		changed, at := slices.Clone(c), itemIndex(c, path[0])
		if len(path) == 1 {
			return slices.Delete(changed, at, at+1)
		}
		changed[at] = withoutIn(changed[at], path[1:])
		return changed
	}
	return container
}

// lineEnd is the line end that a text uses.
func lineEnd(src []byte) string {
	if at := bytes.IndexByte(src, '\n'); at > 0 && src[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// splice replaces src[from:to].
func splice(src []byte, from, to int, text string) []byte {
	return slices.Concat(src[:from], []byte(text), src[to:])
}

// lineStart is the offset of the line that contains an offset.
func lineStart(src []byte, offset int) int { return bytes.LastIndexByte(src[:offset], '\n') + 1 }

// lineAfter is the offset behind the line that contains an offset, with its line end.
func lineAfter(src []byte, offset int) int {
	if at := bytes.IndexByte(src[offset:], '\n'); at >= 0 {
		return offset + at + 1
	}
	return len(src)
}

// insertLines inserts whole lines at an offset, which is the start of a line or the end of the text. A text that does not end in a
// line end does not get one.
func insertLines(src []byte, offset int, lines []string) []byte {
	nl := lineEnd(src)
	text := strings.Join(lines, nl)
	if offset == len(src) && len(src) > 0 && src[len(src)-1] != '\n' {
		return splice(src, offset, offset, nl+text)
	}
	return splice(src, offset, offset, text+nl)
}

// removeLines removes the lines of src[from:to]. If they are the last ones, and have no line end, the text before loses its own.
func removeLines(src []byte, from, to int) []byte {
	from, to = lineStart(src, from), lineAfter(src, max(from, to-1))
	if to == len(src) && from > 0 && src[len(src)-1] != '\n' {
		from--
		if from > 0 && src[from-1] == '\r' {
			from--
		}
	}
	return splice(src, from, to, "")
}

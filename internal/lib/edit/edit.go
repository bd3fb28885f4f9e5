// Package edit changes single values in the settings files of other programs. Every byte that does
// not belong to a changed value is preserved: comments, order, indentation, line ends and values
// that the package does not support. An edit that would change anything else is refused.
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

// A Path leads from the root of a file to a value, by the names of members. Below a list, an
// element "name=x" is the item with a member name of value x; an item that is missing is added in
// front.
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
	// A Companion is only of use together with other values: the label of an entry, the version of
	// a file. If Apply has added it to a container without values, Revert removes it when only
	// companions would be left there.
	Companion Part = "companion"
	// Maintained is a Companion with a value that the program itself changes, such as the time of
	// the last change.
	Maintained Part = "maintained"
)

// Raw is the text of a JSON value.
type Raw string

// A syntax edits texts of one format. Texts have no byte order mark.
type syntax interface {
	// decode returns the content of a text as maps, lists and values.
	decode(src []byte) (map[string]any, error)
	// text returns the text of a value, and of a container only whether it exists. ok is false if
	// there is no value.
	text(src []byte, path Path) (text string, ok bool, err error)
	// set sets the value at a path to text, and adds the containers that are missing.
	set(src []byte, path Path, text string) ([]byte, error)
	// remove removes a value or a container.
	remove(src []byte, path Path) ([]byte, error)
	// encode returns the text of a value.
	encode(value any) (string, error)
}

var syntaxes = map[Format]syntax{JSON: jsonSyntax{}, TOML: tomlSyntax{}, YAML: yamlSyntax{}, Dotenv: dotenvSyntax{}}

var byteOrderMark = []byte("\xef\xbb\xbf")

// A document is a file that was checked and parsed.
type document struct {
	syntax
	mark []byte // the byte order mark, or empty
	src  []byte // the text behind it
	tree map[string]any
}

func parse(f Format, src []byte) (d document, err error) {
	s, ok := syntaxes[f]
	switch {
	case !ok:
		return d, fmt.Errorf("unknown format %q", f)
	case len(src) > MaxSize:
		return d, fmt.Errorf("it has %d bytes, and at most %d are read", len(src), MaxSize)
	case !utf8.Valid(src):
		return d, errors.New("it is not valid UTF-8")
	case bytes.IndexByte(src, 0) >= 0:
		return d, errors.New("it contains a null byte")
	case bytes.Count(src, []byte("["))+bytes.Count(src, []byte("{")) > maxBrackets:
		return d, errors.New("it has too many brackets")
	}
	d = document{syntax: s, src: bytes.TrimPrefix(src, byteOrderMark)}
	d.mark = src[:len(src)-len(d.src)]
	d.tree, err = s.decode(d.src)
	return d, err
}

// Parse returns the content of a file as maps, lists and values. Duplicate keys are an error.
func Parse(f Format, src []byte) (map[string]any, error) {
	d, err := parse(f, src)
	return d.tree, err
}

// Get returns the value at a path of a tree that Parse has returned.
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

// itemIndex returns the index of the item that a path element selects, or -1.
func itemIndex(list []any, element string) int {
	member, value, ok := selector(element)
	return slices.IndexFunc(list, func(item any) bool {
		members, isMap := item.(map[string]any)
		return ok && isMap && members[member] == value
	})
}

// Apply sets values, in order. The result differs from src in these values only; it is src itself
// if the values are there already.
func Apply(f Format, src []byte, settings []Setting) ([]byte, *Undo, error) {
	d, err := parse(f, src)
	if err != nil {
		return nil, nil, err
	}
	undo, edited, want := new(Undo), d.src, d.tree
	if len(d.tree) == 0 {
		root := string(d.src)
		undo.Root = &root
	}
	for _, setting := range settings {
		encoded, err := d.encode(setting.Value)
		if text, ok := setting.Value.(string); ok && (!utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)) {
			err = errors.New("the value has characters that cannot be written")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", setting.Path, err)
		}
		if err := undo.record(d, Change{Path: setting.Path, Wrote: []string{encoded}, Part: setting.Part}); err != nil {
			return nil, nil, err
		}
		value, err := decoded(d, encoded)
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
		if edited, err = d.set(edited, setting.Path, encoded); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", setting.Path, err)
		}
		if want, err = assign(want, setting.Path, value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", setting.Path, err)
		}
	}
	if err := check(f, edited, want); err != nil {
		return nil, nil, err
	}
	return slices.Concat(d.mark, edited), undo, nil
}

// decoded returns the value of a text, in the types of the format.
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

// check refuses a text if its content is not the wanted one.
func check(f Format, text []byte, want map[string]any) error {
	have, err := Parse(f, text)
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	if !reflect.DeepEqual(have, want) {
		return errForeign
	}
	return nil
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

// assign returns a tree with a value at a path. It shares the unchanged parts.
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

// without returns a tree without the value at a path. It shares the unchanged parts.
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

// lineEnd returns the line end that a text uses.
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

// lineStart returns the offset of the line that contains an offset.
func lineStart(src []byte, offset int) int { return bytes.LastIndexByte(src[:offset], '\n') + 1 }

// lineAfter returns the offset behind the line that contains an offset, with its line end.
func lineAfter(src []byte, offset int) int {
	if at := bytes.IndexByte(src[offset:], '\n'); at >= 0 {
		return offset + at + 1
	}
	return len(src)
}

// insertLines inserts whole lines at an offset, which is the start of a line or the end of the
// text. A text that does not end in a line end does not get one.
func insertLines(src []byte, offset int, lines []string) []byte {
	nl := lineEnd(src)
	text := strings.Join(lines, nl)
	if offset == len(src) && len(src) > 0 && src[len(src)-1] != '\n' {
		return splice(src, offset, offset, nl+text)
	}
	return splice(src, offset, offset, text+nl)
}

// removeLines removes the lines of src[from:to]. If they are the last ones, and have no line end,
// the text before loses its own.
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

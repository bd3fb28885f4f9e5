package edit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

type tomlSyntax struct{}

func (tomlSyntax) decode(src []byte) (map[string]any, error) {
	tree := map[string]any{}
	err := toml.Unmarshal(src, &tree)
	if detail, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := detail.Position()
		return nil, fmt.Errorf("line %d, column %d: %s", line, column, strings.TrimPrefix(detail.Error(), "toml: "))
	}
	return tree, err
}

// A tomlPart is a table header or a key with its value.
type tomlPart struct {
	path     Path
	header   bool
	list     bool // a header of an array of tables
	inline   bool // a value that has members
	from, to int  // of a header: its keys; of a key: the key and its value
	value    int  // where the value starts
}

func (tomlSyntax) parts(src []byte) ([]tomlPart, error) {
	var parser unstable.Parser
	parser.Reset(src)
	var parts []tomlPart
	var table Path
	for parser.NextExpression() {
		node := parser.Expression()
		var names Path
		var first, last unstable.Range
		for key := node.Key(); key.Next(); {
			last = key.Node().Raw
			if names == nil {
				first = last
			}
			names = append(names, string(key.Node().Data))
		}
		part := tomlPart{from: int(first.Offset), to: int(last.Offset + last.Length)}
		switch node.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = names
			part.path, part.header, part.list = names, true, node.Kind == unstable.ArrayTable
		case unstable.KeyValue:
			part.path = slices.Concat(table, names)
			part.inline = node.Value().Kind == unstable.InlineTable || node.Value().Kind == unstable.Array
			equals := bytes.IndexByte(src[part.to:], '=')
			part.value = part.to + equals + 1
			part.value += len(src[part.value:]) - len(bytes.TrimLeft(src[part.value:], " \t"))
			part.to = int(node.Raw.Offset + node.Raw.Length)
		}
		parts = append(parts, part)
	}
	return parts, parser.Error()
}

func (s tomlSyntax) text(src []byte, path Path) (string, bool, error) {
	parts, err := s.parts(src)
	if err != nil {
		return "", false, err
	}
	for _, p := range parts {
		if !p.header && slices.Equal(p.path, path) {
			return string(src[p.value:p.to]), true, nil
		}
	}
	return "", false, nil
}

func (tomlSyntax) encode(value any) (string, error) {
	if text, ok := value.(string); ok {
		return quote(text), nil // escapes of JSON are escapes of TOML
	}
	line, err := toml.Marshal(map[string]any{"x": value})
	text, ok := strings.CutPrefix(strings.TrimRight(string(line), "\n"), "x = ")
	if err == nil && (!ok || strings.Contains(text, "\n")) {
		err = errors.New("the value does not fit on a line")
	}
	return text, err
}

func (s tomlSyntax) set(src []byte, path Path, text string) ([]byte, error) {
	parts, err := s.parts(src)
	if err != nil {
		return nil, err
	}
	parent, name := path[:len(path)-1], path[len(path)-1]
	table := -1
	for i, p := range parts {
		switch {
		case !p.header && slices.Equal(p.path, path):
			return splice(src, p.value, p.to, text), nil
		case p.list && under(parent, p.path):
			return nil, fmt.Errorf("%s is a list of tables", p.path)
		case !p.header && p.inline && under(path, p.path):
			return nil, fmt.Errorf("%s is an inline table", p.path)
		case p.header && slices.Equal(p.path, parent):
			table = i
		}
	}
	line := tomlKey(name) + " = " + text
	if len(parent) == 0 {
		at, blank := topOfTOML(src, parts)
		lines := []string{line}
		if blank {
			lines = append(lines, "")
		}
		return insertLines(src, at, lines), nil
	}
	if table < 0 {
		lines := []string{"[" + tomlKeys(parent) + "]", line}
		if len(src) > 0 {
			lines = append([]string{""}, lines...)
		}
		return insertLines(src, len(src), lines), nil
	}
	last := table // the last part of the table
	for last+1 < len(parts) && !parts[last+1].header {
		last++
	}
	return insertLines(src, lineAfter(src, parts[last].to), []string{line}), nil
}

// topOfTOML returns where a key that belongs to no table is inserted, and whether a blank line has
// to follow.
func topOfTOML(src []byte, parts []tomlPart) (at int, blank bool) {
	for _, p := range parts {
		if p.header {
			break
		}
		at = lineAfter(src, p.to)
	}
	switch {
	case len(parts) == 0:
		return len(src), false
	case at > 0:
		return at, false
	}
	// There are tables only. Comments at the start of the file that end in a blank line stay at the
	// start.
	for end := 0; end < len(src); {
		next := lineAfter(src, end)
		line := bytes.TrimSpace(src[end:next])
		if len(line) == 0 && end > 0 {
			return next, true
		}
		if len(line) == 0 || line[0] != '#' {
			break
		}
		end = next
	}
	return 0, true
}

func tomlKeys(path Path) string {
	keys := make([]string, len(path))
	for i, name := range path {
		keys[i] = tomlKey(name)
	}
	return strings.Join(keys, ".")
}

// tomlKey returns a key, in quotes if it needs them.
func tomlKey(name string) string {
	plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if plain {
		return name
	}
	return quote(name)
}

func (s tomlSyntax) remove(src []byte, path Path) ([]byte, error) {
	parts, err := s.parts(src)
	if err != nil {
		return nil, err
	}
	for i, p := range slices.Backward(parts) {
		switch {
		case !under(p.path, path):
		case p.header:
			src = removeTOMLHeader(src, p)
		default:
			src = s.removeKey(src, parts, i)
		}
	}
	return src, nil
}

// removeKey removes a key that belongs to no table together with the blank line that set has added
// behind it.
func (tomlSyntax) removeKey(src []byte, parts []tomlPart, i int) []byte {
	p := parts[i]
	only := i == 0 && len(parts) > 1 && parts[1].header
	if next := lineAfter(src, p.to); only && next < len(src) {
		if after := lineAfter(src, next); len(bytes.TrimSpace(src[next:after])) == 0 {
			return removeLines(src, p.from, after)
		}
	}
	return removeLines(src, p.from, p.to)
}

// removeTOMLHeader removes a header and a blank line above it.
func removeTOMLHeader(src []byte, p tomlPart) []byte {
	from := lineStart(src, p.from)
	if from > 0 {
		if above := lineStart(src, from-1); len(bytes.TrimSpace(src[above:from])) == 0 {
			from = above
		}
	}
	return removeLines(src, from, lineAfter(src, p.to))
}

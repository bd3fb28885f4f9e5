package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"perigee/internal/lib/rawjson"
)

// A node is a JSON value. Scalars keep their bytes, so that encoding a tree never makes it larger
// than its source.
type node struct {
	kind   kind
	raw    []byte   // of a scalar
	names  []string // of the members of an object
	list   []*node  // its members, or the elements of an array
	parent *node
}

type kind uint8

const (
	literal kind = iota // a number, true, false or null
	text
	object
	array
)

// parse reads one JSON value.
func parse(body []byte) (*node, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	root, err := read(decoder, body, nil)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return root, nil
}

func read(decoder *json.Decoder, body []byte, parent *node) (*node, error) {
	before := decoder.InputOffset()
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	n := &node{parent: parent}
	switch token {
	case json.Delim('{'):
		n.kind = object
	case json.Delim('['):
		n.kind = array
	default:
		if _, ok := token.(string); ok {
			n.kind = text
		}
		n.raw = bytes.TrimLeft(body[before:decoder.InputOffset()], " \t\r\n,:")
		return n, nil
	}
	for decoder.More() {
		if n.kind == object {
			name, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			n.names = append(n.names, name.(string)) // the decoder accepts nothing else
		}
		child, err := read(decoder, body, n)
		if err != nil {
			return nil, err
		}
		n.list = append(n.list, child)
	}
	_, err = decoder.Token() // the end of the object or array
	return n, err
}

// member returns a member of an object, or nil if it has none of the name.
func (n *node) member(name string) *node {
	if n.kind != object {
		return nil
	}
	if i := slices.Index(n.names, name); i >= 0 {
		return n.list[i]
	}
	return nil
}

// string is the value of a string, and empty for every other value.
func (n *node) string() (s string) {
	if n != nil && n.kind == text {
		_ = json.Unmarshal(n.raw, &s) // it was read as a string
	}
	return s
}

// name is the name of a member, and empty for an element of an array.
func (n *node) name() string {
	if n.parent == nil || n.parent.kind != object {
		return ""
	}
	return n.parent.names[slices.Index(n.parent.list, n)]
}

// walk visits a value and everything in it, parents first, until visit returns false for it.
func (n *node) walk(visit func(*node) bool) {
	if !visit(n) {
		return
	}
	for _, child := range n.list {
		child.walk(visit)
	}
}

// A version is a tree with values left out and strings replaced.
type version struct {
	without map[*node]bool
	texts   map[*node]string
}

func (v version) clone() version { return version{maps.Clone(v.without), maps.Clone(v.texts)} }

// has reports whether a value is in the version.
func (v version) has(n *node) bool {
	for ; n != nil; n = n.parent {
		if v.without[n] {
			return false
		}
	}
	return true
}

// children are the members or elements of a value that the version has.
func (v version) children(n *node) (list []*node) {
	for _, child := range n.list {
		if !v.without[child] {
			list = append(list, child)
		}
	}
	return list
}

// append writes a value without spaces.
func (v version) append(dst []byte, n *node) []byte {
	if replaced, ok := v.texts[n]; ok {
		return rawjson.AppendString(dst, replaced)
	}
	open, end := byte('{'), byte('}')
	switch n.kind {
	case literal, text:
		return append(dst, n.raw...)
	case array:
		open, end = '[', ']'
	}
	dst = append(dst, open)
	first := true
	for i, child := range n.list {
		if v.without[child] {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if n.kind == object {
			dst = append(rawjson.AppendString(dst, n.names[i]), ':')
		}
		dst = v.append(dst, child)
	}
	return append(dst, end)
}

// size is the number of bytes that a value takes.
func (v version) size(n *node) int {
	if replaced, ok := v.texts[n]; ok {
		return len(replaced) + 2
	}
	size := len(n.raw)
	for i, child := range n.list {
		if v.without[child] {
			continue
		}
		size += v.size(child) + 1
		if n.kind == object {
			size += len(n.names[i]) + 3
		}
	}
	return size
}

package schema

import (
	"bytes"
	"encoding/json"

	"perigee/internal/lib/rawjson"
)

// A node is one value of a JSON text.
type node struct {
	kind     rawjson.Kind
	alias    bool // its name is another spelling of the keyword
	isSchema bool // it has a member that only schemas have
	isMap    bool // it has members that are not keywords and that are schemas, or maps of them

	height   int      // see heightOf
	key      *keyword // that its name is, if it is a member of an object, or noKeyword
	name     string
	raw      []byte // the original text
	children []*node
	index    map[string]*node // of its members, see member
	required *node            // its member "required" if that is a boolean, which describes its parent
}

// parse reads a text that passed rawjson.Check, and counts its values.
func parse(text []byte, r rules) (root *node, values int) {
	p := parser{rules: r, text: text, cursor: rawjson.NewCursor(text)}
	return p.value(), p.values
}

type parser struct {
	rules
	text   []byte
	cursor *rawjson.Cursor
	values int
}

func (p *parser) value() *node {
	p.values++
	n := &node{kind: p.cursor.Kind(), key: noKeyword}
	start := p.cursor.Offset()
	switch n.kind {
	case rawjson.Object:
		n.children = make([]*node, 0, 6)
		for name := range p.cursor.Object() {
			known := byName[string(name)]
			m := p.value()
			if known != nil {
				m.key, m.name = known, known.name // which takes no memory
			}
			if m.name != string(name) {
				m.name, m.alias = string(name), known != nil
			}
			n.add(m)
		}
	case rawjson.Array:
		for range p.cursor.Array() {
			n.children = append(n.children, p.value())
		}
	default:
		p.cursor.Skip()
	}
	end := p.cursor.Offset()
	n.raw = p.text[start:end:end]
	n.height = p.heightOf(n, false)
	return n
}

// add adds a member, and updates the properties of the object that depend on it.
func (n *node) add(m *node) {
	n.children = append(n.children, m)
	switch {
	case m.key == noKeyword:
		n.isMap = n.isMap || m.kind == rawjson.Object && (m.isSchema || m.isMap)
	case m.kind == m.key.proves, m.key.name == "type" && kindNamed(m) != kindUnknown:
		n.isSchema = true
	case m.key.name == "required" && m.kind == rawjson.Bool:
		n.required = m
	}
}

// part returns the last member with the keyword, or nil. A member that is null or a misplaced
// property does not count.
func (n *node) part(keyword string) *node {
	for i := len(n.children) - 1; i >= 0; i-- {
		if m := n.children[i]; m.key.name == keyword && (m.kind != rawjson.Null || keyword == "const") && !m.misplaced() {
			return m
		}
	}
	return nil
}

// member returns the member of that name, or nil. Members of one object have different names.
func (n *node) member(name string) *node {
	if n.index == nil {
		n.index = make(map[string]*node, len(n.children))
		for _, m := range n.object() {
			n.index[m.name] = m
		}
	}
	return n.index[name]
}

// misplaced reports whether a member with a schema as its value can only be a property outside of
// "properties".
func (n *node) misplaced() bool {
	return n.kind == rawjson.Object && (n.isSchema && n.key.noObject || n.isMap && n.key == noKeyword)
}

// elements returns the elements of a list, and nothing for other values and nil.
func (n *node) elements() []*node {
	if n == nil || n.kind != rawjson.Array {
		return nil
	}
	return n.children
}

// object returns the members of an object, and nothing for other values and nil.
func (n *node) object() []*node {
	if n == nil || n.kind != rawjson.Object {
		return nil
	}
	return n.children
}

func (n *node) isTrue() bool  { return n.kind == rawjson.Bool && n.raw[0] == 't' }
func (n *node) isFalse() bool { return n.kind == rawjson.Bool && n.raw[0] == 'f' }

// text returns the unquoted text of a string, and the original text of any other value.
func (n *node) text() string {
	if n.kind != rawjson.String {
		return string(n.raw)
	}
	return rawjson.NewCursor(n.raw).String()
}

// inner returns the original text of a string without its quotes.
func (n *node) inner() []byte { return n.raw[1 : len(n.raw)-1] }

// written returns the string that represents the value in an enumeration.
func (n *node) written() string {
	switch n.kind {
	case rawjson.Object, rawjson.Array:
		text, _ := compact(n.raw, len(n.raw))
		return text
	}
	return n.text()
}

// plain returns the value as a description repeats it: strings without quotes, unless they are
// empty. It is false where the value is longer than limit.
func (n *node) plain(limit int) (text string, ok bool) {
	switch n.kind {
	case rawjson.String:
		if len(n.raw) > len(`""`)+len(`\u0000`)*limit {
			return "", false
		}
		if text = n.text(); text == "" {
			text = `""`
		}
		return text, len(text) <= limit
	case rawjson.Object, rawjson.Array:
		return compact(n.raw, limit)
	}
	return string(n.raw), true
}

// compact returns a JSON text without white space. It is false where the text is longer than limit,
// or if its white space makes it more than 20 times as long.
func compact(raw []byte, limit int) (text string, ok bool) {
	if len(raw) > 20*limit {
		return "", false
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", false
	}
	return b.String(), b.Len() <= limit
}

// allNames reports whether a list is not empty and consists of different strings that are all
// names.
func allNames(list *node, isName func(string) bool) bool {
	seen := map[string]bool{}
	for _, m := range list.elements() {
		name := m.text()
		if m.kind != rawjson.String || seen[name] || !isName(name) {
			return false
		}
		seen[name] = true
	}
	return len(seen) > 0
}

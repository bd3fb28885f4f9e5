package edit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

type jsonSyntax struct{}

// parse returns the root object of a text; nil if the text is empty.
func (jsonSyntax) parse(src []byte) (*hujson.Value, error) {
	if len(bytes.TrimSpace(src)) == 0 {
		return nil, nil
	}
	root, err := hujson.Parse(src)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is JSON, but not an object")
	}
	for value := range root.All() {
		if err := uniqueMembers(value, src); err != nil {
			return nil, err
		}
	}
	return &root, nil
}

func uniqueMembers(value *hujson.Value, src []byte) error {
	object, ok := value.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	for i := range object.Members {
		name := memberName(&object.Members[i])
		if names[name] {
			line := 1 + bytes.Count(src[:object.Members[i].Name.StartOffset], []byte("\n"))
			return fmt.Errorf("line %d: the key %q is there twice", line, name)
		}
		names[name] = true
	}
	return nil
}

func memberName(m *hujson.ObjectMember) string {
	literal, _ := m.Name.Value.(hujson.Literal)
	return literal.String()
}

func (s jsonSyntax) decode(src []byte) (map[string]any, error) {
	root, err := s.parse(src)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	if root == nil {
		return tree, nil
	}
	standard := root.Clone()
	standard.Standardize()
	decoder := json.NewDecoder(bytes.NewReader(standard.Pack()))
	decoder.UseNumber()
	return tree, decoder.Decode(&tree)
}

// find follows a path as far as there are members. Of a path that ends in a member it returns that
// and its object.
func (jsonSyntax) find(root *hujson.Value, path Path) (object *hujson.Value, member, depth int, err error) {
	object = root
	for depth = range path {
		members, ok := object.Value.(*hujson.Object)
		if !ok {
			return nil, -1, depth, fmt.Errorf("%s is not an object", path[:depth])
		}
		member = slices.IndexFunc(members.Members, func(m hujson.ObjectMember) bool { return memberName(&m) == path[depth] })
		if member < 0 || depth == len(path)-1 {
			return object, member, depth, nil
		}
		object = &members.Members[member].Value
	}
	return nil, -1, 0, errors.New("an empty path")
}

func (s jsonSyntax) text(src []byte, path Path) (string, bool, error) {
	root, err := s.parse(src)
	if err != nil || root == nil {
		return "", false, err
	}
	object, member, _, err := s.find(root, path)
	if err != nil || member < 0 {
		return "", false, err
	}
	value := object.Value.(*hujson.Object).Members[member].Value
	return string(src[value.StartOffset:value.EndOffset]), true, nil
}

func (jsonSyntax) encode(value any) (string, error) {
	if raw, ok := value.(Raw); ok {
		return string(raw), nil
	}
	text := new(strings.Builder)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

func (s jsonSyntax) set(src []byte, path Path, text string) ([]byte, error) {
	root, err := s.parse(src)
	if err != nil {
		return nil, err
	}
	if root == nil {
		src = []byte("{" + lineEnd(src) + "}" + lineEnd(src))
		if root, err = s.parse(src); err != nil {
			return nil, err
		}
	}
	object, member, depth, err := s.find(root, path)
	if err != nil {
		return nil, err
	}
	if member >= 0 && depth == len(path)-1 {
		value := object.Value.(*hujson.Object).Members[member].Value
		return splice(src, value.StartOffset, value.EndOffset, text), nil
	}
	style := newJSONStyle(src, root)
	return style.insert(object, path[depth:], text), nil
}

// A jsonStyle is the layout of a text.
type jsonStyle struct {
	src   []byte
	lines bool // members are on lines of their own
	nl    string
	unit  string // of indentation
}

func newJSONStyle(src []byte, root *hujson.Value) jsonStyle {
	style := jsonStyle{src: src, nl: lineEnd(src), unit: "  "}
	members := root.Value.(*hujson.Object).Members
	style.lines = len(members) == 0 || slices.ContainsFunc(members, func(m hujson.ObjectMember) bool {
		return bytes.Contains(m.Name.BeforeExtra, []byte("\n"))
	})
	for i := range members {
		indent, ok := indentation(members[i].Name.BeforeExtra)
		if outer := lineIndent(src, root.StartOffset); ok && len(indent) > len(outer) && strings.HasPrefix(indent, outer) {
			style.unit = indent[len(outer):]
			break
		}
	}
	return style
}

// indentation returns the white space at the start of the line of a member; extra is the text
// before the member.
func indentation(extra []byte) (string, bool) {
	at := bytes.LastIndexByte(extra, '\n')
	if at < 0 {
		return "", false
	}
	line := extra[at+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))]), true
}

// lineIndent returns the white space at the start of the line of an offset.
func lineIndent(src []byte, offset int) string {
	line := src[lineStart(src, offset):offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// insert adds a member behind the last one, with the objects that its path needs.
func (style jsonStyle) insert(object *hujson.Value, path Path, text string) []byte {
	src, members := style.src, object.Value.(*hujson.Object).Members
	closing := object.EndOffset - 1
	if len(members) == 0 {
		return style.insertFirst(object, path, text)
	}
	last := &members[len(members)-1]
	indent, ownLine := indentation(last.Name.BeforeExtra)
	colon := ": "
	between := src[last.Name.EndOffset:last.Value.StartOffset]
	if len(bytes.Trim(between, " \t:")) == 0 {
		colon = string(between)
	}
	lead := " "
	if ownLine {
		lead = style.nl + indent
	} else if len(members) > 1 && len(bytes.Trim(last.Name.BeforeExtra, " \t")) == 0 {
		lead = string(last.Name.BeforeExtra)
	}
	tail := last.Value.EndOffset
	comma := last.Value.AfterExtra != nil // a trailing one
	if comma {
		tail += len(last.Value.AfterExtra) + 1
	}
	at := tail + len(trimExtra(src[tail:closing]))
	if endsInLineComment(src[tail:at]) && !ownLine {
		lead = style.nl + lineIndent(src, object.StartOffset) + style.unit
	}
	added := lead + quote(path[0]) + colon + style.nested(path[1:], text, indent, ownLine)
	if comma {
		return splice(src, at, at, added+",")
	}
	if endsInLineComment(src[tail:at]) && !startsLine(src[at:]) {
		added += style.nl
	}
	return splice(splice(src, at, at, added), tail, tail, ",")
}

// insertFirst adds a member to an object that has none.
func (style jsonStyle) insertFirst(object *hujson.Value, path Path, text string) []byte {
	src, opening, closing := style.src, object.StartOffset+1, object.EndOffset-1
	outer := lineIndent(src, object.StartOffset)
	kept := trimExtra(src[opening:closing])
	if !style.lines && !bytes.Contains(src[opening:closing], []byte("\n")) {
		return splice(src, opening+len(kept), closing, quote(path[0])+": "+style.nested(path[1:], text, "", false))
	}
	added := style.nl + outer + style.unit + quote(path[0]) + ": " + style.nested(path[1:], text, outer+style.unit, true)
	rest := src[opening+len(kept) : closing]
	if startsLine(rest) {
		return splice(src, opening+len(kept), opening+len(kept), added)
	}
	return splice(src, opening+len(kept), closing, added+style.nl+outer)
}

// nested wraps a value in the objects of a path. indent is the indentation of the member that it
// belongs to.
func (style jsonStyle) nested(path Path, text, indent string, lines bool) string {
	if len(path) == 0 {
		return text
	}
	if !lines {
		return "{" + quote(path[0]) + ": " + style.nested(path[1:], text, "", false) + "}"
	}
	inner := indent + style.unit
	return "{" + style.nl + inner + quote(path[0]) + ": " + style.nested(path[1:], text, inner, true) + style.nl + indent + "}"
}

func quote(name string) string {
	text, err := jsonSyntax{}.encode(name)
	if err != nil {
		panic("edit: a string that is no JSON: " + err.Error())
	}
	return text
}

// trimExtra removes the white space behind the last comment.
func trimExtra(extra []byte) []byte { return bytes.TrimRight(extra, " \t\r\n") }

// startsLine reports whether a text begins with a line end, or white space before one.
func startsLine(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r")
	return len(text) > 0 && text[0] == '\n'
}

// endsInLineComment reports whether white space and comments end in a comment that the next line
// end closes.
func endsInLineComment(extra []byte) bool {
	for {
		at := bytes.IndexByte(extra, '/')
		if at < 0 || at+1 >= len(extra) {
			return false
		}
		end := []byte("*/")
		if extra[at+1] == '/' {
			end = []byte("\n")
		}
		closed := bytes.Index(extra[at+2:], end)
		if closed < 0 {
			return extra[at+1] == '/'
		}
		extra = extra[at+2+closed+len(end):]
	}
}

func (s jsonSyntax) remove(src []byte, path Path) ([]byte, error) {
	root, err := s.parse(src)
	if err != nil || root == nil {
		return src, err
	}
	object, at, depth, err := s.find(root, path)
	if err != nil || at < 0 || depth < len(path)-1 {
		return src, err
	}
	members := object.Value.(*hujson.Object).Members
	member, last := &members[at], at == len(members)-1
	before := member.Name.StartOffset - len(member.Name.BeforeExtra)
	from := before + len(trimExtra(src[before:member.Name.StartOffset]))
	to := member.Value.EndOffset
	comma := to + len(member.Value.AfterExtra)
	followed := !last || member.Value.AfterExtra != nil // by a comma
	rest := src[to:]
	if followed {
		rest = slices.Concat(src[to:comma], src[comma+1:])
	}
	if endsInLineComment(src[before:from]) && !startsLine(rest) {
		from = member.Name.StartOffset
	}
	if followed {
		src = splice(src, comma, comma+1, "")
		return splice(src, from, to, ""), nil
	}
	src = splice(src, from, to, "")
	if at > 0 {
		previous := members[at-1].Value
		comma = previous.EndOffset + len(previous.AfterExtra)
		src = splice(src, comma, comma+1, "")
	}
	return src, nil
}

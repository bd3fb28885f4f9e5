package edit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"perigee/internal/lib/lazyregexp"
)

// yamlSyntax edits files of one document with mappings in block style. Values that are replaced
// have to be on one line.
type yamlSyntax struct{}

// otherLineEnd is a line end of YAML other than LF and CRLF: this package counts lines without it.
var otherLineEnd = lazyregexp.New("\r(?:[^\n]|$)|[\u0085\u2028\u2029]")

// parse returns the root mapping; nil if the text is empty or has comments only.
func (yamlSyntax) parse(src []byte) (*yaml.Node, error) {
	if otherLineEnd().Match(src) {
		return nil, errors.New("it has line ends other than LF and CRLF")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(src))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	root := document.Content[0]
	bare := root.Anchor == "" && root.Style&yaml.TaggedStyle == 0 // members that are added below an anchor belong to it
	switch {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null" && root.Value == "" && bare:
		return nil, nil
	case root.Kind != yaml.MappingNode:
		return nil, errors.New("it is YAML, but not a mapping")
	}
	return root, nil
}

func (s yamlSyntax) decode(src []byte) (map[string]any, error) {
	root, err := s.parse(src)
	tree := map[string]any{}
	if err != nil || root == nil {
		return tree, err
	}
	if err := root.Decode(&tree); err != nil { // also duplicate keys
		message := err.Error()
		return nil, errors.New(strings.TrimSpace(strings.TrimPrefix(message[strings.LastIndexByte(message, '\n')+1:], "yaml: ")))
	}
	return tree, nil
}

// A yamlPlace is a value with the node that it is in.
type yamlPlace struct {
	key    *yaml.Node // nil for an item of a list
	value  *yaml.Node
	parent *yaml.Node
}

// find follows a path as far as there are nodes: places has one entry for each element that was
// found.
func (yamlSyntax) find(root *yaml.Node, path Path) (places []yamlPlace, err error) {
	at := root
	for _, element := range path {
		if at.Kind == yaml.AliasNode || at.Anchor != "" {
			return nil, errors.New("anchors and aliases are not edited")
		}
		place := yamlPlace{parent: at}
		switch at.Kind {
		case yaml.MappingNode:
			place.key, place.value = yamlMember(at, element)
		case yaml.SequenceNode:
			member, want, ok := selector(element)
			if !ok {
				return nil, fmt.Errorf("%s is below a list", element)
			}
			for _, item := range at.Content {
				if _, value := yamlMember(item, member); value != nil && value.Value == want {
					place.value = item
					break
				}
			}
		default:
			if at.Tag != "!!null" {
				return nil, errors.New("another kind of value is in its place")
			}
		}
		if place.value == nil {
			break
		}
		places = append(places, place)
		at = place.value
	}
	return places, nil
}

func yamlMember(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	if mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Kind == yaml.ScalarNode && mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// offset returns where a node starts.
func (yamlSyntax) offset(src []byte, node *yaml.Node) int {
	at := 0
	for range node.Line - 1 {
		at = lineAfter(src, at)
	}
	for range node.Column - 1 {
		_, size := utf8.DecodeRune(src[at:])
		at += size
	}
	return at
}

// span returns the offsets of a value that is on one line.
func (s yamlSyntax) span(src []byte, place yamlPlace) (from, to int, err error) {
	node := place.value
	if node.Anchor != "" || node.Kind == yaml.AliasNode || node.Style&yaml.TaggedStyle != 0 {
		return 0, 0, errors.New("values with anchors and tags are not edited")
	}
	plain := node.Kind == yaml.ScalarNode && node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0
	if plain && place.parent != nil && place.parent.Style&yaml.FlowStyle != 0 { // it ends at a comma or a bracket
		return 0, 0, errors.New("values in brackets are not edited")
	}
	if node.Tag == "!!null" && node.Value == "" && place.key != nil { // nothing behind the colon
		from = s.offset(src, place.key)
		from += bytes.IndexByte(src[from:lineAfter(src, from)], ':') + 1
		return from, from, nil
	}
	from = s.offset(src, node)
	line := src[from:lineAfter(src, from)]
	switch {
	case node.Kind == yaml.SequenceNode && len(node.Content) == 0 || node.Kind == yaml.MappingNode && len(node.Content) == 0:
		to = 2 + bytes.IndexAny(line[1:], "]}")
	case node.Kind != yaml.ScalarNode || node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 0, 0, errors.New("the value spans lines")
	case node.Style&yaml.DoubleQuotedStyle != 0:
		to = quotedEnd(line, '"', '\\')
	case node.Style&yaml.SingleQuotedStyle != 0:
		to = quotedEnd(line, '\'', '\'')
	default:
		if to = bytes.Index(line, []byte(" #")); to < 0 {
			to = len(line)
		}
		to = len(bytes.TrimRight(line[:to], " \t\r\n"))
	}
	if to <= 0 {
		return 0, 0, errors.New("the value spans lines")
	}
	return from, from + to, nil
}

// quotedEnd returns the length of a quoted text at the start of a line, or 0 if it does not end on
// this line.
func quotedEnd(line []byte, mark, escape byte) int {
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == escape && (escape != mark || i+1 < len(line) && line[i+1] == mark):
			i++
		case line[i] == mark:
			return i + 1
		}
	}
	return 0
}

func (s yamlSyntax) text(src []byte, path Path) (string, bool, error) {
	root, err := s.parse(src)
	if err != nil || root == nil {
		return "", false, err
	}
	places, err := s.find(root, path)
	if err != nil || len(places) < len(path) {
		return "", false, err
	}
	from, to, err := s.span(src, places[len(path)-1])
	return string(src[from:to]), err == nil, err
}

func (yamlSyntax) encode(value any) (string, error) {
	text, err := yaml.Marshal(value)
	line := strings.TrimSuffix(string(text), "\n")
	if err == nil && strings.Contains(line, "\n") {
		err = errors.New("the value does not fit on a line")
	}
	return line, err
}

func (s yamlSyntax) set(src []byte, path Path, text string) ([]byte, error) {
	root, err := s.parse(src)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return insertLines(src, len(src), yamlLines(path, text, 0)), nil
	}
	places, err := s.find(root, path)
	if err != nil {
		return nil, err
	}
	if len(places) == len(path) {
		return s.replace(src, places[len(path)-1], text)
	}
	rest := path[len(places):]
	if len(places) == 0 {
		if root.Style&yaml.FlowStyle != 0 {
			return nil, errors.New("mappings in braces are not edited")
		}
		return insertLines(src, len(src), yamlLines(rest, text, root.Column-1)), nil
	}
	return s.insert(src, places[len(places)-1], rest, text)
}

// replace puts a text in place of a value.
func (s yamlSyntax) replace(src []byte, place yamlPlace, text string) ([]byte, error) {
	if node := place.value; len(node.Content) > 0 && node.Style&yaml.FlowStyle == 0 && place.key != nil && node.Line > place.key.Line {
		src = removeLines(src, s.offset(src, node), lineAfter(src, s.offset(src, lastNode(node))))
		place.value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	from, to, err := s.span(src, place)
	if err != nil {
		return nil, err
	}
	for text == "" && src[from-1] == ' ' {
		from--
	}
	if from == to && text != "" {
		text = " " + text
	}
	return splice(src, from, to, text), nil
}

// insert adds the missing part of a path below a value.
func (s yamlSyntax) insert(src []byte, place yamlPlace, rest Path, text string) ([]byte, error) {
	node, flow := place.value, place.value.Style&yaml.FlowStyle != 0
	switch {
	case place.key == nil && !flow: // an item of a list
		at, err := s.lastLine(src, node)
		return insertLines(src, at, yamlLines(rest, text, node.Column-1)), err
	case len(node.Content) == 0: // nothing, or [] or {}
		from, to, err := s.span(src, place)
		if err != nil {
			return nil, err
		}
		for from > 0 && (src[from-1] == ' ' || src[from-1] == '\t') {
			from--
		}
		src = splice(src, from, to, "")
		return insertLines(src, lineAfter(src, from), yamlLines(rest, text, place.key.Column-1+2)), nil
	case flow:
		return nil, errors.New("values in brackets are not edited")
	case node.Line == place.key.Line:
		return nil, errors.New("the value starts on the line of its key")
	}
	// Before the existing members. The column of a list is the column of its first dash.
	return insertLines(src, lineAfter(src, s.offset(src, place.key)), yamlLines(rest, text, node.Column-1)), nil
}

// lastLine returns the offset behind the last member of a mapping that is on one line.
func (s yamlSyntax) lastLine(src []byte, mapping *yaml.Node) (int, error) {
	for i := len(mapping.Content) - 2; i >= 0; i -= 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if _, to, err := s.span(src, yamlPlace{key: key, value: value}); err == nil && key.Line == value.Line && value.Kind == yaml.ScalarNode {
			return lineAfter(src, to), nil
		}
	}
	return 0, errors.New("no member of the item is on one line")
}

// yamlLines returns the lines of a value in the containers of a path.
func yamlLines(path Path, text string, indent int) []string {
	var lines []string
	lead, space := strings.Repeat(" ", indent), strings.Repeat(" ", indent)
	for i, element := range path {
		member, value, isItem := selector(element)
		switch {
		// The member that selects the item is the one that is set.
		case isItem && i+1 < len(path) && path[i+1] == member:
			lead, space = space+"- ", space+"  "
		case isItem:
			lines = append(lines, space+"- "+member+": "+value)
			space += "  "
			lead = space
		case i == len(path)-1:
			return append(lines, lead+element+": "+text)
		default:
			lines = append(lines, lead+element+":")
			space += "  "
			lead = space
		}
	}
	return lines
}

func (s yamlSyntax) remove(src []byte, path Path) ([]byte, error) {
	root, err := s.parse(src)
	if err != nil || root == nil {
		return src, err
	}
	places, err := s.find(root, path)
	if err != nil || len(places) < len(path) {
		return src, err
	}
	place := places[len(path)-1]
	if place.parent.Style&yaml.FlowStyle != 0 {
		return nil, errors.New("values in brackets are not edited")
	}
	first := place.key
	if first == nil {
		first = place.value
	}
	from, last := s.offset(src, first), lastNode(place.value)
	if _, _, err := s.span(src, yamlPlace{key: first, value: last}); err != nil {
		return nil, err
	}
	return removeLines(src, from, lineAfter(src, max(from, s.offset(src, last)))), nil
}

// lastNode returns the node that ends last.
func lastNode(node *yaml.Node) *yaml.Node {
	for len(node.Content) > 0 {
		node = slices.MaxFunc(node.Content, func(a, b *yaml.Node) int { return a.Line - b.Line })
	}
	return node
}

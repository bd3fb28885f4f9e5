package importcmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"perigee/internal/lib/edit"
)

// A document is a configuration of another program. It knows which of its values were read, so that
// the remaining ones can be named.
type document struct {
	root entry
	read map[*yaml.Node]bool
}

// An entry is a value in a document, with its path. The zero entry is a value that does not exist.
type entry struct {
	doc  *document
	path string
	node *yaml.Node
}

// parse reads a YAML or JSON document. JSON may have comments.
func parse(text []byte) (*document, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		tree, jsonErr := edit.Parse(edit.JSON, text)
		if jsonErr != nil {
			return nil, errors.New("it is neither YAML nor JSON")
		}
		if err := file.Encode(tree); err != nil {
			return nil, err
		}
	}
	root := &file
	if root.Kind == yaml.DocumentNode {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a mapping")
	}
	d := &document{read: make(map[*yaml.Node]bool)}
	d.root = entry{doc: d, node: root}
	return d, nil
}

// exists reports whether the entry is in the document and is not null.
func (e entry) exists() bool { return e.node != nil && e.node.Tag != "!!null" }

// maxMerges is how many mappings are searched for a key through merge keys.
const maxMerges = 20

// get returns the value of a key of a mapping. Merge keys are followed.
func (e entry) get(key string) entry {
	found := entry{doc: e.doc, path: key}
	if e.path != "" {
		found.path = e.path + "." + key
	}
	merged := []*yaml.Node{e.node}
	for i := 0; i < len(merged) && i < maxMerges; i++ {
		node := target(merged[i])
		if node == nil || node.Kind != yaml.MappingNode {
			if node != nil && node.Kind == yaml.SequenceNode && i > 0 {
				merged = append(merged, node.Content...)
			}
			continue
		}
		for j := 0; j+1 < len(node.Content); j += 2 {
			switch node.Content[j].Value {
			case key:
				found.node = target(node.Content[j+1])
				return found
			case "<<":
				merged = append(merged, node.Content[j+1])
			}
		}
	}
	return found
}

// target returns the node that an alias refers to, or the node itself.
func target(node *yaml.Node) *yaml.Node {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// items returns the entries of a list; nil if it is none.
func (e entry) items() (list []entry) {
	if e.node == nil || e.node.Kind != yaml.SequenceNode {
		return nil
	}
	for i, node := range e.node.Content {
		list = append(list, entry{e.doc, fmt.Sprintf("%s[%d]", e.path, i), target(node)})
	}
	return list
}

// keys returns the keys of a mapping in order, without merge keys; nil if it is none.
func (e entry) keys() (list []string) {
	if e.node == nil || e.node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(e.node.Content); i += 2 {
		if key := e.node.Content[i].Value; key != "<<" {
			list = append(list, key)
		}
	}
	return list
}

// isText reports whether the entry is a single value.
func (e entry) isText() bool { return e.exists() && e.node.Kind == yaml.ScalarNode }

// peek returns a single value, or "", without counting it as read.
func (e entry) peek() string {
	if !e.isText() {
		return ""
	}
	return e.node.Value
}

// text returns a single value, or "". It counts as read.
func (e entry) text() string {
	if e.isText() {
		e.done()
	}
	return e.peek()
}

// number returns a number, or 0 if the entry is none. It counts as read if it is one.
func (e entry) number() float64 {
	n, err := strconv.ParseFloat(e.peek(), 64)
	if err != nil {
		return 0
	}
	e.done()
	return n
}

// isTrue reports whether the entry is true. It counts as read.
func (e entry) isTrue() bool { return e.text() == "true" || e.peek() == "True" }

// texts returns the single values of a list. They count as read.
func (e entry) texts() (list []string) {
	for _, item := range e.items() {
		if value := item.text(); value != "" {
			list = append(list, value)
		}
	}
	return list
}

// done counts a value with everything in it as read.
func (e entry) done() {
	if e.node != nil {
		e.doc.read[e.node] = true
	}
}

// rest calls visit with the path of every single value, and of every empty list and mapping, that
// was not read.
func (e entry) rest(visit func(path string)) {
	if !e.exists() || e.doc.read[e.node] {
		return
	}
	switch {
	case e.node.Kind == yaml.MappingNode && len(e.node.Content) > 0:
		for i := 0; i+1 < len(e.node.Content); i += 2 {
			if e.node.Content[i+1].Kind == yaml.AliasNode { // its values are named where they are
				continue
			}
			e.child(e.node.Content[i].Value, e.node.Content[i+1]).rest(visit)
		}
	case e.node.Kind == yaml.SequenceNode && len(e.node.Content) > 0:
		for i, item := range e.items() {
			if e.node.Content[i].Kind != yaml.AliasNode {
				item.rest(visit)
			}
		}
	default:
		visit(e.path)
	}
}

func (e entry) child(key string, node *yaml.Node) entry {
	path := key
	if e.path != "" {
		path = e.path + "." + key
	}
	return entry{e.doc, path, node}
}

// values calls visit with every single value in the entry.
func (e entry) values(visit func(text string)) {
	if e.isText() {
		visit(e.node.Value)
	}
	if e.node == nil {
		return
	}
	for _, child := range e.node.Content {
		if child.Kind != yaml.AliasNode {
			entry{e.doc, "", child}.values(visit)
		}
	}
}

// hasAny reports whether a mapping has one of the keys.
func (e entry) hasAny(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return e.get(key).exists() })
}

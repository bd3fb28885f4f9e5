package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxVisited bounds how many nodes are looked at, so that aliases of aliases cannot multiply without end.
	maxVisited = 100_000
	// maxMerges bounds how deep << may nest; a mapping that merges itself ends here.
	maxMerges = 10
)

// decode reads a node into v. It goes by the type, so it ends however the tree is knotted.
func (l *loader) decode(node *yaml.Node, v reflect.Value, key string, f field) {
	node = l.follow(node)
	if node == nil || isNull(node) {
		return // a key without a value is a key that was not set
	}
	origin := Origin{l.path, node.Line, node.Column}
	if key != "" {
		l.origins[key] = origin
	}
	if want := nodeKind(v.Type()); node.Kind != want {
		l.refuse(origin, keyOrFile(key), fmt.Sprintf("expected %s, got %s", expected(v.Type()), describe(node)), hintForKind(v.Type(), node))
		return
	}
	switch {
	case isStruct(v.Type()):
		l.decodeStruct(node, v, key)
	case v.Kind() == reflect.Slice:
		l.decodeList(node, v, key, f)
	case v.Kind() == reflect.Map:
		l.decodeMap(node, v, key)
	default:
		l.decodeScalar(node, v, key, f)
	}
}

// follow goes from an alias to what it stands for, and gives up when that has happened too often.
func (l *loader) follow(node *yaml.Node) *yaml.Node {
	l.visited++
	if l.visited == maxVisited {
		l.problemAt(node.Line, node.Column, "the file is too large once its aliases are followed", "")
	}
	if l.visited >= maxVisited {
		return nil
	}
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func (l *loader) decodeStruct(node *yaml.Node, v reflect.Value, key string) {
	pairs := l.pairs(node, key)
	fields := fieldsOf(v.Type())
	kind := ""
	if v.Type() == typeUpstream {
		kind = kindOf(pairs)
	}
	for _, p := range pairs {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == p.name })
		if i < 0 {
			l.unknownKey(p, key, fields, kind)
			continue
		}
		f := fields[i]
		if kind != "" && !f.belongs(kind) {
			l.bad[join(key, f.name)] = true
			l.problemAt(p.key.Line, p.key.Column, fmt.Sprintf("%s: %s does not belong to an upstream of kind %s", key, f.name, kind),
				"it is for kind "+strings.Join(f.kinds, ", "))
			continue
		}
		l.decode(p.value, v.Field(f.index), join(key, f.name), f)
	}
}

// kindOf looks ahead for the kind of an upstream, "" unless it is one that exists.
func kindOf(pairs []pair) string {
	for _, p := range pairs {
		value := p.value
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if p.name == "kind" && value.Kind == yaml.ScalarNode && slices.Contains(kinds(), value.Value) {
			return value.Value
		}
	}
	return ""
}

// kinds are all kinds of upstreams, also those that this version has not got.
func kinds() []string { return kindField().enum }

// kindField is the field that says of which kind an upstream is.
func kindField() field {
	fields := fieldsOf(typeUpstream)
	return fields[slices.IndexFunc(fields, func(f field) bool { return f.name == "kind" })]
}

func (l *loader) unknownKey(p pair, key string, fields []field, kind string) {
	message := fmt.Sprintf("unknown key %q", p.name)
	if key != "" {
		message += " in " + key
	}
	l.problemAt(p.key.Line, p.key.Column, message, l.hint(func() string {
		known := fieldNames(slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return kind != "" && !f.belongs(kind) }))
		if near := nearest(p.name, known); near != "" {
			return fmt.Sprintf("did you mean %q?", near)
		}
		if elsewhere := keysCalled(p.name); len(elsewhere) > 0 {
			return "it belongs under " + strings.Join(elsewhere, " or ")
		}
		return "known keys are " + strings.Join(known, ", ")
	}))
}

// keysCalled finds the places that know a key which somebody wrote elsewhere.
func keysCalled(name string) []string {
	var places []string
	for _, top := range fieldsOf(reflect.TypeFor[Config]()) {
		t := top.typ
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if isStruct(t) && slices.Contains(fieldNames(fieldsOf(t)), name) {
			places = append(places, top.name)
		}
	}
	return places
}

func (l *loader) decodeList(node *yaml.Node, v reflect.Value, key string, f field) {
	list := reflect.MakeSlice(v.Type(), 0, min(len(node.Content), 64))
	for i, child := range node.Content {
		itemKey := fmt.Sprintf("%s[%d]", key, i)
		item := reflect.New(v.Type().Elem()).Elem()
		l.decode(child, item, itemKey, f)
		if !l.isSet(itemKey) && l.visited < maxVisited {
			l.origins[itemKey] = Origin{l.path, child.Line, child.Column}
			hint := ""
			if child.Value == "null" {
				hint = "put null in quotes if it is meant as text"
			}
			l.refuse(l.origins[itemKey], itemKey, "expected "+expected(item.Type())+", got nothing", hint)
		}
		list = reflect.Append(list, item)
	}
	v.Set(list)
}

func (l *loader) decodeMap(node *yaml.Node, v reflect.Value, key string) {
	m := reflect.MakeMap(v.Type())
	for _, p := range l.pairs(node, key) {
		item := reflect.New(v.Type().Elem()).Elem()
		l.decode(p.value, item, join(key, p.name), field{format: "name"})
		if l.isSet(join(key, p.name)) {
			m.SetMapIndex(reflect.ValueOf(p.name), item)
		}
	}
	v.Set(m)
}

func (l *loader) decodeScalar(node *yaml.Node, v reflect.Value, key string, f field) {
	origin := l.origins[key]
	if !slices.Contains(tagsFor(v.Type()), node.ShortTag()) {
		hint := ""
		switch {
		case v.Kind() == reflect.String || v.Type() == typeSecret:
			hint = "put it in quotes if it is meant as text"
		case node.ShortTag() == "!!str" && node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
			hint = "remove the quotes"
		}
		l.refuse(origin, key, "expected "+expected(v.Type())+", got "+describe(node), hint)
		return
	}
	l.setLeaf(v, node.Value, key, origin, f)
}

// tagsFor lists the kinds of YAML scalars that a type takes. Text takes numbers as they are written: a
// model called 4 is a model.
func tagsFor(t reflect.Type) []string {
	switch {
	case t == typeDuration, t == typeSize, t == typeAutoSize:
		return []string{"!!str", "!!int"}
	case t == typeTime:
		return []string{"!!str", "!!timestamp"}
	case t == typeSecret, t.Kind() == reflect.String:
		return []string{"!!str", "!!int", "!!float", "!!timestamp"}
	case t.Kind() == reflect.Bool:
		return []string{"!!bool"}
	case t.Kind() == reflect.Float64:
		return []string{"!!int", "!!float"}
	}
	return []string{"!!int"}
}

// setLeaf reads text from any source into v.
func (l *loader) setLeaf(v reflect.Value, text, key string, origin Origin, f field) {
	delete(l.bad, key)
	l.origins[key] = origin
	if v.Type() == typeSecret {
		value, ok := l.resolveSecret(text, key, origin, f)
		if !ok {
			return
		}
		if err := setScalar(v, value, f); err != nil {
			l.refuse(origin, key, err.Error(), "")
		}
		return
	}
	if err := setScalar(v, text, f); err != nil {
		l.refuse(origin, key, fmt.Sprintf("%v, got %s", err, quote(text, f)), l.hint(func() string { return hintFor(v.Type(), text, f) }))
		return
	}
	if f.format == "path" || f.format == "dir" {
		path, ok := l.src.expand(text)
		if !ok {
			l.refuse(origin, key, "the home directory is not known", "write the path without ~")
			return
		}
		if f.format == "path" {
			path = l.besideFile(path, origin)
		}
		v.SetString(path)
	}
}

func nodeKind(t reflect.Type) yaml.Kind {
	switch {
	case isStruct(t), t.Kind() == reflect.Map:
		return yaml.MappingNode
	case t.Kind() == reflect.Slice:
		return yaml.SequenceNode
	}
	return yaml.ScalarNode
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// describe says what a node is without saying what is in it, which may be a secret in the wrong place.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!str":
		return "text"
	case "!!bool":
		return node.Value
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	}
	return "a value with a YAML tag (!)"
}

func hintForKind(t reflect.Type, node *yaml.Node) string {
	list := t.Kind() == reflect.Slice
	switch {
	case list && node.Kind == yaml.MappingNode:
		return "begin each item with -"
	case list && node.Kind == yaml.ScalarNode && isStruct(t.Elem()):
		return "write each item as - " + exampleItem(t.Elem())
	case list && node.Kind == yaml.ScalarNode:
		return "put it in [ ]"
	case isStruct(t) && node.Kind == yaml.ScalarNode && exampleItem(t) != "{}":
		return "write it as " + exampleItem(t)
	}
	return ""
}

// exampleItem is a mapping with what it cannot do without.
func exampleItem(t reflect.Type) string {
	var parts []string
	for _, f := range fieldsOf(t) {
		if f.required {
			parts = append(parts, f.name+": "+exampleOf(f))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// keyOrFile names the top of the file, which has no key.
func keyOrFile(key string) string {
	if key == "" {
		return "the file"
	}
	return key
}

// parent takes the last step off a key: "a.b[0]" is in "a.b" is in "a".
func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"perigee"
)

const (
	// maxVisited bounds how many nodes are decoded, so that aliases of aliases cannot multiply
	// without end.
	maxVisited = 100_000
	// maxMerges bounds how deep << may nest; a mapping that merges itself ends there.
	maxMerges = 10
)

// decode reads a node into s. The recursion follows the types, so it ends even if aliases form a
// cycle.
func (l *loader) decode(node *yaml.Node, s setting) {
	node = l.follow(node)
	t := s.value.Type()
	if node == nil || isNull(node) && t != reflect.TypeFor[JSON]() {
		return // a key without a value is not set
	}
	l.Origins[s.key] = Origin{l.Path, node.Line, node.Column}
	if t == reflect.TypeFor[JSON]() {
		if text, ok := l.jsonOf(nil, node, s.key); ok {
			s.value.SetString(string(text))
		}
		return
	}
	if node.Kind != nodeKind(t) {
		l.refuse(s.key, fmt.Sprintf("expected %s, got %s", expectedKind(t), describeNode(node)), hintForKind(t, node))
		return
	}
	switch {
	case isMapping(t):
		l.decodeMapping(node, s.value, s.key)
	case t.Kind() == reflect.Slice:
		l.decodeList(node, s)
	case t.Kind() == reflect.Map:
		l.decodeMap(node, s)
	default:
		l.decodeScalar(node, s)
	}
}

// follow returns the node that an alias refers to, and nil after maxVisited nodes.
func (l *loader) follow(node *yaml.Node) *yaml.Node {
	l.visited++
	if l.visited == maxVisited {
		l.problemAt(node, "the file is too large once its aliases are followed", "")
	}
	if l.visited >= maxVisited {
		return nil
	}
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// A pair is a key of a mapping and its value.
type pair struct {
	name       string
	key, value *yaml.Node
}

// pairs lists the keys of a mapping, then those that it merges in (<<) and does not have itself.
func (l *loader) pairs(node *yaml.Node, merges int) []pair {
	var list, merged []pair
	lines := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, value := l.follow(node.Content[i]), node.Content[i+1]
		if k == nil {
			return list
		}
		line, seen := lines[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode:
			l.problemAt(k, "a key must be a word, not "+describeNode(k), "")
		case k.ShortTag() == "!!merge":
			merged = append(merged, l.mergedPairs(value, merges)...)
		case seen:
			l.problemAt(k, fmt.Sprintf("key %q is set twice", k.Value), fmt.Sprintf("the first time is in line %d", line))
		default:
			lines[k.Value] = k.Line
			list = append(list, pair{k.Value, k, value})
		}
	}
	for _, p := range merged {
		if _, seen := lines[p.name]; !seen {
			lines[p.name] = p.key.Line
			list = append(list, p)
		}
	}
	return list
}

// mergedPairs lists the keys that << refers to: a mapping or a list of mappings.
func (l *loader) mergedPairs(value *yaml.Node, merges int) (list []pair) {
	target := l.follow(value)
	switch {
	case target == nil:
	case merges >= maxMerges:
		l.problemAt(value, "<< is nested too deep", "")
	case target.Kind == yaml.MappingNode:
		return l.pairs(target, merges+1)
	case target.Kind == yaml.SequenceNode:
		for _, item := range target.Content {
			list = append(list, l.mergedPairs(item, merges+1)...)
		}
	default:
		l.problemAt(value, "<< needs a mapping or a list of mappings", "")
	}
	return list
}

func (l *loader) decodeMapping(node *yaml.Node, v reflect.Value, key string) {
	pairs, fields, kind := l.pairs(node, 0), fieldsOf(v.Type()), ""
	if v.Type() == reflect.TypeFor[Upstream]() {
		kind = kindOf(pairs)
	}
	for _, p := range pairs {
		f := findField(fields, p.name)
		switch {
		case f == nil:
			l.unknownKey(p, key, fields, kind)
		case kind != "" && !f.belongs(kind):
			l.bad[joinKey(key, f.name)] = true
			l.problemAt(p.key, fmt.Sprintf("%s: %s does not belong to an upstream of kind %s", key, f.name, kind),
				"it is for kind "+strings.Join(f.kinds, ", "))
		default:
			l.decode(p.value, setting{key: joinKey(key, f.name), field: f, value: v.Field(f.index)})
		}
	}
}

// kindOf returns the kind of an upstream, "" if it is missing or unknown.
func kindOf(pairs []pair) string {
	for _, p := range pairs {
		value := p.value
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if p.name == "kind" && value.Kind == yaml.ScalarNode && slices.Contains(upstreamField("kind").enum, value.Value) {
			return value.Value
		}
	}
	return ""
}

func (l *loader) unknownKey(p pair, key string, fields []*field, kind string) {
	message := fmt.Sprintf("unknown key %q", p.name)
	if key != "" {
		message += " in " + key
	}
	l.problemAt(p.key, message, l.hint(func() string {
		var known []string
		for _, f := range fields {
			if kind == "" || f.belongs(kind) {
				known = append(known, f.name)
			}
		}
		if near := nearest(p.name, known); near != "" {
			return fmt.Sprintf("did you mean %q?", near)
		}
		var sections []string // that have a key of this name
		for _, top := range fieldsOf(reflect.TypeFor[Config]()) {
			if findField(fieldsOf(elemOf(top.typ)), p.name) != nil {
				sections = append(sections, top.name)
			}
		}
		if len(sections) > 0 {
			return "it belongs under " + strings.Join(sections, " or ")
		}
		return "known keys are " + strings.Join(known, ", ")
	}))
}

func (l *loader) decodeList(node *yaml.Node, s setting) {
	list := reflect.MakeSlice(s.value.Type(), len(node.Content), len(node.Content))
	for i, child := range node.Content {
		item := setting{key: itemKey(s.key, i), field: s.field, value: list.Index(i), item: true}
		l.decode(child, item)
		if !l.isSet(item.key) && l.visited < maxVisited {
			l.Origins[item.key] = Origin{l.Path, child.Line, child.Column}
			hint := ""
			if child.Value == "null" {
				hint = "put null in quotes if it is meant as text"
			}
			l.refuse(item.key, "expected "+expectedKind(item.value.Type())+", got nothing", hint)
		}
	}
	s.value.Set(list)
}

func (l *loader) decodeMap(node *yaml.Node, s setting) {
	m := reflect.MakeMap(s.value.Type())
	for _, p := range l.pairs(node, 0) {
		item := setting{key: joinKey(s.key, p.name), field: s.field, value: reflect.New(s.value.Type().Elem()).Elem(), item: true}
		l.decode(p.value, item)
		if l.isSet(item.key) {
			m.SetMapIndex(reflect.ValueOf(p.name), item.value)
		}
	}
	s.value.Set(m)
}

func (l *loader) decodeScalar(node *yaml.Node, s setting) {
	accepted := s.field.scalar
	if slices.Contains(strings.Fields(accepted.tags), node.ShortTag()) {
		l.set(s, node.Value, l.Origins[s.key])
		return
	}
	hint := ""
	switch {
	case accepted.tags == textTags:
		hint = "put it in quotes if it is meant as text"
	case node.ShortTag() == "!!str" && node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		hint = "remove the quotes"
	}
	l.refuse(s.key, "expected "+accepted.expected+", got "+describeNode(node), hint)
}

// set reads a text from any source into s.
func (l *loader) set(s setting, text string, origin Origin) {
	delete(l.bad, s.key)
	l.Origins[s.key] = origin
	got := ", got " + quote(text, s.field)
	if s.value.Type() == reflect.TypeFor[perigee.Secret]() {
		var ok bool
		if text, ok = l.resolveSecret(s, text); !ok {
			return
		}
		got = ""
	}
	value, err := s.field.parse(text)
	if err != nil {
		hint := ""
		if got != "" {
			hint = l.hint(func() string { return hintFor(text, s.field) })
		}
		l.refuse(s.key, err.Error()+got, hint)
		return
	}
	s.value.Set(value)
	if s.field.format == "credentials" {
		if path, ok := strings.CutPrefix(text, filePrefix); ok {
			l.setPath(s, filePrefix, path)
		}
		return
	}
	if isPath(s.field.format) && (s.field.format != "program" || text != KindSimulator) {
		l.setPath(s, "", text)
	}
}

// setPath sets s to a path behind a prefix.
func (l *loader) setPath(s setting, prefix, path string) {
	path, ok := l.src.expand(path)
	if !ok {
		l.refuse(s.key, "the home directory is not known", "write the path without ~")
		return
	}
	s.value.SetString(prefix + l.besideFile(path, l.Origins[s.key]))
}

// isPath reports whether texts of a format are paths.
func isPath(format string) bool { return format == "path" || format == "program" || format == "dir" }

// hintFor guesses the intended value for a text that field.parse refused.
func hintFor(text string, f *field) string {
	if near := nearest(text, f.enum); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if f == upstreamField("kind") {
		return "servers with OpenAI's APIs have kind openai, those with the Messages API kind anthropic, and Ollama has kind ollama"
	}
	if f.scalar.name == "duration" && f.preset != nil && text != "" && strings.Trim(text, "0123456789") == "" {
		return "did you mean " + text + strings.TrimLeft(*f.preset, "0123456789") + "?"
	}
	return ""
}

// quote repeats a text in a message: shortened, and not if it may contain a password or a key.
func quote(text string, f *field) string {
	if f.format == "url" && strings.ContainsAny(text, "@?") {
		return "one that is not shown here"
	}
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

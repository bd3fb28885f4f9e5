package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodeKind returns the kind of node that values of a type are written as.
func nodeKind(t reflect.Type) yaml.Kind {
	switch {
	case isMapping(t), t.Kind() == reflect.Map:
		return yaml.MappingNode
	case t.Kind() == reflect.Slice:
		return yaml.SequenceNode
	}
	return yaml.ScalarNode
}

// hintForKind describes how to write a value that was given as a node of another kind.
func hintForKind(t reflect.Type, node *yaml.Node) string {
	list := t.Kind() == reflect.Slice
	switch example := exampleItem(elemOf(t)); {
	case list && node.Kind == yaml.MappingNode:
		return "begin each item with -"
	case list && node.Kind == yaml.ScalarNode && example != "":
		return "write each item as - " + example
	case list && node.Kind == yaml.ScalarNode:
		return "put it in [ ]"
	case isMapping(t) && node.Kind == yaml.ScalarNode && example != "":
		return "write it as " + example
	}
	return ""
}

// exampleItem returns a mapping with its required and usual keys, "" if it has none.
func exampleItem(t reflect.Type) string {
	var parts []string
	for _, f := range fieldsOf(t) {
		if f.required || f.usual {
			parts = append(parts, f.name+": "+exampleOf(f))
		}
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// exampleOf returns an example of a value for a field that is required or usual.
func exampleOf(f *field) string {
	switch {
	case f.typ.Kind() == reflect.Slice:
		return "[" + f.example + "]"
	case f.example != "":
		return f.example
	}
	return f.enum[0]
}

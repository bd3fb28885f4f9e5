package yamltree

import "go.yaml.in/yaml/v3"

// IsNull reports whether a node has no value.
func IsNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// Describe names the type of a node without its content, which may be a secret.
func Describe(node *yaml.Node) string {
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

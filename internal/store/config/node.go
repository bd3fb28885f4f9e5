package config

import "go.yaml.in/yaml/v3"

// isNull reports whether a node has no value.
func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// describeNode names the type of a node without its content, which may be a secret.
func describeNode(node *yaml.Node) string {
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

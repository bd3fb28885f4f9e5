package simulator

import (
	"encoding/json"
	"strings"
)

// maxDepth ends the instance of a schema that refers to itself.
const maxDepth = 12

// schemaNode has the parts of a schema that an instance needs, in the provider's subset or in JSON
// Schema.
type schemaNode struct {
	Ref          string                     `json:"$ref"`
	Defs         map[string]json.RawMessage `json:"$defs"`
	Definitions  map[string]json.RawMessage `json:"definitions"`
	Type         json.RawMessage            `json:"type"`
	Enum         []json.RawMessage          `json:"enum"`
	Const        json.RawMessage            `json:"const"`
	Properties   map[string]json.RawMessage `json:"properties"`
	Required     []string                   `json:"required"`
	Items        json.RawMessage            `json:"items"`
	PrefixItems  []json.RawMessage          `json:"prefixItems"`
	AnyOf        []json.RawMessage          `json:"anyOf"`
	OneOf        []json.RawMessage          `json:"oneOf"`
	AllOf        []json.RawMessage          `json:"allOf"`
	MinItems     json.Number                `json:"minItems"`
	MinLength    json.Number                `json:"minLength"`
	Minimum      *float64                   `json:"minimum"`
	Format       string                     `json:"format"`
	ExclusiveMin json.RawMessage            `json:"exclusiveMinimum"`
}

// instances makes values up from schemas, always the same from the same schema.
type instances struct {
	root     schemaNode
	optional bool // fill optional properties too
}

// instance returns a value that fits the schema: "x" for strings, 1 for integers, the first of an
// enumeration.
func instance(schema json.RawMessage, optional bool) any {
	maker := instances{optional: optional}
	_ = json.Unmarshal(schema, &maker.root)
	return maker.make(schema, 0)
}

func (m *instances) make(raw json.RawMessage, depth int) any {
	var node schemaNode
	if len(raw) == 0 || json.Unmarshal(raw, &node) != nil || depth > maxDepth {
		return nil
	}
	switch {
	case node.Ref != "":
		return m.make(m.resolve(node.Ref), depth+1)
	case len(node.Const) > 0:
		return node.Const
	case len(node.Enum) > 0:
		return node.Enum[0]
	case len(node.AnyOf) > 0 && len(node.Properties) == 0:
		return m.make(notNull(node.AnyOf), depth+1)
	case len(node.OneOf) > 0 && len(node.Properties) == 0:
		return m.make(notNull(node.OneOf), depth+1)
	}
	switch node.kind() {
	case "object":
		return m.object(node, depth)
	case "array":
		return m.array(node, depth)
	case "integer", "number":
		return node.number()
	case "boolean":
		return true
	case "string":
		return node.text()
	case "null":
		return nil
	}
	if len(node.AllOf) > 0 {
		return m.make(node.AllOf[0], depth+1)
	}
	return node.text()
}

func (m *instances) resolve(ref string) json.RawMessage {
	if name, ok := strings.CutPrefix(ref, "#/$defs/"); ok {
		return m.root.Defs[name]
	}
	if name, ok := strings.CutPrefix(ref, "#/definitions/"); ok {
		return m.root.Definitions[name]
	}
	return nil
}

func (m *instances) object(node schemaNode, depth int) any {
	value := map[string]any{}
	for _, name := range node.Required {
		value[name] = m.make(node.Properties[name], depth+1)
	}
	if m.optional && depth < maxDepth/2 {
		for name, property := range node.Properties {
			if _, done := value[name]; !done {
				value[name] = m.make(property, depth+1)
			}
		}
	}
	return value
}

func (m *instances) array(node schemaNode, depth int) any {
	value := []any{}
	for _, item := range node.PrefixItems {
		value = append(value, m.make(item, depth+1))
	}
	n, _ := node.MinItems.Int64()
	if n == 0 && m.optional && depth < maxDepth/2 {
		n = 1
	}
	for int64(len(value)) < min(n, 100) {
		value = append(value, m.make(node.Items, depth+1))
	}
	return value
}

// kind returns the type in lower case; for a list of types the first that is not null.
func (n schemaNode) kind() string {
	var one string
	var several []string
	if json.Unmarshal(n.Type, &one) != nil {
		_ = json.Unmarshal(n.Type, &several)
		for _, t := range several {
			if t != "null" {
				one = t
				break
			}
		}
	}
	switch {
	case one != "":
		return strings.ToLower(one)
	case len(n.Properties) > 0:
		return "object"
	case len(n.Items) > 0:
		return "array"
	}
	return ""
}

func (n schemaNode) number() any {
	if n.Minimum != nil && *n.Minimum > 1 {
		return *n.Minimum
	}
	var above float64
	if json.Unmarshal(n.ExclusiveMin, &above) == nil && above >= 1 {
		return above + 1
	}
	return 1
}

func (n schemaNode) text() any {
	switch n.Format {
	case "date-time":
		return "2026-01-01T00:00:00Z"
	case "date":
		return "2026-01-01"
	case "time":
		return "00:00:00Z"
	case "email":
		return "x@example.com"
	case "uri", "url":
		return "https://example.com/"
	case "uuid":
		return "00000000-0000-4000-8000-000000000000"
	}
	length, _ := n.MinLength.Int64()
	return strings.Repeat("x", int(min(max(length, 1), 1000)))
}

// notNull returns the first alternative that is not the null type.
func notNull(alternatives []json.RawMessage) json.RawMessage {
	for _, raw := range alternatives {
		var node schemaNode
		if json.Unmarshal(raw, &node) == nil && node.kind() != "null" {
			return raw
		}
	}
	return alternatives[0]
}

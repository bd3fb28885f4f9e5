package mcpserver

import "github.com/google/jsonschema-go/jsonschema"

// Schemas use type, description, properties, required, items, enum, minimum, maximum and
// additionalProperties only: some clients pass the schemas of tools on to models with APIs that
// refuse other keywords.

// A field is a property of an object. Its name ends in "?" if it is optional.
type field struct {
	name   string
	schema *jsonschema.Schema
}

func prop(name string, schema *jsonschema.Schema, description string) field {
	c := *schema
	c.Description = description
	return field{name, &c}
}

var (
	text    = &jsonschema.Schema{Type: "string"}
	boolean = &jsonschema.Schema{Type: "boolean"}
	integer = &jsonschema.Schema{Type: "integer"}
	number  = &jsonschema.Schema{Type: "number"}
)

func between(low, high float64) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: &low, Maximum: &high}
}

func oneOf(values ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}

func list(items *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: items}
}

// object returns the schema of an object that may have more properties than these, because results
// may grow.
func object(fields ...field) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, f := range fields {
		name, optional := f.name, false
		if name[len(name)-1] == '?' {
			name, optional = name[:len(name)-1], true
		}
		s.Properties[name] = f.schema
		s.PropertyOrder = append(s.PropertyOrder, name)
		if !optional {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

// arguments returns the schema of an object with exactly these properties.
func arguments(fields ...field) *jsonschema.Schema {
	s := object(fields...)
	s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	return s
}

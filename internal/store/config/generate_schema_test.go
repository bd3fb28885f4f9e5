package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"perigee"
)

// schema.json is what Schema returns.
func TestReferenceSchema(t *testing.T) {
	root := object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "perigee configuration"}}
	text, err := json.MarshalIndent(append(root, mappingSchema(reflect.TypeFor[Config]())...), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "schema.json", append(text, '\n'))
}

// JSON Schema patterns of sizes and durations.
const (
	sizePattern     = `[0-9]+((\.[0-9]+)? *([KkMmGgTt][Ii]?)?[Bb])?`
	durationPart    = `([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))`
	durationPattern = `^(0|[0-9]+d` + durationPart + `*|` + durationPart + `+)$`
)

// scalarSchemas are the schemas of single values, by name of the scalar.
var scalarSchemas = map[string]object{
	"string": {{"type", "string"}}, "secret": {{"type", "string"}}, "boolean": {{"type", "boolean"}},
	"integer": {{"type", "integer"}}, "value": {}, "number": {{"type", "number"}},
	"timestamp": {{"type", "string"}, {"format", "date-time"}},
	// 0 needs no unit.
	"duration":       {{"type", []string{"integer", "string"}}, {"minimum", 0}, {"maximum", 0}, {"pattern", durationPattern}},
	"size":           {{"type", []string{"integer", "string"}}, {"minimum", 0}, {"pattern", "^" + sizePattern + "$"}},
	"comparison":     {{"type", "string"}, {"pattern", "^[<>]=? *[0-9]+$"}},
	"size or `auto`": {{"type", []string{"integer", "string"}}, {"minimum", 0}, {"pattern", "^(auto|" + sizePattern + ")$"}},
}

// An object is a JSON object that keeps the order of its members, which is the order of the file.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		value, err := json.Marshal(map[string]any{m.name: m.value})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(value[1 : len(value)-1]) // without { }
	}
	return slices.Concat([]byte("{"), b.Bytes(), []byte("}")), nil
}

func mappingSchema(t reflect.Type) object {
	var properties object
	var required []string
	for _, f := range fieldsOf(t) {
		description := explain(f)
		if elemOf(f.typ) == reflect.TypeFor[perigee.Secret]() {
			description += " Written as env:NAME, file:PATH or literally."
		}
		property := append(object{{"description", description}}, schemaOf(f.typ, f)...)
		if f.preset != nil {
			property = append(property, member{"default", presetJSON(f, *f.preset)})
		}
		if f.deprecated != "" {
			property = append(property, member{"deprecated", true})
		}
		properties = append(properties, member{f.name, property})
		if f.required {
			required = append(required, f.name)
		}
	}
	o := object{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}
	if required != nil {
		o = append(o, member{"required", required})
	}
	if t == reflect.TypeFor[Upstream]() {
		o = append(o, member{"allOf", kindRules(fieldsOf(t))})
	}
	return o
}

func schemaOf(t reflect.Type, f *field) object {
	switch {
	case isMapping(t):
		return mappingSchema(t)
	case t.Kind() == reflect.Slice:
		return object{{"type", "array"}, {"items", schemaOf(t.Elem(), f)}}
	case t.Kind() == reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", schemaOf(t.Elem(), f)}}
	}
	o := slices.Clone(scalarSchemas[f.scalar.name])
	if !f.optional && (f.format == "name" || f.format == "glob") || f.required && f.scalar.name == "secret" {
		o = append(o, member{"minLength", 1})
	}
	if f.format == "url" && !f.optional {
		o = append(o, member{"format", "uri"})
	}
	isNumber := f.scalar.name == "integer" || f.scalar.name == "number"
	if isNumber && f.min != "" {
		o = append(o, member{"minimum", json.RawMessage(f.min)})
	}
	if isNumber && f.max != "" {
		o = append(o, member{"maximum", json.RawMessage(f.max)})
	}
	if len(f.enum) > 0 {
		o = append(o, member{"enum", f.enum})
	}
	if f.example != "" && f.example[0] != '{' {
		var example any = f.example
		if isNumber || f.scalar.name == "boolean" {
			example = json.RawMessage(f.example)
		}
		o = append(o, member{"examples", []any{example}})
	}
	return o
}

// kindRules are the keys that each kind of upstream requires and does not allow.
func kindRules(fields []*field) (rules []object) {
	for _, kind := range upstreamField("kind").enum {
		var properties object
		required := []string{"kind"}
		for _, f := range fields {
			switch {
			case !f.belongs(kind):
				properties = append(properties, member{f.name, false})
			case f.name == "accept_terms_risk":
				properties = append(properties, member{f.name, object{{"const", true}}})
				required = append(required, f.name)
			case f.name == "keys" && !KindOf(kind).NoKey:
				properties = append(properties, member{f.name, object{{"minItems", 1}}})
				required = append(required, f.name)
			case f.presetFor(kind) != f.preset:
				properties = append(properties, member{f.name, object{{"default", presetJSON(f, *f.presetFor(kind))}}})
			}
		}
		is := object{{"properties", object{{"kind", object{{"const", kind}}}}}, {"required", []string{"kind"}}}
		rules = append(rules, object{{"if", is}, {"then", object{{"properties", properties}, {"required", required}}}})
	}
	return rules
}

// presetJSON is a default of a field in JSON.
func presetJSON(f *field, preset string) any {
	switch {
	case f.typ.Kind() == reflect.Slice:
		return strings.Split(preset, ",")
	case json.Valid([]byte(preset)): // a number, true or false
		return json.RawMessage(preset)
	}
	return preset
}

package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// Schema returns the JSON Schema (2020-12) of the file, for editors and for `perigee config schema`. It is
// made from the structs, so it cannot lag behind them; rules that span several values are only in Load.
func Schema() []byte {
	root := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "perigee configuration"},
	}
	root = append(root, schemaOf(reflect.TypeFor[Config](), field{})...)
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error())
	}
	return append(text, '\n')
}

// An object is a JSON object whose members keep their order, which here is the order of the file.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(m.name))
		b.WriteByte(':')
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schemaOf describes values of type t under the rules of f.
func schemaOf(t reflect.Type, f field) object {
	switch {
	case isStruct(t):
		return structSchema(t)
	case t.Kind() == reflect.Slice:
		return object{{"type", "array"}, {"items", schemaOf(t.Elem(), f)}}
	case t.Kind() == reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", schemaOf(t.Elem(), f)}}
	}
	o := scalarSchema(t, f)
	if len(f.enum) > 0 {
		o = append(o, member{"enum", f.choices()})
	}
	if f.example != "" {
		o = append(o, member{"examples", []any{f.example}})
	}
	return o
}

func structSchema(t reflect.Type) object {
	var properties object
	var required []string
	for _, f := range fieldsOf(t) {
		property := object{{"description", f.explain()}}
		if f.typ == typeSecret || f.typ.Kind() == reflect.Slice && f.typ.Elem() == typeSecret {
			property[0].value = f.explain() + " Written as env:NAME, as file:PATH or as it is."
		}
		property = append(property, schemaOf(f.typ, f)...)
		if f.hasInit {
			property = append(property, member{"default", initialValue(f)})
		}
		properties = append(properties, member{f.name, property})
		if f.required {
			required = append(required, f.name)
		}
	}
	o := object{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}
	if len(required) > 0 {
		o = append(o, member{"required", required})
	}
	if t == typeUpstream {
		o = append(o, member{"allOf", kindRules(fieldsOf(t))})
	}
	return o
}

// kindRules says which keys go with which kind of upstream.
func kindRules(fields []field) []object {
	var rules []object
	for _, kind := range kinds() {
		if laterKind(kind) {
			continue
		}
		var properties object
		required := []string{"kind"}
		for _, f := range fields {
			switch {
			case !f.belongs(kind):
				properties = append(properties, member{f.name, false})
			case f.name == "accept_terms_risk":
				properties = append(properties, member{f.name, object{{"const", true}}})
				required = append(required, f.name)
			case f.name == "keys":
				properties = append(properties, member{f.name, object{{"minItems", 1}}})
				required = append(required, f.name)
			}
		}
		is := object{{"properties", object{{"kind", object{{"const", kind}}}}}, {"required", []string{"kind"}}}
		rules = append(rules, object{{"if", is}, {"then", object{{"properties", properties}, {"required", required}}}})
	}
	return rules
}

// durationPart is a number with a unit of time.ParseDuration.
const durationPart = `[0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h)`

func scalarSchema(t reflect.Type, f field) object {
	switch {
	case t == typeTime:
		return object{{"type", "string"}, {"format", "date-time"}}
	case t == typeDuration:
		// The only number that needs no unit is 0.
		return object{{"type", []string{"integer", "string"}}, {"minimum", 0}, {"maximum", 0},
			{"pattern", `^(0|[0-9]+d(` + durationPart + `)*|(` + durationPart + `)+)$`}}
	case t == typeSize:
		return object{{"type", []string{"integer", "string"}}, {"minimum", 0}, {"pattern", `^[0-9]+((\.[0-9]+)? *([KkMmGgTt][Ii]?)?[Bb])?$`}}
	case t == typeAutoSize:
		return object{{"type", []string{"integer", "string"}}, {"minimum", 0}, {"pattern", `^(auto|[0-9]+((\.[0-9]+)? *([KkMmGgTt][Ii]?)?[Bb])?)$`}}
	case t == typeSecret && f.required:
		return object{{"type", "string"}, {"minLength", 1}}
	case t == typeSecret:
		return object{{"type", "string"}}
	}
	var o object
	switch t.Kind() {
	case reflect.String:
		o = object{{"type", "string"}}
		if f.format == "name" || f.format == "glob" {
			o = append(o, member{"minLength", 1})
		}
		if f.format == "url" {
			o = append(o, member{"format", "uri"})
		}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Float64:
		o = object{{"type", "number"}}
	default:
		o = object{{"type", "integer"}}
	}
	if f.min != "" {
		o = append(o, member{"minimum", json.RawMessage(f.min)})
	}
	if f.max != "" {
		o = append(o, member{"maximum", json.RawMessage(f.max)})
	}
	return o
}

// initialValue is the default as JSON would have it.
func initialValue(f field) any {
	switch {
	case f.typ.Kind() == reflect.Slice:
		return strings.Split(f.initial, ",")
	case f.typ == typeDuration, f.typ == typeSize, f.typ == typeAutoSize, f.typ.Kind() == reflect.String:
		return f.initial
	}
	return json.RawMessage(f.initial)
}

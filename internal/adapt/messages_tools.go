package adapt

import (
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// declareTools makes the declarations acceptable: legal names, each once, schemas of objects, and
// the provider's own tools.
func (a *messagesAdapter) declareTools() {
	for _, name := range a.names.Collect(&a.prompt) {
		a.notes.Add(perigee.NoteRenamed, "tool "+clip(name))
	}
	a.declareOnce()
	taken := map[string]bool{}
	for _, t := range a.prompt.Tools {
		if t.Function != nil {
			taken[t.Function.Name] = true
		}
	}
	kept := make([]perigee.Tool, 0, len(a.prompt.Tools))
	for _, t := range a.prompt.Tools {
		if t.Function != nil {
			t.Function = a.declared(*t.Function)
			kept = append(kept, t)
			continue
		}
		if t.Builtin == searchRetrieval {
			t.Builtin = perigee.BuiltinSearch
		}
		switch t.Builtin {
		case perigee.BuiltinSearch, perigee.BuiltinFetch, perigee.BuiltinCode:
		default:
			a.notes.Dropped("tool " + clip(t.Builtin))
			continue
		}
		if taken[t.Builtin] {
			a.notes.Dropped("tool " + t.Builtin + " beside another one of this name")
			continue
		}
		taken[t.Builtin] = true
		if hasMembers(t.Config) {
			a.notes.Dropped("settings of tool " + t.Builtin)
		}
		kept = append(kept, perigee.Tool{Builtin: t.Builtin, Cache: t.Cache})
	}
	a.prompt.Tools = kept
	a.choose()
}

// declared returns a function with a schema that the API takes: it is of an object, and has no
// alternatives at its top.
func (a *messagesAdapter) declared(f perigee.Function) *perigee.Function {
	for _, extra := range f.Extra {
		a.notes.Dropped("tools[]." + clip(extra.Name))
	}
	f.Extra = nil
	if !f.JSONSchema && f.Parameters != nil {
		f.Parameters = a.opts.Schemas.JSON(f.Parameters)
	}
	f.JSONSchema = true
	if f.Parameters != nil && !isPlainObject(f.Parameters) {
		a.parameters(&f)
	}
	if f.Strict != nil && *f.Strict && isOpen(f.Parameters) {
		a.notes.Dropped("strict mode of tool " + clip(a.names.Client(f.Name)) + ", whose schema allows further properties")
		f.Strict = nil
	}
	return &f
}

// isPlainObject reports whether a schema is of an object and has no alternatives at its top.
func isPlainObject(raw json.RawMessage) bool {
	if !isObject(raw) {
		return false
	}
	object := false
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		switch string(key) {
		case "type":
			object = c.Kind() == rawjson.String && string(c.Bytes()) == "object"
		case "anyOf", "oneOf", "allOf":
			return false
		}
	}
	return object
}

// isOpen reports whether closing a schema would change it.
func isOpen(raw json.RawMessage) bool {
	if !isObject(raw) {
		return true
	}
	var r schemaCloser
	r.schema(raw)
	return r.opened
}

// choose sets whether the model may, must or must not call functions. Where it may call only some of
// them, the rest is not declared.
func (a *messagesAdapter) choose() {
	config := a.prompt.ToolConfig
	a.prompt.ToolConfig = nil
	if config == nil {
		return
	}
	for _, f := range slices.Concat(config.Calling, config.Extra) {
		if f.Name != serverSide {
			a.notes.Dropped("toolConfig." + clip(f.Name))
		}
	}
	mode := strings.ToUpper(config.Mode)
	if len(a.prompt.Tools) == 0 {
		if mode == perigee.ToolModeAny {
			a.notes.Dropped("tool choice without tools")
		}
		return
	}
	allowed := a.declaredOf(config.Allowed)
	switch {
	case mode == perigee.ToolModeNone:
		allowed = nil
	case len(allowed) == 0 && len(config.Allowed) > 0:
		a.notes.Dropped("choice of a tool that is not declared")
		mode = perigee.ToolModeAuto
	case mode == perigee.ToolModeValidated || mode == "":
		mode = perigee.ToolModeAuto
	}
	if len(allowed) > 1 || len(allowed) == 1 && mode == perigee.ToolModeAuto {
		a.prompt.Tools = slices.DeleteFunc(a.prompt.Tools, func(t perigee.Tool) bool {
			return t.Function != nil && !slices.Contains(allowed, t.Function.Name)
		})
		a.notes.Mapped("choice among several tools to the declaration of these")
		allowed = nil
	}
	a.prompt.ToolConfig = &perigee.ToolConfig{Mode: mode, Allowed: allowed}
}

// answerFormat makes the schema of the answer one that the API takes: all objects are closed. It has
// no format of answers without a schema.
func (a *messagesAdapter) answerFormat() {
	gen := &a.prompt.Generation
	raw := gen.ResponseJSON
	if raw == nil && gen.ResponseSchema != nil {
		raw = a.opts.Schemas.JSON(gen.ResponseSchema)
	}
	mime := gen.ResponseMIME
	gen.ResponseJSON, gen.ResponseSchema, gen.ResponseMIME = nil, nil, ""
	switch {
	case isObject(raw) && string(raw) != "{}":
		var r schemaCloser
		r.schema(raw)
		gen.ResponseJSON, gen.ResponseMIME = r.Buf, jsonMIME
		if len(r.lost) > 0 {
			a.notes.Mapped("schema of the answer (dropped " + strings.Join(r.lost, ", ") + ")")
		}
	case raw != nil, mime != "" && mime != "text/plain":
		a.notes.Dropped(optionName(a.prompt.Dialect, "response_format") + " without a schema")
	}
}

// A schemaCloser writes the JSON Schema of an answer in the form that the Messages API takes: objects
// have no further properties, and there are no limits of values.
type schemaCloser struct {
	rawjson.Writer
	opened bool     // an object had further properties
	lost   []string // keywords that were left out, each once
}

// limits are the keywords that the API does not take in the schema of an answer.
var limits = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
	"maxItems", "uniqueItems", "minProperties", "maxProperties", "patternProperties"}

// schema writes a schema.
func (r *schemaCloser) schema(raw json.RawMessage) {
	if !isObject(raw) {
		r.Raw(raw)
		return
	}
	further, object := true, false
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		switch string(key) {
		case "type":
			object = object || strings.Contains(strings.ToLower(string(c.Raw())), `"object"`)
		case "properties":
			object = true
		case "additionalProperties":
			further = string(c.Raw()) != "false"
		}
	}
	r.Object()
	c = rawjson.NewCursor(raw)
	for key := range c.Object() {
		r.keyword(string(key), c)
	}
	if object {
		r.Key("additionalProperties").Bool(false)
		r.opened = r.opened || further
	}
	r.EndObject()
}

// keyword writes a keyword of a schema.
func (r *schemaCloser) keyword(name string, c *rawjson.Cursor) {
	value := c.Raw()
	switch {
	case name == "additionalProperties":
		if string(value) != "false" {
			r.lose(name)
		}
	case slices.Contains(limits, name) || name == "minItems" && string(value) != "0" && string(value) != "1":
		r.lose(name)
	case (name == "properties" || name == "$defs" || name == "definitions") && isObject(value):
		r.AnyKey(name).Object()
		inner := rawjson.NewCursor(value)
		for property := range inner.Object() {
			r.AnyKey(string(property))
			r.schema(inner.Raw())
		}
		r.EndObject()
	case (name == "anyOf" || name == "oneOf" || name == "allOf" || name == "prefixItems") && len(value) > 0 && value[0] == '[':
		r.AnyKey(name).Array()
		inner := rawjson.NewCursor(value)
		for range inner.Array() {
			r.schema(inner.Raw())
		}
		r.EndArray()
	case name == "items" || name == "not":
		r.AnyKey(name)
		r.schema(value)
	default:
		r.AnyKey(name).Raw(value)
	}
}

func (r *schemaCloser) lose(keyword string) {
	if !slices.Contains(r.lost, keyword) {
		r.lost = append(r.lost, keyword)
	}
}

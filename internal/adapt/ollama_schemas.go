package adapt

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// reduceSchemas writes the schemas of tools with the keywords that Ollama reads. The server drops all
// other keywords before the model sees them, and refuses values of another kind than it expects.
func (a *ollama) reduceSchemas() {
	for i := range a.prompt.Tools {
		f := a.prompt.Tools[i].Function
		if f == nil {
			continue
		}
		r := schemaReducer{notes: &a.notes, whole: f.Parameters, budget: 2*len(f.Parameters) + max(0, min(smallSchema, maxGrown-a.grown))}
		r.w.Buf = make([]byte, 0, len(f.Parameters))
		r.parameters()
		a.grown += max(0, len(r.w.Buf)-len(f.Parameters))
		if !bytes.Equal(r.w.Buf, f.Parameters) {
			next := *f
			next.Parameters = r.w.Buf
			a.prompt.Tools[i].Function = &next
		}
	}
}

// smallSchema is how much references may add to any schema, beside twice its length.
const smallSchema = 16 << 10

// maxSchemaDepth is how deep schemas are read. Everything below is dropped.
const maxSchemaDepth = 64

// A schemaReducer writes one schema. Keywords that have another one with the same meaning become
// that one, and references become what they refer to.
type schemaReducer struct {
	w     rawjson.Writer
	notes *perigee.Notes
	depth int // of the schema that is written; 0 for all parameters of the tool together

	whole  json.RawMessage
	named  map[string]json.RawMessage // the schemas that references name; nil before the first reference
	open   []string                   // the references that are expanded now
	budget int                        // how many bytes references may still be expanded to
}

// drop drops the next value, and notes its keyword.
func (r *schemaReducer) drop(c *rawjson.Cursor, keyword string) {
	c.Skip()
	if !slices.Contains(silentWords, keyword) && !strings.HasPrefix(keyword, "x-") {
		r.notes.Dropped(clip(keyword) + " in schemas of tools")
	}
}

// silentWords are keywords that do not restrict or describe values.
var silentWords = []string{"$schema", "$id", "$comment", "$defs", "definitions", "propertyOrdering", "encrypted"}

// parameters writes the schema of a tool, which is always one of an object.
func (r *schemaReducer) parameters() {
	r.w.Object().Members(`"type":"object"`)
	wrote := map[string]bool{"type": true}
	r.keywords(rawjson.NewCursor(r.whole), wrote)
	if !wrote["properties"] {
		r.w.Members(`"properties":{}`)
	}
	r.w.EndObject()
}

// schema writes the next schema. Any value that is none, such as true, is a schema for all values.
func (r *schemaReducer) schema(c *rawjson.Cursor) {
	r.depth++
	r.w.Object()
	if c.Kind() == rawjson.Object && r.depth < maxSchemaDepth {
		r.keywords(c, map[string]bool{})
	} else {
		c.Skip()
	}
	r.w.EndObject()
	r.depth--
}

// innerWords are keywords that the server reads in the schemas of parameters alone.
var innerWords = []string{"description", "enum", "anyOf"}

// keywords writes the keywords of the next schema that are not written yet. The target of a reference
// comes last: what is beside the reference counts.
func (r *schemaReducer) keywords(c *rawjson.Cursor, wrote map[string]bool) {
	reference := ""
	for key := range c.Object() {
		name, kind := string(key), c.Kind()
		if name == "$ref" && kind == rawjson.String {
			reference = c.String()
			continue
		}
		as := name
		switch name {
		case "oneOf":
			as = "anyOf"
		case "const":
			as = "enum"
		}
		if wrote[as] {
			c.Skip()
			continue
		}
		if r.depth == 0 && slices.Contains(innerWords, as) {
			r.drop(c, name)
			continue
		}
		wrote[as] = true
		switch {
		case name == "type" && (kind == rawjson.String || kind == rawjson.Array), name == "description" && kind == rawjson.String,
			name == "enum" && kind == rawjson.Array:
			r.w.Key(name).Raw(c.Raw())
		case name == "const":
			r.w.Key(as).Array().Raw(c.Raw()).EndArray()
		case name == "required" && kind == rawjson.Array:
			r.w.Key(name)
			r.names(c)
		case name == "properties" && kind == rawjson.Object:
			r.w.Key(name).Object()
			for property := range c.Object() {
				r.w.AnyKey(string(property))
				r.schema(c)
			}
			r.w.EndObject()
		case name == "items":
			r.w.Key(name)
			r.schema(c)
		case as == "anyOf" && kind == rawjson.Array:
			r.w.Key(as).Array()
			for range c.Array() {
				r.schema(c)
			}
			r.w.EndArray()
		default:
			delete(wrote, as)
			r.drop(c, name)
		}
	}
	if reference != "" {
		r.expand(reference, wrote)
	}
}

// expand writes the keywords of the schema that a reference names.
func (r *schemaReducer) expand(reference string, wrote map[string]bool) {
	if r.named == nil {
		r.named = namedSchemas(r.whole)
	}
	target := r.named[reference]
	if r.budget -= len(target); !isObject(target) || r.budget < 0 || len(r.open) == maxSchemaDepth || slices.Contains(r.open, reference) {
		r.drop(rawjson.NewCursor(json.RawMessage("null")), "$ref")
		return
	}
	r.open = append(r.open, reference)
	r.keywords(rawjson.NewCursor(target), wrote)
	r.open = r.open[:len(r.open)-1]
}

// namedSchemas returns the definitions of a schema by the references to them.
func namedSchemas(whole json.RawMessage) map[string]json.RawMessage {
	named := map[string]json.RawMessage{}
	c := rawjson.NewCursor(whole)
	for key := range c.Object() {
		if list := string(key); (list == "$defs" || list == "definitions") && c.Kind() == rawjson.Object {
			for name := range c.Object() {
				named["#/"+list+"/"+string(name)] = c.Raw()
			}
		}
	}
	return named
}

// names writes the next value, a list of names of properties.
func (r *schemaReducer) names(c *rawjson.Cursor) {
	r.w.Array()
	for range c.Array() {
		if c.Kind() == rawjson.String {
			r.w.Raw(c.Raw())
		} else {
			c.Skip()
		}
	}
	r.w.EndArray()
}

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
		r := schemaReducer{notes: &a.notes, whole: f.Parameters, budget: 2*len(f.Parameters) + smallSchema}
		r.w.Buf = make([]byte, 0, len(f.Parameters))
		r.parameters()
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

	whole  json.RawMessage // that references are looked up in
	open   []string        // the references that are expanded now
	budget int             // how many bytes references may still be expanded to
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
	r.keywords(rawjson.NewCursor(r.whole), wrote, maxSchemaDepth)
	if !wrote["properties"] {
		r.w.Members(`"properties":{}`)
	}
	r.w.EndObject()
}

// schema writes the next schema. Any value that is none, such as true, is a schema for all values.
func (r *schemaReducer) schema(c *rawjson.Cursor, depth int) {
	r.w.Object()
	if c.Kind() == rawjson.Object && depth > 0 {
		r.keywords(c, map[string]bool{}, depth)
	} else {
		c.Skip()
	}
	r.w.EndObject()
}

// keywords writes the keywords of the next schema that are not written yet. The target of a reference
// comes last: what is beside the reference counts.
func (r *schemaReducer) keywords(c *rawjson.Cursor, wrote map[string]bool, depth int) {
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
				r.schema(c, depth-1)
			}
			r.w.EndObject()
		case name == "items":
			r.w.Key(name)
			r.schema(c, depth-1)
		case as == "anyOf" && kind == rawjson.Array:
			r.w.Key(as).Array()
			for range c.Array() {
				r.schema(c, depth-1)
			}
			r.w.EndArray()
		default:
			delete(wrote, as)
			r.drop(c, name)
		}
	}
	if reference != "" {
		r.expand(reference, wrote, depth)
	}
}

// expand writes the keywords of the schema that a reference names.
func (r *schemaReducer) expand(reference string, wrote map[string]bool, depth int) {
	path, local := strings.CutPrefix(reference, "#/")
	start, end, found := 0, 0, false
	if local && depth > 1 && !slices.Contains(r.open, reference) {
		start, end, found = rawjson.Find(r.whole, strings.Split(path, "/")...)
	}
	target := rawjson.NewCursor(r.whole[start:end])
	if r.budget -= end - start; !found || r.budget < 0 || target.Kind() != rawjson.Object {
		r.drop(rawjson.NewCursor(json.RawMessage("null")), "$ref")
		return
	}
	r.open = append(r.open, reference)
	r.keywords(target, wrote, depth-1)
	r.open = r.open[:len(r.open)-1]
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

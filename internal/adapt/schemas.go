package adapt

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/schema"
	"perigee/internal/lib/rawjson"
)

// schemaFamily returns the family of schemas that the model accepts. All models accept Claude's.
func (a *adapter) schemaFamily() schema.Family {
	if a.native() && !a.repairs(RepairSchemas) {
		return schema.Gemini
	}
	return schema.Claude
}

// maxGrown is how many bytes the schemas of a prompt may become longer before references are
// expanded sparingly: a short schema may expand to a long one, and there may be thousands of them.
const maxGrown = 1 << 20

// parameters adapts the schema of a function, and notes the losses.
func (a *adapter) parameters(f *perigee.Function) {
	clean := a.opts.Schemas.Clean
	if a.grown > maxGrown {
		clean = a.opts.Schemas.CleanSparing
	}
	cleaned := clean(f.Parameters, a.schemaFamily())
	a.grown += max(0, len(cleaned.Schema)-len(f.Parameters))
	f.Parameters = cleaned.Schema
	if cleaned.Placeholder {
		if a.undo.fillers == nil {
			a.undo.fillers = map[string]json.RawMessage{}
		}
		a.undo.fillers[f.Name] = cleaned.Schema
	}
	a.noteLosses("schema of tool "+clip(a.names.Client(f.Name)), cleaned.Changes)
}

// withResponse returns the other fields of a declaration. The gateway has one name for the schema
// of the result.
func (a *adapter) withResponse(f *perigee.Function) perigee.Fields {
	isResponse := func(field perigee.Field) bool { return field.Name == "response" || field.Name == "responseJsonSchema" }
	kept := a.supported(slices.DeleteFunc(slices.Clone(f.Extra), isResponse), "tools[].", functionMembers)
	if at := slices.IndexFunc(f.Extra, isResponse); at >= 0 && isObject(f.Extra[at].Value) {
		cleaned := a.opts.Schemas.CleanResponse(f.Extra[at].Value, a.schemaFamily())
		kept = append(kept, perigee.Field{Name: "response", Value: cleaned.Schema})
		a.noteLosses("result schema of tool "+clip(a.names.Client(f.Name)), cleaned.Changes)
	}
	return kept
}

// answerSchema makes the schema of the answer one that the gateway reads. An empty one is none.
func (a *adapter) answerSchema(gen *perigee.Generation) {
	if gen.ResponseSchema != nil && gen.ResponseJSON != nil {
		gen.ResponseJSON = nil // only one of them is allowed, and both are the same schema
	}
	for _, raw := range []*json.RawMessage{&gen.ResponseSchema, &gen.ResponseJSON} {
		switch {
		case *raw == nil:
		case !isObject(*raw) || string(*raw) == "{}":
			*raw = nil
			if gen.ResponseMIME == "" {
				gen.ResponseMIME = jsonMIME
			}
		default:
			cleaned := a.opts.Schemas.CleanResponse(*raw, a.schemaFamily())
			*raw = cleaned.Schema
			a.noteLosses("schema of the answer", cleaned.Changes)
		}
	}
}

// maxLosses is how many keywords a note names.
const maxLosses = 4

// noteLosses notes the parts of a schema that a model could have used and does not see. Keywords
// that are a client's message to its own provider are of no use to a model.
func (a *adapter) noteLosses(subject string, changes []schema.Change) {
	var list []string
	for _, c := range changes {
		if !c.Action.Loses() || c.Keyword == "encrypted" || c.Keyword == "propertyOrdering" || strings.HasPrefix(c.Keyword, "x-") {
			continue
		}
		if len(list) == maxLosses {
			list = append(list, "and more")
			break
		}
		list = append(list, c.String())
	}
	if list != nil {
		a.notes.Mapped(subject + " (" + strings.Join(list, ", ") + ")")
	}
}

// The keywords that a schema is reduced to: those that every model was seen to accept, and where
// the schema had no other, the one that it needs.
var (
	plainWords = []string{"type", "description", "enum", "required"}
	bareWords  = []string{"type"}
)

// reduceAll removes from all schemas the keywords that the provider may have rejected. They have
// been adapted before, so that keywords and names of properties can be distinguished by their
// places.
func reduceAll(functions []perigee.Function) {
	for _, words := range [][]string{plainWords, bareWords} {
		changed := false
		for i := range functions {
			f := &functions[i]
			if f.Parameters == nil {
				continue
			}
			var w rawjson.Writer
			reduce(&w, rawjson.NewCursor(f.Parameters), words)
			changed = changed || !bytes.Equal(w.Buf, f.Parameters)
			f.Parameters = w.Buf
		}
		if changed {
			return
		}
	}
}

// reduce writes the next value, a schema, with no other keywords than those given, and those that
// hold schemas.
func reduce(w *rawjson.Writer, c *rawjson.Cursor, words []string) {
	if c.Kind() != rawjson.Object {
		w.Raw(c.Raw())
		return
	}
	w.Object()
	for key := range c.Object() {
		switch name := string(key); {
		case name == "properties" && c.Kind() == rawjson.Object:
			w.Key(name).Object()
			for property := range c.Object() {
				reduce(w.AnyKey(string(property)), c, words)
			}
			w.EndObject()
		case name == "items":
			reduce(w.Key(name), c, words)
		case slices.Contains(words, name):
			w.Key(name).Raw(c.Raw())
		}
	}
	w.EndObject()
}

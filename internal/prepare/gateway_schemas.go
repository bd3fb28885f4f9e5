package prepare

import (
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/schema"
)

// schemaFamily is whose schemas the model takes. What Claude takes everybody does.
func (g *gateway) schemaFamily() schema.Family {
	if g.native() && !g.repairs(RepairSchemas) {
		return schema.Gemini
	}
	return schema.Claude
}

// maxGrown is how many bytes the schemas of a prompt may become longer before references are written out sparingly: a
// short one can be made to say a lot, and there may be thousands.
const maxGrown = 1 << 20

// parameters cleans the schema of a function, and notes what is lost of it.
func (g *gateway) parameters(f *perigee.Function) {
	clean := g.opts.Schemas.Clean
	if g.grown > maxGrown {
		clean = g.opts.Schemas.CleanSparing
	}
	cleaned := clean(f.Parameters, g.schemaFamily())
	g.grown += max(0, len(cleaned.Schema)-len(f.Parameters))
	f.Parameters = cleaned.Schema
	if cleaned.Placeholder {
		if g.back.fillers == nil {
			g.back.fillers = map[string]json.RawMessage{}
		}
		g.back.fillers[f.Name] = cleaned.Schema
	}
	if lost := losses(cleaned.Changes); lost != "" {
		g.notes.add(perigee.NoteMapped, "schema of tool "+g.names.client(f.Name)+" ("+lost+")")
	}
}

// withResponse returns what else is declared of a function: its result's schema goes by one name, too.
func (g *gateway) withResponse(f *perigee.Function) perigee.Fields {
	if len(f.Extra) == 0 {
		return nil
	}
	isResponse := func(field perigee.Field) bool { return field.Name == "response" || field.Name == "responseJsonSchema" }
	at := slices.IndexFunc(f.Extra, isResponse)
	if at < 0 {
		return g.known(f.Extra, "tools[].", functionMembers)
	}
	rest := slices.DeleteFunc(slices.Clone(f.Extra), isResponse)
	kept := slices.Clone(g.known(rest, "tools[].", functionMembers))
	if raw := f.Extra[at].Value; isObject(raw) {
		cleaned := g.opts.Schemas.CleanResponse(raw, g.schemaFamily())
		kept = append(kept, perigee.Field{Name: "response", Value: cleaned.Schema})
		if lost := losses(cleaned.Changes); lost != "" {
			g.notes.add(perigee.NoteMapped, "result schema of tool "+g.names.client(f.Name)+" ("+lost+")")
		}
	}
	return kept
}

// answerSchema makes the schema of the answer one that the gateway reads. One that says nothing is none.
func (g *gateway) answerSchema(gen *perigee.Generation) {
	if gen.ResponseSchema != nil && gen.ResponseJSON != nil {
		gen.ResponseJSON = nil // one of them is allowed, and both say the same
	}
	for _, raw := range []*json.RawMessage{&gen.ResponseSchema, &gen.ResponseJSON} {
		if *raw == nil {
			continue
		}
		if !isObject(*raw) || string(*raw) == "{}" {
			*raw = nil
			if gen.ResponseMIME == "" {
				gen.ResponseMIME = jsonMIME
			}
			continue
		}
		cleaned := g.opts.Schemas.CleanResponse(*raw, g.schemaFamily())
		*raw = cleaned.Schema
		if lost := losses(cleaned.Changes); lost != "" {
			g.notes.add(perigee.NoteMapped, "schema of the answer ("+lost+")")
		}
	}
}

// maxLosses is how many keywords a note names.
const maxLosses = 4

// losses says in a few words what a model could have used and does not see.
func losses(changes []schema.Change) string {
	var list []string
	for _, c := range changes {
		if !c.Action.Loses() || meaningless(c.Keyword) {
			continue
		}
		if len(list) == maxLosses {
			list = append(list, "and more")
			break
		}
		list = append(list, c.String())
	}
	return strings.Join(list, ", ")
}

// meaningless says whether a keyword is a client's message to its own provider, and nothing to a model.
func meaningless(keyword string) bool {
	return keyword == "encrypted" || keyword == "propertyOrdering" || strings.HasPrefix(keyword, "x-")
}

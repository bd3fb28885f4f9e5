package adapt

import (
	"encoding/json"
	"testing"

	"perigee"
)

// Servers of OpenAI's APIs refuse a schema of parameters that names none, as tools without parameters
// often have.
func TestForOpenAIAddsProperties(t *testing.T) {
	for given, want := range map[string]string{
		`{"type":"object"}`: `{"properties":{},"type":"object"}`,
		`{}`:                `{"type":"object","properties":{}}`,
		``:                  `{"type":"object","properties":{}}`,
		`{"type":"object","properties":{"a":{}}}`:     `{"type":"object","properties":{"a":{}}}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{}}}`:       `{"$ref":"#/$defs/a","$defs":{"a":{}}}`,
		`{"type":"object","additionalProperties":{}}`: `{"properties":{},"type":"object","additionalProperties":{}}`,
	} {
		p := &perigee.Prompt{Contents: []perigee.Content{said("user", "hi")},
			Tools: []perigee.Tool{{Function: &perigee.Function{Name: "f", Parameters: json.RawMessage(given), JSONSchema: true}}}}
		adapted, _, notes := ForOpenAI(p, &Server{}, "m", nil)
		if got := string(adapted.Tools[0].Function.Parameters); got != want || len(notes) > 0 {
			t.Errorf("%s: got %s, notes %v", given, got, notes)
		}
	}
}

// A conversation that ends with a call gets a result for it, which all servers require.
func TestForOpenAIAnswersTheLastCall(t *testing.T) {
	call := perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: "c1", Name: "f"}}
	p := &perigee.Prompt{Contents: []perigee.Content{said("user", "hi"), {Role: perigee.RoleModel, Parts: []perigee.Part{call}}}}
	adapted, _, notes := ForOpenAI(p, &Server{}, "m", nil)
	if n := len(adapted.Contents); n != 3 || adapted.Contents[2].Parts[0].Response == nil || adapted.Contents[2].Parts[0].Response.ID != "c1" || len(notes) == 0 {
		t.Errorf("got %+v, notes %v", adapted.Contents, notes)
	}
}

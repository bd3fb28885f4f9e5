package schema_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"perigee/internal/adapt/schema"
	"perigee/internal/lib/rawjson"
	"perigee/internal/simulator/rules"
)

// FuzzClean asks of every input what the package promises: no panic, a schema that the provider
// takes, and the same again when it is cleaned again.
func FuzzClean(f *testing.F) {
	for _, c := range checklist(f) {
		f.Add([]byte(c.in))
	}
	for _, text := range hostile {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 0 && rawjson.Check(raw) != nil {
			// Bytes that are no JSON are of more use as the seed of some.
			if problem := problemOf(raw, schema.Claude, false); problem != "" {
				t.Fatal(problem)
			}
			raw = []byte(grown(raw))
		}
		before := bytes.Clone(raw)
		for _, family := range families {
			for _, response := range []bool{false, true} {
				if problem := problemOf(raw, family, response); problem != "" {
					t.Fatal(problem)
				}
			}
		}
		if !bytes.Equal(raw, before) {
			t.Fatalf("the input was changed: %s", before)
		}
	})
}

var families = []schema.Family{schema.Claude, schema.Gemini}

var hostile = []string{
	``, `null`, `true`, `[]`, `"object"`, `0`, `{`, `{"type":"object","type":"string"}`, `{"type":{}}`, `{"type":[]}`,
	`{"properties":[]}`, `{"properties":{"a":null,"b":[],"c":"string","d":7,"":{}}}`, `{"required":{"a":1},"enum":{},"items":7}`,
	`{"$ref":"#"}`, `{"$ref":"#/$ref"}`, `{"allOf":[{"$ref":"#/allOf/0"}]}`, `{"anyOf":[{"$ref":"#/anyOf/1"},{"$ref":"#/anyOf/0"}]}`,
	`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`,
	`{"type":"object","properties":{"e":{"enum":["a",1,null,{"x":[1, 2]},"a","1",""]}}}`,
	`{"any_of":[{"type":"OBJECT","min_properties":"1"}],"anyOf":[]}`, `{"schema":{"schema":{"type":"string"}}}`,
	`{"type":"array","items":[{"type":"string"},false],"additionalItems":true}`, `{"prefixItems":[{"properties":{"a":{}}},true],"items":false}`,
	`{"properties":{"\u0061":{"type":"string"}},"required":["a","\u0061"]}`,
	`{"if":{"properties":{"a":{"const":1}}},"then":{"properties":{"b":{"type":"string"}}},"else":{"anyOf":[{"properties":{"b":{"type":"number"}}}]}}`,
	`{"type":"string","enum":["(x)","a) (b"],"description":"Allowed: (x), a) (b"}`,
	`{"type":"string","format":"enum","minLength":1e400,"maximum":1e400,"minItems":1.0,"pattern":7,"title":null,"nullable":"true"}`,
	`{"dependencies":{"a":["b"],"c":{"properties":{"d":{}}}},"patternProperties":{"^x":{"type":"string"}},"propertyNames":{"pattern":"^a"},"not":{"type":"null"}}`,
}

var models = func() map[schema.Family]rules.Model {
	byFamily := map[schema.Family]rules.Model{}
	for _, m := range rules.ModelTable() {
		m.Context = 0 // size is not tested here
		switch m.ID {
		case "claude-sonnet-4-6":
			byFamily[schema.Claude] = m
		case "gemini-3-flash":
			byFamily[schema.Gemini] = m
		}
	}
	return byFamily
}()

// refusalOf returns what the simulator's rules refuse a schema for.
func refusalOf(text json.RawMessage, family schema.Family, response bool) *rules.Refusal {
	const contents = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
	var body bytes.Buffer
	body.WriteString(`{"project":"p","model":"m","request":{` + contents)
	if response {
		body.WriteString(`,"generationConfig":{"responseMimeType":"application/json","responseSchema":`)
		body.Write(text)
		body.WriteString(`}}}`)
	} else {
		body.WriteString(`,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}},"tools":[{"functionDeclarations":[{"name":"f","parameters":`)
		body.Write(text)
		body.WriteString(`}]}]}}`)
	}
	_, refusal := rules.Check(rules.Input{Surface: rules.V1Internal, Model: models[family], Body: body.Bytes(), Switches: rules.DefaultSwitches()})
	return refusal
}

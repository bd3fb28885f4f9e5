package chat

import (
	"cmp"
	"encoding/json"

	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// length reads how long the answer may be.
func (d *decoder) length(name string) *int64 {
	n := d.c.Int64()
	if n < 1 && d.c.Err() == nil {
		d.refuse(name, "want at least 1, found %d", n)
	}
	return &n
}

// candidates reads how many answers there are to be.
func (d *decoder) candidates() {
	switch n := d.c.Int64(); {
	case n < 1:
		d.refuse("n", "want at least 1, found %d", n)
	case n > 1:
		d.prompt.Generation.Candidates = &n
	}
}

// stops reads the stop sequences: one, or a list. An empty one stops nothing.
func (d *decoder) stops() {
	stop := &d.prompt.Generation.Stop
	add := func() {
		if s := d.c.String(); s != "" {
			*stop = append(*stop, s)
		}
	}
	if d.c.Kind() != rawjson.Array {
		add()
		return
	}
	for range d.c.Array() {
		add()
	}
}

func (d *decoder) responseFormat() {
	var kind string
	var schema json.RawMessage
	format := &d.prompt.Generation.ResponseFormat
	d.c.Read(d.notes.Rest("response_format."), "type", &kind, "json_schema", func() {
		d.c.Read(d.notes.Rest("response_format.json_schema."), "schema", func() { schema = openai.OfKind(d.c, rawjson.Object) },
			"name", &format.Name, "description", &format.Description, "strict", &format.Strict)
	})
	g := &d.prompt.Generation
	switch kind {
	case "text":
	case "json_object":
		g.ResponseMIME = "application/json"
	case "json_schema":
		if schema == nil {
			d.refuse("response_format.json_schema.schema", "want the schema that the answer is to follow")
		}
		g.ResponseMIME, g.ResponseJSON = "application/json", schema
	default:
		d.refuse("response_format.type", "want text, json_object or json_schema, found %q", openai.Brief(kind))
	}
}

// modalities reads the member of that name. Text alone is the default of every model.
func (d *decoder) modalities() {
	var list []string
	image := false
	for range d.c.Array() {
		switch kind := d.c.String(); kind {
		case "text":
			list = append(list, "TEXT")
		case "image":
			list = append(list, "IMAGE")
			image = true
		default:
			d.notes.Dropped("modalities " + openai.Brief(kind))
		}
	}
	if image {
		d.prompt.Generation.Modalities = list
	}
}

// finishGeneration sets the parameters that depend on several members.
func (d *decoder) finishGeneration() {
	g := &d.prompt.Generation
	switch {
	case g.MaxOutputTokens == nil:
		g.MaxOutputTokens = d.maxOld
	case d.maxOld != nil && *d.maxOld != *g.MaxOutputTokens:
		d.notes.Dropped("max_tokens")
	}
	switch {
	case d.logprobs:
		d.style.Logprobs = true
		g.Logprobs = cmp.Or(d.topProbs, new(int64(0)))
	case d.topProbs != nil:
		d.notes.Dropped("top_logprobs")
	}
	g.Thinking = d.thinking.value
}

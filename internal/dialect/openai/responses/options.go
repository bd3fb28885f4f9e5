package responses

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

func (d *decoder) truncation(c *rawjson.Cursor) {
	switch word := c.String(); word {
	case "disabled", "auto": // auto allows the vendor to leave items out; perigee sends all
	default:
		d.refuse(openai.Wrong("truncation", "want auto or disabled, found %q", openai.Brief(word)))
	}
}

func (d *decoder) text(c *rawjson.Cursor) {
	c.Read(d.notes.Rest("text."), "format", func() { d.format(c) }, "verbosity", &d.prompt.Generation.Verbosity)
}

func (d *decoder) format(c *rawjson.Cursor) {
	var kind string
	var schema json.RawMessage
	format := &d.prompt.Generation.ResponseFormat
	c.Read(d.notes.Rest("text.format."), "type", &kind, "schema", func() { schema = openai.OfKind(c, rawjson.Object) },
		"name", &format.Name, "strict", &format.Strict, "description", &format.Description)
	switch kind {
	case "json_schema":
		if schema == nil {
			d.refuse(openai.Wrong("text.format.schema", "want the schema that the answer is to follow"))
		}
		d.prompt.Generation.ResponseMIME, d.prompt.Generation.ResponseJSON = "application/json", schema
	case "json_object":
		d.prompt.Generation.ResponseMIME = "application/json"
	case "text", "":
	default:
		d.refuse(openai.Wrong("text.format", "there is no text format %q", kind).WithHint("use text, json_object or json_schema"))
	}
}

func (d *decoder) reasoning(c *rawjson.Cursor) {
	summary := func(name string) func() {
		return func() {
			d.out.showSummary, d.thinking = true, true
			if c.String() != "auto" {
				d.notes.Mapped("reasoning." + name)
			}
		}
	}
	c.Read(dialect.RestPresent(c, &d.notes, "reasoning."), "effort", func() { d.effort, d.thinking = c.String(), true },
		"summary", summary("summary"), "generate_summary", summary("generate_summary"), "context", func() {
			// The model always gets all earlier reasoning that the client sends.
			if c.String() == "current_turn" {
				d.notes.Dropped("reasoning.context")
			}
		})
}

func (d *decoder) include(c *rawjson.Cursor) {
	for range c.Array() {
		switch v := c.Bytes(); string(v) {
		case "reasoning.encrypted_content":
			d.out.showSignatures, d.thinking = true, true
		case "message.output_text.logprobs":
			d.logprobs = true
		case "web_search_call.action.sources":
			d.out.showSources = true
		case "message.input_image.image_url", "computer_call_output.output.image_url": // always sent
		case "file_search_call.results", "web_search_call.results", "code_interpreter_call.outputs":
			// They are of tools that only the vendor has.
			d.notes.Unknown("include ", v)
		default:
			d.refuse(openai.Wrong("include", "there is nothing to include under %q", openai.Brief(string(v))).
				WithHint("use %s", strings.Join(included, ", ")))
		}
	}
}

// included are the values of include that the API has.
var included = []string{
	"reasoning.encrypted_content", "message.output_text.logprobs", "web_search_call.action.sources", "web_search_call.results",
	"message.input_image.image_url", "computer_call_output.output.image_url",
	"file_search_call.results", "code_interpreter_call.outputs",
}

// The limits of the API for metadata.
const (
	maxPairs = 16
	maxKey   = 64
	maxValue = 512
)

// metadata is repeated in the answer, and stored with it.
func (d *decoder) metadata(c *rawjson.Cursor) {
	pairs := 0
	for key := range c.Object() {
		pairs++
		name := openai.Brief(string(key))
		if utf8.RuneCount(key) > maxKey {
			d.refuse(openai.Wrong("metadata", "the key %q is longer than %d characters", name, maxKey))
		}
		if value := c.Bytes(); utf8.RuneCount(value) > maxValue {
			d.refuse(openai.Wrong("metadata."+name, "want at most %d characters", maxValue))
		}
	}
	if pairs > maxPairs {
		d.refuse(openai.Wrong("metadata", "want at most %d pairs, found %d", maxPairs, pairs))
	}
}

// generation sets the generation parameters for thinking and log probabilities.
func (d *decoder) generation() {
	g := &d.prompt.Generation
	switch {
	case d.effort == "none":
		g.Thinking = &perigee.Thinking{Level: d.effort}
	case d.thinking:
		// Thinking is requested even if the client does not show it: some models cannot continue a
		// tool loop without it.
		g.Thinking = &perigee.Thinking{Include: new(true), Level: d.effort}
	}
	if d.logprobs || d.topLogprobs > 0 {
		d.out.logprobs = true
		g.Logprobs = new(d.topLogprobs)
	}
}

package adapt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// NoteOptions notes the parameters of other APIs that Google's have no counterpart for, under the
// names that they have in the dialect of the prompt. Values that ask for the default are not noted.
func NoteOptions(n *perigee.Notes, p *perigee.Prompt) {
	g := &p.Generation
	drop := func(lost bool, name string) {
		if lost {
			n.Dropped(optionName(p.Dialect, name))
		}
	}
	drop(slices.ContainsFunc(p.Contents, func(c perigee.Content) bool { return c.Name != "" }), "messages[].name")
	drop(hasMembers(g.LogitBias), "logit_bias")
	drop(g.ParallelCalls != nil && !*g.ParallelCalls, "parallel_tool_calls")
	drop(g.Verbosity != "" && g.Verbosity != "medium", "verbosity")
	switch g.ServiceTier {
	case "", "auto", "default", "standard_only":
	default:
		drop(true, "service_tier")
	}
	drop(g.ResponseFormat.Description != "", "response_format.json_schema.description")
	for i := range p.Tools {
		if f := p.Tools[i].Function; f != nil && f.Custom != nil {
			noteCustom(n, p.Dialect, f.Name)
		}
	}
}

// noteCustom notes a tool that takes a text, and becomes a function with one argument.
func noteCustom(n *perigee.Notes, d perigee.Dialect, name string) {
	if d == perigee.DialectOpenAIResponses {
		n.Mapped("tools[custom] " + perigee.Clip(name, 60))
	} else {
		n.Mapped("tools[].custom")
	}
}

// optionNames are the names of parameters in dialects that call them something else.
var optionNames = map[perigee.Dialect]map[string]string{
	perigee.DialectGemini: {"top_p": "topP", "top_k": "topK", "n": "candidateCount", "presence_penalty": "presencePenalty",
		"frequency_penalty": "frequencyPenalty", "logprobs": "responseLogprobs", "modalities": "responseModalities",
		"response_format": "responseMimeType", "tool_choice": "toolConfig"},
	perigee.DialectOpenAIChat: {"thinking level": "reasoning_effort", "image detail": "messages[].content[].image_url.detail",
		"conversation that began with the model": "messages that begin with role assistant"},
	perigee.DialectOpenAIResponses: {"verbosity": "text.verbosity", "image detail": "input[].content[].detail",
		"response_format.json_schema.description": "text.format.description"},
	perigee.DialectAnthropic: {"parallel_tool_calls": "tool_choice.disable_parallel_tool_use", "thinking level": "output_config.effort"},
}

func optionName(d perigee.Dialect, name string) string { return cmp.Or(optionNames[d][name], name) }

// foreign reports whether the prompt was written for an API that is not Google's.
func (a *adapter) foreign() bool {
	return a.prompt.Dialect != perigee.DialectGemini && a.prompt.Dialect != ""
}

// NoteInstructions notes the instructions inside a conversation that are moved to its beginning,
// because the provider has no other place for them. The Messages API has no note for that.
func NoteInstructions(n *perigee.Notes, p *perigee.Prompt) {
	for i := range p.Contents {
		c := &p.Contents[i]
		if !c.Instructs() {
			continue
		}
		switch p.Dialect {
		case perigee.DialectOpenAIChat:
			n.Mapped("messages[].role " + c.Role + " inside the conversation")
		case perigee.DialectOpenAIResponses:
			n.Mapped("input[].role " + c.Role)
		case perigee.DialectAnthropic:
		default:
			n.Mapped("turn of role system to the system instruction")
		}
	}
}

func hasMembers(object json.RawMessage) bool {
	for range rawjson.NewCursor(object).Object() {
		return true
	}
	return false
}

// MaxStops is how many stop sequences Google's APIs take.
const MaxStops = 5

// options makes the parameters of other APIs fit: a seed has 32 bits, and there are at most five
// stop sequences. Clients of the Gemini API have the provider's own error for more sequences.
func (a *adapter) options() {
	NoteOptions(&a.notes, &a.prompt)
	gen := &a.prompt.Generation
	if a.foreign() {
		a.resolution(gen)
	}
	gen.LogitBias, gen.ParallelCalls, gen.Verbosity, gen.ServiceTier = nil, nil, "", ""
	if n := gen.Seed; n != nil && (*n < math.MinInt32 || *n > math.MaxInt32) {
		short := int64(int32(*n ^ *n>>32))
		a.notes.Mapped(fmt.Sprintf("seed %d to %d", *n, short))
		gen.Seed = &short
	}
	if len(gen.Stop) > MaxStops && a.foreign() {
		a.notes.Dropped("stop sequences after the fifth")
		gen.Stop = gen.Stop[:MaxStops]
	}
}

package chat

import (
	"cmp"
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// generation writes the generation parameters.
func (w *requestWriter) generation(g *perigee.Generation) {
	w.float("temperature", g.Temperature)
	w.float("top_p", g.TopP)
	w.float("top_k", g.TopK)
	w.int(cmp.Or(w.form.MaxTokens, "max_completion_tokens"), g.MaxOutputTokens)
	w.int("n", g.Candidates)
	w.int(cmp.Or(w.form.Seed, "seed"), g.Seed)
	w.float("presence_penalty", g.PresencePenalty)
	w.float("frequency_penalty", g.FrequencyPenalty)
	if g.LogitBias != nil {
		w.Key("logit_bias").Raw(g.LogitBias)
	}
	if len(g.Stop) > 0 {
		w.Key("stop").Array()
		for _, stop := range g.Stop {
			w.String(stop)
		}
		w.EndArray()
	}
	if g.Logprobs != nil {
		w.Members(`"logprobs":true`)
		if *g.Logprobs > 0 {
			w.int("top_logprobs", g.Logprobs)
		}
	}
	if g.ParallelCalls != nil {
		w.Key("parallel_tool_calls").Bool(*g.ParallelCalls)
	}
	w.text("verbosity", g.Verbosity)
	w.text("service_tier", g.ServiceTier)
	w.format(g)
	if len(g.Modalities) > 0 {
		w.Key("modalities").Array()
		for _, kind := range g.Modalities {
			w.String(strings.ToLower(kind))
		}
		w.EndArray()
	}
	if g.Thinking != nil {
		w.thinking(g.Thinking)
	}
}

func (w *requestWriter) text(name, value string) {
	if value != "" {
		w.Key(name).String(value)
	}
}

func (w *requestWriter) int(name string, value *int64) {
	if value != nil {
		w.Key(name).Int(*value)
	}
}

func (w *requestWriter) float(name string, value *float64) {
	if value != nil {
		w.Key(name).Float(*value, 64)
	}
}

// format writes response_format.
func (w *requestWriter) format(g *perigee.Generation) {
	switch {
	case g.ResponseJSON != nil:
		f := &g.ResponseFormat
		w.Key("response_format").Members(`{"type":"json_schema"`).Key("json_schema").Object()
		w.text("name", f.Name)
		w.text("description", f.Description)
		if f.Strict != nil {
			w.Key("strict").Bool(*f.Strict)
		}
		w.Key("schema").Raw(g.ResponseJSON).EndObject().EndObject()
	case g.ResponseMIME == "application/json":
		w.Members(`"response_format":{"type":"json_object"}`)
	}
}

// thinking writes how much the model thinks.
func (w *requestWriter) thinking(t *perigee.Thinking) {
	switch w.form.Thinking {
	case ThinkingObject:
		hidden := t.Include != nil && !*t.Include
		if t.Level == "" && t.Budget == nil && !hidden {
			return
		}
		w.Key("reasoning").Object()
		w.text("effort", t.Level)
		w.int("max_tokens", t.Budget)
		if hidden {
			w.Members(`"exclude":true`)
		}
		w.EndObject()
		return
	case ThinkingSwitch:
		if t.Level == "none" {
			w.Members(`"thinking":{"type":"disabled"}`)
			return
		}
		w.Members(`"thinking":{"type":"enabled"}`)
	case ThinkingParsed:
		w.Members(`"reasoning_format":"parsed"`)
	}
	w.text("reasoning_effort", t.Level)
}

// ThinkingMembers returns the members of a request that set the amount of thinking, as EncodeRequest
// writes them.
func ThinkingMembers(t *perigee.Thinking, form Form) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if t == nil {
		return members
	}
	w := requestWriter{form: form}
	w.Object()
	w.thinking(t)
	w.EndObject()
	c := rawjson.NewCursor(w.Buf)
	for key := range c.Object() {
		members[string(key)] = c.Raw()
	}
	return members
}

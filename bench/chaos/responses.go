package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

func responsesBody(c *call) object {
	b := object{"model": c.model, "stream": c.stream, "store": c.store, "input": c.prompt()}
	if c.previous != "" {
		b["previous_response_id"] = c.previous
	}
	if c.background {
		b["background"] = true
	}
	if c.tools {
		b["tools"] = []object{{"type": "function", "name": "look", "parameters": schema}}
	}
	return b
}

type response struct {
	ID, Status string
	Store      bool
	Output     []struct {
		Content   []struct{ Text string }
		Arguments string
	}
	Error *struct{ Code, Message string }
}

func (r *response) text() string {
	var b strings.Builder
	for _, item := range r.Output {
		for _, part := range item.Content {
			b.WriteString(part.Text)
		}
		b.WriteString(item.Arguments)
	}
	return b.String()
}

func responsesEvent(data []byte, a *answer) {
	var m struct {
		Type, Delta, Message string
		Response             response
		Error                *struct{ Message string }
	}
	if err := json.Unmarshal(data, &m); err != nil {
		a.failure = "an event that is no JSON"
		return
	}
	switch m.Type {
	case "response.created":
		a.response = m.Response.ID
	case "response.output_text.delta", "response.function_call_arguments.delta":
		a.text += m.Delta
	case "response.completed":
		a.finish(&m.Response)
	case "response.failed", "response.incomplete":
		a.failure = "the response is " + m.Response.Status
		if m.Response.Error != nil {
			a.failure = m.Response.Error.Message
		}
	case "error":
		a.failure = m.Message
		if m.Error != nil {
			a.failure = m.Error.Message
		}
	}
}

// finish takes the end of a response, which repeats all its text.
func (a *answer) finish(r *response) {
	a.ended, a.stored, a.response = true, r.Store, r.ID
	if text := r.text(); a.text != "" && text != a.text {
		a.text += fmt.Sprintf("(but the completed response has %d bytes in place of %d)", len(text), len(a.text))
	} else {
		a.text = text
	}
}

func responsesWhole(data []byte, a *answer) {
	var r response
	if json.Unmarshal(data, &r) != nil || r.ID == "" {
		return
	}
	switch r.Status {
	case "completed":
		a.finish(&r)
	case "failed", "incomplete", "cancelled":
		a.failure = "the response is " + r.Status
	default:
		a.response = r.ID // in the background
	}
}

package roundtrip

import (
	"encoding/json"

	"pgregory.net/rapid"

	"perigee"
)

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	PromptMore struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *chatUsage) usage(t *rapid.T) perigee.Usage {
	if u.Total != u.Prompt+u.Completion {
		t.Fatalf("the sum is wrong in %+v", u)
	}
	return perigee.Usage{Input: u.Prompt, Cached: u.PromptMore.Cached, Output: u.Completion, Thinking: u.CompletionMore.Reasoning}
}

// chatMessage is a message, or what a chunk adds to it.
type chatMessage struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
	Calls     []struct {
		Index    int    `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (m *chatMessage) addTo(r *reading) {
	r.addText(perigee.EventThinking, m.Reasoning)
	r.addText(perigee.EventText, m.Content)
	for _, c := range m.Calls {
		if c.ID != "" { // else it is a piece of the one before, or its seal
			r.blocks = append(r.blocks, block{kind: perigee.EventCall, id: c.ID, name: c.Function.Name})
		}
		last := &r.blocks[len(r.blocks)-1]
		last.args = compact(last.args + c.Function.Arguments)
	}
}

var chatFinishes = map[string]string{"tool_calls": "calls", "length": "length", "content_filter": "filtered", "stop": "stop"}

func readChatStream(t *rapid.T, wire []byte) *reading {
	r := &reading{}
	frames(t, wire, func(_ string, data []byte) {
		if r.finished {
			t.Fatalf("more after the end: %s", data)
		}
		if string(data) == "[DONE]" {
			r.finished = true
			return
		}
		var chunk struct {
			Choices []struct {
				Delta  chatMessage `json:"delta"`
				Finish string      `json:"finish_reason"`
			} `json:"choices"`
			Usage *chatUsage `json:"usage"`
		}
		parse(t, data, &chunk)
		for _, choice := range chunk.Choices {
			choice.Delta.addTo(r)
			if choice.Finish != "" {
				r.finish = chatFinishes[choice.Finish]
			}
		}
		if chunk.Usage != nil {
			r.usage = chunk.Usage.usage(t)
		}
	})
	return r
}

func readChatWhole(t *rapid.T, body []byte) *reading {
	var whole struct {
		Choices []struct {
			Message chatMessage `json:"message"`
			Finish  string      `json:"finish_reason"`
		} `json:"choices"`
		Usage chatUsage `json:"usage"`
	}
	parse(t, body, &whole)
	r := &reading{finish: chatFinishes[whole.Choices[0].Finish], usage: whole.Usage.usage(t), finished: true}
	whole.Choices[0].Message.addTo(r)
	return r
}

func nextChat(t *rapid.T, body []byte, a *answer) []byte {
	var whole struct {
		Choices []struct {
			Message json.RawMessage `json:"message"`
		} `json:"choices"`
	}
	parse(t, body, &whole)
	messages := list{members{"role": "user", "content": turn}, whole.Choices[0].Message}
	for i := range a.stretches {
		if id := a.stretches[i].call.ID; id != "" {
			messages = append(messages, members{"role": "tool", "tool_call_id": id, "content": "ok"})
		}
	}
	return write(members{"model": "m", "messages": append(messages, members{"role": "user", "content": turn})})
}

type responsesObject struct {
	Status     string `json:"status"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []json.RawMessage `json:"output"`
	Usage  struct {
		Input     int64 `json:"input_tokens"`
		Output    int64 `json:"output_tokens"`
		Total     int64 `json:"total_tokens"`
		InputMore struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputMore struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

type responsesItem struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text string `json:"text"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

func (i *responsesItem) addTo(r *reading) {
	for _, s := range i.Summary {
		r.addText(perigee.EventThinking, s.Text)
	}
	for _, c := range i.Content {
		r.addText(perigee.EventText, c.Text)
	}
	if i.Type == "function_call" {
		r.call(i.CallID, i.Name, i.Arguments)
	}
}

// end reads how an answer ended. This API has no word for calls: clients look for them.
func (o *responsesObject) end(t *rapid.T, r *reading) {
	u := o.Usage
	if u.Total != u.Input+u.Output {
		t.Fatalf("the sum is wrong in %+v", u)
	}
	r.usage = perigee.Usage{Input: u.Input, Cached: u.InputMore.Cached, Output: u.Output, Thinking: u.OutputMore.Reasoning}
	r.finished = true
	switch {
	case o.Status == "incomplete":
		r.finish = map[string]string{"max_output_tokens": "length", "content_filter": "filtered"}[o.Incomplete.Reason]
	case o.Status == "completed":
		r.finish = "stop"
		for _, b := range r.blocks {
			if b.kind == perigee.EventCall {
				r.finish = "calls"
			}
		}
	}
}

func readResponsesStream(t *rapid.T, wire []byte) *reading {
	r := &reading{}
	var open responsesItem // the call that is being written
	frames(t, wire, func(name string, data []byte) {
		if r.finished {
			t.Fatalf("more after the end: %s", data)
		}
		var ev struct {
			Type     string          `json:"type"`
			Delta    string          `json:"delta"`
			Item     responsesItem   `json:"item"`
			Response responsesObject `json:"response"`
		}
		parse(t, data, &ev)
		if ev.Type != name {
			t.Fatalf("the event %s calls itself %s", name, ev.Type)
		}
		switch name {
		case "response.output_text.delta":
			r.addText(perigee.EventText, ev.Delta)
		case "response.reasoning_summary_text.delta":
			r.addText(perigee.EventThinking, ev.Delta)
		case "response.output_item.added":
			open = ev.Item
		case "response.function_call_arguments.delta":
			open.Arguments += ev.Delta
		case "response.output_item.done":
			if ev.Item.Type == "function_call" {
				r.call(open.CallID, open.Name, open.Arguments)
			}
		case "response.completed", "response.incomplete", "response.failed":
			ev.Response.end(t, r)
		}
	})
	return r
}

func readResponsesWhole(t *rapid.T, body []byte) *reading {
	var whole responsesObject
	parse(t, body, &whole)
	r := &reading{}
	for _, data := range whole.Output {
		var item responsesItem
		parse(t, data, &item)
		item.addTo(r)
	}
	whole.end(t, r)
	return r
}

func nextResponses(t *rapid.T, body []byte, a *answer) []byte {
	var whole responsesObject
	parse(t, body, &whole)
	items := list{members{"role": "user", "content": turn}}
	for _, item := range whole.Output {
		items = append(items, item)
	}
	for i := range a.stretches {
		if id := a.stretches[i].call.ID; id != "" {
			items = append(items, members{"type": "function_call_output", "call_id": id, "output": "ok"})
		}
	}
	return write(members{"model": "m", "store": false, "input": append(items, members{"role": "user", "content": turn})})
}

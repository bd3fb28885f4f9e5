package roundtrip

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/lib/sse"
)

// frames calls read with each event of a stream.
func frames(t *rapid.T, wire []byte, read func(name string, data []byte)) {
	r := sse.NewReader(bytes.NewReader(wire))
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in %s", err, wire)
		}
		read(ev.Name, bytes.Clone(ev.Data))
	}
}

func parse(t *rapid.T, data []byte, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

// turn is what a client of any dialect asked before and says after the answer that it sends back.
const turn = "go on"

type anthropicBlockRead struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Partial  string          `json:"partial_json"`
}

func (b *anthropicBlockRead) addTo(r *reading) {
	r.addText(perigee.EventThinking, b.Thinking)
	r.addText(perigee.EventText, b.Text)
	if b.Type == "tool_use" {
		r.call(b.ID, b.Name, string(b.Input))
	}
}

type anthropicUsage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cache_read_input_tokens"`
	Output     int64 `json:"output_tokens"`
	OutputMore struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (u *anthropicUsage) usage() perigee.Usage {
	return perigee.Usage{Input: u.Input + u.Cached, Cached: u.Cached, Output: u.Output, Thinking: u.OutputMore.Thinking}
}

var stopReasons = map[string]string{"tool_use": "calls", "max_tokens": "length", "refusal": "filtered", "end_turn": "stop"}

func readAnthropicStream(t *rapid.T, wire []byte) *reading {
	r := &reading{}
	var open anthropicBlockRead
	started := false
	frames(t, wire, func(name string, data []byte) {
		if r.finished || !started && name != "message_start" {
			t.Fatalf("out of order: %s", data)
		}
		var ev struct {
			Type  string             `json:"type"`
			Block anthropicBlockRead `json:"content_block"`
			Delta struct {
				anthropicBlockRead
				Stop string `json:"stop_reason"`
			} `json:"delta"`
			Usage anthropicUsage `json:"usage"`
		}
		parse(t, data, &ev)
		if ev.Type != name {
			t.Fatalf("the event %s calls itself %s", name, ev.Type)
		}
		switch name {
		case "message_start":
			started = true
		case "content_block_start":
			open, open.Input = ev.Block, nil
		case "content_block_delta":
			open.Text += ev.Delta.Text
			open.Thinking += ev.Delta.Thinking
			open.Input = append(open.Input, ev.Delta.Partial...)
		case "content_block_stop":
			open.addTo(r)
		case "message_delta":
			r.finish, r.usage = stopReasons[ev.Delta.Stop], ev.Usage.usage()
		case "message_stop":
			r.finished = true
		}
	})
	return r
}

func readAnthropicWhole(t *rapid.T, body []byte) *reading {
	var whole struct {
		Content []anthropicBlockRead `json:"content"`
		Stop    string               `json:"stop_reason"`
		Usage   anthropicUsage       `json:"usage"`
	}
	parse(t, body, &whole)
	r := &reading{finish: stopReasons[whole.Stop], usage: whole.Usage.usage(), finished: true}
	for i := range whole.Content {
		whole.Content[i].addTo(r)
	}
	return r
}

func nextAnthropic(t *rapid.T, body []byte, a *answer) []byte {
	var whole struct {
		Content json.RawMessage `json:"content"`
	}
	parse(t, body, &whole)
	var after list
	for i := range a.stretches {
		if id := a.stretches[i].call.ID; id != "" {
			after = append(after, members{"type": "tool_result", "tool_use_id": id, "content": "ok"})
		}
	}
	after = append(after, members{"type": "text", "text": turn})
	return write(members{"model": "m", "max_tokens": 1, "messages": list{members{"role": "user", "content": turn},
		members{"role": "assistant", "content": whole.Content}, members{"role": "user", "content": after}}})
}

type geminiChunk struct {
	Candidates []struct {
		Content json.RawMessage `json:"content"`
		Finish  string          `json:"finishReason"`
	} `json:"candidates"`
	Usage *struct {
		Prompt     int64 `json:"promptTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
		Total      int64 `json:"totalTokenCount"`
	} `json:"usageMetadata"`
}

func (c *geminiChunk) addTo(t *rapid.T, r *reading) {
	for _, candidate := range c.Candidates {
		var content struct {
			Parts []struct {
				Text    string `json:"text"`
				Thought bool   `json:"thought"`
				Call    *struct {
					ID   string          `json:"id"`
					Name string          `json:"name"`
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		}
		parse(t, candidate.Content, &content)
		for _, p := range content.Parts {
			switch {
			case p.Call != nil:
				r.call(p.Call.ID, p.Call.Name, string(p.Call.Args))
			case p.Thought:
				r.addText(perigee.EventThinking, p.Text)
			default:
				r.addText(perigee.EventText, p.Text)
			}
		}
		switch candidate.Finish {
		case "":
			continue
		case "STOP":
			r.finish = "stop"
		case "MAX_TOKENS":
			r.finish = "length"
		default:
			r.finish = "filtered"
		}
		r.finished = true
		for _, b := range r.blocks {
			if b.kind == perigee.EventCall {
				r.finish = "calls" // no word for it here, either
			}
		}
	}
	if u := c.Usage; u != nil {
		if u.Total != u.Prompt+u.Candidates+u.Thoughts {
			t.Fatalf("the sum is wrong in %+v", u)
		}
		r.usage = perigee.Usage{Input: u.Prompt, Cached: u.Cached, Output: u.Candidates + u.Thoughts, Thinking: u.Thoughts}
	}
}

func readGeminiStream(t *rapid.T, wire []byte) *reading {
	r := &reading{}
	frames(t, wire, func(_ string, data []byte) {
		var chunk geminiChunk
		parse(t, data, &chunk)
		chunk.addTo(t, r)
	})
	return r
}

func readGeminiWhole(t *rapid.T, body []byte) *reading {
	var whole geminiChunk
	parse(t, body, &whole)
	r := &reading{}
	whole.addTo(t, r)
	return r
}

func nextGemini(t *rapid.T, body []byte, _ *answer) []byte {
	var whole geminiChunk
	parse(t, body, &whole)
	user := members{"role": "user", "parts": list{members{"text": turn}}}
	return write(members{"contents": list{user, whole.Candidates[0].Content, user}})
}

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// An otherWire is an API of providers other than Gemini's: how perigee is set up for it, and the answer
// that its provider always gives, which has the same text as Gemini's.
type otherWire struct {
	dialect  *dialect
	upstream string // in the configuration; %s is the address of the provider
	model    string
	path     string // of the provider
	answer   [][]byte
}

// wires are the three of them. perigee translates what is not in the dialect of the wire.
var wires = []*otherWire{
	{dialect: chat, path: "/v1/chat/completions", model: "local-model", answer: chatAnswer(),
		upstream: "{name: provider, kind: openai, profile: generic, url: 'http://%s/v1'}"},
	{dialect: responses, path: "/v1/responses", model: "gpt-5.5", answer: responsesAnswer(),
		upstream: "{name: provider, kind: openai, profile: openai, api: responses, url: 'http://%s/v1', keys: [bench-key-1234]}"},
	{dialect: messages, path: "/v1/messages", model: "claude-opus-5", answer: messagesAnswer(),
		upstream: "{name: provider, kind: anthropic, url: 'http://%s', keys: [bench-key-1234]}"},
}

// provide answers one call after it has read all of it.
func (wr *otherWire) provide(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for _, event := range wr.answer {
		if _, err := w.Write(event); err != nil || control.Flush() != nil {
			return
		}
	}
}

// wireCases are the clients of each dialect at each of the wires, and those of the wires' dialects
// at Gemini's, for comparison.
func wireCases() (list []*benchCase) {
	for _, wr := range wires {
		for _, d := range dialects {
			c := &benchCase{name: d.name + " to " + wr.dialect.name + ", streamed", ours: wr.asked(d), theirs: wr.dialect, model: wr.model, wire: wr}
			if d == wr.dialect {
				c.limit = limits{added: 2.2}
			} else {
				c.limit = limits{translated: 1.2}
			}
			list = append(list, c)
		}
	}
	return list
}

// asked is the dialect of a client at the wire. What perigee translates it writes in its own form.
func (wr *otherWire) asked(d *dialect) *dialect {
	if d == wr.dialect {
		return d
	}
	other := *d
	other.free, other.end = true, strings.ReplaceAll(d.end, `": "`, `":"`)
	return &other
}

// texts are the pieces of the answer, as the inside of JSON strings.
func texts() (list [][]byte) {
	for _, chunk := range answerChunks {
		_, rest, _ := bytes.Cut(chunk, []byte(`"text": "`))
		text, _, _ := bytes.Cut(rest, []byte(`"}],"role"`))
		list = append(list, text)
	}
	return list
}

func chatAnswer() (list [][]byte) {
	chunk := func(choices, more string) {
		list = append(list, fmt.Appendf(nil, `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1790000000,"model":"local-model","choices":[%s]%s}`+"\n\n", choices, more))
	}
	for _, text := range texts() {
		chunk(fmt.Sprintf(`{"index":0,"delta":{"content":"%s"},"finish_reason":null}`, text), "")
	}
	chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "")
	chunk("", `,"usage":{"prompt_tokens":25317,"completion_tokens":180,"total_tokens":25497}`)
	return append(list, []byte("data: [DONE]\n\n"))
}

// nameEvent returns an event with a name, whose data begins with it.
func nameEvent(name, members string) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: {\"type\":\"%s\"%s}\n\n", name, name, members)
}

func messagesAnswer() (list [][]byte) {
	list = append(list,
		nameEvent("message_start", `,"message":{"id":"msg_bench","type":"message","role":"assistant","model":"claude-opus-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25317,"output_tokens":1}}`),
		nameEvent("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`))
	for _, text := range texts() {
		list = append(list, nameEvent("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":"%s"}`, text)))
	}
	return append(list, nameEvent("content_block_stop", `,"index":0`),
		nameEvent("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":180}`), nameEvent("message_stop", ""))
}

func responsesAnswer() (list [][]byte) {
	number := 0
	event := func(name, members string) {
		list = append(list, nameEvent(name, fmt.Sprintf(`,"sequence_number":%d%s`, number, members)))
		number++
	}
	const item = `,"item_id":"msg_bench","output_index":0,"content_index":0`
	response := func(status, more string) string {
		return `,"response":{"id":"resp_bench","object":"response","created_at":1790000000,"model":"gpt-5.5","status":"` + status + `","error":null` + more + `}`
	}
	message := func(status, content string) string {
		return `{"id":"msg_bench","type":"message","role":"assistant","status":"` + status + `","content":[` + content + `]}`
	}
	part := func(text []byte) string {
		return `{"type":"output_text","annotations":[],"logprobs":[],"text":"` + string(text) + `"}`
	}
	whole := slices.Concat(texts()...)
	event("response.created", response("in_progress", `,"output":[]`))
	event("response.in_progress", response("in_progress", `,"output":[]`))
	event("response.output_item.added", `,"output_index":0,"item":`+message("in_progress", ""))
	event("response.content_part.added", item+`,"part":`+part(nil))
	for _, text := range texts() {
		event("response.output_text.delta", fmt.Sprintf(`%s,"delta":"%s","logprobs":[]`, item, text))
	}
	event("response.output_text.done", item+`,"text":"`+string(whole)+`"`)
	event("response.content_part.done", item+`,"part":`+part(whole))
	event("response.output_item.done", `,"output_index":0,"item":`+message("completed", part(whole)))
	event("response.completed", response("completed", `,"output":[`+message("completed", part(whole))+`],"usage":{"input_tokens":25317,"input_tokens_details":{"cached_tokens":0},"output_tokens":180,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":25497}`))
	return list
}

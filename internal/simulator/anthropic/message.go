package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/simulator/completion"
)

// Message is an answer, ready to be encoded.
type Message struct {
	reply   *completion.Reply
	request *Request
	id      string
	content []contentBlock
	stop    string
	charge  Charge
	output  int // tokens
	thought int // tokens of it
	search  int // searches
}

// contentBlock is one block of the content. Members are in the provider's order.
type contentBlock struct {
	Type      string           `json:"type"`
	Thinking  *string          `json:"thinking,omitempty"`
	Signature *string          `json:"signature,omitempty"`
	Data      string           `json:"data,omitempty"`
	Citations *[]any           `json:"citations,omitempty"`
	Text      *string          `json:"text,omitempty"`
	ID        string           `json:"id,omitempty"`
	Name      string           `json:"name,omitempty"`
	Input     *json.RawMessage `json:"input,omitempty"`
	ToolUseID string           `json:"tool_use_id,omitempty"`
	Content   []any            `json:"content,omitempty"`
}

// redactedThought is the line of a thought that becomes a redacted_thinking block.
const redactedThought = "redacted"

// NewMessage makes an answer out of the reply of the model.
func NewMessage(r *Request, reply *completion.Reply, charge Charge) *Message {
	m := &Message{reply: reply, request: r, charge: charge}
	m.id = m.named("msg_", "message")
	candidate := reply.Candidates[0]
	m.output, m.thought = reply.Output()
	if r.MaxTokens == 0 {
		m.output, m.thought, m.stop = 0, 0, "max_tokens"
		return m
	}
	thoughts := map[int][]contentBlock{}
	var signatures []string
	for i, p := range candidate.Parts {
		if !p.Thought {
			continue
		}
		thoughts[i] = m.thinking(completion.Name("thinking", i), p.Text)
		for _, block := range thoughts[i] {
			signatures = append(signatures, block.signature())
		}
	}
	called := false
	for i, p := range candidate.Parts {
		switch {
		case p.Thought:
			m.content = append(m.content, thoughts[i]...)
		case p.Call != nil && called && !r.Parallel:
		case p.Call != nil:
			called = true
			input := p.Call.Args
			if input == nil {
				input = json.RawMessage("{}")
			}
			id := r.in.Signer.CallID(reply.ID(completion.Name("call", i), 22), r.Model.ID, signatures)
			if r.in.vertex {
				id = strings.Replace(id, idPrefix, vertexCallID, 1)
			}
			m.content = append(m.content, contentBlock{Type: "tool_use", ID: id, Name: p.Call.Name, Input: &input})
		case r.Search() && cites(candidate, p):
			m.searched(candidate, p.Text)
		case p.Image == nil:
			m.content = append(m.content, contentBlock{Type: "text", Text: new(p.Text)})
		}
	}
	m.finish(candidate, called)
	return m
}

// ID returns the ID of the message.
func (m *Message) ID() string { return m.id }

// named returns the ID of a part of the answer.
func (m *Message) named(prefix, name string) string {
	if m.request.in.vertex {
		prefix += vertexMark
	}
	return prefix + "01" + m.reply.ID(name, 22)
}

// Content returns the content as JSON.
func (m *Message) Content() []byte { return encode(append([]contentBlock{}, m.content...)) }

// thinking returns the blocks of a thought. A line that is only the word redacted is a block that
// hides its text.
func (m *Message) thinking(name, thought string) []contentBlock {
	signer := m.request.in.Signer
	var out []contentBlock
	add := func(text string) {
		id := m.reply.ID(completion.Name(name, len(out)), 22)
		if text == redactedThought {
			out = append(out, contentBlock{Type: "redacted_thinking", Data: signer.Redact(id)})
			return
		}
		if !m.request.Thinking.Shown {
			text = ""
		}
		out = append(out, contentBlock{Type: "thinking", Thinking: &text, Signature: new(signer.Sign(id, text))})
	}
	var shown []string
	for _, line := range strings.Split(thought, "\n") {
		if line != redactedThought {
			shown = append(shown, line)
			continue
		}
		if len(shown) > 0 {
			add(strings.Join(shown, "\n"))
		}
		add(line)
		shown = nil
	}
	if len(shown) > 0 {
		add(strings.Join(shown, "\n"))
	}
	return out
}

// signature returns the part of a thinking block that identifies it.
func (b contentBlock) signature() string {
	if b.Signature != nil {
		return *b.Signature
	}
	return b.Data
}

// cites reports whether a text is the one that the sources of the answer support.
func cites(c completion.Candidate, p completion.Part) bool {
	return len(c.Sources) > 0 && p.Image == nil && len(p.Text) == c.Sources[len(c.Sources)-1].End
}

// searched adds a search of the provider, its results, and the text of each source.
func (m *Message) searched(c completion.Candidate, text string) {
	m.search = 1
	id := m.named("srvtoolu_", "search")
	query := json.RawMessage(encode(map[string]string{"query": c.Query}))
	var results []any
	for i, s := range c.Sources {
		results = append(results, map[string]any{"type": "web_search_result", "title": s.Title, "url": "https://" + s.Title + "/",
			"encrypted_content": m.reply.ID(completion.Name("page", i), 40), "page_age": nil})
	}
	m.content = append(m.content, contentBlock{Type: "server_tool_use", ID: id, Name: "web_search", Input: &query},
		contentBlock{Type: "web_search_tool_result", ToolUseID: id, Content: results})
	done := 0
	for i, s := range c.Sources {
		citation := any(map[string]any{"type": "web_search_result_location", "url": "https://" + s.Title + "/", "title": s.Title,
			"encrypted_index": m.reply.ID(completion.Name("index", i), 24), "cited_text": text[s.Start:s.End]})
		m.content = append(m.content, contentBlock{Type: "text", Text: new(text[done:s.End]), Citations: &[]any{citation}})
		done = s.End
	}
}

// stopReasons are the legal values of stop_reason. The directive finish may name one of them.
var stopReasons = []string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"}

// finish translates the finish reason.
func (m *Message) finish(c completion.Candidate, called bool) {
	switch {
	case slices.Contains(stopReasons, c.Finish):
		m.stop = c.Finish
	case m.reply.Block != "" || c.Finish == "SAFETY":
		m.stop = "refusal"
	case c.Finish == "MAX_TOKENS" && m.request.Tokens+m.output >= m.request.Model.Context:
		m.stop = "model_context_window_exceeded"
	case c.Finish == "MAX_TOKENS":
		m.stop = "max_tokens"
	case c.Stop != "":
		m.stop = "stop_sequence"
	case called:
		m.stop = "tool_use"
	default:
		m.stop = "end_turn"
	}
	if m.stop == "pause_turn" && m.request.Search() && m.search == 0 {
		m.content = append(m.content, contentBlock{Type: "server_tool_use", ID: m.named("srvtoolu_", "search"), Name: "web_search",
			Input: new(json.RawMessage(`{"query":"more"}`))})
	}
}

// ending has the members of an answer that are known at its end.
type ending struct {
	Reason   *string `json:"stop_reason"`
	Sequence *string `json:"stop_sequence"`
	Details  any     `json:"stop_details"`
}

func (m *Message) ending() ending {
	e := ending{Reason: &m.stop}
	if m.stop == "stop_sequence" {
		e.Sequence = new(m.reply.Candidates[0].Stop)
	}
	if m.stop == "refusal" {
		e.Details = struct {
			Type        string `json:"type"`
			Category    string `json:"category"`
			Explanation string `json:"explanation"`
		}{"refusal", "general_harms", "The request was refused."}
	}
	return e
}

type cacheCreation struct {
	Short int `json:"ephemeral_5m_input_tokens"`
	Long  int `json:"ephemeral_1h_input_tokens"`
}

// usage has the members of the usage. Those at the end are only in the whole message and in the
// event message_start.
type usage struct {
	Input    int            `json:"input_tokens"`
	Creation int            `json:"cache_creation_input_tokens"`
	Read     int            `json:"cache_read_input_tokens"`
	Parts    *cacheCreation `json:"cache_creation,omitempty"`
	Output   int            `json:"output_tokens"`
	Details  map[string]int `json:"output_tokens_details,omitempty"`
	Tools    map[string]int `json:"server_tool_use,omitempty"`
	Tier     string         `json:"service_tier,omitempty"`
	Geo      string         `json:"inference_geo,omitempty"`
	Speed    string         `json:"speed,omitempty"`
}

// usage returns the counts at the end of the answer, or at its start. It is nil by the fault that
// leaves it out.
func (m *Message) usage(end bool) *usage {
	if m.reply.NoUsage {
		return nil
	}
	u := &usage{Input: m.charge.Input, Creation: m.charge.Write5m + m.charge.Write1h, Read: m.charge.Read, Output: min(m.output, 1)}
	if end {
		u.Output = m.output
		u.Details = map[string]int{"thinking_tokens": m.thought}
		if m.search > 0 {
			u.Tools = map[string]int{"web_search_requests": m.search, "web_fetch_requests": 0}
		}
	}
	return u
}

func (u *usage) complete(m *Message) *usage {
	if u != nil {
		u.Parts = &cacheCreation{m.charge.Write5m, m.charge.Write1h}
		u.Tier, u.Geo, u.Speed = "standard", "global", m.request.root.get("speed").text()
	}
	return u
}

// body is a whole message, or the message of the event message_start.
type body struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Role    string         `json:"role"`
	Model   string         `json:"model"`
	Content []contentBlock `json:"content"`
	ending
	Usage *usage         `json:"usage,omitempty"`
	Edits map[string]any `json:"context_management,omitempty"`
}

func (m *Message) body() body {
	return body{ID: m.id, Type: "message", Role: "assistant", Model: m.request.Model.ID, Content: []contentBlock{}}
}

func (m *Message) edits() map[string]any {
	if !m.request.Edits {
		return nil
	}
	return map[string]any{"applied_edits": []any{}}
}

// Whole returns the answer in one piece.
func (m *Message) Whole() []byte {
	b := m.body()
	b.Content = append(b.Content, m.content...)
	if !m.reply.NoFinish {
		b.ending = m.ending()
	}
	b.Usage, b.Edits = m.usage(true).complete(m), m.edits()
	return encode(b)
}

// Events returns the answer as the events of a stream.
func (m *Message) Events() []completion.Event {
	start := m.body()
	start.Usage = m.usage(false).complete(m)
	out := []completion.Event{event("message_start", "message", start)}
	for i, b := range m.content {
		out = append(out, m.blockEvents(i, b)...)
	}
	if m.reply.NoFinish {
		return out
	}
	if m.reply.Usage == "late" {
		out = append(out, m.lastDelta(false))
	}
	out = append(out, m.lastDelta(true))
	if m.reply.DuplicateFinish {
		out = append(out, m.lastDelta(true))
	}
	return append(out, completion.Event{Name: "message_stop", Data: []byte(`{"type":"message_stop"}`)})
}

// event returns an event with one member beside its type.
func event(name, member string, value any) completion.Event {
	return completion.Event{Name: name, Data: fmt.Appendf(nil, `{"type":"%s","%s":%s}`, name, member, encode(value))}
}

func (m *Message) lastDelta(end bool) completion.Event {
	return completion.Event{Name: "message_delta", Data: encode(struct {
		Type  string         `json:"type"`
		Delta ending         `json:"delta"`
		Usage *usage         `json:"usage,omitempty"`
		Edits map[string]any `json:"context_management,omitempty"`
	}{"message_delta", m.ending(), m.usage(end), m.edits()})}
}

// blockEvent is an event about one block.
type blockEvent struct {
	Type  string        `json:"type"`
	Index int           `json:"index"`
	Block *contentBlock `json:"content_block,omitempty"`
	Delta *delta        `json:"delta,omitempty"`
}

func (e blockEvent) event() completion.Event { return completion.Event{Name: e.Type, Data: encode(e)} }

// delta is a change of a block: a type, and one member.
type delta struct {
	kind, member string
	value        any
}

func (d delta) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"type":"%s","%s":%s}`, d.kind, d.member, encode(d.value)), nil
}

// blockEvents returns the events of one block. The start of the first is followed by a ping.
func (m *Message) blockEvents(index int, b contentBlock) []completion.Event {
	empty := b
	var deltas []delta
	switch b.Type {
	case "thinking":
		empty.Thinking, empty.Signature = new(""), new("")
		deltas = append(m.thoughts(*b.Thinking), delta{"signature_delta", "signature", *b.Signature})
	case "text":
		empty.Text = new("")
		if b.Citations != nil {
			empty.Citations = &[]any{}
			deltas = append(deltas, delta{"citations_delta", "citation", (*b.Citations)[0]})
		}
		for _, piece := range m.reply.Pieces(*b.Text) {
			deltas = append(deltas, delta{"text_delta", "text", piece})
		}
	case "tool_use", "server_tool_use":
		empty.Input = new(json.RawMessage("{}"))
		deltas = m.arguments(*b.Input)
	}
	out := []completion.Event{blockEvent{Type: "content_block_start", Index: index, Block: &empty}.event()}
	if index == 0 {
		out = append(out, completion.Event{Name: "ping", Data: []byte(`{"type":"ping"}`)})
	}
	for _, d := range deltas {
		out = append(out, blockEvent{Type: "content_block_delta", Index: index, Delta: &d}.event())
	}
	return append(out, blockEvent{Type: "content_block_stop", Index: index}.event())
}

// thoughts returns the deltas of a thinking text; none if it is omitted.
func (m *Message) thoughts(text string) (out []delta) {
	if text == "" {
		return nil
	}
	sofar := ""
	for _, piece := range m.reply.Pieces(text) {
		sofar += piece
		if m.reply.Repeated {
			piece = sofar
		}
		out = append(out, delta{"thinking_delta", "thinking", piece})
	}
	return out
}

// arguments returns the deltas of the input of a tool: an empty one, and then member by member.
func (m *Message) arguments(input json.RawMessage) []delta {
	out := []delta{{"input_json_delta", "partial_json", ""}}
	add := func(text []byte) {
		for _, piece := range m.reply.Pieces(string(text)) {
			out = append(out, delta{"input_json_delta", "partial_json", piece})
		}
	}
	done := 0
	for _, member := range parse(input).kids {
		end := cap(input) - cap(member.raw) + len(member.raw) // the member aliases the input
		add(input[done:end])
		done = end
	}
	add(input[done:])
	return out
}

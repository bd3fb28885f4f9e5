package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/lib/wire"
)

var errFull = errors.New("no memory")

// A share is a lease of limited memory.
type share struct{ used, limit int64 }

func (s *share) Grow(n int64) error {
	if s.used+n > s.limit {
		return errFull
	}
	s.used += n
	return nil
}

func (s *share) Shrink(n int64) { s.used -= n }

// growingAnswers are streams of which the decoders keep what the chunk with %s says until the answer
// is complete.
var growingAnswers = []struct {
	name    string
	decoder func() decoder
	begin   []string
	chunk   string
	end     []string // what releases it; empty if it is kept to the end of the answer
}{
	{"arguments in Chat", func() decoder { return new(chat.Decoder) },
		[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":\""}}]}}]}`},
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]}}]}`,
		[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}}]}`, `{"choices":[{"finish_reason":"tool_calls"}]}`}},
	{"text after a call in Chat", func() decoder { return new(chat.Decoder) },
		[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`},
		`{"choices":[{"delta":{"content":"%s"}}]}`, []string{`{"choices":[{"finish_reason":"tool_calls"}]}`}},
	{"reasoning details in Chat", func() decoder { return new(chat.Decoder) }, nil,
		`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"%s"}]}}]}`, nil},
	{"separate details in Chat", func() decoder { return new(chat.Decoder) }, nil,
		`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"%s"}]}}]}`, nil},
	{"arguments in Responses", func() decoder { return responses.NewDecoder(true) },
		[]string{`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"a","name":"f"}}`},
		`{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":0,"delta":"%s"}`,
		[]string{`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"a","name":"f","arguments":"{}"}}`}},
	{"text after a call in Responses", func() decoder { return responses.NewDecoder(true) },
		[]string{`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"a","name":"f"}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":0,"delta":"{"}`},
		`{"type":"response.output_text.delta","item_id":"m","output_index":1,"content_index":0,"delta":"%s"}`,
		[]string{`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"a","name":"f","arguments":"{}"}}`}},
	{"input in Messages", func() decoder { return new(anthropic.Decoder) },
		[]string{`{"type":"message_start","message":{}}`, `{"type":"content_block_start","content_block":{"type":"tool_use","id":"a","name":"f"}}`},
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"%s"}}`, []string{`{"type":"content_block_stop"}`}},
	{"searches in Messages", func() decoder { return new(anthropic.Decoder) }, []string{`{"type":"message_start","message":{}}`},
		`{"type":"content_block_start","content_block":{"type":"web_search_tool_result","content":[{"url":"%s"}]}}`, nil},
}

// What a decoder keeps of a streamed answer counts against the memory budget until it is released,
// and no longer than the answer.
func TestKeptAnswersCountAgainstTheMemoryBudget(t *testing.T) {
	const piece, enough = 8 << 10, 64
	for _, c := range growingAnswers {
		chunk := func(i int) []byte {
			return fmt.Appendf(nil, c.chunk, fmt.Sprint(i)+strings.Repeat("x", piece))
		}
		memory := &share{limit: 1 << 30}
		origin := &perigee.Origin{Memory: memory}
		begin := func() *answer {
			a := &answer{relay: wire.NewRelay(origin, func(perigee.Event, error) bool { return true }), origin: origin, decoder: c.decoder()}
			for _, data := range c.begin {
				if err := a.Chunk([]byte(data), false); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
			}
			return a
		}
		a := begin()
		for i := range enough {
			if err := a.Chunk(chunk(i), false); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if memory.used < enough*piece || memory.used > 4*enough*piece {
			t.Errorf("%s: %d bytes are reserved for %d", c.name, memory.used, enough*piece)
		}
		for _, data := range c.end {
			if err := a.Chunk([]byte(data), false); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if len(c.end) > 0 && memory.used > 2*keptStep {
			t.Errorf("%s: %d bytes are reserved after it", c.name, memory.used)
		}
		if a.release(); memory.used != 0 {
			t.Errorf("%s: %d bytes stay reserved", c.name, memory.used)
		}

		memory.limit = enough * piece / 2
		a = begin()
		var err error
		for i := 0; i < enough && err == nil; i++ {
			err = a.Chunk(chunk(i), false)
		}
		if !errors.Is(err, errFull) {
			t.Errorf("%s: %v with half the memory", c.name, err)
		}
	}
}

// Each choice counts, too: a chunk may have many.
func TestChoicesCountAgainstTheMemoryBudget(t *testing.T) {
	const n = 10_000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"index":%d}`, i)
	}
	memory := &share{limit: 1 << 30}
	origin := &perigee.Origin{Memory: memory}
	a := answer{relay: wire.NewRelay(origin, func(perigee.Event, error) bool { return true }), origin: origin, decoder: new(chat.Decoder)}
	if err := a.Chunk([]byte(`{"choices":[`+b.String()[1:]+`]}`), false); err != nil || memory.used < 100*n {
		t.Errorf("%d bytes are reserved for %d choices: %v", memory.used, n, err)
	}
}

package anthropic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
	"perigee/internal/simulator/rules"
)

// agentBody builds a request of about size bytes as coding agents send it: a long system prompt, a
// few dozen tools with schemas, and a conversation of calls and results.
func agentBody(size int) []byte {
	prose := func(n int) string {
		return strings.Repeat("The gateway keeps the order of parts; a \\\"quoted\\\" word\\n", n/56+1)
	}
	var b strings.Builder
	b.WriteString(`{"model":"claude-sonnet-4-5","max_tokens":32000,"stream":true,"thinking":{"type":"enabled","budget_tokens":31999,"display":"omitted"},` +
		`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"metadata":{"user_id":"{\"session_id\":\"s\"}"},` +
		`"system":[{"type":"text","text":"one"},{"type":"text","text":"` + prose(size/6) + `","cache_control":{"type":"ephemeral"}}],"tools":[`)
	for i := range 25 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"%s","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{`+
			`"path":{"type":"string","description":"%s"},"limit":{"type":"integer","exclusiveMinimum":0},"mode":{"anyOf":[{"const":"a"},{"const":"b"}]}},"required":["path"],"additionalProperties":false}}`,
			i, prose(size/100), prose(size/400))
	}
	b.WriteString(`],"messages":[{"role":"user","content":[{"type":"text","text":"` + prose(size/20) + `"}]}`)
	for i := 0; b.Len() < size-200; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"perigee.1.call.c2VhbA=="},{"type":"text","text":"Let me look."},{"type":"tool_use","id":"toolu_%d","name":"tool_1","input":{"path":"/a/b.go","limit":%d}}]}`+
			`,{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":"%s","is_error":false}]}`, i, i, i, prose(700))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// TestAgentsAreServed: what agents ordinarily send needs no notes, and a strict provider takes what
// becomes of it.
func TestAgentsAreServed(t *testing.T) {
	body, notes := decode(t, string(agentBody(100<<10)))
	if notes != "" {
		t.Error(notes)
	}
	models := rules.ModelTable()
	i := slices.IndexFunc(models, func(m rules.Model) bool { return m.ID == "gemini-2.5-pro" })
	_, refusal := rules.Check(rules.Input{Surface: rules.V1Beta, Model: models[i], Body: []byte(body), Switches: rules.StrictSwitches(),
		Verify: func(seal string) (rules.Family, bool) { return rules.Gemini2, seal == "c2VhbA==" }})
	if refusal != nil {
		t.Error(refusal)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{10 << 10, 100 << 10, 1 << 20, 10 << 20} {
		body := agentBody(size)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := decodeWhole(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDecodeRequest is what a request costs that is forwarded.
func BenchmarkDecodeRequest(b *testing.B) {
	body := agentBody(100 << 10)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := DecodeRequest(perigee.Origin{Body: body}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck is the part of Decode that only validates.
func BenchmarkCheck(b *testing.B) {
	body := agentBody(100 << 10)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := rawjson.Check(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRequest(b *testing.B) {
	body := agentBody(100 << 10)
	req, _, err := decodeWhole(body)
	if err != nil {
		b.Fatal(err)
	}
	prompt, err := req.Prompt()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		gemini.EncodeRequest(prompt)
	}
}

// BenchmarkHostile decodes what would cost the square of its size if something were searched for
// each time.
func BenchmarkHostile(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		var s strings.Builder
		s.WriteString(`{"messages":[{"role":"assistant","content":[`)
		for i := range n {
			fmt.Fprintf(&s, `{"type":"tool_use","id":"%d","name":"f","input":{},"x%d":1},`, i, i)
		}
		s.WriteString(`{"type":"text","text":"a"}]},{"role":"user","content":[`)
		for i := range n {
			fmt.Fprintf(&s, `{"type":"tool_result","tool_use_id":"%d"},`, n-i)
		}
		s.WriteString(`{"type":"text","text":"a"}]}]}`)
		body := []byte(s.String())
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, _, err := decodeWhole(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	events := []perigee.Event{{Kind: perigee.EventStart, Model: "m"}}
	for range 1000 {
		events = append(events, perigee.Event{Kind: perigee.EventText, Text: "some words of an answer, as they come\n"})
	}
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		s := NewStream(&Answer{ID: "1"})
		buf := make([]byte, 0, 4096)
		size = 0
		for i := range events {
			buf = s.Encode(buf[:0], &events[i])
			size += len(buf)
		}
		size += len(s.End(buf[:0]))
	}
	b.SetBytes(int64(size))
}

package chat

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
)

// agentBody is a request as agents send it: a long system prompt, tools with schemas, a history of
// calls and results.
func agentBody(size int) []byte {
	var b strings.Builder
	prose := strings.Repeat("Keep the order of parts, and return every tool's \\\"result\\\".\\n", 8)
	fmt.Fprintf(&b, `{"model":"gemini-2.5-pro","stream":true,"stream_options":{"include_usage":true},"max_tokens":8192,"tool_choice":"auto","tools":[`)
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"%s","parameters":{"type":"object","properties":{"path":{"type":"string","description":"a path"},"limit":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}}}`, i, prose)
	}
	fmt.Fprintf(&b, `],"messages":[{"role":"system","content":"%s"},{"role":"user","content":"Fix the bug."}`, strings.Repeat(prose, 10))
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"I look at file %d.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool_%d","arguments":"{\"path\":\"src/main_%d.go\",\"limit\":100}"}}]}`, i, i, i%12, i)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%d","content":"%s"}`, i, prose)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkDecodeRequest(b *testing.B) {
	for _, size := range []int{10 << 10, 100 << 10, 10 << 20} {
		body := agentBody(size)
		for _, forwarded := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dKB/forwarded=%v", len(body)>>10, forwarded), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					req, err := DecodeRequest(perigee.Origin{Body: body})
					if err == nil && !forwarded {
						_, err = req.Prompt()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkEncodeGemini(b *testing.B) {
	body := agentBody(100 << 10)
	_, prompt := decode(b, string(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		gemini.EncodeRequest(prompt)
	}
}

func BenchmarkStream(b *testing.B) {
	text := perigee.Event{Kind: perigee.EventText, Text: "The answer goes on, a few words in each piece of it. "}
	b.ReportAllocs()
	stream := NewStream(Answer{ID: "chatcmpl-1", Created: 1, Model: "gemini-2.5-pro"})
	var buf []byte
	for b.Loop() {
		buf = stream.Encode(buf[:0], &text)
	}
	b.SetBytes(int64(len(buf)))
}

// Requests that are large in any one way cost in proportion to their size: twice the size must not
// cost much more than twice the work, which is counted in allocations because time is not
// repeatable.
func TestIsLinear(t *testing.T) {
	many := func(n int, item func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(item(i))
		}
		return b.String()
	}
	for name, body := range map[string]func(n int) string{
		"turns": func(n int) string { return string(agentBody(n * 100)) },
		"calls answered in reverse": func(n int) string {
			calls := many(n, func(i int) string { return "," + callOf(fmt.Sprint(i), "f") })
			results := many(n, func(i int) string { return "," + answering(fmt.Sprint(n-i-1), "a") })
			return talking(userHi, calling(calls[1:])) + "\x00" + results
		},
		"results without calls": func(n int) string {
			return talking(userHi, calling(callOf("x", "f"))) + "\x00" + many(n, func(i int) string { return "," + answering(fmt.Sprint(i), "a") })
		},
		"unknown members": func(n int) string {
			return saying(many(n, func(i int) string { return fmt.Sprintf(`,"novelty_%d":1`, i) }))
		},
		"tools": func(n int) string {
			list := many(n, func(i int) string { return fmt.Sprintf(`,{"type":"function","function":{"name":"f%d"}}`, i) })
			return saying(`,"tools":[` + list[1:] + `]`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) float64 {
				text := body(n)
				if head, results, ok := strings.Cut(text, "\x00"); ok { // results go inside messages
					text = strings.TrimSuffix(head, "]}") + results + "]}"
				}
				decode(t, text)
				return testing.AllocsPerRun(1, func() {
					if req, err := DecodeRequest(perigee.Origin{Body: []byte(text)}); err == nil {
						_, _ = req.Prompt()
					}
				})
			}
			if small, large := cost(1000), cost(4000); large > 6*small+100 {
				t.Errorf("%v allocations grow to %v when the request grows fourfold", small, large)
			}
		})
	}
}

package responses

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
)

// agentBody is a body as an agent sends it late in its loop: n steps of thinking, a call and its
// answer, and a dozen tools. Sixty steps make about 100 KB.
func agentBody(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"gemini-3-flash","stream":true,"store":false,"include":["reasoning.encrypted_content"],"instructions":"`)
	b.WriteString(strings.Repeat(`Be careful with \"files\".\n`, 400))
	b.WriteString(`","tools":[`)
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","name":"tool_%d","description":%q,"strict":false,"parameters":{"type":"object","properties":{"path":{"type":"string","description":"where"},"lines":{"type":"array","items":{"type":"integer"}}},"required":["path"],"additionalProperties":false}}`,
			i, strings.Repeat("does something useful ", 40))
	}
	b.WriteString(`],"input":[{"role":"user","content":[{"type":"input_text","text":"Fix the bug."}]}`)
	for i := range n {
		carrier := encodeCarrier("I should look at the file next.", "",
			callSignature{fmt.Sprintf("call_%d", i), strings.Repeat("c2VhbA==", 20)})
		fmt.Fprintf(&b, `,{"id":"rs_%d","type":"reasoning","summary":[],"encrypted_content":%q}`, i, carrier)
		fmt.Fprintf(&b, `,{"type":"function_call","call_id":"call_%d","name":"tool_%d","arguments":"{\"path\":\"src/file_%d.go\",\"lines\":[1,2,3]}"}`, i, i%12, i)
		fmt.Fprintf(&b, `,{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, i, strings.Repeat(`\tif err != nil {\n\t\treturn err\n\t}\n`, 20))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// BenchmarkDecodeRequest decodes a request that is forwarded, and one that is translated.
func BenchmarkDecodeRequest(b *testing.B) {
	for _, n := range []int{60, 600, 6000} {
		for _, translated := range []bool{false, true} {
			body := agentBody(n)
			b.Run(fmt.Sprintf("%dKB/translated=%v", len(body)>>10, translated), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					req, err := DecodeRequest(perigee.Origin{Body: body}, nil)
					if err == nil && translated {
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

// Schemas of ten megabytes cost in proportion to what they weigh.
func BenchmarkDecodeSchemas(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		var body strings.Builder
		body.WriteString(`{"input":"hi","tools":[{"type":"namespace","name":"a","tools":[`)
		for i := range n {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"type":"function","name":"f%d","parameters":{"type":"object","properties":{%s"z":{}}}}`, i, strings.Repeat(fmt.Sprintf(`"p%d":{"type":"string","description":"something"},`, i), 1)+strings.Repeat(" ", 900))
		}
		body.WriteString(`]}]}`)
		raw := []byte(body.String())
		b.Run(fmt.Sprintf("%dKB", len(raw)>>10), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				req, err := DecodeRequest(perigee.Origin{Body: raw}, nil)
				if err == nil {
					_, err = req.Prompt()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeGemini(b *testing.B) {
	_, prompt := decode(b, string(agentBody(60)))
	b.SetBytes(int64(len(gemini.EncodeRequest(prompt))))
	b.ReportAllocs()
	for b.Loop() {
		gemini.EncodeRequest(prompt)
	}
}

// BenchmarkStream writes an answer of 100 KB in a thousand pieces.
func BenchmarkStream(b *testing.B) {
	req, _ := decode(b, string(agentBody(1)))
	events := []perigee.Event{{Kind: perigee.EventStart, Model: "m"}}
	for range 1000 {
		events = append(events, textEvent(strings.Repeat("word \"x\"\n", 11)))
	}
	events = append(events, finishEvent("STOP"))
	b.SetBytes(99_000)
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		s := req.NewStream("call-1", now(), now)
		for i := range events {
			buf = s.Encode(buf[:0], &events[i])
		}
		buf = s.End(buf[:0])
	}
}

// BenchmarkBareItems looks for items to leave out of a request of 100 KB that has none.
func BenchmarkBareItems(b *testing.B) {
	body := []byte(`{"model":"m","store":false,"input":[` + strings.Repeat(`{"type":"function_call_output","call_id":"c","output":"`+strings.Repeat("x", 2000)+`"},`, 50) +
		`{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA","summary":[]},{"role":"user","content":"hi"}]}`)
	req, err := DecodeRequest(perigee.Origin{Body: body}, nil)
	if err != nil {
		b.Fatal(err)
	}
	index := rawjson.Index(req.Index)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if o := FindOwnItems(index, body); !o.Stateless || len(o.Without((*OwnItem).IsBare)) != len(body) {
			b.Fatal("changed")
		}
	}
}

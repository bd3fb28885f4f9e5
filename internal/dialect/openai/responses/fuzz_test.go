package responses

import (
	"encoding/json"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai"
	"perigee/internal/testing/perigeetest"
)

func FuzzDecodeRequest(f *testing.F) {
	for _, rule := range perigeetest.FieldRules(f, "rules.tsv") {
		f.Add([]byte(rule.Example))
	}
	if archive, err := txtar.ParseFile("testdata/clients.txtar"); err == nil {
		for _, file := range archive.Files {
			if len(file.Data) < 4000 {
				f.Add(file.Data)
			}
		}
	}
	stored := &perigee.StoredResponse{
		Input:  []byte(`[{"id":"msg_1_i0","type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]`),
		Output: []byte(`[{"id":"fc_1_0","type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]`),
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := DecodeRequest(perigee.Origin{Body: body}, func(string) (*perigee.StoredResponse, error) { return stored, nil })
		var prompt *perigee.Prompt
		if err == nil {
			prompt, err = req.Prompt()
		}
		if err != nil {
			if e := perigee.AsError(err); e.Class != perigee.ClassInvalid && e.Class != perigee.ClassNotFound {
				t.Fatalf("%s: %v", e.Class, err)
			}
			if !json.Valid(openai.EncodeError(400, perigee.AsError(err))) {
				t.Fatalf("the error is no JSON: %v", err)
			}
			return
		}
		if out := gemini.EncodeRequest(prompt); !json.Valid(out) {
			t.Fatalf("not JSON: %s", out)
		}
		if items := req.InputItems("call-1"); !json.Valid(items) {
			t.Fatalf("not JSON: %s", items)
		}
		run(t, req, []perigee.Event{thoughtEvent("hm", ""), textEvent("x"), finishEvent("STOP")})
	})
}

// FuzzStream feeds the encoder with events in any order: each byte of the script is one, with a
// piece of the text.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "some text\n\"with\" é", `{"input":"x"}`, byte(0))
	f.Add([]byte{2, 2, 5, 2, 4, 4, 1}, "a", `{`, byte(3))
	f.Add([]byte{1, 7, 8, 9, 1, 7}, "a\xffb", `null`, byte(7))
	bodies := []string{`"store":false`, `"store":true`, `"include":["reasoning.encrypted_content"]`, `"reasoning":{"summary":"auto"}`}
	f.Fuzz(func(t *testing.T, script []byte, text, raw string, options byte) {
		if len(script) > 50 || len(text)+len(raw) > 1000 { // longer ones only take longer
			return
		}
		body := `{"input":"hi",` + bodies[options&3] + `,"tools":[{"type":"custom","name":"patch"},{"type":"web_search"},{"type":"tool_search","execution":"client"}]}`
		req, _ := decode(t, body)
		if !json.Valid([]byte(raw)) {
			raw = `{}`
		}
		var events []perigee.Event
		for i, b := range script {
			piece := text[min(len(text), i%7):]
			ev := perigee.Event{Kind: perigee.EventKind(b%13 + 1), Text: piece, Model: "m", Thought: b&64 != 0}
			if b&32 != 0 {
				ev.Signature = "c2VhbA=="
			}
			switch ev.Kind {
			case perigee.EventFrame:
				ev.Frame = []byte(raw)
			case perigee.EventCall:
				ev.Call = &perigee.FunctionCall{ID: piece, Name: []string{"patch", "tool_search", "other"}[i%3], Args: json.RawMessage(raw)}
			case perigee.EventBlob:
				ev.Blob = &perigee.Blob{MIME: text, Data: piece}
			case perigee.EventPart:
				ev.Raw = json.RawMessage(raw)
			case perigee.EventGrounding:
				ev.Grounding = &perigee.Grounding{Queries: []string{text, raw}[:i%3], Sources: []perigee.Source{{URL: piece, Title: text}, {Title: raw}},
					Supports: []perigee.Support{{Start: i, End: int(b), Text: piece, Sources: []int64{1, int64(i), -1}}}[:i%2]}
			case perigee.EventLogprobs:
				ev.Logprobs = &perigee.Logprobs{Chosen: []perigee.Token{{Text: piece, Logprob: -float64(i)}}[:i%2], Top: [][]perigee.Token{{{Text: raw}}}}
			case perigee.EventUsage:
				ev.Usage = &perigee.Usage{Input: int64(b)}
			case perigee.EventFinish:
				ev.Finish = &perigee.Finish{Kind: perigee.FinishKind(b % 7), Reason: text, Message: piece}
			}
			events = append(events, ev)
		}
		run(t, req, events)
	})
}

package anthropic

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
	"perigee/internal/testing/perigeetest"
)

// FuzzDecodeRequest: whatever comes, it is refused as invalid or becomes a prompt that can be sent.
func FuzzDecodeRequest(f *testing.F) {
	for _, rule := range perigeetest.FieldRules(f, "rules.tsv") {
		f.Add([]byte(rule.Example))
	}
	f.Add(agentBody(2000))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, _, err := decodeWhole(body)
		if err != nil {
			if perigee.AsError(err).Class != perigee.ClassInvalid {
				t.Fatalf("%s: %v", body, err)
			}
			return
		}
		prompt, err := req.Prompt()
		if err != nil {
			t.Fatal(err)
		}
		if err := rawjson.Check(gemini.EncodeRequest(prompt)); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		prompt.EstimateTokens()
	})
}

// FuzzAnswer: whatever events come, a client makes the same valid message of the stream and of the
// whole.
func FuzzAnswer(f *testing.F) {
	f.Add(uint8(1), "tskcCbgpfTu", "text", "seal", `{"a":[]}`)
	f.Add(uint8(2), "kkstp", "\xff\n", "", `{"codeExecutionResult":{"outcome":"x","output":"y"}}`)
	f.Add(uint8(0), "\x7f", "0", "0", "0")
	f.Add(uint8(0), "t\x1bt", "0", "0", `{"é":"\ud83d\ude00"}`)
	f.Add(uint8(3), "CCu", "{", "perigee.1.call.", `{"executableCode":{"code":"1"}}`)
	f.Fuzz(func(t *testing.T, display uint8, kinds, text, seal, raw string) {
		if len(kinds) > 50 || rawjson.Check([]byte(raw)) != nil { // upstreams yield JSON only
			return
		}
		var events []perigee.Event
		for i, k := range []byte(kinds) {
			ev := perigee.Event{Text: text, Signature: seal, More: i%3 == 0, Thought: k == 'B'}
			switch k {
			case 't':
				ev.Kind = perigee.EventText
			case 'k':
				ev.Kind = perigee.EventThinking
			case 's':
				ev.Kind = perigee.EventSignature
			case 'c':
				ev.Kind, ev.Call = perigee.EventCall, &perigee.FunctionCall{ID: text, Name: text}
			case 'C':
				ev.Kind, ev.Call = perigee.EventCall, &perigee.FunctionCall{Args: json.RawMessage(raw)}
			case 'b', 'B':
				ev.Kind, ev.Blob = perigee.EventBlob, &perigee.Blob{MIME: text, Data: raw}
			case 'g':
				ev.Kind, ev.Grounding = perigee.EventGrounding, &perigee.Grounding{Queries: []string{text, raw}, Sources: []perigee.Source{{URL: raw, Title: text}},
					Supports: []perigee.Support{{Text: text, Sources: []int64{0, int64(i), -1}}}}
			case 'p':
				ev.Kind, ev.Raw = perigee.EventPart, json.RawMessage(raw)
			case 'u':
				ev.Kind, ev.Usage = perigee.EventUsage, &perigee.Usage{Input: int64(i), Cached: int64(len(text)), Output: 3, Thinking: 1}
			case 'f':
				ev.Kind, ev.Finish = perigee.EventFinish, &perigee.Finish{Kind: perigee.FinishFiltered, Reason: "SAFETY", Message: text}
			default:
				ev.Kind = perigee.EventKind(k % 20)
				ev.Call, ev.Usage, ev.Finish, ev.Blob = &perigee.FunctionCall{}, &perigee.Usage{}, &perigee.Finish{}, &perigee.Blob{}
			}
			if ev.Kind == perigee.EventCallPart { // the pieces of an object, and the call
				args := "{}"
				if raw[0] == '{' && utf8.ValidString(raw) {
					args = raw
				}
				runes := []rune(args)
				ev.Text = string(runes[:len(runes)/2])
				events = append(events, ev)
				ev.Text = string(runes[len(runes)/2:])
				events = append(events, ev)
				ev.Kind, ev.Text, ev.Signature, ev.Call = perigee.EventCall, "", "", &perigee.FunctionCall{Args: json.RawMessage(args)}
			}
			events = append(events, ev)
		}
		both(t, Answer{ID: "1", Thinking: Display(display % 4)}, events)
	})
}

// FuzzRemove: whatever a client sends, its body stays JSON without the removed parts.
func FuzzRemove(f *testing.F) {
	f.Add([]byte(`{"tools":[{"type":"x_1"},{"name":"f","cache_control":{"scope":1,"a":2}}],"system":[{"cache_control":{"scope":1}}],"messages":[{"effort":1,"role":"user","content":[{"type":"call","name":"x"},{"type":"document","source":{"type":"url","url":"https://a"}}]}, {"content":"x","effort":2}]}`))
	f.Add([]byte(`{ "messages" : [ { "effort" : 1 , "content" : [ { "type":"result" } , 3 , { "content":[{"source":{"url":"a"}}] } ] } , 7 ] , "tools" : [ ] }`))
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := rawjson.Open(body, nil)
		if err != nil || doc.Cursor().Kind() != rawjson.Object {
			return
		}
		check := func(what string, edits []rawjson.Edit) []byte {
			out := rawjson.Splice(body, edits...)
			if err := rawjson.Check(out); err != nil {
				t.Fatalf("%s: %s became %s: %v", what, body, out, err)
			}
			return out
		}
		edits, _ := RemoveFromMessages(body, []string{"effort"}, []string{"call x", "result"})
		out := check("messages", edits)
		if _, removed := RemoveFromMessages(out, []string{"effort"}, []string{"call x", "result"}); len(removed) > 0 {
			t.Fatalf("%s became %s, which still has %v", body, out, removed)
		}
		edits, _, _ = RemoveTools(body, "x_")
		check("tools", edits)
		check("marks", RemoveFromMarks(body, "scope"))
		edits = nil
		for _, s := range Sources(doc, body) {
			edits = append(edits, rawjson.Edit{Start: s.Start, End: s.End, New: []byte("{}")})
		}
		out = check("sources", edits)
		if list := Sources(nil, out); len(list) > 0 {
			t.Fatalf("%s became %s, which still has %v", body, out, list)
		}
	})
}

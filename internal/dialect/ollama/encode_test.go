package ollama

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"perigee"
)

func text(s string) perigee.Part {
	return perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(s)}
}

func image(data string) perigee.Part {
	return perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: data}}
}

func TestEncodeRequest(t *testing.T) {
	thought := text("I think")
	thought.Thought = true
	call := func(id, name, args string) perigee.Part {
		return perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: id, Name: name, Args: json.RawMessage(args)}}
	}
	result := func(id, name, output string) perigee.Part {
		return perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: id, Name: name, Output: json.RawMessage(output)}}
	}
	user := func(parts ...perigee.Part) perigee.Content {
		return perigee.Content{Role: perigee.RoleUser, Parts: parts}
	}
	model := func(parts ...perigee.Part) perigee.Content {
		return perigee.Content{Role: perigee.RoleModel, Parts: parts}
	}
	const frame = `{"model":"m","messages":[M],"stream":true,A"truncate":false,"shift":false,"keep_alive":"30m0s","options":{"num_ctx":4096O}}`
	for name, c := range map[string]struct {
		prompt                    perigee.Prompt
		messages, answer, options string
	}{
		"texts": {prompt: perigee.Prompt{
			System:   &perigee.Content{Parts: []perigee.Part{text("be"), text("brief")}},
			Contents: []perigee.Content{user(text("a \"b\"")), model(text("c")), {Role: perigee.RoleSystem, Parts: []perigee.Part{text("now")}}, user(text("d"))},
		}, messages: `{"role":"system","content":"be\nbrief"},{"role":"user","content":"a \"b\""},{"role":"assistant","content":"c"},` +
			`{"role":"system","content":"now"},{"role":"user","content":"d"}`},
		"images": {prompt: perigee.Prompt{Contents: []perigee.Content{user(image("AAAA"), text("what?"), image("BBBB")), user(image("CCCC"))}},
			messages: `{"role":"user","content":"what?","images":["AAAA","BBBB"]},{"role":"user","content":"","images":["CCCC"]}`},
		"tool loop": {prompt: perigee.Prompt{
			Contents: []perigee.Content{user(text("time?")),
				model(thought, text("I look"), call("c1", "clock", `{"zone":"UTC","a":1}`), call("", "clock", "")),
				user(result("c1", "clock", `"12:00"`), result("", "clock", `"13:00"`), text("and?"))},
			Tools: []perigee.Tool{{Function: &perigee.Function{Name: "clock", Description: "tells the time", Parameters: json.RawMessage(`{"type":"object"}`)}}},
		}, messages: `{"role":"user","content":"time?"},{"role":"assistant","thinking":"I think","content":"I look","tool_calls":[` +
			`{"id":"c1","function":{"index":0,"name":"clock","arguments":{"zone":"UTC","a":1}}},{"function":{"index":1,"name":"clock","arguments":{}}}]},` +
			`{"role":"tool","content":"12:00","tool_name":"clock","tool_call_id":"c1"},{"role":"tool","content":"13:00","tool_name":"clock"},` +
			`{"role":"user","content":"and?"}`,
			answer: `"tools":[{"type":"function","function":{"name":"clock","description":"tells the time","parameters":{"type":"object"}}}],`},
		"options": {prompt: perigee.Prompt{Generation: perigee.Generation{
			Temperature: new(0.5), TopP: new(0.9), TopK: new(40.0), MaxOutputTokens: new(int64(100)), Seed: new(int64(7)),
			PresencePenalty: new(0.1), FrequencyPenalty: new(0.2), Stop: []string{"a", "b"}, ResponseMIME: "application/json",
			Thinking: &perigee.Thinking{Level: "none"}, Logprobs: new(int64(2)),
		}}, answer: `"format":"json","logprobs":true,"top_logprobs":2,"think":false,`,
			options: `,"num_predict":100,"temperature":0.5,"top_p":0.9,"top_k":40,"seed":7,"presence_penalty":0.1,"frequency_penalty":0.2,"stop":["a","b"]`},
		"schema and thinking": {prompt: perigee.Prompt{Generation: perigee.Generation{
			ResponseMIME: "application/json", ResponseJSON: json.RawMessage(`{"type":"object"}`), Thinking: &perigee.Thinking{Level: "high"},
		}}, answer: `"format":{"type":"object"},"think":"high",`},
		"thinking of any length": {prompt: perigee.Prompt{Generation: perigee.Generation{Thinking: &perigee.Thinking{}}}, answer: `"think":true,`},
	} {
		got := EncodeRequest(&c.prompt, Envelope{Model: "m", Stream: true, Context: 4096, KeepAlive: "30m0s"})
		want := strings.NewReplacer("M]", c.messages+"]", `A"`, c.answer+`"`, "O}", c.options+"}").Replace(frame)
		if string(got) != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// Long texts and images of a large prompt are not copied.
func TestEncodePiecesRefersToLongTexts(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	p := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{
		{Kind: perigee.PartText, Text: perigee.Escaped(long)}, image(long)}}}}
	pieces, buffer := EncodePieces(p, Envelope{Model: "m"}, func(size int) []byte { return make([]byte, 0, size) })
	if len(buffer) > 10_000 || len(bytes.Join(pieces, nil)) < 2<<20 {
		t.Errorf("%d bytes were copied into %d pieces of %d", len(buffer), len(pieces), len(bytes.Join(pieces, nil)))
	}
	if whole := EncodeRequest(p, Envelope{Model: "m"}); !bytes.Equal(whole, bytes.Join(pieces, nil)) || !json.Valid(whole) {
		t.Error("the pieces differ from the whole")
	}
}

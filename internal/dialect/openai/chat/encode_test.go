package chat

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// decodePrompt reads a request of a client.
func decodePrompt(t *testing.T, body []byte) (*Request, *perigee.Prompt) {
	t.Helper()
	req, err := DecodeRequest(perigee.Origin{ID: "r", Body: body})
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	prompt, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	return req, prompt
}

// normal returns a copy of a prompt without differences of form: escapes of texts, white space in
// JSON.
func normal(p *perigee.Prompt) *perigee.Prompt {
	n := *p
	parts := func(list []perigee.Part) []perigee.Part {
		var out []perigee.Part
		for _, part := range list {
			part.Text = perigee.Plain(rawjson.Unescaped(part.Text.Form()))
			if part.Call != nil {
				call := *part.Call
				call.Args, part.Call = compact(call.Args), &call
			}
			if part.Response != nil {
				r := *part.Response
				r.Output, part.Response = compact(r.Output), &r
			}
			out = append(out, part)
		}
		return out
	}
	if p.System != nil {
		n.System = &perigee.Content{Role: p.System.Role, Parts: parts(p.System.Parts)}
	}
	n.Contents, n.Lost = nil, nil
	for _, c := range p.Contents {
		c.Parts = parts(c.Parts)
		n.Contents = append(n.Contents, c)
	}
	n.Tools = nil
	for _, tool := range p.Tools {
		if tool.Function != nil {
			f := *tool.Function
			f.Parameters, tool.Function = compact(f.Parameters), &f
		}
		n.Tools = append(n.Tools, tool)
	}
	n.Generation.ResponseJSON = compact(n.Generation.ResponseJSON)
	n.Generation.LogitBias = compact(n.Generation.LogitBias)
	return &n
}

// compact returns JSON without white space and with the fewest escapes.
func compact(raw json.RawMessage) json.RawMessage {
	var value any
	if raw == nil || json.Unmarshal(raw, &value) != nil {
		return raw
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes())
}

// capturedBodies returns the Chat requests of real clients.
func capturedBodies(t *testing.T) map[string][]byte {
	t.Helper()
	bodies := map[string][]byte{}
	files, _ := filepath.Glob("../../../daemon/testdata/captures/*.jsonl.gz")
	for _, file := range files {
		packed, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(unpacked); lines.More(); {
			var c struct {
				Name, Path string
				Body       json.RawMessage
			}
			if err := lines.Decode(&c); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if c.Path == "/v1/chat/completions" {
				bodies[filepath.Base(file)+"/"+c.Name] = c.Body
			}
		}
		_ = packed.Close()
	}
	if len(bodies) < 10 {
		t.Fatalf("%d requests of clients", len(bodies))
	}
	return bodies
}

// A request that is read and written again is the same request.
func TestRequestsComeBack(t *testing.T) {
	bodies := capturedBodies(t)
	bodies["everything"] = []byte(everything)
	for name, body := range bodies {
		req, prompt := decodePrompt(t, body)
		written := EncodeRequest(prompt, Envelope{Model: req.Model, Stream: req.Stream, Form: Form{Reasoning: ReasoningContent}})
		again, read := decodePrompt(t, written)
		if again.Model != req.Model || again.Stream != req.Stream {
			t.Errorf("%s: model %s, stream %v", name, again.Model, again.Stream)
		}
		if want, got := normal(prompt), normal(read); !reflect.DeepEqual(want, got) {
			w, _ := json.MarshalIndent(want, "", " ")
			g, _ := json.MarshalIndent(got, "", " ")
			t.Errorf("%s: came back changed\n%s\nwas\n%s\nwritten\n%s", name, g, w, written)
		}
	}
}

// everything has each member that a Chat server takes.
const everything = `{"model":"gpt-5.2","stream":true,
"messages":[{"role":"system","content":"Be brief."},{"role":"system","content":[{"type":"text","text":"And kind.","cache_control":{"type":"ephemeral","ttl":"1h"}}]},
{"role":"user","name":"ada","content":[{"type":"text","text":"Look \u00e9\n\"quoted\""},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"high"}},
{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]},
{"role":"assistant","reasoning_content":"Hm.","content":"Wait.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"at\": \"<a>\"}"}},{"id":"call_2","type":"custom","custom":{"name":"patch","input":"*** Begin\n\t\"x\""}}]},
{"role":"tool","tool_call_id":"call_1","content":"a\nb"},{"role":"tool","tool_call_id":"call_2","content":"done"},
{"role":"developer","content":"Now in French."},{"role":"user","content":"Go on."}],
"tools":[{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object","properties":{"at":{"type":"string"}},"required":["at"],"additionalProperties":false},"strict":true}},
{"type":"custom","custom":{"name":"patch","description":"Patches.","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"x\""}}}}],
"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"look"}},{"type":"custom","custom":{"name":"patch"}}]}},
"parallel_tool_calls":false,"temperature":0.7,"top_p":0.9,"top_k":40,"max_completion_tokens":1000,"n":2,"seed":9007199254740993,"stop":["a","b"],"presence_penalty":0.5,"frequency_penalty":-0.5,
"logit_bias":{"50256":-100},"logprobs":true,"top_logprobs":3,"verbosity":"low","service_tier":"flex","reasoning_effort":"high",
"response_format":{"type":"json_schema","json_schema":{"name":"answer","description":"The answer.","strict":true,"schema":{"type":"object","properties":{},"additionalProperties":false}}}}`

// Servers write some members differently.
func TestForms(t *testing.T) {
	_, prompt := decodePrompt(t, []byte(`{"model":"m","messages":[{"role":"system","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"x"},
{"role":"assistant","reasoning_content":"","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}],
"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"required","max_tokens":5,"seed":1,"reasoning_effort":"none"}`))
	prompt.Contents[1].Parts = append([]perigee.Part{{Thought: true, Text: perigee.Plain("Hm.")}}, prompt.Contents[1].Parts...)
	const call = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}],` +
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],`
	for _, c := range []struct {
		name string
		form Form
		want string
	}{
		{"OpenAI", Form{Session: "prompt_cache_key"}, `{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"x"},{"role":"assistant","content":null,` +
			call + `"tool_choice":"required","max_completion_tokens":5,"seed":1,"reasoning_effort":"none","prompt_cache_key":"s"}`},
		{"DeepSeek", Form{MaxTokens: "max_tokens", Thinking: ThinkingSwitch, Reasoning: ReasoningContent, Joined: true},
			`{"model":"m","messages":[{"role":"system","content":"a\nb"},{"role":"user","content":"x"},{"role":"assistant","reasoning_content":"Hm.","content":null,` +
				call + `"tool_choice":"required","max_tokens":5,"seed":1,"thinking":{"type":"disabled"}}`},
		{"Mistral", Form{MaxTokens: "max_tokens", Seed: "random_seed", Required: "any", Reasoning: ReasoningParts},
			`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}],"closed":true}],` +
				call + `"tool_choice":"any","max_tokens":5,"random_seed":1,"reasoning_effort":"none"}`},
		{"OpenRouter", Form{MaxTokens: "max_tokens", Session: "session_id", Thinking: ThinkingObject, Reasoning: ReasoningField},
			`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"x"},{"role":"assistant","reasoning":"Hm.","content":null,` +
				call + `"tool_choice":"required","max_tokens":5,"seed":1,"reasoning":{"effort":"none"},"session_id":"s"}`},
	} {
		if got := string(EncodeRequest(prompt, Envelope{Model: "m", Form: c.form, Session: "s"})); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// Whatever can be read can be written, and what is written stays the same.
func FuzzEncodeRequest(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := DecodeRequest(perigee.Origin{ID: "r", Body: body})
		if err != nil {
			return
		}
		prompt, err := req.Prompt()
		if err != nil {
			return
		}
		envelope := Envelope{Model: "m", Form: Form{Reasoning: ReasoningContent}}
		first := EncodeRequest(prompt, envelope)
		if !json.Valid(first) {
			t.Fatalf("not JSON: %s\nfor %s", first, body)
		}
		again, err := DecodeRequest(perigee.Origin{ID: "r", Body: first})
		if err != nil {
			if len(prompt.Contents) == 0 {
				return
			}
			t.Fatalf("cannot be read: %v\n%s\nfor %s", err, first, body)
		}
		prompt, _ = again.Prompt()
		if second := EncodeRequest(prompt, envelope); !bytes.Equal(first, second) {
			t.Fatalf("changed from\n%s\nto\n%s\nfor %s", first, second, body)
		}
	})
}

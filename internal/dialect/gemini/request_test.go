package gemini

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
)

func decode(t *testing.T, body string) (*perigee.Request, error) {
	t.Helper()
	return DecodeRequest(perigee.Origin{Body: []byte(body)}, "models/gemini-3-flash", false)
}

// everything is a request that uses each word of the dialect, in both spellings, and some that do
// not exist yet.
const everything = `{
  "system_instruction": {"role": "user", "parts": [{"text": "be brief"}]},
  "contents": [
    {"role": "user", "parts": [
      {"text": "look \u00e9 <&> \"quoted\""},
      {"inline_data": {"mime_type": "image/png", "data": "aGk=", "displayName": "a.png"}},
      {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}, "videoMetadata": {"fps": 1}}]},
    {"role": "model", "parts": [
      {"text": "plan", "thought": true},
      {"functionCall": {"id": "c1", "name": "read", "args": {"n": 9007199254740993, "path": "a"}}, "thoughtSignature": "c2ln"},
      {"functionCall": {"name": "bare"}}]},
    {"role": "user", "parts": [
      {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "x"}, "willContinue": false}},
      {"executableCode": {"language": "PYTHON", "code": "1"}}], "novelty": 1}],
  "tools": [
    {"functionDeclarations": [
      {"name": "read", "description": "reads", "parametersJsonSchema": {"type": "object"}, "behavior": "BLOCKING"},
      {"name": "bare"}]},
    {"googleSearch": {}}],
  "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"], "novel": true}, "retrievalConfig": {"languageCode": "de"}},
  "generation_config": {"temperature": 0.25, "topP": 1, "topK": 40, "maxOutputTokens": "64", "candidateCount": 1, "seed": -7,
    "presencePenalty": 0.5, "frequencyPenalty": -0.5, "stopSequences": ["X"], "responseMimeType": "application/json",
    "responseSchema": {"type": "OBJECT"}, "responseModalities": ["TEXT"], "responseLogprobs": true,
    "thinkingConfig": {"includeThoughts": true, "thinkingBudget": -1, "thinkingLevel": "high", "novel": [1]}},
  "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
  "cachedContent": "cachedContents/1"
}`

func TestDecodeEverything(t *testing.T) {
	req, err := decode(t, everything)
	if err != nil {
		t.Fatal(err)
	}
	if req.Model != "gemini-3-flash" || req.Dialect != perigee.DialectGemini || string(req.Body) != everything {
		t.Errorf("envelope: model %q, dialect %q", req.Model, req.Dialect)
	}
	p, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	if p.System == nil || rawjson.Unescaped(p.System.Parts[0].Text.Form()) != "be brief" {
		t.Errorf("system: %+v", p.System)
	}
	first := p.Contents[0].Parts
	if rawjson.Unescaped(first[0].Text.Form()) != `look é <&> "quoted"` || first[1].Blob.MIME != "image/png" || first[1].Blob.Data != "aGk=" || first[2].File.URI != "https://example.com/a.pdf" {
		t.Errorf("user parts: %+v", first)
	}
	model := p.Contents[1].Parts
	if !model[0].Thought || model[1].Call.ID != "c1" || model[1].Signature != "c2ln" || string(model[1].Call.Args) != `{"n": 9007199254740993, "path": "a"}` || model[2].Call.Args != nil {
		t.Errorf("model parts: %+v", model)
	}
	if p.Contents[2].Parts[1].Kind != perigee.PartOther || p.Contents[2].Extra.Get("novelty") == nil {
		t.Errorf("unknown things were lost: %+v", p.Contents[2])
	}
	if len(p.Tools) != 3 || !p.Tools[0].Function.JSONSchema || p.Tools[2].Builtin != perigee.BuiltinSearch {
		t.Errorf("tools: %+v", p.Tools)
	}
	if p.ToolConfig.Mode != "ANY" || p.ToolConfig.Calling.Get("novel") == nil || p.ToolConfig.Extra.Get("retrievalConfig") == nil {
		t.Errorf("tool config: %+v", p.ToolConfig)
	}
	g := p.Generation
	if *g.MaxOutputTokens != 64 || *g.Seed != -7 || *g.Thinking.Budget != -1 || g.Thinking.Level != "high" || g.Logprobs == nil {
		t.Errorf("generation: %+v", g)
	}
	if p.Extra.Get("safetySettings") == nil || p.Extra.Get("cachedContent") == nil {
		t.Errorf("extra: %+v", p.Extra)
	}
}

// A large prompt is encoded in pieces, which do not copy its long texts; a small one is one piece.
func TestLongTextsAreNotCopied(t *testing.T) {
	for _, repeat := range []int{1, 512 << 10} {
		plain, long := strings.Repeat("a\n", repeat), strings.Repeat("x", repeat)
		p := &perigee.Prompt{
			System: &perigee.Content{Parts: []perigee.Part{{Text: perigee.Plain(plain)}}},
			Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{
				{Text: perigee.Escaped(strings.Repeat(`a\n`, repeat))},
				{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: long}},
				{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Name: "f", Output: []byte(`"` + long + `"`)}},
				{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Name: "f", Response: []byte(`{"a":"` + long + `"}`)}},
			}}},
		}
		asked := 0
		pieces, buffer := EncodePieces(p, func(size int) []byte {
			asked = size
			return make([]byte, 0, size)
		})
		if want := EncodeRequest(p); !bytes.Equal(slices.Concat(pieces...), want) {
			t.Errorf("the pieces of %d bytes differ", len(want))
		}
		count, copied := 1, len(EncodeRequest(p))
		if repeat > 1 {
			count, copied = 9, len(plain)*2 // the system instruction has line ends to escape
		}
		if len(pieces) != count || len(buffer) > asked || len(buffer) > copied+1000 {
			t.Errorf("%d pieces, want %d; %d bytes were copied to a buffer of %d", len(pieces), count, len(buffer), asked)
		}
	}
}

// What was decoded and encoded again decodes to the same thing, and encodes to the same bytes.
func TestEncodeKeepsEverything(t *testing.T) {
	before, err := DecodePrompt([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	body := EncodeRequest(before)
	if err := rawjson.Check(body); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	after, err := DecodePrompt(body)
	if err != nil {
		t.Fatal(err)
	}
	// Built-in tools are written before the functions; the order among each stays.
	before.Tools = append(before.Tools[2:], before.Tools[:2]...)
	if !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if again := EncodeRequest(after); !bytes.Equal(body, again) {
		t.Errorf("first %s\nagain %s", body, again)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nothing":           {``, "the text is empty"},
		"a list":            {`[]`, "want an object"},
		"a text":            {`"x"`, "want an object"},
		"cut short":         {`{"contents":[`, "the text ends"},
		"something after":   {`{} {}`, "after the end of the JSON value"},
		"a key twice":       {`{"contents":[],"contents":[]}`, `duplicate key "contents"`},
		"a key twice below": {`{"contents":[{"role":"user","r\u006fle":"model"}]}`, `duplicate key`},
		"bad UTF-8":         {"{\"a\":\"\xff\"}", "UTF-8"},
		"contents text":     {`{"contents":"hi"}`, "contents: want an array"},
		"tools number":      {`{"tools":7}`, "tools: want an array"},
		"system text":       {`{"systemInstruction":"be brief"}`, "systemInstruction: want an object"},
		"config list":       {`{"generation_config":[]}`, "generation_config: want an object"},
		"too deep":          {strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), "deep"},
	} {
		_, err := decode(t, c.body)
		e := perigee.AsError(err)
		if e == nil || e.Class != perigee.ClassInvalid || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v; want something with %q", name, err, c.want)
		}
		if e != nil && len(e.Message) > 300 {
			t.Errorf("%s: the message has %d bytes", name, len(e.Message))
		}
	}
}

func TestPromptRefuses(t *testing.T) {
	for body, want := range map[string]string{
		`{"contents":[7]}`:                                   "contents[0]: want an object",
		`{"contents":[{"parts":[{"text":7}]}]}`:              "contents[0].parts[0].text: want a string",
		`{"generationConfig":{"temperature":[1]}}`:           "generationConfig.temperature",
		`{"generationConfig":{"maxOutputTokens":1.5}}`:       "generationConfig.maxOutputTokens",
		`{"contents":[{"parts":[{"functionCall":"read"}]}]}`: "contents[0].parts[0].functionCall",
	} {
		req, err := decode(t, body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if _, err = req.Prompt(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want something with %q", body, err, want)
		}
	}
}

func TestRewriteModel(t *testing.T) {
	for body, want := range map[string]string{
		`{"contents":[]}`:                                        `{"contents":[]}`,
		`{"model": "models/a" , "x":1.0}`:                        `{"model": "models/b" , "x":1.0}`,
		`{"generateContentRequest":{"model":"a","contents":[]}}`: `{"generateContentRequest":{"model":"models/b","contents":[]}}`,
		`{"requests":[{"model":"a"},{"content":{"model":"a"}}]}`: `{"requests":[{"model":"models/b"},{"content":{"model":"a"}}]}`,
		`{"contents":[{"parts":[{"text":"\"model\":\"a\""}]}]}`:  `{"contents":[{"parts":[{"text":"\"model\":\"a\""}]}]}`,
	} {
		got, err := RewriteModel([]byte(body), "b")
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
}

func TestCamel(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "system_instruction": "systemInstruction", "a_b_c": "aBC", "_x": "_x", "a__b": "aB", "topP": "topP", "x_1": "x1", "": ""} {
		if got := camel([]byte(in)); got != want {
			t.Errorf("camel(%q) = %q, want %q", in, got, want)
		}
	}
}

// Whatever a client sends is refused as invalid or understood; what was understood survives being
// written and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{"contents":[{"parts":[{"text":"hi"}]}]}`))
	f.Add([]byte(`{"generateContentRequest":{"contents":null,"tools":[{}]}}`))
	f.Add([]byte(`{"contents":[{"parts":[{},{"text":null},null]}],"generationConfig":{"thinkingConfig":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := DecodeRequest(perigee.Origin{Body: body}, "m", false)
		if err != nil {
			if perigee.AsError(err).Class != perigee.ClassInvalid {
				t.Fatalf("class %s: %v", perigee.AsError(err).Class, err)
			}
			return
		}
		prompt, err := req.Prompt()
		if err != nil {
			return
		}
		written := EncodeRequest(prompt)
		if !json.Valid(written) {
			t.Fatalf("not JSON: %s", written)
		}
		again, err := DecodePrompt(written)
		if err != nil {
			t.Fatalf("%v in %s", err, written)
		}
		if rewritten := EncodeRequest(again); !bytes.Equal(written, rewritten) {
			t.Fatalf("first %s\nagain %s", written, rewritten)
		}
	})
}

// JSON that is read into protocol buffers takes one value for a list of one, and samples that
// people copy use it.
func TestOneStandsForAListOfOne(t *testing.T) {
	one, err := DecodePrompt([]byte(`{"contents":{"parts":{"text":"Hi"}},"tools":{"googleSearch":{}},"generationConfig":{"stopSequences":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	list, err := DecodePrompt([]byte(`{"contents":[{"parts":[{"text":"Hi"}]}],"tools":[{"googleSearch":{}}],"generationConfig":{"stopSequences":["x"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one, list) {
		t.Errorf("got %+v, want %+v", one, list)
	}
}

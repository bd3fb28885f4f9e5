package responses

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/lib/rawjson"
	"perigee/internal/simulator/openai"
	"perigee/internal/testing/perigeetest"
)

// realRequests returns all requests of this API in the repository that can be decoded: of clients,
// of captures, of transcripts and of the table of members.
func realRequests(t testing.TB) map[string]*perigee.Prompt {
	t.Helper()
	all := map[string]*perigee.Prompt{}
	add := func(name string, body []byte) {
		req, err := DecodeRequest(perigee.Origin{Body: body}, nil)
		if err != nil {
			return // a test of refusals, or one that continues a stored response
		}
		prompt, err := req.Prompt()
		if err != nil {
			return
		}
		all[name] = prompt
	}
	archive, err := txtar.ParseFile("testdata/clients.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		add(f.Name, f.Data)
	}
	for _, rule := range perigeetest.FieldRules(t, "rules.tsv") {
		add(rule.Field, []byte(rule.Example))
	}
	transcripts, err := filepath.Glob("../../../daemon/testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range transcripts {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if head, body, ok := bytes.Cut(f.Data, []byte("\n\n")); ok && bytes.HasPrefix(head, []byte("POST /v1/responses\n")) {
				add(filepath.Base(path)+" "+f.Name, body)
			}
		}
	}
	captures, err := filepath.Glob("../../../daemon/testdata/captures/*.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range captures {
		readCapture(t, path, func(name, path string, body []byte) {
			if path == "/v1/responses" {
				add(name, body)
			}
		})
	}
	if len(all) < 150 {
		t.Fatalf("only %d requests", len(all))
	}
	return all
}

// readCapture reads the requests that a client once sent.
func readCapture(t testing.TB, file string, add func(name, path string, body []byte)) {
	t.Helper()
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for lines := json.NewDecoder(unpacked); ; {
		var c struct {
			Name, Path string
			Body       json.RawMessage
		}
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		add(filepath.Base(file)+" "+c.Name, c.Path, c.Body)
	}
}

// comparable returns a prompt without what this API cannot express, or expresses in one way only.
func comparable(p *perigee.Prompt) *perigee.Prompt {
	out := *p
	parts := func(list []perigee.Part) []perigee.Part {
		return perigee.EditParts(list, func(p *perigee.Part) bool {
			p.Text = perigee.Plain(rawjson.Unescaped(p.Text.Form()))
			p.Signature = "" // decoding accepts only signatures that perigee has packed
			return !p.Thought
		})
	}
	if p.System != nil {
		out.System = &perigee.Content{Parts: parts(p.System.Parts)}
	}
	out.Contents, out.Lost = nil, nil
	for _, c := range p.Contents {
		if c.Parts = parts(c.Parts); len(c.Parts) > 0 {
			out.Contents = append(out.Contents, c)
		}
	}
	out.Tools = slices.Clone(p.Tools)
	for i, t := range out.Tools {
		if t.Function != nil && t.Function.Strict == nil && t.Function.Custom == nil {
			f := *t.Function
			f.Strict = new(false) // absent means true in this API
			out.Tools[i].Function = &f
		}
	}
	g := &out.Generation
	g.PresencePenalty, g.FrequencyPenalty = nil, nil
	if g.Thinking == nil {
		g.Thinking = &perigee.Thinking{Include: new(true)} // the encoder asks for encrypted reasoning
	}
	if out.ToolConfig != nil && out.ToolConfig.Mode == perigee.ToolModeValidated {
		out.ToolConfig = nil // a mode of Gemini, which is auto here
	}
	return &out
}

func TestEncodedRequestsDecodeToTheSamePrompt(t *testing.T) {
	for name, before := range realRequests(t) {
		body := EncodeRequest(before, Envelope{Model: "m"})
		_, after := decode(t, string(body))
		if got, want := comparable(after), comparable(before); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %s %+v %s\nwant %s %+v %s\nsent %s", name,
				gemini.EncodeRequest(got), got.Generation, toolsOf(got), gemini.EncodeRequest(want), want.Generation, toolsOf(want), perigee.Clip(string(body), 3000))
		}
		pieces, _ := EncodePieces(before, Envelope{Model: "m"}, func(size int) []byte { return make([]byte, 0, size) })
		if !bytes.Equal(slices.Concat(pieces...), body) {
			t.Errorf("%s: the pieces differ", name)
		}
	}
}

func toolsOf(p *perigee.Prompt) []byte {
	out, _ := json.Marshal(p.Tools)
	return out
}

// refusal asks the rules of OpenAI about a body.
func refusal(body []byte, count bool) *openai.Error {
	_, refused := openai.CheckResponse(openai.Input{Profile: openai.ProfileNamed("openai"), Body: body, Store: &openai.Store{}}, count)
	return refused
}

// adapted are the rules that package adapt makes a prompt comply with, and not the encoder.
var adapted = []string{"invalid_function_parameters", "strict_schema", "json_word", "unsupported_parameter", "integer_below_min_value",
	"call_without_output", "invalid_encrypted_content"}

// The rules of OpenAI accept the requests of real clients, whatever dialect they are in. Of all
// other requests they refuse only content that no encoding changes.
func TestEncodedRequestsAreAccepted(t *testing.T) {
	check := func(name string, p *perigee.Prompt, tolerated []string) {
		sent := map[bool][]byte{false: EncodeRequest(p, Envelope{Model: "gpt-5", Stream: true, CacheKey: "session"}), true: EncodeCountRequest(p, "gpt-5")}
		for count, body := range sent {
			if refused := refusal(body, count); refused != nil && !slices.Contains(tolerated, refused.Rule) {
				t.Errorf("%s: %s: %s\n%s", name, refused.Rule, refused.Message, perigee.Clip(string(body), 2000))
			}
		}
	}
	for name, p := range realRequests(t) {
		check(name, p, adapted)
	}
	captures, _ := filepath.Glob("../../../daemon/testdata/captures/*.jsonl.gz")
	checked := 0
	for _, file := range captures {
		readCapture(t, file, func(name, path string, body []byte) {
			if p := captured(t, path, body); p != nil {
				check(name, p, nil)
				checked++
			}
		})
	}
	if checked < 80 {
		t.Errorf("only %d requests", checked)
	}
}

// captured decodes a request of any dialect that asks a model something; nil means it asks for
// something else.
func captured(t *testing.T, path string, body []byte) *perigee.Prompt {
	t.Helper()
	origin := perigee.Origin{ID: "r", Body: body}
	var req *perigee.Request
	var err error
	switch {
	case path == "/v1/chat/completions":
		var asked *chat.Request
		if asked, err = chat.DecodeRequest(origin); err == nil {
			req = asked.Request
		}
	case path == "/v1/responses":
		var asked *Request
		if asked, err = DecodeRequest(origin, nil); err == nil {
			req = asked.Request
		}
	case strings.HasPrefix(path, "/v1/messages") && !strings.Contains(path, "count_tokens"):
		req, _, err = anthropic.DecodeRequest(origin)
	case strings.Contains(path, "enerateContent"):
		req, err = gemini.DecodeRequest(origin, "x", true)
	}
	if err != nil || req == nil {
		return nil
	}
	p, err := req.Prompt()
	if err != nil {
		return nil // only its own provider understands it
	}
	return forReasoning(p)
}

// forReasoning returns a prompt without signatures, which another provider made, and without
// sampling parameters, which the model refuses.
func forReasoning(p *perigee.Prompt) *perigee.Prompt {
	e := p.Edit()
	e.Generation.Temperature, e.Generation.TopP = nil, nil
	for i := range p.Contents {
		for j := range p.Contents[i].Parts {
			e.Part(i, j).Signature = ""
		}
	}
	return e.Prompt
}

func textPart(text string) perigee.Part {
	return perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(text)}
}

func thoughtPart(text, signature string) perigee.Part {
	return perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(text), Thought: true, Signature: signature}
}

func callPart(id, name, args string) perigee.Part {
	return perigee.Part{Kind: perigee.PartCall, Signature: "s", Call: &perigee.FunctionCall{ID: id, Name: name, Args: json.RawMessage(args)}}
}

func imagePart(data string) perigee.Part {
	return perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: data, Detail: "low"}}
}

func resultPart(id, response string, media ...perigee.Part) perigee.Part {
	return perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: id, Response: json.RawMessage(response), Media: media}}
}

// Each item is one line of want.
func TestItemsOfPrompts(t *testing.T) {
	user := func(parts ...perigee.Part) perigee.Content {
		return perigee.Content{Role: perigee.RoleUser, Parts: parts}
	}
	model := func(parts ...perigee.Part) perigee.Content {
		return perigee.Content{Role: perigee.RoleModel, Parts: parts}
	}
	for name, c := range map[string]struct {
		contents []perigee.Content
		want     string
	}{
		"reasoning directly before its items": {[]perigee.Content{model(thoughtPart("hm", "e1"), textPart("a"), textPart("b"), thoughtPart("", "e2"), callPart("1", "f", `{"a":1}`)), user(resultPart("1", `{"output":"x"}`))},
			`{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e1"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}
{"type":"reasoning","summary":[],"encrypted_content":"e2"}
{"type":"function_call","call_id":"1","name":"f","arguments":"{\"a\":1}"}
{"type":"function_call_output","call_id":"1","output":"x"}`},
		"redacted reasoning": {[]perigee.Content{model(perigee.Part{Kind: perigee.PartRedacted, Thought: true, Signature: "e"}, textPart("a"))},
			`{"type":"reasoning","summary":[],"encrypted_content":"e"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`},
		"thinking without a signature": {[]perigee.Content{model(thoughtPart("hm", ""), textPart("a"))},
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`},
		"reasoning without an item": {[]perigee.Content{model(textPart("a"), thoughtPart("hm", "e")), user(textPart("b"))},
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"b"}]}`},
		"a tool that takes a text": {[]perigee.Content{model(callPart("1", "patch", `{"input":"a\nb"}`)), user(resultPart("1", `{"output":"ok"}`))},
			`{"type":"custom_tool_call","call_id":"1","name":"patch","input":"a\nb"}
{"type":"custom_tool_call_output","call_id":"1","output":"ok"}`},
		"a call without arguments, results without texts": {[]perigee.Content{model(callPart("1", "f", "")), user(resultPart("1", ""), resultPart("2", `{"error":"no"}`), resultPart("3", `{"output":"a","n":1}`))},
			`{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"1","output":""}
{"type":"function_call_output","call_id":"2","output":"{\"error\":\"no\"}"}
{"type":"function_call_output","call_id":"3","output":"{\"output\":\"a\",\"n\":1}"}`},
		"media": {[]perigee.Content{user(resultPart("1", `{"result":"see"}`, imagePart("AA")), textPart("and"), imagePart("BB"),
			perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "application/pdf", Data: "CC"}},
			perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "audio/mpeg", Data: "DD"}},
			perigee.Part{Kind: perigee.PartFile, File: &perigee.File{MIME: "image/png", URI: "https://x/a.png"}},
			perigee.Part{Kind: perigee.PartFile, File: &perigee.File{MIME: "text/plain", URI: "https://x/a.txt"}})},
			`{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,AA","detail":"low"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"and"},{"type":"input_image","image_url":"data:image/png;base64,BB","detail":"low"},{"type":"input_file","filename":"file.pdf","file_data":"data:application/pdf;base64,CC"},{"type":"input_audio","input_audio":{"data":"DD","format":"mp3"}},{"type":"input_image","image_url":"https://x/a.png"},{"type":"input_file","file_url":"https://x/a.txt"}]}`},
		"a text in place of a medium": {[]perigee.Content{user(resultPart("1", "", textPart("[data of type video/mp4]"), imagePart("AA")))},
			`{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"[data of type video/mp4]"},{"type":"input_image","image_url":"data:image/png;base64,AA","detail":"low"}]}`},
		"an image of the model": {[]perigee.Content{model(imagePart("AA"))}, `{"type":"image_generation_call","id":"ig_1","status":"completed","result":"AA"}`},
		"instructions in between": {[]perigee.Content{user(textPart("a")), {Role: perigee.RoleDeveloper, Parts: []perigee.Part{textPart("b")}}, {Role: perigee.RoleSystem, Parts: []perigee.Part{textPart("c")}}},
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}
{"type":"message","role":"developer","content":[{"type":"input_text","text":"b"}]}
{"type":"message","role":"system","content":[{"type":"input_text","text":"c"}]}`},
	} {
		p := &perigee.Prompt{Contents: c.contents, Tools: []perigee.Tool{{Function: &perigee.Function{Name: "patch", Custom: &perigee.CustomInput{}}}}}
		var body struct{ Input []json.RawMessage }
		if err := json.Unmarshal(EncodeRequest(p, Envelope{}), &body); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, item := range body.Input {
			lines = append(lines, string(item))
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestMembersOfRequests(t *testing.T) {
	hi := []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{textPart("hi")}}}
	system := func(texts ...string) *perigee.Content {
		c := &perigee.Content{}
		for _, text := range texts {
			c.Parts = append(c.Parts, textPart(text))
		}
		return c
	}
	tools := []perigee.Tool{
		{Function: &perigee.Function{Name: "f", Description: "d", Parameters: json.RawMessage(`{}`), Strict: new(true)}},
		{Function: &perigee.Function{Name: "g"}},
		{Function: &perigee.Function{Name: "p", Custom: &perigee.CustomInput{Syntax: "lark", Definition: "start: x"}}},
		{Builtin: perigee.BuiltinSearch}, {Builtin: perigee.BuiltinCode}, {Builtin: perigee.BuiltinFetch},
	}
	const (
		head    = `{"model":"m","store":false,"include":["reasoning.encrypted_content"],`
		input   = `"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]`
		written = input + `,"tools":[{"type":"function","name":"f","description":"d","parameters":{},"strict":true},{"type":"function","name":"g","parameters":null,"strict":false},` +
			`{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},{"type":"web_search"},{"type":"code_interpreter","container":{"type":"auto"}}]`
	)
	choice := func(mode string, allowed ...string) *perigee.Prompt {
		return &perigee.Prompt{Contents: hi, Tools: tools, ToolConfig: &perigee.ToolConfig{Mode: mode, Allowed: allowed}}
	}
	for _, c := range []struct {
		prompt *perigee.Prompt
		want   string
	}{
		{&perigee.Prompt{Contents: hi, System: system("be brief")}, head + `"instructions":"be brief",` + input + `}`},
		{&perigee.Prompt{Contents: hi, System: system("a", "b")}, head + `"input":[{"type":"message","role":"system","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},` + strings.TrimPrefix(input, `"input":[`) + `}`},
		{&perigee.Prompt{System: system("a")}, head + `"input":[{"type":"message","role":"system","content":[{"type":"input_text","text":"a"}]}]}`},
		{&perigee.Prompt{Contents: hi, Tools: tools}, head + written + `}`},
		{choice(perigee.ToolModeAuto), head + written + `}`},
		{choice(perigee.ToolModeNone), head + written + `,"tool_choice":"none"}`},
		{choice(perigee.ToolModeAny), head + written + `,"tool_choice":"required"}`},
		{choice(perigee.ToolModeAny, "f"), head + written + `,"tool_choice":{"type":"function","name":"f"}}`},
		{choice(perigee.ToolModeAny, "f", "p"), head + written + `,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"custom","name":"p"}]}}`},
		{choice(perigee.ToolModeValidated, "f"), head + written + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}}`},
		{&perigee.Prompt{Contents: hi, Generation: perigee.Generation{ParallelCalls: new(false), Verbosity: "low", ServiceTier: "flex", MaxOutputTokens: new(int64(99)),
			Temperature: new(0.5), TopP: new(0.9), Logprobs: new(int64(3)), Thinking: &perigee.Thinking{Level: "high", Include: new(true)}}},
			`{"model":"m","store":false,"include":["reasoning.encrypted_content","message.output_text.logprobs"],` + input +
				`,"parallel_tool_calls":false,"text":{"verbosity":"low"},"reasoning":{"effort":"high","summary":"auto"},"max_output_tokens":99,"temperature":0.5,"top_p":0.9,"top_logprobs":3,"service_tier":"flex"}`},
		{&perigee.Prompt{Contents: hi, Generation: perigee.Generation{ResponseMIME: "application/json"}}, head + input + `,"text":{"format":{"type":"json_object"}}}`},
		{&perigee.Prompt{Contents: hi, Generation: perigee.Generation{ResponseJSON: json.RawMessage(`{}`), Thinking: &perigee.Thinking{Level: "none"}}},
			head + input + `,"text":{"format":{"type":"json_schema","name":"answer","schema":{}}},"reasoning":{"effort":"none"}}`},
		{&perigee.Prompt{Contents: hi, Generation: perigee.Generation{ResponseSchema: json.RawMessage(`{}`), ResponseFormat: perigee.ResponseFormat{Name: "n", Description: "d", Strict: new(false)}}},
			head + input + `,"text":{"format":{"type":"json_schema","name":"n","description":"d","strict":false,"schema":{}}}}`},
	} {
		if got := string(EncodeRequest(c.prompt, Envelope{Model: "m"})); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if got, want := string(EncodeRequest(&perigee.Prompt{Contents: hi}, Envelope{Model: "m", Stream: true, CacheKey: "k"})),
		`{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k",`+input+`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := string(EncodeCountRequest(&perigee.Prompt{Contents: hi}, "m")), `{"model":"m",`+input+`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Long texts and data of a large prompt are not copied.
func TestLongTextsAreNotCopied(t *testing.T) {
	long := strings.Repeat("x", 512<<10)
	p := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{
		{Kind: perigee.PartText, Text: perigee.Escaped(strings.Repeat(`a\n`, 256<<10))}, imagePart(long),
		{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Output: []byte(`"` + long + `"`)}},
	}}}}
	pieces, buffer := EncodePieces(p, Envelope{Model: "m"}, func(size int) []byte { return make([]byte, 0, size) })
	if !bytes.Equal(slices.Concat(pieces...), EncodeRequest(p, Envelope{Model: "m"})) {
		t.Error("the pieces differ")
	}
	if len(pieces) != 7 || len(buffer) > 1000 {
		t.Errorf("%d pieces, %d bytes were copied", len(pieces), len(buffer))
	}
}

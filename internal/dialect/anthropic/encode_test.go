package anthropic

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee"
	"perigee/internal/lib/rawjson"
	"perigee/internal/testing/perigeetest"
)

// requestsOfAll are the bodies of requests of real clients, of transcripts and of the table of
// fields, by their place.
func requestsOfAll(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, rule := range perigeetest.FieldRules(t, "rules.tsv") {
		all["rule "+rule.Field] = []byte(rule.Example)
	}
	files, err := filepath.Glob("../../daemon/testdata/anthropic/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range archive.Files {
			head, body, _ := strings.Cut(string(part.Data), "\n\n")
			if strings.HasPrefix(part.Name, "request") && strings.HasPrefix(head, "POST /v1/messages") {
				all[filepath.Base(file)+" "+part.Name] = []byte(strings.TrimSpace(body))
			}
		}
	}
	files, err = filepath.Glob("../../daemon/testdata/captures/*.jsonl.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files of captures: %v", len(files), err)
	}
	for _, file := range files {
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		for d := json.NewDecoder(lines); ; {
			var c struct {
				Name, Path string
				Body       json.RawMessage
			}
			if err := d.Decode(&c); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(c.Path, "/v1/messages") {
				all[filepath.Base(file)+" "+c.Name] = c.Body
			}
		}
	}
	return all
}

// normal is a prompt in one form for all prompts with the same meaning to this API: consecutive
// contents of one role are one message, and signatures of texts and calls have no place.
func normal(t testing.TB, p *perigee.Prompt) string {
	t.Helper()
	type message struct {
		Role  string
		Parts []any
	}
	var part func(p *perigee.Part) any
	part = func(p *perigee.Part) any {
		out := map[string]any{"kind": p.Kind, "thought": p.Thought, "text": rawjson.Unescaped(p.Text.Form()),
			"blob": p.Blob, "file": p.File, "call": p.Call, "cache": p.Cache}
		if p.Thought {
			out["signature"] = p.Signature
		}
		if r := p.Response; r != nil {
			var media []any
			for i := range r.Media {
				media = append(media, part(&r.Media[i]))
			}
			out["result"] = []any{r.ID, r.Name, r.Object(), media}
		}
		return out
	}
	var messages []message
	add := func(role string, parts []perigee.Part) {
		if n := len(messages); n == 0 || messages[n-1].Role != role {
			messages = append(messages, message{Role: role})
		}
		last := &messages[len(messages)-1]
		for i := range parts {
			last.Parts = append(last.Parts, part(&parts[i]))
		}
	}
	if p.System != nil {
		add("the system", p.System.Parts)
	}
	for i := range p.Contents {
		add(p.Contents[i].Role, p.Contents[i].Parts)
	}
	rest := *p
	rest.System, rest.Contents, rest.Lost = nil, nil, nil
	text, err := json.Marshal([]any{messages, rest})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func promptOf(t testing.TB, body []byte) (*perigee.Prompt, bool) {
	t.Helper()
	req, _, err := decodeWhole(body)
	if err != nil {
		return nil, false
	}
	p, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	return p, true
}

// An encoded prompt is the same prompt when it is decoded.
func TestEncodedRequestsAreTheSame(t *testing.T) {
	encoded := 0
	for name, body := range requestsOfAll(t) {
		p, ok := promptOf(t, body)
		if !ok {
			continue
		}
		encoded++
		wire := EncodeRequest(p, Envelope{Model: "m", Stream: true})
		again, ok := promptOf(t, wire)
		if !ok {
			t.Errorf("%s: %s is refused", name, wire)
			continue
		}
		if got, want := normal(t, again), normal(t, p); got != want {
			t.Errorf("%s:\n%s\nbecame\n%s\ngot  %s\nwant %s", name, body, wire, got, want)
		}
		if twice := EncodeRequest(again, Envelope{Model: "m", Stream: true}); !bytes.Equal(twice, wire) {
			t.Errorf("%s: %s\nis at second sight\n%s", name, wire, twice)
		}
		pieces, _ := EncodePieces(p, Envelope{Model: "m", Stream: true}, func(n int) []byte { return make([]byte, 0, n) })
		if !bytes.Equal(bytes.Join(pieces, nil), wire) {
			t.Errorf("%s: the pieces are another request", name)
		}
	}
	if encoded < 150 {
		t.Errorf("%d requests were encoded", encoded)
	}
}

// Long texts of a large prompt are not copied.
func TestPiecesReferToLongTexts(t *testing.T) {
	long := strings.Repeat("word ", 200_000)
	p := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain(long)}}}}}
	asked := 0
	pieces, buffer := EncodePieces(p, Envelope{Model: "m"}, func(n int) []byte { asked = n; return make([]byte, 0, n) })
	if len(pieces) != 3 || len(buffer) > asked || asked > 4096 || !bytes.Equal(bytes.Join(pieces, nil), EncodeRequest(p, Envelope{Model: "m"})) {
		t.Errorf("%d pieces, %d bytes of %d in the buffer", len(pieces), len(buffer), asked)
	}
}

func TestEncodeRequestWritesEachForm(t *testing.T) {
	result := func(response string) []perigee.Content {
		return []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartResponse,
			Response: &perigee.FunctionResponse{ID: "a", Name: "f", Response: json.RawMessage(response)}}}}}
	}
	tool := []perigee.Tool{{Function: &perigee.Function{Name: "f"}}}
	for name, c := range map[string]struct {
		prompt perigee.Prompt
		want   string
	}{
		"the member output of a result":      {perigee.Prompt{Contents: result(`{"output":"x"}`)}, `"content":"x"}`},
		"a result that is an object":         {perigee.Prompt{Contents: result(`{"output":"x","n":1}`)}, `"content":"{\"output\":\"x\",\"n\":1}"}`},
		"a failed result":                    {perigee.Prompt{Contents: result(`{"error":"x"}`)}, `"is_error":true,"content":"x"}`},
		"an empty tool":                      {perigee.Prompt{Tools: tool}, `"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]`},
		"one call at a time":                 {perigee.Prompt{Tools: tool, Generation: perigee.Generation{ParallelCalls: new(false)}}, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`},
		"no calls, and so none at a time":    {perigee.Prompt{Tools: tool, ToolConfig: &perigee.ToolConfig{Mode: "NONE"}, Generation: perigee.Generation{ParallelCalls: new(false)}}, `"tool_choice":{"type":"none"}`},
		"effort without thinking":            {perigee.Prompt{Generation: perigee.Generation{Thinking: &perigee.Thinking{Level: "low"}}}, `{"model":"m","output_config":{"effort":"low"},`},
		"adaptive thinking that is shown":    {perigee.Prompt{Generation: perigee.Generation{Thinking: &perigee.Thinking{Level: "low", Include: new(true), Extra: perigee.Fields{{Name: "display", Value: json.RawMessage(`"summarized"`)}}}}}, `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}`},
		"thinking and no effort":             {perigee.Prompt{Generation: perigee.Generation{Thinking: &perigee.Thinking{Budget: new(int64(-1))}}}, `"thinking":{"type":"adaptive"},"messages"`},
		"a mark for the whole prompt":        {perigee.Prompt{Cache: &perigee.CacheMark{TTL: "1h"}}, `"cache_control":{"type":"ephemeral","ttl":"1h"}`},
		"a part that only Gemini has":        {perigee.Prompt{Contents: []perigee.Content{{Parts: []perigee.Part{{Kind: perigee.PartOther}, {Text: perigee.Plain("x")}}}}}, `"content":[{"type":"text","text":"x"}]`},
		"a tool that only Gemini has":        {perigee.Prompt{Tools: []perigee.Tool{{Builtin: "googleMaps"}}}, `"tools":[]`},
		"an instruction in the conversation": {perigee.Prompt{Contents: []perigee.Content{{Role: "developer", Parts: []perigee.Part{{Text: perigee.Plain("x")}}}}}, `{"role":"system","content":"x"}`},
	} {
		if got := string(EncodeRequest(&c.prompt, Envelope{Model: "m"})); !strings.Contains(got, c.want) || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %s\nwant %s", name, got, c.want)
		}
	}
	count := string(EncodeCountRequest(&perigee.Prompt{Generation: perigee.Generation{MaxOutputTokens: new(int64(1)), Stop: []string{"x"}}}, "m"))
	if count != `{"model":"m","messages":[]}` {
		t.Errorf("count %s", count)
	}
}

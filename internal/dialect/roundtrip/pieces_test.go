package roundtrip

import (
	"runtime"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/testing/perigeetest"
)

// wholeDecoders decode a body of each dialect, all of it.
var wholeDecoders = map[string]func(o perigee.Origin) (*perigee.Request, error){
	"messages": func(o perigee.Origin) (*perigee.Request, error) {
		req, _, err := anthropic.DecodeRequest(o)
		return req, err
	},
	"count_tokens": anthropic.DecodeCount,
	"chat": func(o perigee.Origin) (*perigee.Request, error) {
		req, err := chat.DecodeRequest(o)
		if err != nil {
			return nil, err
		}
		return req.Request, nil
	},
	"responses": func(o perigee.Origin) (*perigee.Request, error) {
		req, err := responses.DecodeRequest(o, nil)
		if err != nil {
			return nil, err
		}
		return req.Request, nil
	},
	"gemini": func(o perigee.Origin) (*perigee.Request, error) {
		return gemini.DecodeRequest(o, "gemini-3-flash", false)
	},
}

// decodeCounted decodes a body with its prompt, and says how many bytes that has allocated.
func decodeCounted(dialect, body string) (used int, err error) {
	origin := perigee.Origin{Body: []byte(body)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	req, err := wholeDecoders[dialect](origin)
	if err == nil {
		_, err = req.Prompt()
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc), err
}

// repeated is a body with a list of n equal elements.
func repeated(before, element, after string, n int) string {
	return before + strings.Repeat(element+",", n-1) + element + after
}

var pieces = []struct{ dialect, before, element, after string }{
	{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`, `{"type":"text","text":"a"}`, `]}]}`},
	{"messages", `{"model":"m","max_tokens":1,"messages":[`, `{"role":"user","content":"a"}`, `]}`},
	{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`, `{"type":"tool_result","tool_use_id":"a","content":"a"}`, `]}]}`},
	{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"system":[`, `{"type":"text","text":"a"}`, `]}`},
	{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[`, `{"name":"f","input_schema":{}}`, `]}`},
	{"count_tokens", `{"model":"m","messages":[{"role":"user","content":[`, `{"type":"text","text":"a"}`, `]}]}`},
	{"chat", `{"model":"m","messages":[{"role":"user","content":[`, `{"type":"text","text":"a"}`, `]}]}`},
	{"chat", `{"model":"m","messages":[`, `{"role":"user","content":"a"}`, `]}`},
	{"chat", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[`, `{"id":"a","function":{"name":"f","arguments":"{}"}}`, `]}]}`},
	{"responses", `{"model":"m","store":false,"input":[`, `"a"`, `]}`},
	{"responses", `{"model":"m","store":true,"input":[`, `{"role":"user","content":"a"}`, `]}`},
	{"responses", `{"model":"m","store":false,"input":[`, `{"type":"function_call_output","call_id":"a","output":"a"}`, `]}`},
	{"responses", `{"model":"m","store":false,"input":[{"role":"user","content":[`, `{"type":"input_text","text":"a"}`, `]}]}`},
	{"gemini", `{"contents":[{"role":"user","parts":[`, `{"text":"a"}`, `]}]}`},
	{"gemini", `{"contents":[{"role":"user","parts":[`, `{}`, `]}]}`},
	{"gemini", `{"contents":[`, `{"role":"user","parts":[{"text":"a"}]}`, `]}`},
	{"gemini", `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[`, `{}`, `]}]}`},
	{"gemini", `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[`, `{"functionDeclarations":[{}]}`, `]}`},
}

// A body that is cut into hundreds of thousands of pieces is refused before any of them takes
// memory: each would take many times its own size.
func TestManyPiecesAreRefused(t *testing.T) {
	perigeetest.Unraced(t)
	for _, p := range pieces {
		body := repeated(p.before, p.element, p.after, 300_000)
		used, err := decodeCounted(p.dialect, body)
		e := perigee.AsError(err)
		if e == nil || e.Class != perigee.ClassInvalid || !strings.Contains(e.Message, "list elements") || e.Hint == "" {
			t.Errorf("%s %s: %v", p.dialect, p.element, err)
		}
		if used > 1<<20 {
			t.Errorf("%s %s: %d bytes allocated for a body of %d", p.dialect, p.element, used, len(body))
		}
	}
}

// Seven thousand are decoded, and what that allocates is little more than what it keeps.
func TestPiecesAreDecodedIntoOnePieceOfMemory(t *testing.T) {
	perigeetest.Unraced(t)
	const n, most = 7000, 600
	for _, p := range pieces {
		used, err := decodeCounted(p.dialect, repeated(p.before, p.element, p.after, n))
		if err != nil {
			t.Errorf("%s %s: %v", p.dialect, p.element, err)
		}
		if used/n > most {
			t.Errorf("%s %s: %d bytes allocated for each of %d", p.dialect, p.element, used/n, n)
		}
	}
}

// A body that goes on as it is has as many pieces as it likes.
func TestPiecesThatAreNotDecodedAreFree(t *testing.T) {
	body := repeated(`{"contents":[{"role":"user","parts":[`, `{"text":"a"}`, `]}]}`, 300_000)
	if _, err := gemini.DecodeRequest(perigee.Origin{Body: []byte(body)}, "gemini-3-flash", false); err != nil {
		t.Error(err)
	}
	// So have arguments and results of tools, which are not decoded in any dialect.
	numbers := strings.Repeat("0.5,", 300_000) + "1"
	for dialect, body := range map[string]string{
		"messages": `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":[` + numbers + `]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"a"}]}]}`,
		"gemini":   `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":[` + numbers + `]}}}]}]}`,
	} {
		if used, err := decodeCounted(dialect, body); err != nil || used > 1<<20 {
			t.Errorf("%s: %v, %d bytes allocated", dialect, err, used)
		}
	}
}

package simulator

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	localTool   = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`
	localHello  = `"messages":[{"role":"user","content":"hello"}]`
	onePixelPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

func localImage(data string) string {
	return `"messages":[{"role":"user","content":"look","images":["` + data + `"]}]`
}

// What Ollama refuses, with its messages.
var ollamaRefusals = []struct {
	path, body string
	status     int
	message    string // "" if the request is accepted
}{
	{"chat", ``, 400, "missing request body"},
	{"chat", `{"model":"qwen3:8b",` + localHello + `}`, 200, ""},
	{"chat", `{"model":"Qwen3:8B",` + localHello + `}`, 200, ""},
	{"chat", `{` + localHello + `}`, 400, "model is required"},
	{"chat", `{"model":"mistral",` + localHello + `}`, 404, "model 'mistral' not found"},
	{"embed", `{"model":"mistral","input":"x"}`, 404, `model "mistral" not found, try pulling it first`},
	{"chat", `{"model":"qwen3:8b","messages":"hello"}`, 400, "json: cannot unmarshal string into Go struct field ChatRequest.messages of type []api.Message"},
	{"chat", `{"model":"qwen3:8b","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, 400, "json: cannot unmarshal array into Go struct field"},
	{"chat", `{"model":"qwen3:8b","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`, 400, "Value looks like object, but can't find closing '}' symbol"},
	{"chat", `{"model":"gemma3:4b",` + localImage(onePixelPNG) + `}`, 200, ""},
	{"chat", `{"model":"gemma3:4b",` + localImage("https://example.com/a.png") + `}`, 400, "illegal base64 data at input byte 5"},
	{"chat", `{"model":"gemma3:4b",` + localImage("data:image/png;base64,"+onePixelPNG) + `}`, 400, "illegal base64 data at input byte 4"},
	{"chat", `{"model":"gemma3:4b",` + localImage("JVBERi0xLjQ=") + `}`, 500, "Failed to create new sequence: failed to process inputs: image: unknown format"},
	{"chat", `{"model":"qwen2.5-coder:7b",` + localImage(onePixelPNG) + `}`, 500, "this model is missing data required for image input"},
	{"chat", `{"model":"qwen3:8b",` + localImage(onePixelPNG) + `}`, 500, "image input is not supported - hint"},
	{"chat", `{"model":"qwen3:8b","think":true,` + localHello + `}`, 200, ""},
	{"chat", `{"model":"qwen3:8b","think":"max",` + localHello + `}`, 200, ""},
	{"chat", `{"model":"qwen3:8b","think":"xhigh",` + localHello + `}`, 400, `invalid think value: "xhigh"`},
	{"chat", `{"model":"llama2:7b","think":false,` + localHello + `}`, 200, ""},
	{"chat", `{"model":"llama2:7b","think":"low",` + localHello + `}`, 400, `"llama2:7b" does not support thinking`},
	{"chat", `{"model":"qwen2.5-coder:7b",` + localTool + `,` + localHello + `}`, 200, ""},
	{"chat", `{"model":"gemma3:4b",` + localTool + `,` + localHello + `}`, 400, "registry.ollama.ai/library/gemma3:4b does not support tools"},
	{"chat", `{"model":"nomic-embed-text",` + localHello + `}`, 400, `"nomic-embed-text" does not support chat`},
	{"chat", `{"model":"gpt-oss:120b-cloud",` + localHello + `}`, 401, "unauthorized"},
	{"chat", `{"model":"qwen3:8b","options":{"temperature":"hot"},` + localHello + `}`, 500, `option "temperature" must be of type float32`},
	{"chat", `{"model":"qwen3:8b","options":{"stop":"x"},` + localHello + `}`, 500, `option "stop" must be of type array`},
	{"chat", `{"model":"qwen3:8b","options":{"flavour":"hot"},` + localHello + `}`, 200, ""},
	{"chat", `{"model":"qwen3:8b","keep_alive":"soon",` + localHello + `}`, 400, `time: invalid duration "soon"`},
	{"chat", `{"model":"qwen3:8b","keep_alive":-1,` + localHello + `}`, 200, ""},
	{"chat", `{"model":"qwen3:8b","format":"xml",` + localHello + `}`, 500, `invalid format: "\"xml\""; expected "json" or a valid JSON Schema object`},
	{"chat", `{"model":"qwen3:8b","format":"json",` + localHello + `}`, 200, ""},
	{"chat", `{"model":"qwen3:8b","top_logprobs":21,` + localHello + `}`, 400, "top_logprobs must be between 0 and 20"},
	{"generate", `{"model":"qwen3:8b","prompt":"hello"}`, 200, ""},
	{"generate", `{"model":"mistral","prompt":"hello"}`, 404, "model 'mistral' not found"},
	{"embed", `{"model":"nomic-embed-text","input":"hello"}`, 200, ""},
	{"embed", `{"model":"nomic-embed-text","input":[1]}`, 400, "invalid input type"},
	{"embed", `{"model":"qwen3:8b","input":"hello"}`, 501, "this model does not support embeddings"},
	{"show", `{"model":""}`, 400, "model is required"},
}

func TestWhatOllamaRefuses(t *testing.T) {
	r := newRig(t, Options{})
	for _, c := range ollamaRefusals {
		a := r.do("POST", "/api/"+c.path, c.body)
		last := a.body
		if lines := strings.Split(strings.TrimSpace(a.body), "\n"); len(lines) > 0 {
			last = lines[len(lines)-1]
		}
		var body struct{ Error string }
		if err := json.Unmarshal([]byte(last), &body); err != nil {
			t.Errorf("%s: %v in %s", c.body, err, a.body)
		}
		if a.status != c.status || !strings.Contains(body.Error, c.message) || (c.message == "") != (body.Error == "") {
			t.Errorf("%s %s: %d %q, want %d %q", c.path, c.body, a.status, body.Error, c.status, c.message)
		}
	}
}

// localAnswer is an answer in one piece.
type localAnswer struct {
	Message struct{ Content string }
	Reason  string        `json:"done_reason"`
	Prompt  int           `json:"prompt_eval_count"`
	Load    time.Duration `json:"load_duration"`
}

func TestOllamaCutsLongPrompts(t *testing.T) {
	r := newRig(t, Options{})
	long := strings.Repeat("word ", 4000) // 5000 tokens
	ask := func(model, more, messages string) (answer, localAnswer) {
		t.Helper()
		a := r.do("POST", "/api/chat", `{"model":"`+model+`","stream":false,`+more+`"messages":[`+messages+`]}`)
		var body localAnswer
		if a.status == 200 {
			a.decode(t, &body)
		}
		return a, body
	}
	first := `{"role":"system","content":"S"},{"role":"user","content":"` + long + `"},{"role":"assistant","content":"yes"},`
	// Messages at the front are dropped; the system message and the last one stay.
	_, cut := ask("qwen2.5-coder:7b", "", first+`{"role":"user","content":"[[echo: system]] and [[text:x]]"}`)
	if cut.Message.Content != "Sx" || cut.Prompt > 20 {
		t.Errorf("%+v", cut)
	}
	// The start of a last message that is too long alone is cut, by one runner to half of the context.
	for model, want := range map[string]int{"qwen2.5-coder:7b": 4096, "qwen3:8b": 4096 - 2046} {
		_, cut = ask(model, `"think":false,`, `{"role":"user","content":"[[text: lost]]`+long+` end"}`)
		if cut.Prompt != want || !strings.HasPrefix(cut.Message.Content, "You said: ") {
			t.Errorf("%s: %+v", model, cut)
		}
	}
	// Enough context, up to the model's own.
	_, whole := ask("qwen2.5-coder:7b", `"options":{"num_ctx":8192},`, first+`{"role":"user","content":"x"}`)
	if whole.Prompt != 5002 {
		t.Errorf("%+v", whole)
	}
	if _, cut = ask("llama2:7b", `"options":{"num_ctx":8192},`, first+`{"role":"user","content":"x"}`); cut.Prompt != 2 {
		t.Errorf("%+v", cut)
	}
	a, _ := ask("qwen2.5-coder:7b", `"truncate":false,`, first+`{"role":"user","content":"x"}`)
	a.want(t, 400, `{"error":"the input length exceeds the context length"}`)
	a, _ = ask("qwen3:8b", `"truncate":false,`, first+`{"role":"user","content":"x"}`)
	a.want(t, 400, `{"error":"{\"error\":{\"code\":400,\"message\":\"request (5002 tokens) exceeds the available context size (4096 tokens), try increasing it\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":5002,\"n_ctx\":4096}}"}`)
	// The answer ends with the context if it may not be shifted.
	_, ended := ask("qwen3:8b", `"think":false,"shift":false,"options":{"num_ctx":64},`, `{"role":"user","content":"[[tokens: 500]]"}`)
	if ended.Reason != "length" {
		t.Errorf("%+v", ended)
	}
	a = r.do("POST", "/api/embed", `{"model":"nomic-embed-text","truncate":false,"input":"`+long+`"}`)
	a.want(t, 400, "the input length exceeds the context length")
	r.do("POST", "/api/embed", `{"model":"nomic-embed-text","input":"`+long+`"}`).want(t, 200, `"prompt_eval_count":2048`)
}

func TestOllamaLoadsAModelAnewForOtherOptions(t *testing.T) {
	var slept []time.Duration
	r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: "slow_load", Delay: Duration(90 * time.Second), Times: 1}}},
		Sleep: func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }})
	chat := func(more string) localAnswer {
		t.Helper()
		var body localAnswer
		a := r.do("POST", "/api/chat", `{"model":"qwen3:8b","stream":false,`+more+localHello+`}`)
		a.decode(t, &body)
		return body
	}
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 200) // the fault is not for it
	if body := chat(`"options":{"num_ctx":8192},`); body.Load != 90*time.Second {
		t.Errorf("%+v", body)
	}
	chat(`"options":{"num_ctx":8192,"temperature":1},`)
	chat(`"options":{"num_ctx":16384},"keep_alive":"1h",`)
	chat(``)
	r.server.Advance(4 * time.Minute)
	chat(``)
	r.server.Advance(4 * time.Minute)
	chat(`"keep_alive":0,`)
	chat(`"keep_alive":"10m",`)
	var loaded []int
	for _, call := range r.server.Calls()[1:] {
		loaded = append(loaded, call.Loaded)
	}
	if want := []int{8192, 0, 16384, 4096, 0, 0, 4096}; !slices.Equal(loaded, want) || len(slept) != 1 || slept[0] != 90*time.Second {
		t.Errorf("loaded %v, want %v; slept %v", loaded, want, slept)
	}
	r.do("GET", "/api/ps", "").want(t, 200, `"expires_at":"2026-08-01T10:18:00Z"`, `"context_length":4096`)
}

func TestFaultsInTheFormOfOllama(t *testing.T) {
	for _, c := range []struct {
		fault  Fault
		status int
		want   string
		check  func(t *testing.T, a answer)
	}{
		{Fault{Do: "unauthorized"}, 401, `{"error":"unauthorized","signin_url":"https://ollama.com/connect?`, nil},
		{Fault{Do: "not_found"}, 404, `{"error":"model 'qwen3:8b' not found"}`, nil},
		{Fault{Do: "capacity"}, 503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, nil},
		{Fault{Do: "rate_limit"}, 429, `{"error":"you've reached your hourly usage limit`, noHeader("Retry-After")},
		{Fault{Do: "internal_500"}, 500, `{"error":"model runner has unexpectedly stopped`, nil},
		{Fault{Do: "bad_gateway_html"}, 502, "<!DOCTYPE html>", nil},
		{Fault{Do: "error_mid_stream", AfterChunks: 1}, 200, `"content":"a"},"done":false}` + "\n" + `{"error":"an error was encountered`, lacks(`"done":true`)},
		{Fault{Do: "no_finish"}, 200, `"content":"c"`, lacks(`"done":true`)},
		{Fault{Do: "usage_missing"}, 200, `"done":true`, lacks("eval_count")},
		{Fault{Do: "missing_newline"}, 200, `"done":true`, func(t *testing.T, a answer) {
			if strings.HasSuffix(a.body, "\n") {
				t.Errorf("%q", a.body)
			}
		}},
		{Fault{Do: "invalid_json_chunk", AfterChunks: 1}, 200, `{"response": {"candidates": [` + "\n", nil},
		{Fault{Do: "empty_200"}, 200, "", lacks("done")},
		{Fault{Do: "comments_only"}, 200, `"done":true`, lacks("keep-alive")},
	} {
		t.Run(c.fault.Do, func(t *testing.T) {
			r := newTCPRig(t, Options{Script: &Script{Faults: []Fault{c.fault}}})
			a := r.do("POST", "/api/chat", `{"model":"qwen3:8b","think":false,"messages":[{"role":"user","content":"[[text: abc]][[chunks: 3]]"}]}`)
			if a.want(t, c.status, c.want); c.check != nil {
				c.check(t, a)
			}
		})
	}
}

func TestLivenessOfOllama(t *testing.T) {
	r := newRig(t, Options{})
	for _, path := range []string{"/", "/api/version", "/api/tags"} {
		if a := r.do("HEAD", path, ""); a.status != 200 || a.body != "" {
			t.Errorf("%s: %d %q", path, a.status, a.body)
		}
	}
	a := r.do("GET", "/", "")
	a.want(t, 200, "directives")
}

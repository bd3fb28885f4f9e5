package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func (r *rig) chat(body string, header ...string) answer {
	r.t.Helper()
	return r.do("POST", "/v1/chat/completions", body, append([]string{"Authorization", "Bearer k"}, header...)...)
}

func (r *rig) respond(body string, header ...string) answer {
	r.t.Helper()
	return r.do("POST", "/v1/responses", body, append([]string{"Authorization", "Bearer k"}, header...)...)
}

func chatStream(text string) string {
	return `{"model":"gpt-4.1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":` + string(encode(text)) + `}]}`
}

func responseStream(text string) string {
	return `{"model":"gpt-4.1","stream":true,"input":` + string(encode(text)) + `}`
}

// openAIFaults are faults as a client of Chat sees them, and of Responses where that differs.
var openAIFaults = []struct {
	fault     Fault
	status    int
	chat      string // a part of the body
	responses string // the same, if it is another
	check     func(t *testing.T, a answer)
}{
	{Fault{Do: "internal_500"}, 500, `"type":"server_error","param":null,"code":null`, "", nil},
	{Fault{Do: "unavailable_503"}, 503, "service_unavailable_error", "", nil},
	{Fault{Do: "deadline_504"}, 504, "timeout_error", "", nil},
	{Fault{Do: "timeout_408"}, 408, "timeout_error", "", nil},
	{Fault{Do: "too_large_413"}, 413, "too large", "", nil},
	{Fault{Do: "bad_gateway_html"}, 502, "<!DOCTYPE html>", "", nil},
	{Fault{Do: "array_error"}, 500, `[{"error":{`, "", nil},
	{Fault{Do: "unauthorized"}, 401, `"code":"invalid_api_key"`, "", nil},
	{Fault{Do: "banned"}, 401, `"code":"account_deactivated"`, "", nil},
	{Fault{Do: "forbidden"}, 403, "insufficient permissions", "", nil},
	{Fault{Do: "not_found"}, 404, `"code":"model_not_found"`, "", nil},
	{Fault{Do: "capacity"}, 503, `"code":"server_is_overloaded"`, "", nil},
	{Fault{Do: "capacity_429"}, 429, `"code":"slow_down"`, "", nil},
	{Fault{Do: "overloaded_529"}, 529, `"code":"server_is_overloaded"`, "", nil},
	{Fault{Do: "too_long"}, 400, `"code":"context_length_exceeded"`, "", nil},
	{Fault{Do: "payment_402"}, 402, "Insufficient Balance", "", nil},
	{Fault{Do: "insufficient_quota"}, 429, `"type":"insufficient_quota","param":null,"code":"insufficient_quota"`, "", noHeader("Retry-After")},
	{Fault{Do: "bare_429"}, 429, `"code":"rate_limit_exceeded"`, "", noHeader("Retry-After")},
	{Fault{Do: "rate_limit", Delay: Duration(1500 * time.Millisecond)}, 429, "Please try again in 1.5s.", "", func(t *testing.T, a answer) {
		if a.header.Get("Retry-After") != "2" || a.header.Get("Retry-After-Ms") != "1500" {
			t.Errorf("%v", a.header)
		}
	}},
	{Fault{Do: "rate_limit", Message: "slow down"}, 429, `"message":"slow down"`, "", nil},
	{Fault{Do: "error_mid_stream", AfterChunks: 1}, 200, `data: {"error":{"message":"The server had an error`, `event: response.failed`, lacks("[DONE]", "response.completed")},
	{Fault{Do: "empty_200"}, 200, "", "", lacks("data:")},
	{Fault{Do: "no_finish"}, 200, `"content":"c"}`, `"delta":"c"`, lacks(`"finish_reason":"stop"`, "response.completed")},
	{Fault{Do: "duplicate_finish"}, 200, `"finish_reason":"stop"`, "response.completed", func(t *testing.T, a answer) {
		if strings.Count(a.body, `"finish_reason":"stop"`) != 2 && strings.Count(a.body, "event: response.completed") != 2 {
			t.Errorf("%s", a.body)
		}
	}},
	{Fault{Do: "usage_missing"}, 200, `"finish_reason":"stop"`, "response.completed", lacks("total_tokens")},
	{Fault{Do: "comments_only", Delay: Duration(10 * time.Millisecond)}, 200, ": keep-alive\n\n: keep-alive\n\n", "", nil},
	{Fault{Do: "crlf"}, 200, "}\r\n\r\ndata: ", "}\r\n\r\nevent: ", nil},
	{Fault{Do: "missing_newline"}, 200, "data: [DONE]", "", func(t *testing.T, a answer) {
		if strings.HasSuffix(a.body, "\n") {
			t.Errorf("%q", a.body)
		}
	}},
	{Fault{Do: "invalid_json_chunk", AfterChunks: 1}, 200, `{"response": {"candidates": [` + "\n", "", nil},
}

func noHeader(name string) func(t *testing.T, a answer) {
	return func(t *testing.T, a answer) {
		if got := a.header.Get(name); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestFaultsInTheFormOfOpenAI(t *testing.T) {
	for _, c := range openAIFaults {
		t.Run(c.fault.Do, func(t *testing.T) {
			r := newTCPRig(t, Options{Script: &Script{Faults: []Fault{c.fault}}})
			for _, a := range []answer{r.chat(chatStream("[[text: abc]][[chunks: 3]]")), r.respond(responseStream("[[text: abc]][[chunks: 3]]"))} {
				want := c.chat
				if strings.Contains(a.body, "event: response") && c.responses != "" {
					want = c.responses
				}
				if a.status != c.status || !strings.Contains(a.body, want) && !strings.Contains(a.body, "event: response.completed") {
					t.Errorf("%d %s, want %d with %s", a.status, a.body, c.status, want)
				}
				if c.check != nil {
					c.check(t, a)
				}
			}
			if calls := r.server.Calls(); len(calls) != 2 || calls[0].Fault != c.fault.Do || calls[0].Model != "gpt-4.1" {
				t.Errorf("%+v", calls)
			}
		})
	}
}

func TestErrorsInAWholeAnswer(t *testing.T) {
	r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: "error_mid_stream"}}}})
	if a := r.chat(`{"model":"gpt-5","messages":[{"role":"user","content":"x"}]}`); a.status != 200 || !strings.HasPrefix(a.body, `{"error":`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.respond(`{"model":"gpt-5","input":"x"}`); a.status != 200 || !strings.Contains(a.body, `"status":"failed","error":{"code":"server_error"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestErrorsOfOpenRouterInA200(t *testing.T) {
	r := newRig(t, Options{Profile: "openrouter", Script: &Script{Faults: []Fault{{Do: "error_mid_stream", AfterChunks: 2}}}})
	for stream, want := range map[string]string{
		"true":  `"error":{"code":"server_error","message":"The server had an error processing your request. Sorry about that!"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"`,
		"false": `"finish_reason":"error","native_finish_reason":"error","error":{"code":500,"message":`,
	} {
		a := r.chat(`{"model":"openai/gpt-5.4","stream":` + stream + `,"messages":[{"role":"user","content":"x"}]}`)
		if a.status != 200 || !strings.Contains(a.body, want) || !strings.HasPrefix(a.header.Get("X-Generation-Id"), "gen-") {
			t.Errorf("stream %s: %d %v %s", stream, a.status, a.header, a.body)
		}
	}
}

func TestKeysOfOpenAI(t *testing.T) {
	keys := []APIKey{{Name: "one", Key: "k", Organization: "home", Limits: KeyLimits{PerMinute: 2}}, {Name: "two", Key: "k2", Organization: "home"}, {Name: "three", Key: "k3"}}
	r := newRig(t, Options{APIKeys: keys})
	body := `{"model":"gpt-5","input":"x"}`
	for _, header := range []string{"", "Bearer ", "Bearer other", "Basic k"} {
		a := r.do("POST", "/v1/responses", body, "Authorization", header)
		if a.status != 401 || !strings.Contains(a.body, `"code":"invalid_api_key"`) {
			t.Errorf("%q: %d %s", header, a.status, a.body)
		}
	}
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(r.respond(body).body), &made); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"k": 200, "k2": 200, "k3": 404} {
		if a := r.do("GET", "/v1/responses/"+made.ID, "", "Authorization", "Bearer "+key); a.status != want {
			t.Errorf("%s: %d %s", key, a.status, a.body)
		}
	}
	if a := r.respond(body); a.header.Get("X-Ratelimit-Limit-Requests") != "2" || a.header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("%v", a.header)
	}
	a := r.respond(body)
	if a.status != 429 || a.header.Get("Retry-After") != "60" || !strings.Contains(a.body, "requests per min (RPM)") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := r.respond(body, "Authorization", "Bearer k2"); a.status != 200 {
		t.Errorf("the other key: %d %s", a.status, a.body)
	}
	if call := r.server.Calls()[4]; call.Account != "one" || call.Model != "gpt-5" {
		t.Errorf("%+v", call)
	}
	if a := r.do("DELETE", "/v1/responses/"+made.ID, "", "Authorization", "Bearer k2"); a.status != 200 || !strings.Contains(a.body, `"deleted":true`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestKeysByProfile(t *testing.T) {
	body := `{"model":"gpt-5","messages":[{"role":"user","content":"x"}]}`
	azure := newRig(t, Options{Profile: "azure"})
	if a := azure.do("POST", "/openai/v1/chat/completions", body, "Api-Key", "k"); a.status != 200 {
		t.Errorf("azure: %d %s", a.status, a.body)
	}
	local := newRig(t, Options{Profile: "llamacpp"})
	if a := local.do("POST", "/chat/completions", body); a.status != 200 {
		t.Errorf("llama.cpp without a key: %d %s", a.status, a.body)
	}
	guarded := newRig(t, Options{Profile: "llamacpp", APIKeys: []APIKey{{Key: "k"}}})
	if a := guarded.do("POST", "/v1/chat/completions", body); a.status != 401 {
		t.Errorf("llama.cpp with keys: %d %s", a.status, a.body)
	}
	if _, err := New(Options{Profile: "nobody"}); err == nil || !strings.Contains(err.Error(), "openai, azure, openrouter") {
		t.Errorf("%v", err)
	}
}

func TestPathsThatOneServerHas(t *testing.T) {
	for profile, paths := range map[string][]string{"llamacpp": {"/props", "/health"}, "lmstudio": {"/api/v1/models"}} {
		r, plain := newRig(t, Options{Profile: profile}), newRig(t, Options{})
		for _, path := range paths {
			if a := r.do("GET", path, ""); a.status != 200 || !json.Valid([]byte(a.body)) {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
			if a := plain.do("GET", path, ""); a.status != 404 {
				t.Errorf("%s at OpenAI: %d", path, a.status)
			}
		}
	}
	mistral := newRig(t, Options{Profile: "mistral"})
	if a := mistral.respond(`{"model":"mistral-large-latest","input":"x"}`); a.status != 404 || !strings.Contains(a.body, "Invalid URL (POST /v1/responses)") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := newRig(t, Options{}).do("GET", "/v1/chat/completions", "", "Authorization", "Bearer k"); a.status != 405 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Every model of every server answers over Chat, streamed and not.
func TestEveryModelAnswers(t *testing.T) {
	for _, profile := range Profiles() {
		r := newRig(t, Options{Profile: profile})
		var list struct {
			Data []struct{ ID string } `json:"data"`
		}
		if a := r.do("GET", "/v1/models", "", "Authorization", "Bearer k"); json.Unmarshal([]byte(a.body), &list) != nil || len(list.Data) == 0 {
			t.Fatalf("%s: %d %s", profile, a.status, a.body)
		}
		for _, m := range list.Data {
			if strings.Contains(m.ID, "embed") || strings.Contains(m.ID, "image") {
				continue
			}
			if a := r.do("GET", "/v1/models/"+m.ID, "", "Authorization", "Bearer k"); a.status != 200 {
				t.Errorf("%s %s: %d %s", profile, m.ID, a.status, a.body)
			}
			for _, stream := range []string{"false", "true"} {
				a := r.chat(fmt.Sprintf(`{"model":%q,"stream":%s,"messages":[{"role":"user","content":"hello"}]}`, m.ID, stream))
				if a.status != 200 || !strings.Contains(a.body, "You said: hello") || !strings.Contains(a.body, `"finish_reason":"stop"`) {
					t.Errorf("%s %s: %d %s", profile, m.ID, a.status, a.body)
				}
			}
		}
	}
}

func TestPromptsThatAreTooLong(t *testing.T) {
	long := strings.Repeat("word ", 108_000)
	for profile, want := range map[string]string{
		"openai":     `"code":"context_length_exceeded"`,
		"openrouter": "This endpoint's maximum context length is 131072 tokens.",
		"vllm":       `"type":"BadRequestError"`,
		"llamacpp":   `"type":"exceed_context_size_error","n_prompt_tokens":135000,"n_ctx":16384`,
		"mistral":    "too large for model with 131072 maximum context length",
	} {
		model := map[string]string{"openai": "gpt-4o", "openrouter": "meta-llama/llama-3.3-70b-instruct", "vllm": "Qwen/Qwen3-32B", "llamacpp": "x", "mistral": "mistral-large-latest"}[profile]
		r := newRig(t, Options{Profile: profile})
		a := r.chat(fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, long))
		if a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %.300s", profile, a.status, a.body)
		}
	}
	if a := newRig(t, Options{Profile: "ollama"}).chat(fmt.Sprintf(`{"model":"llama3.2:3b","messages":[{"role":"user","content":%q}]}`, long)); a.status != 200 {
		t.Errorf("ollama: %d %.300s", a.status, a.body)
	}
}

func TestEmbeddingsAndImages(t *testing.T) {
	r := newRig(t, Options{})
	embed := func() string {
		return r.do("POST", "/v1/embeddings", `{"model":"text-embedding-3-small","input":["red sky","red sea"],"dimensions":8}`, "Authorization", "Bearer k").body
	}
	first := embed()
	var vectors struct {
		Data []struct{ Embedding []float64 }
	}
	if err := json.Unmarshal([]byte(first), &vectors); err != nil || len(vectors.Data) != 2 || len(vectors.Data[0].Embedding) != 8 || embed() != first {
		t.Errorf("%v: %s", err, first)
	}
	a := r.do("POST", "/v1/images/generations", `{"model":"gpt-image-1","prompt":"a boat"}`, "Authorization", "Bearer k")
	if a.status != 200 || !strings.Contains(a.body, `"b64_json":"iVBORw0KGgo`) {
		t.Errorf("%d %.200s", a.status, a.body)
	}
}

// A loop over Responses with stored state: two calls in parallel, their results out of order, and a
// custom tool.
func TestResponsesLoopWithState(t *testing.T) {
	r := newRig(t, Options{})
	tools := `"tools":[{"type":"function","name":"f"},{"type":"custom","name":"patch"}]`
	var first struct {
		ID     string
		Output []struct {
			Type, Name, Input string
			CallID            string `json:"call_id"`
		}
	}
	a := r.respond(`{"model":"gpt-5.4",` + tools + `,"input":"[[call: f {\"a\":1}]][[call: patch {\"input\":\"*** Begin\"}]][[then]][[text: done]]"}`)
	if err := json.Unmarshal([]byte(a.body), &first); err != nil || len(first.Output) != 3 {
		t.Fatalf("%v: %s", err, a.body)
	}
	f, patch := first.Output[1], first.Output[2]
	if patch.Type != "custom_tool_call" || patch.Input != "*** Begin" {
		t.Errorf("%+v", patch)
	}
	results := []string{`{"type":"custom_tool_call_output","call_id":"` + patch.CallID + `","output":"patched"}`,
		`{"type":"function_call_output","call_id":"` + f.CallID + `","output":[{"type":"input_text","text":"42"}]}`}
	for range 2 {
		a = r.respond(`{"model":"gpt-5.4",` + tools + `,"previous_response_id":"` + first.ID + `","input":[` + strings.Join(results, ",") + `]}`)
		if a.status != 200 || !strings.Contains(a.body, `"text":"done"`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		slices.Reverse(results)
	}
	if err := r.server.Reset(); err != nil {
		t.Fatal(err)
	}
	if a = r.do("GET", "/v1/responses/"+first.ID, "", "Authorization", "Bearer k"); a.status != 404 {
		t.Errorf("after a reset: %d", a.status)
	}
}

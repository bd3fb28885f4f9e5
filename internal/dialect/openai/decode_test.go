package openai_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/dialect/openai"
	"perigee/internal/simulator"
	profiles "perigee/internal/simulator/openai"
)

// ask sends a request to a simulated server.
func ask(t *testing.T, options simulator.Options, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	sim, err := simulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer k")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	sim.ServeHTTP(w, r)
	return w
}

// Every server has its own form of errors; each class is the same for all of them.
func TestErrorsOfServers(t *testing.T) {
	for fault, want := range map[string]perigee.Class{
		"internal_500": perigee.ClassUnavailable, "unavailable_503": perigee.ClassCapacity, "deadline_504": perigee.ClassUnavailable,
		"timeout_408": perigee.ClassUnavailable, "too_large_413": perigee.ClassInvalid, "bad_gateway_html": perigee.ClassUnavailable,
		"array_error": perigee.ClassUnavailable, "unauthorized": perigee.ClassUnauthenticated, "forbidden": perigee.ClassForbidden,
		"not_found": perigee.ClassNotFound, "overloaded_529": perigee.ClassCapacity, "capacity": perigee.ClassCapacity,
		"too_long": perigee.ClassInvalid, "payment_402": perigee.ClassExhausted, "bare_429": perigee.ClassRateLimited,
	} {
		for _, profile := range profiles.Profiles() {
			script := &simulator.Script{Faults: []simulator.Fault{{Do: fault}}}
			w := ask(t, simulator.Options{Profile: profile, Script: script}, "POST", "/v1/chat/completions",
				`{"model":"`+profiles.ProfileNamed(profile).Models[0].ID+`","messages":[{"role":"user","content":"hi"}]}`)
			e := openai.DecodeError(w.Code, w.Body.Bytes())
			if e.Class != want || e.Message == "" || e.Status != w.Code {
				t.Errorf("%s of %s: got %s %d %q, want %s: %s", fault, profile, e.Class, e.Status, e.Message, want, w.Body)
			}
			if long := providererr.AsTooLong(e) != nil; long != (fault == "too_long") {
				t.Errorf("%s of %s: too long is %v: %s", fault, profile, long, e.Message)
			}
		}
	}
}

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		class   perigee.Class
		message string
	}{
		{429, `{"error":{"message":"no money","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, perigee.ClassExhausted, "no money"},
		{429, `{"error":{"message":"slow","type":"x","code":"slow_down"}}`, perigee.ClassCapacity, "slow"},
		{0, `{"error":{"code":502,"message":"gone"}}`, perigee.ClassUnavailable, "gone"},
		{0, `{"error":{"code":"server_error","message":"gone"}}`, perigee.ClassUnavailable, "gone"},
		{0, `{"code":"Some resource has been exhausted","error":"too many"}`, perigee.ClassUnavailable, "too many"},
		{0, `{"object":"error","message":"flat","type":"x","code":429}`, perigee.ClassRateLimited, "flat"},
		{400, `{"error":{"code":400,"message":"too big","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}`, perigee.ClassInvalid,
			"the request (9 tokens) exceeds the available context size (8 tokens)"},
		{400, `{"error":{"message":"no","code":"context_length_exceeded"}}`, perigee.ClassInvalid, "the prompt is too long: no"},
		{422, `{"detail":"a value is missing"}`, perigee.ClassInvalid, "a value is missing"},
		{502, `<html>`, perigee.ClassUnavailable, "the provider answered with status 502 and did not explain it"},
		{0, `null`, perigee.ClassUnavailable, "the provider reported an error inside its answer and did not explain it"},
	} {
		if e := openai.DecodeError(c.status, []byte(c.body)); e.Class != c.class || e.Message != c.message {
			t.Errorf("%d %s: got %s %q, want %s %q", c.status, c.body, e.Class, e.Message, c.class, c.message)
		}
	}
}

// Lists of servers have what the server says about its models.
func TestModelsOfServers(t *testing.T) {
	for _, profile := range profiles.Profiles() {
		w := ask(t, simulator.Options{Profile: profile}, "GET", "/v1/models", "")
		list, next, err := openai.DecodeModels(w.Body.Bytes())
		if err != nil || next != "" || len(list) == 0 {
			t.Errorf("%s: %v, next %q, %d models: %s", profile, err, next, len(list), w.Body)
		}
		for _, m := range list {
			switch profile {
			case "openrouter", "vllm", "llamacpp":
				if m.Context == 0 {
					t.Errorf("%s: %s has no context: %s", profile, m.ID, w.Body)
				}
			}
		}
	}
}

func TestDecodeModels(t *testing.T) {
	list, next, err := openai.DecodeModels([]byte(`{"object":"list","data":[
		{"id":"models/a","created":1767225600,"context_length":100,"name":"A","description":"d","top_provider":{"max_completion_tokens":50},"supported_parameters":["tools","reasoning"]},
		{"id":"b","created":null,"max_model_len":200,"reasoning":{}},{"id":"c","meta":{"n_ctx_train":300}},{"id":"d","meta":null,"created":"soon","context_length":"x"},{"id":7},{},null],
		"links":{"next":"/v1/models?offset=5"}}`))
	if err != nil || next != "/v1/models?offset=5" || len(list) != 5 {
		t.Fatalf("%v, %q, %+v", err, next, list)
	}
	a, b := list[0], list[1]
	if a.ID != "a" || a.Context != 100 || a.Output != 50 || !a.Thinking || a.DisplayName != "A" || a.Description != "d" ||
		!a.Created.Equal(time.Unix(1767225600, 0)) || b.Context != 200 || !b.Thinking || !b.Created.IsZero() ||
		list[2].Context != 300 || list[3].Context != 0 || list[3].Thinking || list[4].ID != "7" {
		t.Errorf("%+v", list)
	}
	if _, _, err := openai.DecodeModels([]byte(`<html>`)); err == nil {
		t.Error("a page is no list")
	}
}

// Each server describes its models in a form of its own.
func TestAbilitiesOfModels(t *testing.T) {
	abilities := func(m perigee.Model) string {
		known := func(b *bool) string {
			if b == nil {
				return "?"
			}
			return fmt.Sprint(*b)
		}
		return fmt.Sprintf("%d %d thinking %t vision %s tools %s", m.Context, m.Output, m.Thinking, known(m.Vision), known(m.Tools))
	}
	for name, test := range map[string]struct{ entry, want string }{
		"OpenAI": {`"created":1,"owned_by":"system"`, "0 0 thinking false vision ? tools ?"},
		"OpenRouter": {`"context_length":9,"architecture":{"modality":"text+image->text","input_modalities":["text","image"]},"top_provider":{"context_length":9,"max_completion_tokens":7},"supported_parameters":["max_tokens","tools"],"reasoning":{"supported_efforts":["high"],"mandatory":false}`,
			"9 7 thinking true vision true tools true"},
		"OpenRouter, text": {`"architecture":{"input_modalities":["text"]},"top_provider":{"max_completion_tokens":null},"supported_parameters":["include_reasoning","reasoning"]`, "0 0 thinking true vision false tools false"},
		"Mistral":          {`"max_context_length":9,"capabilities":{"completion_chat":true,"function_calling":true,"vision":false,"reasoning":true}`, "9 0 thinking true vision false tools true"},
		"Groq":             {`"active":true,"context_window":9,"max_completion_tokens":7`, "9 7 thinking false vision ? tools ?"},
		"Fireworks":        {`"context_length":9,"supports_tools":true,"supports_image_input":false`, "9 0 thinking false vision false tools true"},
		"vLLM":             {`"root":"m","parent":null,"max_model_len":9,"permission":[]`, "9 0 thinking false vision ? tools ?"},
		"llama.cpp":        {`"meta":{"n_vocab":1,"n_ctx_train":9,"size":2}`, "9 0 thinking false vision ? tools ?"},
		"perigee":          {`"context_length":9,"max_output_tokens":7,"thinking":true,"vision":false,"tools":true`, "9 7 thinking true vision false tools true"},
		"odd kinds":        {`"context_length":"9","architecture":[],"capabilities":"all","supported_parameters":{},"tools":[1],"vision":null`, "0 0 thinking false vision ? tools ?"},
	} {
		list, _, err := openai.DecodeModels([]byte(`{"data":[{"id":"m",` + test.entry + `}]}`))
		if err != nil || len(list) != 1 || abilities(list[0]) != test.want {
			t.Errorf("%s: %v, %v, want %s", name, list, err, test.want)
		}
	}
	list, err := openai.DecodeNativeModels([]byte(`{"models":[{"type":"llm","key":"a","display_name":"A","loaded_instances":[{"id":"a","config":{"context_length":5,"parallel":1}}],"max_context_length":9,
		"capabilities":{"vision":true,"trained_for_tool_use":false,"reasoning":{"allowed_options":["on"]}}},{"key":"b","max_context_length":8,"loaded_instances":[]},7]}`))
	if err != nil || len(list) != 4 || abilities(list[0]) != "5 0 thinking true vision true tools false" || list[0].ID != "a" || list[1].Context != 9 || list[2].ID != "b" || list[2].Context != 8 {
		t.Errorf("%+v, %v", list, err)
	}
	m, err := openai.DecodeProperties([]byte(`{"default_generation_settings":{"id":0,"n_ctx":5},"total_slots":1,"modalities":{"vision":true,"audio":false}}`))
	if err != nil || abilities(m) != "5 0 thinking false vision true tools ?" {
		t.Errorf("%+v, %v", m, err)
	}
}

package anthropic

import (
	"strings"
	"testing"
)

func TestUndeclaredMembersAreRefused(t *testing.T) {
	image := `{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":""}}`
	cases := []struct {
		name    string
		example Example
		want    string
	}{
		{"no model", Example{Body: `{"max_tokens":1,"messages":[` + hi + `]}`}, "model: Field required"},
		{"no max_tokens", Example{Body: `{"model":"claude-opus-5","messages":[` + hi + `]}`}, "max_tokens: Field required"},
		{"no messages", Example{Body: `{"model":"claude-opus-5","max_tokens":1}`}, "messages: Field required"},
		{"extra", asked(`"seed":1`), "seed: Extra inputs are not permitted"},
		{"extra of a block", asked("", user(`{"type":"text","text":"a","id":1}`)), "messages.0.content.0.text.id: Extra inputs are not permitted"},
		{"extra of a message", asked("", `{"role":"user","content":"a","name":"b"}`), "messages.0.name: Extra inputs are not permitted"},
		{"extra of a mark", asked(`"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","scope":"x"}}]`), "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted"},
		{"mark on thinking", asked("", hi, assistant(`{"type":"thinking","thinking":"","signature":"","cache_control":{"type":"ephemeral"}}`)), "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"},
		{"member without its beta", asked(`"context_management":{"edits":[]}`), "context_management: Extra inputs are not permitted"},
		{"safeguards", asked(`"safeguards":{}`), "safeguards: Extra inputs are not permitted"},
		{"wrong type", asked(`"stream":"yes"`), "stream: Input should be a valid boolean"},
		{"null", Example{Body: `{"model":"claude-opus-5","max_tokens":null,"messages":[` + hi + `]}`}, "max_tokens: Input should be a valid integer"},
		{"no signature", asked("", hi, assistant(`{"type":"thinking","thinking":"a"}`)), "messages.1.content.0.thinking.signature: Field required"},
		{"budget", asked(`"thinking":{"type":"enabled","budget_tokens":1023}`), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"},
		{"temperature", asked(`"temperature":1.5`), "temperature: Input should be less than or equal to 1"},
		{"tool name", asked(`"tools":[{"name":"a.b","input_schema":{"type":"object"}}]`), "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"},
		{"tool without schema", asked(`"tools":[{"name":"a"}]`), "tools.0.custom.input_schema: Field required"},
		{"tool of an unknown type", asked(`"tools":[{"type":"function","name":"a"}]`), "tools.0: Input tag 'function' found using 'type' does not match any of the expected tags"},
		{"tool without its beta", asked(`"tools":[{"type":"computer_20251124","name":"computer"}]`), "tools.0: Input tag 'computer_20251124' found using 'type' does not match any of the expected tags"},
		{"image type", asked("", user(image)), "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"},
		{"image in a result", asked("", hi, assistant(call("a")), user(`{"type":"tool_result","tool_use_id":"a","content":[`+image+`]}`)), "messages.2.content.0.tool_result.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"},
		{"role", asked("", `{"role":"tool","content":"a"}`), "messages.0.role: Input should be 'user', 'assistant' or 'system'"},
		{"call ID", asked("", hi, assistant(call("call:1"))), "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"},
		{"effort", asked(`"output_config":{"effort":"minimal"}`), "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"},
		{"user", asked(`"metadata":{"user_id":"` + strings.Repeat("a", 257) + `"}`), "metadata.user_id: String should have at most 256 characters"},
		{"max_tokens of a count", Example{Method: Count, Body: asked("").Body}, "max_tokens: Extra inputs are not permitted"},
		{"unknown block", asked("", user(`{"type":"input_text","text":"a"}`)), "messages.0.content.0: Input tag 'input_text' found using 'type' does not match any of the expected tags: "},
		{"unknown thread", asked(`"thread":{"type":"continue","previous_message_id":"msg_1"}`).beta("message-threads-2026-08-12"), "thread.previous_message_id: no thread has the message msg_1"},
		{"not JSON", Example{Body: `{"model":`}, "The request body is not valid JSON: unexpected end of JSON input"},
		{"a list", Example{Body: `[]`}, "Input should be an object"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, refusal := Check(c.example.Input())
			if refusal == nil || !strings.HasPrefix(refusal.Message, c.want) || strings.HasSuffix(c.want, "permitted") && refusal.Message != c.want {
				t.Errorf("got %v, want %s", refusal, c.want)
			}
		})
	}
}

func TestVersionAndSize(t *testing.T) {
	in := asked("").Input()
	for version, want := range map[string]string{"": "anthropic-version: header is required", "2020-01-01": `anthropic-version: "2020-01-01" is not a valid version`} {
		in.Version = version
		if _, refusal := Check(in); refusal == nil || refusal.Message != want || refusal.Status != 400 {
			t.Errorf("%q: %v", version, refusal)
		}
	}
	in.Version, in.Body = "2023-06-01", make([]byte, maxBody+1)
	if _, refusal := Check(in); refusal == nil || refusal.Status != 413 || refusal.Type != "request_too_large" {
		t.Errorf("large body: %v", refusal)
	}
}

func TestErrorBody(t *testing.T) {
	for status, want := range map[int]string{400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
		404: "not_found_error", 409: "conflict_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error"} {
		body := string(NewRefusal(status, "r", "no <%d>", 1).Body("req_1"))
		if want := `{"type":"error","error":{"type":"` + want + `","message":"no <1>"},"request_id":"req_1"}`; body != want {
			t.Errorf("got %s, want %s", body, want)
		}
	}
}

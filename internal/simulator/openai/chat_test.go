package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// chatBody returns a request of one user message with more members.
func chatBody(model, rest string) string {
	if rest != "" {
		rest = "," + rest
	}
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]%s}`, model, rest)
}

// stops returns the value of stop with so many sequences.
func stops(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`"a",`, n), ",") + "]" }

// history returns a request with these messages.
func history(model, messages, rest string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[%s]%s}`, model, messages, rest)
}

const (
	userMessage = `{"role":"user","content":"hi"}`
	callMessage = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	toolMessage = `{"role":"tool","tool_call_id":"call_1","content":"42"}`
	functionF   = `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}`
	withF       = `,"tools":[` + functionF + `]`
)

func functionWith(schema string) string {
	return `"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":` + schema + `}}]`
}

// chatCases are requests and the error that each gets; "" means that it is accepted.
var chatCases = []struct{ profile, body, status, want string }{
	{"openai", `{`, "400", "could not parse the JSON body"},
	{"openai", `[]`, "400", "expected an object, but got an array"},
	{"openai", `{}`, "400", "Missing required parameter: 'model'."},
	{"openai", `{"model":"gpt-5"}`, "400", "Missing required parameter: 'messages'."},
	{"openai", `{"model":7}`, "400", "Invalid type for 'model': expected a string, but got an integer instead."},
	{"openai", chatBody("gpt-5", ``), "", ""},
	{"openai", chatBody("gpt-99", ``), "404", "`gpt-99` does not exist"},
	{"openai", chatBody("text-embedding-3-small", ``), "404", "not a chat model"},
	{"openai", chatBody("gpt-5", `"top_k":1,"min_p":1`), "400", "Unrecognized request arguments supplied: min_p, top_k"},
	{"generic", chatBody("local-model", `"top_k":1`), "", ""},
	{"openai", history("gpt-5", `{"role":"user","content":"hi","cache":1}`, ``), "400", "Unknown parameter: 'messages[0].cache'."},
	{"openai", history("gpt-5", ``, ``), "400", "Invalid 'messages': empty array."},
	{"openai", history("gpt-5", `{"role":"robot","content":"hi"}`, ``), "400", "Invalid value: 'robot'."},
	{"openai", history("gpt-5", `{"role":"user","content":7}`, ``), "400", "expected one of a string or array of objects, but got an integer"},
	{"openai", history("gpt-5", `{"role":"user","content":null}`, ``), "400", "expected a string, got null"},
	{"openai", chatBody("gpt-5", `"max_tokens":5`), "400", "Use 'max_completion_tokens' instead."},
	{"openai", chatBody("gpt-4.1", `"max_tokens":5`), "", ""},
	{"openai", chatBody("gpt-4.1", `"max_tokens":5,"max_completion_tokens":5`), "400", "at the same time"},
	{"openai", chatBody("gpt-4.1", `"max_tokens":0`), "400", "Expected a value >= 1, but got 0 instead."},
	{"openai", chatBody("gpt-4.1", `"max_tokens":1.5`), "400", "expected an integer, but got a decimal"},
	{"openai", chatBody("gpt-5", `"temperature":0.5`), "400", "Only the default (1) value is supported."},
	{"openai", chatBody("gpt-5", `"temperature":1`), "", ""},
	{"openai", chatBody("gpt-5.2", `"temperature":0.5,"reasoning_effort":"none"`), "", ""},
	{"openai", chatBody("gpt-4.1", `"temperature":3`), "400", "decimal above maximum value"},
	{"openai", chatBody("gpt-4.1", `"reasoning_effort":"low"`), "400", "Unrecognized request argument supplied: reasoning_effort"},
	{"openai", chatBody("gpt-5", `"reasoning_effort":"huge"`), "400", "Invalid value: 'huge'."},
	{"openai", chatBody("gpt-5.4", `"reasoning_effort":"low"`+withF), "400", "Please use /v1/responses instead."},
	{"openai", chatBody("gpt-5.4", `"reasoning_effort":"low"`), "", ""},
	{"openai", chatBody("gpt-5.1", `"reasoning_effort":"low"`+withF), "", ""},
	{"openai", chatBody("gpt-5", `"stop":["a","b","c","d","e"]`), "400", "Invalid 'stop': array too long."},
	{"openai", chatBody("gpt-5", `"stop":["a","b","c","d"]`), "", ""},
	{"mistral", chatBody("mistral-large-latest", `"stop":["a","b","c","d","e"]`), "400", "maximum length 4, but got an array with length 5"},
	{"deepseek", chatBody("deepseek-chat", `"stop":`+stops(16)), "", ""},
	{"deepseek", chatBody("deepseek-chat", `"stop":`+stops(17)), "400", "maximum length 16, but got an array with length 17"},
	{"vllm", chatBody("Qwen/Qwen3-32B", `"stop":`+stops(40)), "", ""},
	{"llamacpp", chatBody("any", `"stop":`+stops(40)), "", ""},
	{"lmstudio", chatBody("qwen/qwen3-8b", `"stop":`+stops(40)), "", ""},
	{"ollama", chatBody("qwen3:8b", `"stop":`+stops(40)), "", ""},
	{"generic", chatBody("local-model", `"stop":`+stops(40)), "", ""},
	{"openai", chatBody("gpt-5", `"stream_options":{"include_usage":true}`), "400", "only allowed when 'stream' is enabled"},
	{"openai", chatBody("gpt-5", `"n":2,"stream":true`), "", ""},
	{"openai", chatBody("gpt-5", `"user":1`), "400", "Invalid type for 'user'"},

	{"openai", history("gpt-5", userMessage+","+callMessage+","+toolMessage, withF), "", ""},
	{"openai", history("gpt-5", userMessage+","+toolMessage, withF), "400", "must be a response to a preceeding message"},
	{"openai", history("gpt-5", userMessage+","+callMessage, withF), "400", "did not have response messages: call_1"},
	{"openai", history("gpt-5", userMessage+","+callMessage+","+userMessage, withF), "400", "did not have response messages: call_1"},
	{"generic", history("local-model", userMessage+","+callMessage, withF), "", ""},
	{"openai", history("gpt-5", userMessage+","+strings.ReplaceAll(callMessage, `"f"`, `"a.b"`)+","+toolMessage, withF), "400", "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern."},
	{"openai", history("gpt-5", userMessage+","+strings.ReplaceAll(callMessage, "call_1", strings.Repeat("c", 41))+","+toolMessage, withF), "400", "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40"},
	{"openai", chatBody("gpt-5", `"tools":[`+functionF+","+functionF+`]`), "400", "tool names must be unique"},
	{"openai", chatBody("gpt-5", `"tools":[{"type":"function","function":{"name":"a.b"}}]`), "400", "does not match pattern"},
	{"openai", chatBody("gpt-5", `"tools":[{"type":"function","function":{"name":"`+strings.Repeat("a", 65)+`"}}]`), "400", "maximum length 64"},
	{"openai", chatBody("gpt-5", `"tools":[{"type":"function","function":{}}]`), "400", "Missing required parameter: 'tools[0].function.name'."},
	{"openai", chatBody("gpt-5", `"tools":[`+strings.TrimSuffix(strings.Repeat(functionF+",", 129), ",")+`]`), "400", "maximum length 128"},
	{"openai", chatBody("gpt-5", `"tools":[{"type":"web_search"}]`), "400", "Supported values are: 'function' and 'custom'."},
	{"openai", chatBody("gpt-5", `"tools":[{"type":"custom","custom":{"name":"patch","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: x"}}}}]`), "", ""},
	{"openai", chatBody("gpt-5", `"tools":[{"type":"custom","custom":{}}]`), "400", "Missing required parameter: 'tools[0].custom.name'."},
	{"openai", chatBody("gpt-5", functionWith(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)), "400", "'additionalProperties' is required"},
	{"openai", chatBody("gpt-5", functionWith(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`)), "400", "Missing 'a'."},
	{"openai", chatBody("gpt-5", functionWith(`{"type":"object","properties":{"a":{"type":"object","properties":{}}},"required":["a"],"additionalProperties":false}`)), "400", "In context=('properties', 'a'), 'additionalProperties'"},
	{"openai", chatBody("gpt-5", functionWith(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)), "", ""},
	{"openai", chatBody("gpt-5", functionWith(`{"type":"object"}`)), "400", "object schema missing properties"},
	{"openai", chatBody("gpt-5", functionWith(`{"type":"string"}`)), "400", "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'."},
	{"openai", chatBody("gpt-5", `"tool_choice":"auto"`), "400", "only allowed when 'tools' are specified"},
	{"openai", chatBody("gpt-5", `"tool_choice":{"type":"function","function":{"name":"g"}}`+withF), "400", "Tool choice 'g' not found"},
	{"openai", chatBody("gpt-5", `"tool_choice":"any"`+withF), "400", "Invalid value: 'any'."},

	{"openai", chatBody("gpt-5", `"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`), "400", "Missing required parameter: 'response_format.json_schema.name'."},
	{"openai", chatBody("gpt-5", `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`), "400", "Invalid schema for response_format 'n'"},
	{"openai", chatBody("gpt-5", `"response_format":{"type":"json_object"}`), "400", "must contain the word 'json'"},
	{"openai", history("gpt-5", `{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}`, ``), "400", "Image URLs are only allowed for messages with role 'user'"},
	{"openai", history("gpt-5", `{"role":"user","content":[{"type":"input_text","text":"x"}]}`, ``), "400", "Invalid value: 'input_text'."},
	{"openai", history("gpt-5", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,!"}}]}`, ``), "400", "Expected a base64-encoded data URL"},
	{"openai", history("gpt-5", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"/etc/passwd"}}]}`, ``), "400", "Expected a valid URL"},
	{"ollama", history("qwen3:8b", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}`, ``), "400", "invalid image input"},
	{"openai", history("gpt-5", userMessage+`,{"role":"assistant","content":"a","reasoning_content":"b"}`, ``), "400", "Unknown parameter: 'messages[1].reasoning_content'."},

	{"deepseek", history("deepseek-chat", userMessage+","+callMessage+","+toolMessage, withF), "400", "must be passed back"},
	{"deepseek", history("deepseek-chat", userMessage+","+callMessage+","+toolMessage, ``), "", ""},
	{"mistral", history("mistral-large-latest", userMessage+`,{"role":"assistant","content":"x"}`, ``), "400", "Expected last role User or Tool"},
	{"mistral", chatBody("mistral-large-latest", `"reasoning_effort":"high"`), "400", "not enabled for this model"},
	{"xai", chatBody("grok-4.20-non-reasoning", `"reasoning_effort":"none"`), "400", "does not support parameter reasoningEffort"},
	{"llamacpp", chatBody("whatever", ``), "", ""},
	{"vllm", chatBody("whatever", ``), "404", "does not exist"},
}

func TestChatRules(t *testing.T) {
	for _, c := range chatCases {
		t.Run(c.profile+" "+c.want, func(t *testing.T) {
			_, refused := CheckChat(Input{Profile: ProfileNamed(c.profile), Body: []byte(c.body), Sealer: Sealer{[]byte("k")}})
			switch {
			case refused == nil && c.want != "":
				t.Errorf("accepted, want %q", c.want)
			case refused == nil:
			case c.want == "" || !strings.Contains(refused.Message, c.want) || fmt.Sprint(refused.Status) != c.status:
				t.Errorf("%d %s: %s, want %q", refused.Status, refused.Rule, refused.Message, c.want)
			case refused.Rule == "":
				t.Error("no rule")
			}
		})
	}
}

func TestEveryProfileHasAFormForEveryError(t *testing.T) {
	for _, name := range Profiles() {
		p := ProfileNamed(name)
		for rule := range shared {
			e := Shared(rule, "", 0)
			if e.Rule != rule || strings.Contains(e.Message, "%!") {
				t.Errorf("%s: %+v", rule, e)
			}
			for _, body := range [][]byte{p.Encode(e), p.StreamError(e, true)[0].Data, p.StreamError(e, false)[0].Data, p.ResponseError(e, true, 0)[0].Data, p.ResponseError(e, false, 0)[0].Data} {
				if !json.Valid(body) || !strings.Contains(string(body), string(Encode(e.Message))) {
					t.Errorf("%s %s: %s", name, rule, body)
				}
			}
		}
	}
}

func FuzzChat(f *testing.F) {
	for _, c := range chatCases {
		f.Add(c.profile, []byte(c.body))
	}
	f.Fuzz(func(t *testing.T, profile string, body []byte) {
		p := ProfileNamed(profile)
		if p == nil {
			return
		}
		chat, refused := CheckChat(Input{Profile: p, Body: body, Sealer: Sealer{[]byte("k")}})
		if (chat == nil) == (refused == nil) {
			t.Fatalf("%v and %v", chat, refused)
		}
		if refused != nil && (!json.Valid(p.Encode(refused)) || refused.Status < 400 || refused.Rule == "") {
			t.Errorf("%+v: %s", refused, p.Encode(refused))
		}
	})
}

package providererr

import (
	"testing"

	"perigee"
)

// TestAsTooLong has the words of each server that perigee has a profile for, and of those that are
// often used without one.
func TestAsTooLong(t *testing.T) {
	for _, test := range []struct {
		server, message string
		want            *TooLong
	}{
		{"gemini", "The input token count (1000001) exceeds the maximum number of tokens allowed (1000000).", &TooLong{1000001, 1000000}},
		{"gemini", "The input token count exceeds the maximum number of tokens allowed 1048576.", &TooLong{}},
		{"anthropic", "prompt is too long: 200001 tokens > 200000 maximum", &TooLong{200001, 200000}},
		{"anthropic", "prompt is too long", &TooLong{}},
		{"antigravity", "prompt is too long for the model: prompt is too long: 9 tokens > 8 maximum", &TooLong{9, 8}},
		{"openai", "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.", &TooLong{130000, 128000}},
		{"openai", "This model's maximum context length is 4096 tokens.", &TooLong{0, 4096}},
		{"openai, azure", "Your input exceeds the context window of this model. Please adjust your input and try again.", &TooLong{}},
		{"openrouter", "This endpoint's maximum context length is 131072 tokens. However, you requested about 155000 tokens (150904 of text input, 4096 in the output). Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically.", &TooLong{155000, 131072}},
		{"deepseek", "This model's maximum context length is 128000 tokens. However, you requested 140000 tokens (130000 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.", &TooLong{140000, 128000}},
		{"groq", "Please reduce the length of the messages or completion.", &TooLong{}},
		{"mistral", "Prompt contains 155000 tokens, too large for model with 131072 maximum context length", &TooLong{155000, 131072}},
		{"mistral", "Prompt contains 40687 tokens and 0 draft tokens, too large for model with 32768 maximum context length", &TooLong{40687, 32768}},
		{"xai", "This model's maximum prompt length is 1000000 but the request contains 1150000 tokens.", &TooLong{1150000, 1000000}},
		{"fireworks", "The prompt is too long: 40177, model maximum context length: 32767", &TooLong{40177, 32767}},
		{"vllm", "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages, Please reduce the length of the messages.", &TooLong{5000, 4096}},
		{"vllm", "This model's maximum context length is 8192 tokens. However, you requested 1024 output tokens and your prompt contains at least 7169 input tokens, for a total of at least 8193 tokens. Please reduce the length of the input prompt or the number of requested output tokens.", &TooLong{8193, 8192}},
		{"vllm", "You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 99072 tokens. Please reduce the length of the input prompt.", &TooLong{99073, 99072}},
		{"vllm", "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.", &TooLong{5000, 4096}},
		{"llamacpp", "the request exceeds: request (8200 tokens) exceeds the available context size (8192 tokens), try increasing it", &TooLong{8200, 8192}},
		{"llamacpp", "the request exceeds the available context size, try increasing it", &TooLong{}},
		{"lmstudio", "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input.", &TooLong{15857, 4096}},
		{"lmstudio", "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9000>= n_ctx: 8192). Try to load the model with a larger context length, or provide a shorter input.", &TooLong{9000, 8192}},
		{"lmstudio", "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input", &TooLong{}},
		{"lmstudio", "Context size has been exceeded.", &TooLong{}},
		{"bedrock", "Input is too long for requested model.", &TooLong{}},
		{"ollama", "prompt too long; exceeded max context length by 4096 tokens", &TooLong{}},
		{"ollama", "the input length exceeds the context length", &TooLong{}},
		{"sglang, together", "The input (265330 tokens) is longer than the model's context length (262144 tokens).", &TooLong{265330, 262144}},
		{"moonshot", "Your request exceeded model token limit: 262144 (requested: 300000)", &TooLong{300000, 262144}},
		{"any", "context_length_exceeded", &TooLong{}},

		{"anthropic", "max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens", nil},
		{"openai", "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760, but got a string with length 20000000 instead.", nil},
		{"any", "the name of the tool is too long", nil},
	} {
		got := AsTooLong(&perigee.Error{Class: perigee.ClassInvalid, Message: test.message})
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: %s: got %v, want %v", test.server, test.message, got, test.want)
		}
		if AsTooLong(&perigee.Error{Class: perigee.ClassUnavailable, Message: test.message}) != nil {
			t.Errorf("%s: %s: a class that is not invalid", test.server, test.message)
		}
	}
}

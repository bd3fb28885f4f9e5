package providererr

import (
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// A TooLong is the size of a conversation that does not fit into the model, and the limit of the
// model, in tokens. Zeros are unknown.
type TooLong struct{ Tokens, Limit int64 }

// sizedWordings are the words with which servers refuse a conversation that is too long, with its
// size at N and the limit at M. Of two that begin at the same place, the first counts.
var sizedWordings = []string{
	`input token count \(N\) exceeds the maximum number of tokens allowed \(M\)`,       // Gemini
	`prompt is too long: N tokens > M maximum`,                                         // Anthropic
	`prompt is too long: N, model maximum context length: M`,                           // Fireworks
	`prompt contains N tokens[^,]*, too large for model with M maximum context length`, // Mistral
	`maximum prompt length is M but the request contains N tokens`,                     // xAI
	`maximum context length is M tokens[^(]*total of at least N tokens`,                // vLLM
	`maximum context length is M tokens(?:[^0-9]*N tokens)?`,                           // OpenAI, OpenRouter, DeepSeek, vLLM
	`you passed N input tokens.*maximum input length of M tokens`,                      // vLLM
	`prompt \(length N\) is longer than the maximum model length of M`,                 // vLLM
	`request \(N tokens\) exceeds the available context size \(M tokens\)`,             // llama.cpp
	`keep the first N tokens when context the overflows.*context length of only M `,    // LM Studio
	`greater than the context length \(n_keep: N\s*>=\s*n_ctx: M\)`,                    // LM Studio
	`input \(N tokens\) is longer than the model's context length \(M tokens\)`,        // SGLang, Together
	`exceeded model token limit: M(?: \(requested: N\))?`,                              // Moonshot
}

// tooLongSizes matches sizedWordings. A group with a name that begins with n is the size, one with a
// name that begins with m is the limit.
var tooLongSizes = lazyregexp.New(sized(sizedWordings))

// sized returns the expression for wordings: N and M are numbers, in groups with names of their own.
func sized(wordings []string) string {
	var b strings.Builder
	for i, words := range wordings {
		id := strconv.Itoa(i)
		b.WriteString("|" + strings.NewReplacer("N", `(?P<n`+id+`>\d+)`, "M", `(?P<m`+id+`>\d+)`).Replace(words))
	}
	return "(?is)" + b.String()[1:]
}

// tooLong matches such messages without sizes: of Anthropic, Gemini, OpenAI, Bedrock, Groq, llama.cpp,
// LM Studio and Ollama, and the code that many servers share.
var tooLong = lazyregexp.New(`(?i)prompt is too long|input token count exceeds the maximum|input exceeds the context window|input is too long` +
	`|reduce the length of the messages|exceeds the available context size|context size has been exceeded` +
	`|initial prompt is greater than the context length|prompt too long; exceeded (?:max )?context length` +
	`|input length exceeds (?:the )?(?:maximum )?context length|context_length_exceeded`)

// AsTooLong returns the sizes in an error about a conversation that is too long, or nil if it is
// about something else.
func AsTooLong(err *perigee.Error) *TooLong {
	if err.Class != perigee.ClassInvalid {
		return nil
	}
	pattern := tooLongSizes()
	found := pattern.FindStringSubmatch(err.Message)
	if found == nil {
		if tooLong().MatchString(err.Message) {
			return &TooLong{}
		}
		return nil
	}
	long := &TooLong{}
	for i, name := range pattern.SubexpNames() {
		if i == 0 || name == "" || found[i] == "" {
			continue
		}
		n, _ := strconv.ParseInt(found[i], 10, 64) // 0 if it is out of range
		if name[0] == 'n' {
			long.Tokens = n
		} else {
			long.Limit = n
		}
	}
	return long
}

// Known reports whether both sizes are known.
func (t *TooLong) Known() bool { return t.Tokens > 0 && t.Limit > 0 }

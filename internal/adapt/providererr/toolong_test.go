package providererr

import (
	"testing"

	"perigee"
)

func TestAsTooLong(t *testing.T) {
	for message, want := range map[string]*TooLong{
		"The input token count (1000001) exceeds the maximum number of tokens allowed (1000000).":                                                           {1000001, 1000000},
		"prompt is too long: 200001 tokens > 200000 maximum":                                                                                                {200001, 200000},
		"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.": {130000, 128000},
		"This model's maximum context length is 128000 tokens. However, you requested 140000 tokens (130000 in the messages, 10000 in the completion).":     {140000, 128000},
		"the request exceeds: request (8200 tokens) exceeds the available context size (8192 tokens), try increasing it":                                    {8200, 8192},
		"This model's maximum context length is 4096 tokens.":                                                                                               {0, 4096},
		"Your input exceeds the context window of this model. Please adjust your input and try again.":                                                      {},
		"prompt is too long for the model: prompt is too long: 9 tokens > 8 maximum":                                                                        {9, 8},
		"Input is too long.": {},
		"max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens": nil,
		"the name of the tool is too long":                                                 nil,
	} {
		got := AsTooLong(&perigee.Error{Class: perigee.ClassInvalid, Message: message})
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: got %v, want %v", message, got, want)
		}
		if AsTooLong(&perigee.Error{Class: perigee.ClassUnavailable, Message: message}) != nil {
			t.Errorf("%s: a class that is not invalid", message)
		}
	}
}

package openai

import (
	"encoding/json"
	"testing"
	"time"

	"perigee"
)

// Clients act on OpenAI's own codes. Where they act on none, the code is the class.
func TestCodesOfErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err  *perigee.Error
		want string
	}{
		"the key of the client":   {perigee.Errorf(perigee.ClassUnauthenticated, "no key: %w", perigee.ErrBadKey), "invalid_api_key"},
		"the key of an upstream":  {perigee.Errorf(perigee.ClassUnauthenticated, "refused"), "unauthenticated"},
		"quota":                   {&perigee.Error{Class: perigee.ClassExhausted, Retry: time.Hour}, "insufficient_quota"},
		"quota, soon":             {&perigee.Error{Class: perigee.ClassExhausted, Retry: time.Second}, "insufficient_quota"},
		"rate":                    {&perigee.Error{Class: perigee.ClassRateLimited}, "rate_limit_exceeded"},
		"too long for Gemini":     {perigee.Errorf(perigee.ClassInvalid, "The input token count (9) exceeds the maximum number of tokens allowed (8)."), "context_length_exceeded"},
		"too long for Claude":     {perigee.Errorf(perigee.ClassInvalid, "prompt is too long for the model: prompt is too long: 9 tokens > 8 maximum"), "context_length_exceeded"},
		"a response that is gone": {&perigee.Error{Class: perigee.ClassInvalid, Cause: &perigee.Fault{Code: "previous_response_not_found"}}, "previous_response_not_found"},
		"an input that is none":   {&perigee.Error{Class: perigee.ClassInvalid, Cause: &perigee.Fault{Param: "input", Code: "empty_array"}}, "empty_array"},
		"a field":                 {&perigee.Error{Class: perigee.ClassInvalid, Cause: &perigee.Fault{Param: "input"}}, "invalid"},
		"a model":                 {perigee.Errorf(perigee.ClassNotFound, "no model"), "not_found"},
		"an overload":             {perigee.Errorf(perigee.ClassCapacity, "no capacity"), "capacity"},
	} {
		for where, body := range map[string][]byte{"whole": EncodeError(429, test.err), "stream": EncodeStreamError(429, test.err)} {
			var got struct {
				Error struct{ Code, Class string }
			}
			if err := json.Unmarshal(body, &got); err != nil || got.Error.Code != test.want {
				t.Errorf("%s, %s: %s, %v", name, where, body, err)
			}
			if class := string(test.err.Class); where == "stream" && got.Error.Class != class || where == "whole" && got.Error.Class != "" {
				t.Errorf("%s, %s: class %q", name, where, got.Error.Class)
			}
		}
	}
}

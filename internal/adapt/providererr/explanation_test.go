package providererr

import (
	"strings"
	"testing"
)

func TestExplanation(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"a list of FastAPI": {`{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":5},
			{"type":"missing","loc":["body","messages",0,"content"],"msg":"Field required"}]}`,
			"body.seed: Extra inputs are not permitted; body.messages.0.content: Field required"},
		"the same in a message of Mistral": {`{"object":"error","message":{"detail":[{"loc":["body","seed"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error","param":null,"code":null}`,
			"body.seed: Extra inputs are not permitted"},
		"errors":            {`{"errors":[{"message":"a"},"b",{"code":7}]}`, "a; b"},
		"a string":          {`"no"`, "no"},
		"plain text":        {" Bad\r\n\x1b request\n", "Bad request"},
		"nothing":           {"", ""},
		"a number":          {"400", ""},
		"no words":          {`{"error":{"code":400,"detail":null},"status":"failed"}`, ""},
		"a page":            {"\n<!DOCTYPE html><title>Bad gateway</title>", ""},
		"bytes":             {"\x1f\x8b\xff", ""},
		"long":              {strings.Repeat("123456789 ", 60), strings.Repeat("123456789 ", 49) + "…"},
		"one long word":     {strings.Repeat("a", 501), ""},
		"as long as it may": {strings.Repeat("a", 500), strings.Repeat("a", 500)},
		"deep":              {strings.Repeat(`{"error":`, 9000) + `"x"` + strings.Repeat("}", 9000), ""},
	} {
		if got := Explanation([]byte(test.body)); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

package server

import (
	"strings"
	"testing"
)

// A path that there is not leads to the one that was meant, if any is near.
func TestUnknownPathsNameTheNearest(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completion": "did you mean /v1/chat/completions?",
		"/v1/mesages":         "did you mean /v1/messages?",
		"/v1beta/models/":     "did you mean /v1beta/models?",
		"/chat/completions":   "did you mean /v1/chat/completions? check the client",
		"/v1/v1/messages":     "did you mean /v1/messages? check the client",
		"/v1beta/v1beta/models/gemini-3-flash:countTokens":  "did you mean /v1beta/models/gemini-3-flash:countTokens? check",
		"/v1beta/openai/chat/completions":                   "did you mean /v1/chat/completions? check",
		"/v1beta/chat/completions":                          "did you mean /v1/chat/completions? check the client",
		"/perigee/v1/acounts":                               "did you mean /perigee/v1/accounts?",
		"/perigee/accounts":                                 "did you mean /perigee/v1/accounts? check",
		"/v1/perigee/v1/accounts/use":                       "did you mean /perigee/v1/accounts/use? check",
		"/perigee/v1/chat/completions":                      "did you mean /v1/chat/completions? check",
		"/perigee/v1/nonsense/of/mine":                      "docs/http.md lists perigee's own paths, which begin with /perigee/v1",
		"/":                                                 "the paths of models begin with /v1 or /v1beta; check the client",
		"/v1/nonsense":                                      "the paths of models begin with /v1 or /v1beta; check the client",
		"/v1/" + strings.Repeat("chat/completions/", 10000): "the paths of models begin with /v1 or /v1beta; check the client",
	} {
		if got := New(Options{}, Settings{}).unknownPath("POST", path).Error(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", path[:min(len(path), 80)], got, want)
		}
	}
}

package clientkey

import (
	"net/http"
	"strings"
	"testing"

	"perigee"
)

func TestProgramOf(t *testing.T) {
	for _, test := range []struct {
		agent   string
		headers map[string]string
		want    perigee.Client
	}{
		{"GeminiCLI/0.61.0/gemini-2.5-pro (linux)", nil, perigee.Client{Name: "GeminiCLI", Version: "0.61.0"}},
		{"curl", nil, perigee.Client{Name: "curl"}},
		{"", nil, perigee.Client{}},
		{"a\x00b\u202ec/1\x7f", nil, perigee.Client{Name: "abc", Version: "1"}},
		{strings.Repeat("n", 200) + "/" + strings.Repeat("1", 200), nil,
			perigee.Client{Name: strings.Repeat("n", 64), Version: strings.Repeat("1", 64)}},
		{"codex", map[string]string{"Session_id": "s1"}, perigee.Client{Name: "codex", Session: "s1"}},
		{"codex", map[string]string{"Session_id": "s1", "X-Session-Id": "mine"}, perigee.Client{Name: "codex", Session: "mine"}},
		{"codex", map[string]string{"X-Session-Id": "\x01", "Thread_id": strings.Repeat("t", 500)},
			perigee.Client{Name: "codex", Session: strings.Repeat("t", 128)}},
	} {
		r := &http.Request{Header: http.Header{"User-Agent": {test.agent}}}
		for name, value := range test.headers {
			r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		}
		if got := ProgramOf(r); got != test.want {
			t.Errorf("%.40q: got %+v", test.agent, got)
		}
	}
}

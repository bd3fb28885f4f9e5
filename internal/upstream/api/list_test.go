package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee/internal/store/config"
)

// A list may be empty, and may be long: 5,000 models with descriptions of a few kilobytes.
func TestListsOfEachLength(t *testing.T) {
	for _, n := range []int{0, 1, 5000} {
		var entries []string
		for i := range n {
			entries = append(entries, fmt.Sprintf(`{"id":"acme/model-%d","context_length":%d,"description":%q,"supported_parameters":["tools"]}`, i, i+1, strings.Repeat("words ", 600)))
		}
		answer := `{"data":[` + strings.Join(entries, ",") + `]}`
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		u := New(newOpenAI(config.Upstream{Profile: "openrouter"}), Options{Name: "r", URL: server.URL})
		list, err := u.Models(t.Context())
		u.Close()
		server.Close()
		if err != nil || len(list) != n {
			t.Errorf("%d of %d models, %v", len(list), n, err)
			continue
		}
		for i, m := range list {
			if m.ID != fmt.Sprintf("acme/model-%d", i) || m.Context != int64(i+1) || m.Tools == nil || !*m.Tools || m.Upstream != "r" {
				t.Fatalf("model %d: %+v", i, m)
			}
		}
	}
}

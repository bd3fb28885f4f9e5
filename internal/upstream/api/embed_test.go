package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"perigee"
)

func embedRequest(texts ...string) *perigee.EmbedRequest {
	return &perigee.EmbedRequest{Origin: perigee.Origin{Dialect: perigee.DialectOpenAIChat}, Model: "gemini-embedding-001",
		Decode: func() (list []perigee.EmbedInput, _ []perigee.Note, _ error) {
			for _, text := range texts {
				list = append(list, perigee.EmbedInput{Content: perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain(text)}}}})
			}
			return list, nil, nil
		}}
}

// embedOf returns a request with one empty input.
func embedOf(log *perigee.CallLog, model string) *perigee.EmbedRequest {
	req := embedRequest("")
	req.Log, req.Model = log, model
	return req
}

// Vectors come in the order of their inputs, with the usage that the API names. What the API does
// not name is estimated, and an answer that cannot be read is an error that has cost something.
func TestEmbeddings(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		vectors      [][]float32 // nil means an error
		tokens       int64
		estimate     bool
	}{
		{"usage is named", `{"embeddings":[{"values":[1,2]},{"values":[3]}],"usageMetadata":{"promptTokenCount":9}}`, [][]float32{{1, 2}, {3}}, 9, false},
		{"usage is not named", `{"embeddings":[{"values":[1,2]},{"values":[3]}]}`, [][]float32{{1, 2}, {3}}, 4, true},
		{"a vector is missing", `{"embeddings":[{"values":[1,2]}],"usageMetadata":{"promptTokenCount":9}}`, nil, 9, false},
		{"not a vector", `{"embeddings":"none"}`, nil, 4, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || !strings.HasSuffix(r.URL.Path, ":batchEmbedContents") || strings.Count(string(body), "word") != 2 {
					t.Errorf("asked %s with %s, %v", r.URL.Path, body, err)
				}
				_, _ = io.WriteString(w, test.answer)
			}))
			defer server.Close()
			u := New(Gemini, Options{Name: "s", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("k")}})
			defer u.Close()
			got, err := u.Embed(t.Context(), embedRequest("word one", "word two"))
			if test.vectors == nil {
				if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnavailable || e.Usage.Input != test.tokens {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got.Vectors, test.vectors, slices.Equal) || got.Usage.Input != test.tokens || got.Estimate != test.estimate {
				t.Errorf("got %+v", got)
			}
		})
	}
}

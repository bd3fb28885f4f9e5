package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/store/config"
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
		{"usage is named", `{"embeddings":[{"values":[1,2]},{"values":[3,4]}],"usageMetadata":{"promptTokenCount":9}}`, [][]float32{{1, 2}, {3, 4}}, 9, false},
		{"usage is not named", `{"embeddings":[{"values":[1,2]},{"values":[3,4]}]}`, [][]float32{{1, 2}, {3, 4}}, 4, true},
		{"usage is negative", `{"embeddings":[{"values":[1,2]},{"values":[3,4]}],"usageMetadata":{"promptTokenCount":-9}}`, [][]float32{{1, 2}, {3, 4}}, 4, true},
		{"vectors of two lengths", `{"embeddings":[{"values":[1,2]},{"values":[3]}],"usageMetadata":{"promptTokenCount":9}}`, nil, 9, false},
		{"empty vectors", `{"embeddings":[{"values":[]},{"values":[]}],"usageMetadata":{"promptTokenCount":9}}`, nil, 9, false},
		{"no number", `{"embeddings":[{"values":[1,2]},{"values":[1,null]}],"usageMetadata":{"promptTokenCount":9}}`, nil, 9, false},
		{"not finite", `{"embeddings":[{"values":[1,2]},{"values":[1,1e300]}],"usageMetadata":{"promptTokenCount":9}}`, nil, 9, false},
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

// A provider that cuts an input, although it was asked not to, makes a vector of something else.
func TestCutInputsAtVertex(t *testing.T) {
	for model, answer := range map[string]string{
		"gemini-embedding-001": `{"predictions":[{"embeddings":{"values":[1],"statistics":{"token_count":2,"truncated":true}}}]}`,
		"gemini-embedding-2":   `{"embedding":{"values":[1]},"truncated":true}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		provider := newVertex(config.Upstream{Name: "v", URL: server.URL, Project: "ada"})
		provider.access = openAccess{}
		u := New(provider, Options{Name: "v", URL: server.URL})
		req := embedRequest("a")
		req.Model = model
		got, err := u.Embed(t.Context(), req)
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || e.Hint != "send shorter inputs" || e.Usage.Input == 0 {
			t.Errorf("%s: %+v, %v", model, got, err)
		}
		_ = u.Close()
		server.Close()
	}
}

// Models on Vertex AI differ in how many inputs a request takes. Vectors are in the order of the
// inputs, and the error of one request is that of all, with the tokens before it.
func TestEmbeddingsAtVertex(t *testing.T) {
	short, long := []string{"a", "b", "c"}, strings.Repeat("many words ", 2000)
	for _, test := range []struct {
		model    string
		texts    []string
		requests string // the inputs of each
		err      string
	}{
		{"gemini-embedding-001", short, "1 1 1", ""},
		{"google/gemini-embedding-001", short, "1 1 1", ""},
		{"gemini-embedding-2", short[:2], "1 1", ""},
		{"text-embedding-005", short, "3", ""},
		{"text-multilingual-embedding-002", slices.Repeat([]string{"x"}, 250), "100 100 50", ""},
		{"text-embedding-005", []string{long, long, "a", "b", long}, "1 3 1", ""},
		{"gemini-embedding-001", []string{"a", "b", "refused", "c"}, "1 1 1", "no such text"},
		{"claude-sonnet-4-6", short, "", "make no embeddings"},
	} {
		t.Run(test.model, func(t *testing.T) {
			var sizes []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				texts := regexp.MustCompile(`"(?:content|text)":"([^"]*)"`).FindAllSubmatch(body, -1)
				sizes = append(sizes, strconv.Itoa(len(texts)))
				var predictions []string
				for _, text := range texts {
					predictions = append(predictions, fmt.Sprintf(`{"embeddings":{"values":[%d,%d],"statistics":{"token_count":2}}}`, len(text[1]), text[1][0]))
				}
				switch {
				case strings.Contains(string(body), "refused"):
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, `{"error":{"code":400,"message":"no such text","status":"INVALID_ARGUMENT"}}`)
				case strings.HasSuffix(r.URL.Path, ":embedContent"):
					_, _ = fmt.Fprintf(w, `{"embedding":{"values":[%d,%d]},"usageMetadata":{"promptTokenCount":2}}`, len(texts[0][1]), texts[0][1][0])
				default:
					_, _ = fmt.Fprintf(w, `{"predictions":[%s]}`, strings.Join(predictions, ","))
				}
			}))
			defer server.Close()
			provider := newVertex(config.Upstream{Name: "v", URL: server.URL, Project: "ada"})
			provider.access = openAccess{}
			u := New(provider, Options{Name: "v", URL: server.URL})
			defer u.Close()
			req := embedRequest(test.texts...)
			req.Model = test.model
			got, err := u.Embed(t.Context(), req)
			if requests := strings.Join(sizes, " "); requests != test.requests {
				t.Errorf("requests with %s inputs, want %s", requests, test.requests)
			}
			if test.err != "" {
				if e := perigee.AsError(err); e == nil || !strings.Contains(e.Message, test.err) || test.requests != "" && e.Usage.Input != 4 {
					t.Errorf("%v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range test.texts {
				if want := []float32{float32(len(text)), float32(text[0])}; !slices.Equal(got.Vectors[i], want) {
					t.Errorf("input %d has the vector %v, want %v", i, got.Vectors[i], want)
				}
			}
			if len(got.Vectors) != len(test.texts) || got.Usage.Input != int64(2*len(test.texts)) || got.Estimate {
				t.Errorf("%d vectors, %+v", len(got.Vectors), got.Usage)
			}
		})
	}
}

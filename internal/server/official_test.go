package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/imagestore"
	"perigee/internal/testing/perigeetest"
)

// Official libraries find the name of a request where their vendor puts it, whatever became of the
// request.
func TestRequestsHaveNames(t *testing.T) {
	for _, test := range []struct {
		path, header, body string
		status             int
	}{
		{"/v1/chat/completions", "X-Request-Id", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, http.StatusOK},
		{"/v1/chat/completions", "X-Request-Id", `{`, http.StatusBadRequest},
		{"/v1/responses", "X-Request-Id", `{"model":"m","input":"hi"}`, http.StatusOK},
		{"/v1/embeddings", "X-Request-Id", `{"model":"m","input":"hi"}`, http.StatusNotImplemented},
		{"/v1/messages", "Request-Id", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, http.StatusOK},
		{"/v1/messages", "Request-Id", `{`, http.StatusBadRequest},
	} {
		ids := &perigeetest.IDs{}
		api := server.New(server.Options{Upstream: says("Hello."), NewID: ids.New}, server.Settings{MaxBody: 1 << 20})
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body)))
		if got := w.Header().Get(test.header); w.Code != test.status || got != "req_call-0001" {
			t.Errorf("%s %s: %d, %s is %q", test.path, test.body, w.Code, test.header, got)
		}
		if inBody := strings.Contains(w.Body.String(), `"request_id":"req_call-0001"}`); inBody != (test.header == "Request-Id" &&
			test.status != http.StatusOK) {
			t.Errorf("%s: the body is %s", test.path, w.Body)
		}
	}
}

// says is an upstream that says something, and nothing else.
func says(text string) script {
	return func(_ context.Context, yield func(perigee.Event, error) bool) {
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: text}, nil) && yield(end, nil)
	}
}

// Probabilities that were asked for and did not come are noted, where there is still a header and
// where there is not.
func TestMissingLogprobsAreNoted(t *testing.T) {
	for _, test := range []struct {
		name, path, body, want string
		upstream               script
	}{
		{"chat", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"n":2}`, "dropped logprobs",
			says("a")},
		{"chat, without words", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"logprobs":true}`, "", says("")},
		{"chat, not asked", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, "", says("a")},
		{"responses", "/v1/responses", `{"input":"hi","store":false,"top_logprobs":2}`, "dropped logprobs", says("a")},
		{"responses, included", "/v1/responses", `{"input":"hi","store":false,"include":["message.output_text.logprobs"]}`,
			"dropped logprobs", says("a")},
		{"responses, there", "/v1/responses", `{"input":"hi","store":false,"top_logprobs":2}`, "",
			func(_ context.Context, yield func(perigee.Event, error) bool) {
				_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "a"}, nil) &&
					yield(perigee.Event{Kind: perigee.EventLogprobs, Logprobs: &perigee.Logprobs{Chosen: []perigee.Token{{Text: "a"}}}},
						nil) && yield(end, nil)
			}},
	} {
		api := server.New(server.Options{Upstream: test.upstream}, server.Settings{MaxBody: 1 << 20})
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body)))
		if got := w.Header().Get("X-Perigee-Notes"); w.Code != http.StatusOK || got != test.want {
			t.Errorf("%s: %d, notes %q, want %q", test.name, w.Code, got, test.want)
		}
	}
}

// A modelsRig has models and makes vectors.
type modelsRig struct{ script }

func (modelsRig) Models(context.Context) ([]perigee.Model, error) {
	return []perigee.Model{{ID: "real", Upstream: "u"}, {ID: "other", Upstream: "u"}}, nil
}

func (modelsRig) Embed(context.Context, *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	return &perigee.Embeddings{Model: "real", Vectors: [][]float32{{1}}, Usage: perigee.Usage{Input: 3}, Estimate: true}, nil
}

// A name that a request may use can also be looked up with the same key.
func TestModelBehindAName(t *testing.T) {
	keys := []server.Key{{Name: "all", Secret: perigee.NewSecret("letmein1")},
		{Name: "alias", Secret: perigee.NewSecret("letmein2"), Models: []string{"nick*"}},
		{Name: "other", Secret: perigee.NewSecret("letmein3"), Models: []string{"other"}}}
	behind := func(name string) string {
		if strings.HasPrefix(name, "nick") {
			return "real"
		}
		return strings.TrimSuffix(name, "-high")
	}
	api := server.New(server.Options{Upstream: modelsRig{}, Model: behind}, server.Settings{MaxBody: 1 << 20, Keys: keys})
	for _, test := range []struct {
		key, name, version string
		status             int
		id                 string
	}{
		{"letmein1", "real", "", 200, "real"},
		{"letmein1", "real-high", "", 200, "real-high"},
		{"letmein1", "nickname", "", 200, "nickname"},
		{"letmein1", "nickname", "2023-06-01", 200, "real"},
		{"letmein2", "nickname", "", 200, "nickname"},
		{"letmein2", "real", "", 404, ""},
		{"letmein3", "nickname", "", 404, ""},
		{"letmein3", "other-high", "", 200, "other-high"},
		{"letmein1", "nothing", "", 404, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/models/"+test.name, nil)
		r.Header.Set("X-Api-Key", test.key)
		if test.version != "" {
			r.Header.Set("Anthropic-Version", test.version)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != test.status || test.id != "" && !strings.Contains(w.Body.String(), fmt.Sprintf(`"id":%q`, test.id)) {
			t.Errorf("%s asks for %s %s: %d %s", test.key, test.name, test.version, w.Code, w.Body)
		}
	}
}

// A countRig estimates.
type countRig struct{ script }

func (countRig) CountTokens(context.Context, *perigee.Request) (*perigee.TokenCount, error) {
	return &perigee.TokenCount{Upstream: "u", Model: "real", Total: 3, Estimate: true}, nil
}

// An estimate of an upstream is a note in the Gemini API as well.
func TestGeminiCountSaysThatItIsEstimated(t *testing.T) {
	api := server.New(server.Options{Upstream: countRig{}}, server.Settings{MaxBody: 1 << 20})
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1beta/models/real:countTokens",
		strings.NewReader(`{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`)))
	if w.Body.String() != `{"totalTokens":3}` || w.Header().Get("X-Perigee-Notes") != "mapped token count: estimated" {
		t.Errorf("got %s with notes %q", w.Body, w.Header().Get("X-Perigee-Notes"))
	}
}

// Where the tokens are an estimate, the answer says so.
func TestEmbeddingsAreCounted(t *testing.T) {
	api := server.New(server.Options{Upstream: modelsRig{}}, server.Settings{MaxBody: 1 << 20})
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/embeddings",
		strings.NewReader(`{"model":"real","input":["12345678","1234"]}`)))
	if !strings.Contains(w.Body.String(), `"usage":{"prompt_tokens":3,"total_tokens":3}`) || w.Header().
		Get("X-Perigee-Notes") != "estimated usage" {
		t.Errorf("got %s with notes %q", w.Body, w.Header().Get("X-Perigee-Notes"))
	}
}

// Pictures that are asked for as links are found there.
func TestImagesAsLinks(t *testing.T) {
	api := server.New(server.Options{Upstream: drawing("image/png", "aGVsbG8="),
		Images: imagestore.New(imagestore.Options{Dir: t.TempDir()})},
		server.Settings{MaxBody: 1 << 20})
	ask := func(api http.Handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/images/generations",
			strings.NewReader(`{"model":"m","prompt":"a cat","response_format":"url"}`)))
		return w
	}
	w := ask(api)
	_, rest, _ := strings.Cut(w.Body.String(), `"data":[{"url":"`)
	url, _, _ := strings.Cut(rest, `"`)
	if w.Code != http.StatusOK || !strings.HasPrefix(url, "http://example.com/v1/images/") || w.Header().
		Get("X-Perigee-Notes") != "" {
		t.Fatalf("got %d %s, %v", w.Code, w.Body, w.Header())
	}
	got := httptest.NewRecorder()
	if api.ServeHTTP(got, httptest.NewRequest(http.MethodGet, url, nil)); got.Body.String() != "hello" {
		t.Errorf("there is %d %s", got.Code, got.Body)
	}
	without := ask(server.New(server.Options{Upstream: drawing("image/png", "aGVsbG8=")}, server.Settings{MaxBody: 1 << 20}))
	if without.Code != http.StatusBadRequest || !strings.Contains(without.Body.String(), `"param":"response_format"`) {
		t.Errorf("without a store: %d %s", without.Code, without.Body)
	}
}

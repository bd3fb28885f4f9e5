package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/store/config"
)

// What servers answer where they do not have the API, and what they answer about a model, a file or
// a response that they do not have.
func TestLacksMethod(t *testing.T) {
	chat, messages, gemini := "/chat/completions", "/v1/messages", "/v1beta/models/gemini-3-flash:generateContent"
	for _, c := range []struct {
		kind   string
		path   string
		status int
		body   string
		want   bool
	}{
		{config.KindOpenAI, chat, 404, "404 page not found\n", true},
		{config.KindOpenAI, chat, 404, "<html><h1>404 Not Found</h1></html>", true},
		{config.KindOpenAI, chat, 404, "", true},
		{config.KindOpenAI, chat, 404, `{}`, true},
		{config.KindOpenAI, chat, 404, `{"detail":"Not Found"}`, true},
		{config.KindOpenAI, chat, 404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, true},
		{config.KindOpenAI, chat, 404, `{"error":{"code":"404","message":"Resource not found"}}`, true},
		{config.KindOpenAI, chat, 404, `{"error":{"message":"Invalid URL (POST /chat/completions)","type":"invalid_request_error","param":null,"code":null}}`, true},
		{config.KindOpenAI, chat, 404, `{"message":"no Route matched with those values"}`, true},
		{config.KindOpenAI, chat, 405, `{"detail":"Method Not Allowed"}`, true},
		{config.KindOpenAI, chat, 501, "<!DOCTYPE HTML>\n<html>Unsupported method ('POST')</html>", true},
		{config.KindAnthropic, messages, 501, "\n<html>", true},
		{config.KindGemini, gemini, 501, "<html>", true},
		{config.KindOpenAI, chat, 0, `{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`, true},
		{config.KindAnthropic, messages, 404, `{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}`, true},
		{config.KindGemini, gemini, 404, "<!DOCTYPE html><title>Error 404 (Not Found)</title>", true},
		{config.KindGemini, gemini, 404, `{"detail":"Not Found"}`, true},

		{config.KindOpenAI, chat, 404, `{"error":{"message":"The model 'x' does not exist or you do not have access to it.","code":"model_not_found"}}`, false},
		{config.KindOpenAI, chat, 404, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","code":404}`, false},
		{config.KindOpenAI, chat, 404, `{"error":{"message":"model 'x' not found, try pulling it first","type":"api_error"}}`, false},
		{config.KindOpenAI, chat, 404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`, false},
		{config.KindOpenAI, "/responses/resp_1", 404, `{"error":{"message":"Response with id 'resp_1' not found."}}`, false},
		{config.KindOpenAI, chat, 501, `{"error":{"message":"this model has no embeddings"}}`, false},
		{config.KindOpenAI, chat, 400, "<html>", false},
		{config.KindOpenAI, chat, 0, `{"error":{"message":"overloaded"}}`, false},
		{config.KindAnthropic, messages, 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}`, false},
		{config.KindGemini, gemini, 404, `{"error":{"code":404,"message":"Requested entity was not found.","status":"NOT_FOUND"}}`, false},
		{config.KindGemini, gemini, 404, `{"error":{"code":404,"message":"not found","status":"NOT_FOUND"}}`, false},
		{config.KindGemini, "/v1beta/models/llama:8b:generateContent", 404, "<!DOCTYPE html><title>Error 404 (Not Found)</title>", false},
	} {
		e := Providers[c.kind](config.Upstream{}).decodeError(c.status, []byte(c.body))
		if got := lacksMethod(c.status, c.path, e.Message, []byte(c.body)); got != c.want {
			t.Errorf("%s, %d %s: %v", c.path, c.status, c.body, got)
		}
	}
}

// The page of a server without the API is an error about url, whatever status it has. Pages with a
// status that proxies in front of providers send keep the class of the status.
func TestPagesOfServers(t *testing.T) {
	const wrong = "upstream s: the server answered %s with status %d and a page (text/html); " +
		"check url of upstream s in the configuration; perigee doctor tests the upstream"
	for status, want := range map[int]perigee.Class{404: "", 405: "", 501: "", 401: perigee.ClassUnauthenticated, 403: perigee.ClassForbidden,
		407: perigee.ClassInvalid, 429: perigee.ClassRateLimited, 500: perigee.ClassUnavailable, 502: perigee.ClassUnavailable,
		503: perigee.ClassCapacity, 504: perigee.ClassUnavailable, 520: perigee.ClassUnavailable, 524: perigee.ClassUnavailable} {
		for path, provider := range map[string]*Provider{"/chat/completions": newOpenAI(config.Upstream{}), "/v1/messages": Anthropic(config.Upstream{})} {
			base := "" // of the API, in the url
			if path == "/chat/completions" {
				base = "/v1"
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html;charset=utf-8")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "<!DOCTYPE HTML>\n<title>secret</title>")
			}))
			u := New(provider, Options{Name: "s", URL: server.URL + base, Keys: []perigee.Secret{perigee.NewSecret("k")}})
			_, err := ask(t.Context(), u, requestIn(t, perigee.DialectOpenAIChat, "m", true, "hi", ""))
			e := perigee.AsError(err)
			switch {
			case want == "" && (e.Class != perigee.ClassUnavailable || e.Error() != fmt.Sprintf(wrong, path, status)),
				want != "" && (e.Class != want || strings.Contains(e.Error(), "url")), strings.Contains(e.Error(), "secret"), e.Retry != 7*time.Second:
				t.Errorf("%s, %d: %s %v %v", path, status, e.Class, e.Retry, err)
			}
			_ = u.Close()
			server.Close()
		}
	}
}

// A server of kind openai has its API below a path, which the hint names if url has none. The
// addresses of the other kinds have no path.
func TestHintNamesTheMissingPath(t *testing.T) {
	for _, c := range []struct {
		kind, url string
		want      bool
	}{
		{config.KindOpenAI, "http://127.0.0.1:8000", true},
		{config.KindOpenAI, "http://127.0.0.1:8000/", true},
		{config.KindOpenAI, "http://127.0.0.1:8000/v1", false},
		{config.KindOpenAI, "http://127.0.0.1:8000/openai", false},
		{config.KindAnthropic, "http://127.0.0.1:8000", false},
		{config.KindGemini, "http://127.0.0.1:8000", false},
	} {
		u := New(Providers[c.kind](config.Upstream{}), Options{Name: "near", URL: c.url})
		if hint := u.checkURL(); strings.HasPrefix(hint, "add /v1 to url of upstream near ") != c.want {
			t.Errorf("%s at %s: %s", c.kind, c.url, hint)
		}
	}
}

package accounttests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// The secrets of an account, and its owner's address. They look like words, so that no pattern
// finds them.
const (
	hiddenRefresh = "canary-refresh-token"
	hiddenAccess  = "canary-access-token"
	hiddenSecret  = "canary-client-secret"
	hiddenEmail   = "canary@example.com"
)

// A providerRig plays the sign-in server and the gateway, and answers questions to models as a test
// wants it to.
type providerRig struct {
	answer func(r *http.Request, body string) (status int, answer string)

	seen daemontest.Log // every request of ours, with its headers
}

func (m *providerRig) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	_ = r.Header.Write(&m.seen)
	_, _ = m.seen.Write(body)
	status, text := http.StatusOK, `{}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/token"):
		text = `{"access_token":"` + hiddenAccess + `","token_type":"Bearer","expires_in":3599}`
	case strings.Contains(r.URL.Path, "GenerateContent"):
		status, text = m.answer(r, string(body))
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// startProviderRig starts a daemon in front of it, with one account.
func startProviderRig(t *testing.T, m *providerRig, log io.Writer) *daemontest.Gateway {
	t.Helper()
	dir := daemontest.DataDir(t)
	daemontest.SignIn(t, dir, daemontest.SignedIn(hiddenEmail, "a-project", hiddenRefresh))
	text := strings.ReplaceAll(daemontest.AntigravityConfig("https://gateway.example", "max_wait: 0s"), "secret-of-the-client", hiddenSecret)
	return daemontest.StartIn(t, daemontest.Sources(text, dir), func(o *daemon.Options) {
		o.Transport = m
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
}

// everyDialect asks the same in all dialects, whole and in pieces, and returns all that the client
// gets to see.
func everyDialect(t *testing.T, g *daemontest.Gateway) []byte {
	t.Helper()
	const model = "gemini-3-flash"
	var seen bytes.Buffer
	for _, stream := range []bool{false, true} {
		method := "generateContent"
		if stream {
			method = "streamGenerateContent"
		}
		for path, body := range map[string]string{
			"/v1/chat/completions":                   fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"hi"}]}`, model, stream),
			"/v1/responses":                          fmt.Sprintf(`{"model":%q,"stream":%v,"input":"hi"}`, model, stream),
			"/v1/messages":                           fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`, model, stream),
			"/v1beta/models/" + model + ":" + method: `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", "User-Agent", "Anthropic-Beta", "X-Session-Id", "X-Goog-User-Project", "X-Own"} {
				req.Header.Set(name, "inbound-"+name)
			}
			resp, err := daemontest.Client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Header.Write(&seen)
			_, _ = io.Copy(&seen, resp.Body)
			_ = resp.Body.Close()
		}
	}
	return seen.Bytes()
}

// A gateway that repeats what it was sent, in every kind of refusal, gives none of the owner's
// secrets to the client or to the log, and gets nothing of the client's headers itself.
func TestIndiscreetGateway(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	for status, name := range map[int]string{200: "INTERNAL", 400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			m := &providerRig{answer: func(r *http.Request, _ string) (int, string) {
				said := fmt.Sprintf(`{"error":{"code":%d,"status":%q,"message":"%s of %s","details":[{"reason":"X","metadata":{"token":%q,"who":%q}}]}}`,
					max(status, 400), name, r.Header.Get("Authorization"), hiddenEmail, hiddenAccess, hiddenEmail)
				if status == http.StatusOK {
					return status, "data: " + said + "\n\n"
				}
				return status, said
			}}
			log := &daemontest.Log{}
			g := startProviderRig(t, m, log)
			told := everyDialect(t, g)
			g.Daemon.Stop(t.Context())
			for where, text := range map[string][]byte{"the client": told, "the log": log.Bytes()} {
				for _, secret := range []string{hiddenRefresh, hiddenAccess, hiddenSecret, hiddenEmail} {
					if secret == hiddenEmail && where == "the log" {
						continue // it is the owner's own
					}
					if i := bytes.Index(text, []byte(secret)); i >= 0 {
						t.Errorf("%s has %s: …%s…", where, secret, text[max(0, i-200):min(len(text), i+100)])
					}
				}
			}
			seen := m.seen.Bytes()
			if i := bytes.Index(seen, []byte("inbound-")); i >= 0 {
				t.Errorf("the gateway has got …%s…", seen[max(0, i-50):min(len(seen), i+50)])
			}
			if !bytes.Contains(seen, []byte(hiddenAccess)) || !bytes.Contains(seen, []byte(hiddenSecret)) || len(told) == 0 || len(log.Bytes()) == 0 {
				t.Errorf("%d bytes for the client and %d in the log, after %s: this test looks at nothing", len(told), len(log.Bytes()), seen)
			}
		})
	}
}

// A client that sends what the gateway quotes when it refuses it does not cost the owner an
// account.
func TestAccountsSurviveWhatClientsWrite(t *testing.T) {
	t.Parallel()
	m := &providerRig{answer: func(_ *http.Request, body string) (int, string) {
		var sent struct {
			Request struct {
				Contents []struct {
					Parts []struct {
						InlineData struct {
							MIMEType string `json:"mimeType"`
						} `json:"inlineData"`
					} `json:"parts"`
				} `json:"contents"`
			} `json:"request"`
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Error(err)
		}
		kind := ""
		for _, part := range sent.Request.Contents[0].Parts {
			kind += part.InlineData.MIMEType
		}
		if kind == "" {
			return http.StatusOK, "data: " + daemontest.LastEvent + "\n\n"
		}
		message, _ := json.Marshal("Unsupported MIME type: " + kind)
		return http.StatusBadRequest, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":` + string(message) + `}}`
	}}
	g := startProviderRig(t, m, io.Discard)
	ask := func(body string) (int, string) {
		resp := daemontest.PostJSON(t, g, "/v1beta/models/gemini-3-flash:generateContent", body)
		return resp.StatusCode, daemontest.Rest(t, resp)
	}
	for _, kind := range []string{
		`{"error":{"code":403,"message":"x","details":[{"reason":"TOS_VIOLATION"}]}}`, `{"error":"invalid_grant"}`, "token has been revoked",
		`{"error":{"code":429,"message":"x","details":[{"reason":"QUOTA_EXHAUSTED"},{"retryDelay":"600000s"}]}}`,
	} {
		quoted, _ := json.Marshal(kind)
		status, answer := ask(`{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":` + string(quoted) + `,"data":"AAAA"}}]}]}`)
		if status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", kind, status, answer)
		}
		if status, answer := ask(`{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`); status != http.StatusOK {
			t.Fatalf("after %s the next call gets %d %s", kind, status, answer)
		}
	}
}

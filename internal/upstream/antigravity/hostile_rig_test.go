package antigravity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/account/pool"
)

// A provider answers every request as a test wants it to, without any rules of its own.
type provider struct {
	answer func(attempt int, body string) *http.Response
	bodies []string // of the requests, in order
}

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	p.bodies = append(p.bodies, string(body))
	resp := p.answer(len(p.bodies), string(body))
	resp.Request = req
	return resp, nil
}

// asking starts an upstream with a provider that answers as it is told.
func asking(t *testing.T, answer func(attempt int, body string) *http.Response) (*Upstream, *provider, *fakePool) {
	t.Helper()
	p, l := &provider{answer: answer}, &fakePool{token: perigee.NewSecret("an-access-token")}
	u := New(Options{
		Name: "gravity", Endpoints: []string{"https://daily.example", "https://autopush.example", "https://prod.example"},
		Accounts: l, UserAgent: UserAgent("", "test"), SessionRecovery: true, Transport: p,
	})
	t.Cleanup(func() { _ = u.Close() })
	return u, p, l
}

func hear(t *testing.T, u *Upstream, req *perigee.Request) string {
	t.Helper()
	return strings.Join(listen(req, u.Stream(t.Context(), req)), "; ")
}

func reply(status int, contentType, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
}

func refusal(status int, name, message string) *http.Response {
	quoted, _ := json.Marshal(message)
	return reply(status, "application/json", fmt.Sprintf(`{"error":{"code":%d,"status":%q,"message":%s}}`, status, name, quoted))
}

// events answers with a stream of chunks.
func events(chunks ...string) *http.Response {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\r\n\r\n")
	}
	return reply(http.StatusOK, "text/event-stream", b.String())
}

// saying is a chunk with these parts, and the last one of its answer.
func saying(parts string) string {
	return `{"response":{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}}`
}

// beginning is a chunk with a text, and not the last one.
const beginning = `{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"so far"}]}}]}}`

// A repeated stream is the same bytes over and over.
type repeated struct {
	chunk string
	times int // how often; it counts down
	at    int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.times == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.chunk[r.at:])
	if r.at += n; r.at == len(r.chunk) {
		r.at = 0
		r.times--
	}
	return n, nil
}

// canSearch is a request whose model may search beside a function.
const canSearch = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],` +
	`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"read","parameters":{"type":"object","properties":{"p":{"type":"string"}}}}]}]}`

func isSearch(body string) bool { return strings.Contains(body, `"requestType":"web_search"`) }

// A failing fakePool has no account to lend, and says why.
type failing struct{ err error }

func (f failing) Acquire(pool.Request) pool.Acquisition    { return f }
func (f failing) Next(context.Context) (pool.Lease, error) { return nil, f.err }

package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testStart = time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)

func fixedClock() time.Time { return testStart }

// rig is a simulator with a client of it.
type rig struct {
	t      *testing.T
	server *Server
	client *http.Client
	base   string
}

// newRig serves a simulator over in-memory pipes with a clock that stands still.
func newRig(t *testing.T, options Options) *rig {
	t.Helper()
	r := newServer(t, options)
	r.client = &http.Client{Transport: r.server.Transport(), CheckRedirect: noRedirect}
	r.base = "https://daily-cloudcode-pa.googleapis.com"
	return r
}

// newTCPRig is the same over a real listener.
func newTCPRig(t *testing.T, options Options) *rig {
	t.Helper()
	r := newServer(t, options)
	listener := httptest.NewServer(r.server)
	r.base = listener.URL
	r.client = listener.Client()
	r.client.CheckRedirect = noRedirect
	t.Cleanup(func() {
		r.server.Close() // ends hanging calls, for which the listener would wait
		r.client.CloseIdleConnections()
		listener.Close()
	})
	return r
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func newServer(t *testing.T, options Options) *rig {
	t.Helper()
	if options.Now == nil {
		options.Now = fixedClock
	}
	if options.Seed == "" {
		options.Seed = "test"
	}
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return &rig{t: t, server: server}
}

// token is an access token of an account.
func (r *rig) token(email string) string {
	d := r.server.directory()
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.byEmail(email)
	if a == nil {
		r.t.Fatalf("no account %s", email)
	}
	return d.issueAccess(a, r.server.now())
}

const agent = "antigravity/2.9.1 linux/amd64 perigee/test"

func (r *rig) request(method, path, body string, header ...string) *http.Request {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("User-Agent", agent)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
	}
	return request
}

// answer is a finished exchange.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *rig) do(method, path, body string, header ...string) answer {
	r.t.Helper()
	response, err := r.client.Do(r.request(method, path, body, header...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v after %q", method, path, err, read)
	}
	return answer{response.StatusCode, response.Header, string(read)}
}

// internal posts to the private gateway as ada.
func (r *rig) internal(method, body string, header ...string) answer {
	r.t.Helper()
	header = append([]string{"Authorization", "Bearer " + r.token("ada@example.com")}, header...)
	return r.do("POST", "/v1internal:"+method, body, header...)
}

func (r *rig) official(path, body string) answer {
	r.t.Helper()
	return r.do("POST", "/v1beta/models/"+path, body, "X-Goog-Api-Key", "k")
}

// envelopeOf wraps a request for ada's project.
func envelopeOf(model, request string) string {
	return `{"project":"sim-project-ada","model":"` + model + `","userAgent":"antigravity","requestType":"agent","requestId":"agent-1","request":` + request + `}`
}

func prompt(text string) string {
	return `{"contents":[{"role":"user","parts":[{"text":` + string(encode(text)) + `}]}]}`
}

func (r *rig) form(path string, form url.Values) answer {
	r.t.Helper()
	return r.do("POST", path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

func (a answer) decode(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

func (a answer) want(t *testing.T, status int, fragments ...string) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, fragment := range fragments {
		if !strings.Contains(a.body, fragment) {
			t.Errorf("no %q in %s", fragment, a.body)
		}
	}
}

// events are the data lines of a stream, decoded.
func events(t *testing.T, body string) []wrapped {
	t.Helper()
	var out []wrapped
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: ")
		if !ok {
			continue
		}
		var event wrapped
		decoder := json.NewDecoder(bytes.NewReader([]byte(data)))
		if err := decoder.Decode(&event); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		out = append(out, event)
	}
	return out
}

// said joins the visible text of a stream.
func said(events []wrapped) string {
	var b strings.Builder
	for _, e := range events {
		for _, c := range e.Response.Candidates {
			for _, p := range c.Content.Parts {
				if p.Text != nil && !p.Thought {
					b.WriteString(*p.Text)
				}
			}
		}
	}
	return b.String()
}

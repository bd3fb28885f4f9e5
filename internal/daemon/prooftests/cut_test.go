package prooftests

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// TestAnswerCutAtEveryByte has the provider break off its answer after each byte in turn: with a
// reset, short of the length that it announced, and at what HTTP takes for the end of an answer
// without length. No client may take what it gets for complete, in any dialect, unless it got
// everything.
func TestAnswerCutAtEveryByte(t *testing.T) {
	t.Parallel()
	step := 1
	if perigeetest.Raced {
		step = 7
	}
	if testing.Short() {
		step = 41
	}
	p := &cuttingProvider{}
	g := daemontest.Start(t, daemontest.OneUpstream(daemontest.Serve(t, p)), nil)
	for _, d := range cutDialects {
		t.Run(d.name, func(t *testing.T) {
			if status, answer, err := p.cut(g, d, len(d.provides), cutShort); err != nil || status != http.StatusOK || !d.complete(answer) {
				t.Fatalf("the whole answer is status %d, %v: %s", status, err, answer)
			}
			whole := 0
			for n := 0; n < len(d.provides); n += step {
				for _, how := range []cutHow{cutReset, cutShort, cutEnd} {
					status, answer, err := p.cut(g, d, n, how)
					if err != nil || status != http.StatusOK || !d.complete(answer) {
						continue
					}
					if whole++; !bytes.Contains(answer, []byte("one")) || !bytes.Contains(answer, []byte("two")) {
						t.Fatalf("cut after %d of %d bytes (%v), and complete for the client: %s", n, len(d.provides), how, answer)
					}
				}
			}
			if whole > 20 { // without the last bytes of the framing it is still complete
				t.Errorf("%d answers that were cut are complete for the client", whole)
			}
		})
	}
}

var (
	cutStream = "data: " + daemontest.FirstEvent + "\r\n\r\ndata: " + daemontest.LastEvent + "\r\n\r\n"
	cutWhole  = `{"candidates":[{"content":{"parts":[{"text":"one two"}],"role":"model"},"finishReason":"STOP","index":0}]}`
)

type cutDialect struct {
	name, path, body string
	provides         string
	end              string // what stands in a complete answer only; empty means it is one JSON object
}

var cutDialects = []cutDialect{
	{"gemini streamed", "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`, cutStream, `"finishReason"`},
	{"gemini", "/v1beta/models/gemini-3-flash:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`, cutWhole, ""},
	{"chat streamed", "/v1/chat/completions", `{"model":"gemini-3-flash","stream":true,"messages":[{"role":"user","content":"hi"}]}`, cutStream, "[DONE]"},
	{"chat", "/v1/chat/completions", `{"model":"gemini-3-flash","messages":[{"role":"user","content":"hi"}]}`, cutWhole, ""},
	{"responses streamed", "/v1/responses", `{"model":"gemini-3-flash","stream":true,"store":false,"input":"hi"}`, cutStream, "response.completed"},
	{"responses", "/v1/responses", `{"model":"gemini-3-flash","store":false,"input":"hi"}`, cutWhole, ""},
	{"messages streamed", "/v1/messages", `{"model":"gemini-3-flash","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, cutStream, "message_stop"},
	{"messages", "/v1/messages", `{"model":"gemini-3-flash","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, cutWhole, ""},
}

// complete reports whether a client takes an answer of status 200 for complete.
func (d cutDialect) complete(answer []byte) bool {
	if d.end == "" {
		return json.Valid(answer)
	}
	return bytes.Contains(answer, []byte(d.end)) && !bytes.Contains(answer, []byte(`"error":{`))
}

// A cutHow is a way in which an answer breaks off.
type cutHow string

const (
	cutReset cutHow = "reset"
	cutShort cutHow = "short of its length"
	cutEnd   cutHow = "an end like any other"
)

// A cuttingProvider sends a part of an answer and breaks the connection.
type cuttingProvider struct {
	mu     sync.Mutex
	answer string
	after  int
	how    cutHow
}

// cut makes one call whose answer is cut after some bytes.
func (p *cuttingProvider) cut(g *daemontest.Gateway, d cutDialect, after int, how cutHow) (status int, answer []byte, err error) {
	p.mu.Lock()
	p.answer, p.after, p.how = d.provides, after, how
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL()+d.path, strings.NewReader(d.body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := daemontest.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	buffer := make([]byte, 4096)
	for err == nil && !bytes.Contains(answer, []byte(`"error":{`)) { // a client that sees the error leaves
		var n int
		n, err = resp.Body.Read(buffer)
		answer = append(answer, buffer[:n]...)
	}
	if err == io.EOF {
		err = nil
	}
	return resp.StatusCode, answer, err
}

func (p *cuttingProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	answer, after, how := p.answer, p.after, p.how
	p.mu.Unlock()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	kind := "application/json"
	if strings.HasPrefix(answer, "data:") {
		kind = "text/event-stream"
	}
	length := "Content-Length: " + strconv.Itoa(len(answer))
	if how == cutEnd {
		length = "Connection: close"
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: "+kind+"\r\n"+length+"\r\n\r\n"+answer[:after])
	if how == cutReset {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
}

package prooftests

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
)

// A capture is a request that a real client once sent, as it stands in ../testdata/captures: one
// file per client and scenario, one line per request.
type capture struct {
	Name    string            `json:"name"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// captures reads the requests of one client.
func captures(t *testing.T, file string) []capture {
	t.Helper()
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	var list []capture
	lines := json.NewDecoder(unpacked)
	for {
		var c capture
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, c)
	}
}

// embeds reports whether the request asks for vectors, which only models of their own make.
func (c *capture) embeds() bool {
	return strings.Contains(c.Path, ":embedContent") || strings.Contains(c.Path, ":batchEmbedContents") || c.Path == "/v1/embeddings"
}

// streams reports whether the client wants the answer piece by piece.
func (c *capture) streams() bool {
	var body struct{ Stream bool }
	return json.Unmarshal(c.Body, &body) == nil && body.Stream || strings.Contains(c.Path, ":streamGenerateContent")
}

// to returns the request as the client would have sent it to another model.
func (c *capture) to(t *testing.T, model string) (path string, body []byte) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c.Body, &members); err != nil {
		t.Fatal(err)
	}
	body = c.Body
	if named, ok := members["model"]; ok {
		body = bytes.Replace(body, append([]byte(`"model":`), named...), []byte(`"model":"`+model+`"`), 1)
	}
	rest, gemini := strings.CutPrefix(c.Path, "/v1beta/models/")
	if !gemini {
		return c.Path, body
	}
	old, method, _ := strings.Cut(rest, ":")
	body = bytes.ReplaceAll(body, []byte(`"models/`+old+`"`), []byte(`"models/`+model+`"`))
	return "/v1beta/models/" + model + ":" + method, body
}

// send returns the status and the whole answer.
func (c *capture) send(t *testing.T, g *daemontest.Gateway, model string) (int, string) {
	t.Helper()
	path, body := c.to(t, model)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	resp, err := daemontest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, daemontest.Rest(t, resp)
}

// refusals are the captured requests that must fail, with what the answer says: conversations that
// only the provider's own servers remember.
var refusals = map[string]string{
	"sdk-anthropic/03/*": `"error_code":"thread_unsupported_request"`,
	"sdk-anthropic/04/*": `"error_code":"thread_unsupported_request"`,
}

// A replay is one captured request, sent to one model.
type replay struct {
	capture
	scenario, model string
}

// replays lists all that is captured, for each model.
func replays(t *testing.T) (list []replay) {
	t.Helper()
	files, err := filepath.Glob("../testdata/captures/*.jsonl.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files with captures: %v", len(files), err)
	}
	for _, file := range files {
		scenario := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		for _, c := range captures(t, file) {
			models := []string{"gemini-2.5-pro", "gemini-3-flash", "claude-sonnet-4-6"}
			if c.embeds() {
				models = []string{"gemini-embedding-001"}
			}
			for _, model := range models {
				list = append(list, replay{c, scenario, model})
			}
		}
	}
	return list
}

// refusal is what the answer to a request that must fail says.
func (r *replay) refusal() (reason string, ok bool) {
	for _, model := range []string{"*", r.model} {
		if reason, ok = refusals[r.scenario+"/"+r.Name+"/"+model]; ok {
			return reason, true
		}
	}
	return "", false
}

// violations counts the provider's objections. A client of its own dialect is sent on as it came:
// when the provider refuses a foreign signature, or thinking that this model has not got, the
// request goes out again without, and that is as it should be.
func (r *replay) violations(calls []simulator.Call) (count, repaired int, rule string) {
	for i, call := range calls {
		switch {
		case call.Status == http.StatusOK && call.Rule == "":
		case strings.HasPrefix(r.Path, "/v1beta/") && (strings.Contains(call.Rule, ".signature_") || call.Rule == "config.budget_zero") && i < len(calls)-1:
			repaired++
		default:
			count++
			rule = call.Rule
		}
	}
	return count, repaired, rule
}

// What real clients send, first requests as well as those that follow a tool call, is acceptable to
// the provider after perigee has translated it: to a model of their own family and of another one,
// with signatures that were not issued here.
func TestCapturedRequestsBreakNoRule(t *testing.T) {
	provider, url := daemontest.StartSimulator(t, simulator.Options{})
	g := daemontest.Start(t, daemontest.OneUpstream(url), nil)
	replayed, refused, mended := 0, 0, 0
	for _, r := range replays(t) {
		t.Run(r.scenario+"/"+r.Name+"/"+r.model, func(t *testing.T) {
			before := len(provider.Calls())
			status, answer := r.send(t, g, r.model)
			count, repaired, rule := r.violations(provider.Calls()[before:])
			replayed++
			mended += repaired
			if reason, ok := r.refusal(); ok {
				refused++
				if status != http.StatusBadRequest || !strings.Contains(answer, reason) {
					t.Errorf("want a refusal with %s, got %d: %s", reason, status, clipped(answer))
				}
				return
			}
			if status != http.StatusOK || count > 0 {
				t.Errorf("status %d, %d violations, the last of %s: %s", status, count, rule, clipped(answer))
			}
			if r.streams() && strings.Contains(answer, `"error":{`) {
				t.Errorf("the stream broke: %s", clipped(answer))
			}
		})
	}
	t.Logf("%d requests replayed, %d of them refused as they must be, %d repaired after a foreign signature or budget", replayed, refused, mended)
	if replayed < 250 || refused < len(refusals) || mended == 0 {
		t.Errorf("only %d requests were replayed, %d refused and %d repaired", replayed, refused, mended)
	}
}

func clipped(text string) string { return text[:min(len(text), 600)] }

// The captures are public: they have no header that could identify a person, and no path of a real
// machine.
func TestCapturesAreClean(t *testing.T) {
	allowed := []string{"accept", "anthropic-beta", "anthropic-version", "content-type", "originator", "user-agent", "x-app", "x-goog-api-client"}
	place := regexp.MustCompile(`(?i)(/home/|/users/|/root/|\\\\users\\\\)[a-z0-9_.-]*`)
	total := int64(0)
	files, _ := filepath.Glob("../testdata/captures/*")
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
		for _, c := range captures(t, file) {
			for name := range c.Headers {
				if !slices.Contains(allowed, strings.ToLower(name)) {
					t.Errorf("%s %s has a header %s", file, c.Name, name)
				}
			}
			for _, path := range place.FindAllString(string(c.Body), -1) {
				if path != "/home/dev" {
					t.Errorf("%s %s has the path %s", file, c.Name, path)
				}
			}
		}
	}
	if total == 0 || total > 1<<20 {
		t.Errorf("the captures take %d bytes", total)
	}
}

package growth

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/dialect/gemini"
	"perigee/internal/route/hold"
	"perigee/internal/route/thoughtsig"
	"perigee/internal/server"
	"perigee/internal/server/fetch"
	"perigee/internal/testing/perigeetest"
)

// An adapter is an upstream that adapts each prompt to both providers and to models of all
// families, encodes the results, and has nothing to send them to.
type adapter struct{}

func (adapter) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		if err := encode(req); err != nil {
			yield(perigee.Event{}, err)
			return
		}
		_ = yield(perigee.Event{Kind: perigee.EventStart, Model: "m"}, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "done"}, nil) &&
			yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}, nil)
	}
}

func (adapter) CountTokens(_ context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	return &perigee.TokenCount{Total: req.EstimateTokens()}, encode(req)
}

func (adapter) Embed(_ context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	inputs, err := req.Inputs()
	return &perigee.Embeddings{Vectors: make([][]float32, len(inputs))}, err
}

// encode makes the bodies that the providers would get.
func encode(req *perigee.Request) error {
	prompt, err := req.Prompt()
	if err != nil {
		return err
	}
	for _, model := range []string{"gemini-2.5-pro", "gemini-3-flash", "claude-sonnet-4-6", "claude-opus-4-6-thinking", "gpt-oss-120b-medium"} {
		adapted, _, _ := adapt.ForGemini(prompt, models.Of(model))
		gemini.AppendRequest(nil, adapted)
		gemini.AppendRequest(nil, adapt.ForAntigravity(prompt, models.Of(model), adapt.AntigravityOptions{}).Prompt)
	}
	return nil
}

// newServer returns the server that requests are sent to. It may fetch media, but finds no host.
func newServer() http.Handler {
	nothing := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }}
	upstream := hold.AtStopSequences(thoughtsig.NewMemory(thoughtsig.Options{}).Around(adapter{}))
	return server.New(server.Options{Upstream: upstream}, server.Settings{MaxBody: 64 << 20, Fetch: fetch.New(fetch.Options{Allow: true, Resolver: nothing})})
}

// send sends a request, and returns the status of its answer and the bytes that it has allocated.
func send(t *testing.T, server http.Handler, path string, body []byte) (status int, allocated uint64) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	server.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	return w.Code, after.TotalAlloc - before.TotalAlloc
}

// Most requests are answered when their lists are repeated. The tests below measure refusals as
// well, which may be costly, too.
func TestFormsAreUnderstood(t *testing.T) {
	server, all, answered := newServer(), forms(t), 0
	for _, f := range all {
		if status, _ := send(t, server, f.example.path, f.grown(t, 3)); status == http.StatusOK {
			answered++
		}
	}
	if answered < len(all)/2 {
		t.Errorf("%d of %d requests were answered", answered, len(all))
	}
}

// Memory grows with the length of lists and no faster, in every form of request. Four times the
// elements may take eight times as much, since buffers and tables double when they are full; what
// grows with the square takes sixteen times as much.
func TestMemoryGrowsWithLength(t *testing.T) {
	perigeetest.Slow(t)
	perigeetest.Unraced(t)
	const n, most = 600, 8
	server := newServer()
	for _, f := range forms(t) {
		once, four := f.grown(t, n), f.grown(t, 4*n)
		send(t, server, f.example.path, once) // what is made once is made now
		_, bytes1 := send(t, server, f.example.path, once)
		_, bytes4 := send(t, server, f.example.path, four)
		if bytes4 > most*max(bytes1, 128<<10) {
			t.Errorf("%s: %d elements take %d bytes, %d take %d", f.name, n, bytes1, 4*n, bytes4)
		}
	}
}

// The variables that tell an instrumented copy of this program which request to send: its path, and
// the file with its body.
const (
	pathVariable = "PERIGEE_GROWTH_PATH"
	bodyVariable = "PERIGEE_GROWTH_BODY"
)

// TestSendOne sends one request, in a program that counts what it executes. It is for
// TestWorkGrowsWithLength.
func TestSendOne(t *testing.T) {
	path := os.Getenv(pathVariable)
	if path == "" {
		t.Skip("for TestWorkGrowsWithLength")
	}
	body, err := os.ReadFile(os.Getenv(bodyVariable))
	if err != nil {
		t.Fatal(err)
	}
	send(t, newServer(), path, body)
}

// Work grows with the length of lists and no faster, in every form of request. For each block of
// code it is counted how often it runs, which does not depend on the machine, and shows loops that
// take no memory: the test builds itself once more with the counters of coverage profiles in it,
// and in the packages of the standard library that search lists and texts. With four times the
// elements a block may run six times as often, which allows for sorting, and anything may look at
// each byte of the body twice.
func TestWorkGrowsWithLength(t *testing.T) {
	perigeetest.Slow(t)
	perigeetest.Unraced(t)
	program := filepath.Join(t.TempDir(), "growth.test")
	packages := run(t, exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "-f", "{{if not (or .Standard .ForTest)}}{{.ImportPath}}{{end}}", "."))
	covered := "slices,strings,bytes,maps"
	for _, name := range strings.Fields(packages) {
		if name == "perigee" || strings.HasPrefix(name, "perigee/") && !strings.HasSuffix(name, ".test") {
			covered += "," + name
		}
	}
	run(t, exec.CommandContext(t.Context(), "go", "test", "-c", "-covermode=count", "-coverpkg="+covered, "-o", program, "."))
	const n, most = 500, 6
	for _, f := range forms(t) {
		if !f.distinct {
			continue // what searches a list finds equal elements at its beginning
		}
		once, _ := f.blocks(t, program, n)
		four, size := f.blocks(t, program, 4*n)
		for block, count := range four {
			if count > most*max(once[block], n) && count > 2*size {
				t.Errorf("%s: %s runs %d times for %d elements, %d times for %d", f.name, block, once[block], n, count, 4*n)
			}
		}
	}
}

// blocks sends a request in an instrumented program, and returns how often that has run each block
// of code, and the size of the body.
func (f *form) blocks(t *testing.T, program string, n int) (counts map[string]int64, size int64) {
	t.Helper()
	profile, body, data := program+".profile", program+".body", f.grown(t, n)
	if err := os.WriteFile(body, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestSendOne$", "-test.coverprofile="+profile)
	cmd.Env = append(os.Environ(), pathVariable+"="+f.example.path, bodyVariable+"="+body)
	run(t, cmd)
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]int64{}
	for line := range strings.Lines(string(text)) { // file:from,to statements count
		words := strings.Fields(line)
		if len(words) != 3 {
			continue // the mode
		}
		count, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if count > 0 {
			counts[words[0]] = count
		}
	}
	if len(counts) < 400 {
		t.Fatalf("%s: only %d blocks run", f.name, len(counts))
	}
	return counts, int64(len(data))
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd, err, out, trouble.String())
	}
	return string(out)
}

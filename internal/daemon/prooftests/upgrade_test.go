package prooftests

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/sqlstore/engine"
	"perigee/internal/store/vault"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// An olderData is a data directory that an older perigee has written, and what that has put there.
// The archives in testdata/upgrade are made by "go run ./e2e -only ^upgrade -fixtures DIR", each by
// the commit in its name, with the simulator as provider.
type olderData struct {
	dir       string
	At        time.Time
	Calls     map[string]map[string]any
	Accounts  map[string]string
	Disabled  string
	Responses []string
	Images    []string
	ToolCall  string `json:"tool_call"`
	Prompt    string
	Traced    string
}

// The schema version of the archives, and that of this perigee.
const (
	olderSchema = 15
	newerSchema = 16
)

// eachOlder runs a test with a copy of each archive.
func eachOlder(t *testing.T, run func(t *testing.T, o *olderData)) {
	archives, err := filepath.Glob("testdata/upgrade/*.tar.gz")
	if err != nil || len(archives) < 2 {
		t.Fatalf("archives %q, %v", archives, err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			run(t, unpackOlder(t, archive, daemontest.EmptyDir(t)))
		})
	}
}

// unpackOlder unpacks an archive into a directory.
func unpackOlder(t *testing.T, archive, dir string) *olderData {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	o := &olderData{dir: dir}
	for files := tar.NewReader(packed); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(head.Name))
		if head.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var text []byte
			if text, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "kept.json"))
	if err == nil {
		err = errors.Join(json.Unmarshal(text, o), os.Remove(filepath.Join(dir, "kept.json")))
	}
	if err != nil || len(o.Calls) == 0 || len(o.Accounts) == 0 || len(o.Responses) == 0 || len(o.Images) == 0 {
		t.Fatalf("the archive does not say what it has: %+v, %v", o, err)
	}
	return o
}

// serve starts a daemon on the data, a minute after it was written: later, some of it has expired.
func (o *olderData) serve(t *testing.T) (*daemontest.Gateway, error) {
	t.Helper()
	config, err := os.ReadFile("testdata/upgrade/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, url := daemontest.StartSimulator(t, simulator.Options{Switches: rules.StrictSwitches()})
	now := func() time.Time { return o.At.Add(time.Minute) }
	return daemontest.Launch(t.Context(), daemontest.Sources(fmt.Sprintf(string(config), url), o.dir), func(opts *daemon.Options) {
		opts.Now = now
	})
}

// Everything that older versions have recorded is there after the upgrade, and can be continued.
func TestDataOfOlderVersions(t *testing.T) {
	eachOlder(t, func(t *testing.T, o *olderData) {
		g, err := o.serve(t)
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		stop := func() {
			if !stopped {
				await.Receive(t, daemontest.Stopping(t.Context(), g), "the end of the daemon")
				stopped = true
			}
		}
		defer stop()
		o.checkCalls(t, g)
		o.checkObjects(t, g)
		o.converse(t, g)
		stop()
		o.checkAccounts(t)
		o.checkCopy(t)
	})
}

// ask makes a request with the key of the archive and returns the answer.
func (o *olderData) ask(t *testing.T, g *daemontest.Gateway, method, path, body string) string {
	t.Helper()
	status, answer := g.Request(t, method, path, "upgrade-client-key", body)
	if status != http.StatusOK {
		t.Errorf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// checkCalls compares the calls, and the sums of their tokens.
func (o *olderData) checkCalls(t *testing.T, g *daemontest.Gateway) {
	owner := daemontest.AdminOf(t, g)
	rows := daemontest.Rows[map[string]any](t, owner, "/perigee/v1/traces?limit=1000")
	if len(rows) != len(o.Calls) {
		t.Errorf("%d calls, want %d", len(rows), len(o.Calls))
	}
	input, output := 0.0, 0.0
	for _, row := range rows {
		want := o.Calls[fmt.Sprint(row["id"])]
		maps.DeleteFunc(row, func(name string, _ any) bool { _, ok := want[name]; return !ok })
		if !maps.Equal(row, want) {
			t.Errorf("call %v, want %v", row, want)
		}
		input += row["input_tokens"].(float64)
		output += row["output_tokens"].(float64)
	}
	for _, by := range []string{"model", "client"} {
		var sums []struct {
			Calls  int
			Input  float64 `json:"input_tokens"`
			Output float64 `json:"output_tokens"`
		}
		answer := o.ask(t, g, "GET", "/perigee/v1/usage?since=2026-01-01T00:00:00Z&by="+by, "")
		if err := json.Unmarshal([]byte(answer), &sums); err != nil {
			t.Fatal(err)
		}
		calls := 0
		gotInput, gotOutput := 0.0, 0.0
		for _, s := range sums {
			calls, gotInput, gotOutput = calls+s.Calls, gotInput+s.Input, gotOutput+s.Output
		}
		if calls != len(o.Calls) || gotInput != input || gotOutput != output || input == 0 || output == 0 {
			t.Errorf("usage by %s has %d calls, %v and %v tokens; want %d, %v and %v", by, calls, gotInput, gotOutput, len(o.Calls), input, output)
		}
	}
	if o.Traced == "" {
		return
	}
	_, packed, err := owner.Do(t.Context(), "GET", "/perigee/v1/bundle/"+o.Traced, "")
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatalf("the trace: %v in %.200s", err, packed)
	}
	if text, err := io.ReadAll(unpacked); err != nil || !bytes.Contains(text, []byte(o.Prompt)) {
		t.Errorf("the trace does not have the prompt: %v", err)
	}
}

// checkObjects reads the stored responses and images.
func (o *olderData) checkObjects(t *testing.T, g *daemontest.Gateway) {
	for _, id := range o.Responses {
		if answer := o.ask(t, g, "GET", "/v1/responses/"+id, ""); !strings.Contains(answer, "is kept") {
			t.Errorf("response %s: %s", id, answer)
		}
	}
	for _, path := range o.Images {
		if answer := o.ask(t, g, "GET", path, ""); !strings.HasPrefix(answer, "\x89PNG") {
			t.Errorf("image %s: %.20q", path, answer)
		}
	}
}

// converse continues the stored response, and answers the tool call. Its thought signature is sent,
// which this simulator refuses, because it is another one's; for an unknown call, there is none.
func (o *olderData) converse(t *testing.T, g *daemontest.Gateway) {
	last := o.Responses[len(o.Responses)-1]
	answer := o.ask(t, g, "POST", "/v1/responses", `{"model":"gemini-3-flash","input":"and then?","previous_response_id":"`+last+`"}`)
	if !strings.Contains(answer, "and then?") {
		t.Errorf("the response continues with %s", answer)
	}
	for id, want := range map[string]bool{o.ToolCall: true, "x" + o.ToolCall: false} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1/chat/completions", strings.NewReader(`{"model":"gemini-3-flash",
			"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"type":"string"}}}}}],"messages":[
			{"role":"user","content":"[[think: where]] [[call: look {\"at\":\"here\"}]]"},
			{"role":"assistant","tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"look","arguments":"{\"at\":\"here\"}"}}]},
			{"role":"tool","tool_call_id":"`+id+`","content":"found"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "upgrade-client-key")
		resp, err := daemontest.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		notes := resp.Header.Get("X-Perigee-Notes")
		if resp.StatusCode != http.StatusOK || strings.Contains(notes, "signatures that the provider refused") != want {
			t.Errorf("the tool call %s is answered with %d and the notes %q", id, resp.StatusCode, notes)
		}
	}
	o.ask(t, g, "POST", "/v1/messages", `{"model":"claude-sonnet-4-6","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`)
}

// checkAccounts reads the accounts with their tokens.
func (o *olderData) checkAccounts(t *testing.T) {
	key, err := vault.Open(t.Context(), vault.Options{Dir: o.dir, NoKeyring: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(o.dir, "perigee.db"), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	list, err := store.Accounts(key).SignIns(t.Context(), "gravity")
	if err != nil || len(list) != len(o.Accounts) {
		t.Errorf("%d accounts, want %d: %v", len(list), len(o.Accounts), err)
	}
	for _, a := range list {
		if a.Refresh.Reveal() != o.Accounts[a.Email] || a.Enabled == (a.Email == o.Disabled) {
			t.Errorf("account %s has another token than it had, or is enabled: %v", a.Email, a.Enabled)
		}
	}
}

// checkCopy expects the copy for the older version, with everything in it.
func (o *olderData) checkCopy(t *testing.T) {
	db, err := sql.Open("sqlite", engine.CopyName(filepath.Join(o.dir, "perigee.db"), newerSchema))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var version, calls int
	err = errors.Join(db.QueryRow("SELECT max(version) FROM schema_version").Scan(&version),
		db.QueryRow("SELECT count(*) FROM calls").Scan(&calls))
	if version != olderSchema || calls != len(o.Calls) || err != nil {
		t.Errorf("the copy has schema version %d and %d calls: %v", version, calls, err)
	}
}

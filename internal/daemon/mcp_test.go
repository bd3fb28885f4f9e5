package daemon_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/store/config"
)

// callMCP starts a daemon with the configuration and its data in dir, and returns its answer to a
// request for its tools or, if tool is not empty, for a call of that tool.
func callMCP(t *testing.T, dir, configuration, key, tool, arguments string) (status int, body string) {
	t.Helper()
	path := filepath.Join(dir, "config.yaml")
	text := "listen: 127.0.0.1:0\ndata_dir: " + filepath.Join(dir, "data") + "\n" + configuration
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(config.Sources{Path: path, Env: func(string) (string, bool) { return "", false }, HomeDir: dir, ConfigDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), daemon.Options{Loaded: loaded, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop(t.Context())
	method, params := "tools/list", ""
	if tool != "" {
		method, params = "tools/call", `"name":"`+tool+`","arguments":`+arguments+`,`
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL()+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	for header, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": tool, "Authorization": "Bearer " + key} {
		r.Header.Set(header, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// A key that allows a model allows its aliases, too, as in the other dialects.
func TestAsksByAlias(t *testing.T) {
	const configuration = `
upstreams: [{name: play, kind: simulator}]
models: {aliases: {quick: gemini-3-flash, other: gemini-3-pro}}
keys: [{name: laptop, secret: a-secret-of-some-length, models: [gemini-3-flash]}]
mcp: {ask: [model]}
`
	ask := func(model string) string {
		_, body := callMCP(t, t.TempDir(), configuration, "a-secret-of-some-length", "ask_antigravity",
			`{"prompt":"hello","model":"`+model+`"}`)
		return body
	}
	if got := ask("quick"); !strings.Contains(got, "You said: hello") {
		t.Errorf("an alias of an allowed model: %s", got)
	}
	if got := ask("other"); !strings.Contains(got, "does not allow") {
		t.Errorf("an alias of another model: %s", got)
	}
}

// Over HTTP a client has file tools only with a key, in the configured directories, and to read. A
// client without a key, and one with a wrong key, have none.
func TestFileToolsOverHTTP(t *testing.T) {
	dir := t.TempDir()
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	list := func(configuration, key string) (status int, body string) {
		t.Helper()
		return callMCP(t, dir, configuration, key, "", "")
	}
	roots := "mcp: {roots: [" + project + "]}\n"
	writing := "mcp: {roots: [" + project + "], http_write: true}\n"
	keys := "keys: [{name: laptop, secret: a-secret-of-some-length}]\n"
	for name, c := range map[string]struct {
		configuration, key string
		status             int
		reads, writes      bool
	}{
		"no key is configured": {roots, "any", 200, false, false},
		"no roots":             {keys, "a-secret-of-some-length", 200, false, false},
		"a key":                {roots + keys, "a-secret-of-some-length", 200, true, false},
		"writing is allowed":   {writing + keys, "a-secret-of-some-length", 200, true, true},
		"a wrong key":          {writing + keys, "another-secret", 401, false, false},
	} {
		status, body := list(c.configuration, c.key)
		if status != c.status || strings.Contains(body, `"read_file"`) != c.reads || strings.Contains(body, `"write_file"`) != c.writes ||
			strings.Contains(body, `"ask_antigravity"`) != (c.status == 200) {
			t.Errorf("%s: %d %.300s", name, status, body)
		}
	}
}

package reloadtests

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

func TestKeysAndRoutesChangeWithoutRestart(t *testing.T) {
	t.Parallel()
	first, second := daemontest.NewStage(t), daemontest.NewStage(t)
	close(second.GoOn)
	upstreams := "upstreams:\n" +
		"  - {name: first, kind: gemini, url: \"" + first.URL + "\", keys: [studio-key]}\n" +
		"  - {name: second, kind: gemini, url: \"" + second.URL + "\", keys: [studio-key]}\n"
	g, book, write := daemontest.Follow(t, upstreams+"keys: [{name: old, secret: secret-old}]\n")
	open := daemontest.OpenStream(t, g, "secret-old")
	await.Receive(t, first.Begun, "the first upstream to be asked")

	write(upstreams + "keys: [{name: new, secret: secret-new}]\nmodels: {routes: [{match: \"*\", to: [second]}]}\n")
	book.Line(t, "configuration reloaded")
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-old"); got != http.StatusUnauthorized {
		t.Errorf("with the old key the status is %d", got)
	}
	resp := daemontest.Ask(t, g, daemontest.Streaming, "secret-new")
	daemontest.Rest(t, resp)
	if got := resp.Header.Get("X-Perigee-Upstream"); resp.StatusCode != http.StatusOK || got != "second" {
		t.Errorf("the new key got %d from %q", resp.StatusCode, got)
	}

	// A stream in the middle of an answer is not disturbed, neither by the key that is gone nor by
	// the route.
	close(first.GoOn)
	if got := daemontest.Rest(t, open); got != "data: "+daemontest.LastEvent+"\r\n\r\n" {
		t.Errorf("the rest of the open stream is %q", got)
	}
}

func TestBadEditKeepsTheLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	good := stage.Config("keys: [{name: laptop, secret: secret-laptop}]\n")
	g, book, write := daemontest.Follow(t, good)
	for _, bad := range []string{
		"keys: [",
		stage.Config("kyes: []\n"),
		stage.Config("keys: [{name: laptop, secret: \"env:NOT_SET\"}]\n"),
		"upstreams:\n  - {name: x, kind: langserver, accept_terms_risk: true, accounts_from: y, oauth: {client_id: id, client_secret: hush-hush}}\n",
	} {
		write(bad)
		book.Line(t, "keeping the previous one", "error=")
		if got := daemontest.Status(t, g, daemontest.Streaming, "secret-laptop"); got != http.StatusOK {
			t.Errorf("after %q the status is %d", bad, got)
		}
		if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusUnauthorized {
			t.Errorf("after %q the door is open: %d", bad, got)
		}
	}
	write(stage.Config("keys: [{name: laptop, secret: secret-second}]\n"))
	book.Line(t, "configuration reloaded")
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-second"); got != http.StatusOK {
		t.Errorf("after a good edit the status is %d", got)
	}
}

// What a key has used of its limits is not given back by an edit.
func TestReloadKeepsWhatKeysHaveUsed(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	text := "keys: [{name: laptop, secret: secret-laptop, rpm: 1}]\n"
	g, book, write := daemontest.Follow(t, stage.Config(text))
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-laptop"); got != http.StatusOK {
		t.Fatalf("the first status is %d", got)
	}
	write(stage.Config(text + "strict: true\n"))
	book.Line(t, "configuration reloaded")
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-laptop"); got != http.StatusTooManyRequests {
		t.Errorf("after the edit the status is %d", got)
	}
}

// store.responses is a limit that changes while perigee runs: the oldest go at once.
func TestResponseLimitChangesWithoutRestart(t *testing.T) {
	t.Parallel()
	g, book, write := daemontest.Follow(t, "store: {responses: 0}\n")
	ask := func(text string) string {
		t.Helper()
		resp := daemontest.PostJSON(t, g, "/v1/responses", `{"model":"gemini-2.5-flash","input":"`+text+`"}`)
		var answer struct{ ID string }
		if err := json.Unmarshal([]byte(daemontest.Rest(t, resp)), &answer); err != nil || answer.ID == "" {
			t.Fatalf("there is no answer: %v", err)
		}
		return answer.ID
	}
	stored := func(id string) int {
		t.Helper()
		resp, err := daemontest.Client.Get(g.URL() + "/v1/responses/" + id)
		if err != nil {
			t.Fatal(err)
		}
		daemontest.Rest(t, resp)
		return resp.StatusCode
	}
	first := ask(strings.Repeat("a", 600<<10))
	if got := stored(first); got != http.StatusOK {
		t.Fatalf("the first answer is stored with status %d", got)
	}
	write("store: {responses: 1MiB}\n")
	book.Line(t, "configuration reloaded")
	second := ask(strings.Repeat("b", 600<<10))
	if a, b := stored(first), stored(second); a != http.StatusNotFound || b != http.StatusOK {
		t.Errorf("under a limit for one, the first has %d and the second %d", a, b)
	}
	book.Line(t, "store.responses is reached", "limit=1048576")
}

// A reload without the URL of the database changes nothing for the next start, which would take
// another database if it was started before the file is whole.
func TestNextStartMissesTheDatabase(t *testing.T) {
	t.Parallel()
	dir := daemontest.DataDir(t)
	_, book, write := daemontest.FollowOn(t, "store: {url: '"+dbtest.Postgres(t)+"'}\n", map[string]string{"listen": "127.0.0.1:0", "data_dir": dir})
	write("strict: true\n")
	book.Line(t, "need a restart and are not in effect", "store.url")
	if m := config.ReadMark(filepath.Join(dir, datadir.MarkName)); !m.Database {
		t.Errorf("the next start compares with %+v", m)
	}
}

func TestWhatNeedsARestartSaysSo(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	g, book, write := daemontest.Follow(t, stage.Config("log: info\n"))
	write(stage.Config("log: info\nstrict: true\nlimits: {head: 32KiB}\nlog_format: json\nstore: {url: \"postgres://localhost/perigee\"}\n"))
	if line := book.Line(t, "configuration reloaded"); !strings.HasSuffix(line, "changed=strict") {
		t.Errorf("the log says %s", line)
	}
	if line := book.Line(t, "need a restart and are not in effect"); !strings.HasSuffix(line, "settings=log_format, limits.head, store.url") {
		t.Errorf("the log says %s", line)
	}
	want := "changed: strict; not in effect before a restart: log_format, limits.head, store.url"
	if rows := daemontest.Entries(t, g.Config); len(rows) != 1 || rows[0].Detail != want {
		t.Errorf("the audit log has %+v", rows)
	}
	if got := statusOf(t, g).Pending; !slices.Equal(got, []string{"log_format", "limits.head", "store.url"}) {
		t.Errorf("the status says %q", got)
	}
	if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusOK {
		t.Errorf("the status is %d", got)
	}
}

// statusOf is what the daemon says of itself.
func statusOf(t *testing.T, g *daemontest.Gateway) (status perigee.DaemonStatus) {
	t.Helper()
	_, answer, err := daemontest.AdminOf(t, g).Do(t.Context(), http.MethodGet, "/v1/status", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(answer), &status); err != nil {
		t.Fatal(err)
	}
	return status
}

// A new data_dir changes nothing before a restart: not where traces are written and read, and not
// what the daemon says of itself.
func TestNewDataDirChangesNothing(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	text := func(dir string) string { return stage.Config("data_dir: " + dir + "\n") }
	dir, elsewhere := daemontest.DataDir(t), filepath.Join(t.TempDir(), "elsewhere")
	g, book, write := daemontest.FollowOn(t, text(dir), map[string]string{"listen": "127.0.0.1:0", "data_dir": ""})
	write(text(elsewhere))
	if line := book.Line(t, "need a restart and are not in effect"); !strings.HasSuffix(line, "settings=data_dir") {
		t.Errorf("the log says %s", line)
	}
	resp := daemontest.Ask(t, g, daemontest.Streaming, "")
	daemontest.Rest(t, resp)
	id := resp.Header.Get("X-Perigee-Call")

	var status perigee.DaemonStatus
	var traces []struct {
		ID     string
		Bodies bool
	}
	var store perigee.StoreReport
	owner := daemontest.AdminOf(t, g)
	ask := func(method, path string) string {
		_, answer, err := owner.Do(t.Context(), method, path, "")
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	read := func(path string, into any) {
		if err := json.Unmarshal([]byte(ask(http.MethodGet, path)), into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	await.Until(t, "the trace in the directory", func() bool { // it is written after the answer
		read("/v1/store", &store)
		return slices.ContainsFunc(store.Rows, func(row perigee.StoreRow) bool { return row.What == "traces" && row.Count == 1 })
	})
	read("/v1/status", &status)
	read("/v1/traces", &traces)
	if status.DataDir != dir || len(traces) != 1 || traces[0].ID != id || !traces[0].Bodies {
		t.Errorf("%+v, %+v", status, traces)
	}
	if answer := ask(http.MethodPost, "/v1/replay/"+id); !strings.Contains(answer, "candidates") {
		t.Errorf("the replay says %s", answer)
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("the new directory was created")
	}
}

// Removing all keys or all upstreams takes a restart: it may be a file that is being written, or a
// mistake.
func TestReloadDoesNotRemoveAllKeysOrUpstreams(t *testing.T) {
	t.Parallel()
	provider := daemontest.NewStage(t)
	close(provider.GoOn)
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		keys := "keys: [{name: laptop, secret: secret-laptop}]\n"
		g, book, write := daemontest.FollowOn(t, "listen: "+listen+"\n"+provider.Config(keys), map[string]string{})
		for text, section := range map[string]string{
			"listen: 127.0.0.1:0\n": "keys", provider.Config(""): "keys", keys: "upstreams", "upstreams: []\n" + keys: "upstreams", "{}\n": "keys",
		} {
			write(text)
			book.Line(t, "removes all "+section+", which needs a restart; keeping the previous one")
			if got := statusOf(t, g).Refused; got != "it removes all "+section+", which needs a restart" {
				t.Errorf("%s, after %q: the status says %q", listen, text, got)
			}
			if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusUnauthorized {
				t.Errorf("%s, after %q: %d without a key", listen, text, got)
			}
			resp := daemontest.Ask(t, g, daemontest.Streaming, "secret-laptop")
			if got := resp.Header.Get("X-Perigee-Upstream"); resp.StatusCode != http.StatusOK || got != "studio" {
				t.Errorf("%s, after %q: %d from %q", listen, text, resp.StatusCode, got)
			}
		}
		write(provider.Config("keys: [{name: desk, secret: secret-desk}]\n"))
		book.Line(t, "configuration reloaded", "keys=1", "upstreams=1")
		if got := statusOf(t, g).Refused; got != "" {
			t.Errorf("%s, after a good edit: the status says %q", listen, got)
		}
		if got := daemontest.Status(t, g, daemontest.Streaming, "secret-desk"); got != http.StatusOK {
			t.Errorf("%s, after a good edit: %d", listen, got)
		}
	}
}

// Fetching can be forbidden and allowed while perigee runs. That it is allowed shows in how it
// refuses this machine.
func TestFetchingChangesWithoutRestart(t *testing.T) {
	t.Parallel()
	provider := daemontest.NewStage(t)
	close(provider.GoOn)
	g, book, write := daemontest.Follow(t, provider.Config(""))
	look := func() int {
		t.Helper()
		body := `{"model":"gemini-2.5-flash","stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/cat.png"}}]}]}`
		resp := daemontest.PostJSON(t, g, "/v1/chat/completions", body)
		daemontest.Rest(t, resp)
		return resp.StatusCode
	}
	if got := look(); got != http.StatusOK {
		t.Errorf("not allowed: got %d", got)
	}
	write(provider.Config("media: {fetch: true}\n"))
	book.Line(t, "configuration reloaded")
	if got := look(); got != http.StatusBadRequest {
		t.Errorf("allowed: got %d", got)
	}
	write(provider.Config("media: {fetch: false}\n"))
	book.Line(t, "configuration reloaded")
	if got := look(); got != http.StatusOK {
		t.Errorf("not allowed again: got %d", got)
	}
}

// Streams that begin after an edit are kept alive as it says.
func TestKeepAliveChangesWithoutRestart(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	provider := daemontest.NewStage(t)
	g, book, write := daemontest.Follow(t, provider.Config("limits: {keep_alive: 1h}\n"))
	write(provider.Config("limits: {keep_alive: 1s}\n"))
	book.Line(t, "configuration reloaded")
	quiet := daemontest.OpenStream(t, g, "")
	sign := make([]byte, 1) // nothing else comes before the provider is told to go on
	if _, err := io.ReadFull(quiet.Body, sign); err != nil {
		t.Error(err)
	}
	close(provider.GoOn)
	daemontest.Rest(t, quiet)
}

// While the simulator answers because no upstream is configured, every reload says so.
func TestReloadThatLeavesTheSimulatorSaysSo(t *testing.T) {
	t.Parallel()
	g, log, write := daemontest.Follow(t, "log: info\n")
	for _, text := range []string{"strict: true\n", "strict: false\n"} {
		write(text)
		log.Line(t, "configuration reloaded")
		log.Line(t, "answering from the built-in simulator")
	}
	write("upstreams: [{name: mine, kind: simulator}]\n")
	log.Line(t, "configuration reloaded")
	if g.Simulated() {
		t.Error("the simulator still counts as the one that answers because nothing is configured")
	}
}

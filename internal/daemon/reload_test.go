package daemon_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/perigeetest"
	"perigee/internal/perigeetest/await"
)

// A logbook is a slog.Handler that hands over every line.
type logbook chan string

func (b logbook) Enabled(context.Context, slog.Level) bool { return true }
func (b logbook) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b logbook) WithGroup(string) slog.Handler            { return b }

func (b logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	b <- line
	return nil
}

// line waits for a line of the log that has all of the words.
func (b logbook) line(t *testing.T, words ...string) string {
	t.Helper()
	for {
		line := await.Receive(t, b, "a line of the log with "+strings.Join(words, ", "))
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return line
		}
	}
}

// follow starts a daemon that follows a file, and returns a function that replaces the file.
func follow(t *testing.T, text string) (*gateway, logbook, func(text string)) {
	t.Helper()
	return followOn(t, text, map[string]string{"listen": "127.0.0.1:0"})
}

func followOn(t *testing.T, text string, flags map[string]string, changes ...func(*daemon.Options)) (*gateway, logbook, func(text string)) {
	t.Helper()
	flags["data_dir"] = dataDir(t)
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	src := config.Sources{
		Path:  path,
		Flags: flags,
		Env:   func(string) (string, bool) { return "", false },
	}
	book := make(logbook, 10_000)
	g := startIn(t, src, func(o *daemon.Options) {
		o.Poll = 5 * time.Millisecond
		o.Logger = slog.New(book)
		for _, change := range changes {
			change(o)
		}
	})
	return g, book, write
}

func TestKeysAndRoutesChangeWithoutRestart(t *testing.T) {
	t.Parallel()
	first, second := newStage(t), newStage(t)
	close(second.goOn)
	upstreams := "upstreams:\n" +
		"  - {name: first, kind: gemini, url: \"" + first.URL + "\", keys: [studio-key]}\n" +
		"  - {name: second, kind: gemini, url: \"" + second.URL + "\", keys: [studio-key]}\n"
	g, book, write := follow(t, upstreams+"keys: [{name: old, secret: secret-old}]\n")
	open := openStream(t, g, "secret-old")
	await.Receive(t, first.begun, "the first upstream to be asked")

	write(upstreams + "keys: [{name: new, secret: secret-new}]\nmodels: {routes: [{match: \"*\", to: [second]}]}\n")
	book.line(t, "configuration reloaded")
	if got := status(t, g, streaming, "secret-old"); got != http.StatusUnauthorized {
		t.Errorf("with the old key the status is %d", got)
	}
	resp := ask(t, g, streaming, "secret-new")
	rest(t, resp)
	if got := resp.Header.Get("X-Perigee-Upstream"); resp.StatusCode != http.StatusOK || got != "second" {
		t.Errorf("the new key got %d from %q", resp.StatusCode, got)
	}

	// A stream in the middle of an answer is not disturbed, neither by the key that is gone nor by the route.
	close(first.goOn)
	if got := rest(t, open); got != "data: "+lastEvent+"\r\n\r\n" {
		t.Errorf("the rest of the open stream is %q", got)
	}
}

func TestBadEditKeepsTheLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	close(stage.goOn)
	good := stage.config("keys: [{name: laptop, secret: secret-laptop}]\n")
	g, book, write := follow(t, good)
	for _, bad := range []string{
		"keys: [",
		stage.config("kyes: []\n"),
		stage.config("keys: [{name: laptop, secret: \"env:NOT_SET\"}]\n"),
		"upstreams:\n  - {name: x, kind: langserver, accept_terms_risk: true, accounts_from: y, oauth: {client_id: id, client_secret: hush-hush}}\n",
	} {
		write(bad)
		book.line(t, "keeping the previous one", "error=")
		if got := status(t, g, streaming, "secret-laptop"); got != http.StatusOK {
			t.Errorf("after %q the status is %d", bad, got)
		}
		if got := status(t, g, streaming, ""); got != http.StatusUnauthorized {
			t.Errorf("after %q the door is open: %d", bad, got)
		}
	}
	write(stage.config("keys: [{name: laptop, secret: secret-second}]\n"))
	book.line(t, "configuration reloaded")
	if got := status(t, g, streaming, "secret-second"); got != http.StatusOK {
		t.Errorf("after a good edit the status is %d", got)
	}
}

// What a key has used of its limits is not given back by an edit.
func TestReloadKeepsWhatKeysHaveUsed(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	close(stage.goOn)
	text := "keys: [{name: laptop, secret: secret-laptop, rpm: 1}]\n"
	g, book, write := follow(t, stage.config(text))
	if got := status(t, g, streaming, "secret-laptop"); got != http.StatusOK {
		t.Fatalf("the first status is %d", got)
	}
	write(stage.config(text + "strict: true\n"))
	book.line(t, "configuration reloaded")
	if got := status(t, g, streaming, "secret-laptop"); got != http.StatusTooManyRequests {
		t.Errorf("after the edit the status is %d", got)
	}
}

// store.responses is a limit that changes while perigee runs: the oldest go at once.
func TestResponseLimitChangesWithoutRestart(t *testing.T) {
	t.Parallel()
	g, book, write := follow(t, "store: {responses: 0}\n")
	ask := func(text string) string {
		t.Helper()
		resp := postJSON(t, g, "/v1/responses", `{"model":"gemini-2.5-flash","input":"`+text+`"}`)
		var answer struct{ ID string }
		if err := json.Unmarshal([]byte(rest(t, resp)), &answer); err != nil || answer.ID == "" {
			t.Fatalf("there is no answer: %v", err)
		}
		return answer.ID
	}
	stored := func(id string) int {
		t.Helper()
		resp, err := client.Get(g.URL() + "/v1/responses/" + id)
		if err != nil {
			t.Fatal(err)
		}
		rest(t, resp)
		return resp.StatusCode
	}
	first := ask(strings.Repeat("a", 600<<10))
	if got := stored(first); got != http.StatusOK {
		t.Fatalf("the first answer is stored with status %d", got)
	}
	write("store: {responses: 1MiB}\n")
	book.line(t, "configuration reloaded")
	second := ask(strings.Repeat("b", 600<<10))
	if a, b := stored(first), stored(second); a != http.StatusNotFound || b != http.StatusOK {
		t.Errorf("under a limit for one, the first has %d and the second %d", a, b)
	}
	book.line(t, "store.responses is reached", "limit=1048576")
}

func TestWhatNeedsARestartSaysSo(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	close(stage.goOn)
	g, book, write := follow(t, stage.config("log: info\n"))
	write(stage.config("log: info\nstrict: true\nlimits: {head: 32KiB}\nlog_format: json\nstore: {url: \"postgres://localhost/perigee\"}\n"))
	if line := book.line(t, "configuration reloaded"); !strings.HasSuffix(line, "changed=strict") {
		t.Errorf("the log says %s", line)
	}
	if line := book.line(t, "need a restart and are not in effect"); !strings.HasSuffix(line, "settings=log_format, limits.head, store.url") {
		t.Errorf("the log says %s", line)
	}
	want := "changed: strict; not in effect before a restart: log_format, limits.head, store.url"
	if rows := entries(t, g.cfg); len(rows) != 1 || rows[0].Detail != want {
		t.Errorf("the audit log has %+v", rows)
	}
	if got := status(t, g, streaming, ""); got != http.StatusOK {
		t.Errorf("the status is %d", got)
	}
}

// Removing all keys or all upstreams takes a restart: it may be a file that is being written, or a mistake.
func TestReloadDoesNotRemoveAllKeysOrUpstreams(t *testing.T) {
	t.Parallel()
	provider := newStage(t)
	close(provider.goOn)
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		keys := "keys: [{name: laptop, secret: secret-laptop}]\n"
		g, book, write := followOn(t, "listen: "+listen+"\n"+provider.config(keys), map[string]string{})
		for text, section := range map[string]string{
			"listen: 127.0.0.1:0\n": "keys", provider.config(""): "keys", keys: "upstreams", "upstreams: []\n" + keys: "upstreams", "{}\n": "keys",
		} {
			write(text)
			book.line(t, "removes all "+section+", which needs a restart; keeping the previous one")
			if got := status(t, g, streaming, ""); got != http.StatusUnauthorized {
				t.Errorf("%s, after %q: %d without a key", listen, text, got)
			}
			resp := ask(t, g, streaming, "secret-laptop")
			if got := resp.Header.Get("X-Perigee-Upstream"); resp.StatusCode != http.StatusOK || got != "studio" {
				t.Errorf("%s, after %q: %d from %q", listen, text, resp.StatusCode, got)
			}
		}
		write(provider.config("keys: [{name: desk, secret: secret-desk}]\n"))
		book.line(t, "configuration reloaded", "keys=1", "upstreams=1")
		if got := status(t, g, streaming, "secret-desk"); got != http.StatusOK {
			t.Errorf("%s, after a good edit: %d", listen, got)
		}
	}
}

// Fetching can be forbidden and allowed while perigee runs. That it is allowed shows in how it refuses this machine.
func TestFetchingChangesWithoutRestart(t *testing.T) {
	t.Parallel()
	provider := newStage(t)
	close(provider.goOn)
	g, book, write := follow(t, provider.config(""))
	look := func() int {
		t.Helper()
		body := `{"model":"gemini-2.5-flash","stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/cat.png"}}]}]}`
		resp := postJSON(t, g, "/v1/chat/completions", body)
		rest(t, resp)
		return resp.StatusCode
	}
	if got := look(); got != http.StatusOK {
		t.Errorf("not allowed: got %d", got)
	}
	write(provider.config("media: {fetch: true}\n"))
	book.line(t, "configuration reloaded")
	if got := look(); got != http.StatusBadRequest {
		t.Errorf("allowed: got %d", got)
	}
	write(provider.config("media: {fetch: false}\n"))
	book.line(t, "configuration reloaded")
	if got := look(); got != http.StatusOK {
		t.Errorf("not allowed again: got %d", got)
	}
}

// Streams that begin after an edit are kept alive as it says.
func TestKeepAliveChangesWithoutRestart(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	provider := newStage(t)
	g, book, write := follow(t, provider.config("limits: {keep_alive: 1h}\n"))
	write(provider.config("limits: {keep_alive: 1s}\n"))
	book.line(t, "configuration reloaded")
	quiet := openStream(t, g, "")
	sign := make([]byte, 1) // nothing else comes before the provider is told to go on
	if _, err := io.ReadFull(quiet.Body, sign); err != nil {
		t.Error(err)
	}
	close(provider.goOn)
	rest(t, quiet)
}

// While the simulator answers because no upstream is configured, every reload says so.
func TestReloadThatLeavesTheSimulatorSaysSo(t *testing.T) {
	t.Parallel()
	g, log, write := follow(t, "log: info\n")
	for _, text := range []string{"strict: true\n", "strict: false\n"} {
		write(text)
		log.line(t, "configuration reloaded")
		log.line(t, "answering from the built-in simulator")
	}
	write("upstreams: [{name: mine, kind: simulator}]\n")
	log.line(t, "configuration reloaded")
	if g.Simulated() {
		t.Error("the simulator still counts as the one that answers because nothing is configured")
	}
}

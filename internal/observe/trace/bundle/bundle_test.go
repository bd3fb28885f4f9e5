package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/observe/secrets"
	"perigee/internal/observe/trace"
	"perigee/internal/observe/trace/bundle"
	"perigee/internal/testing/perigeetest/await"
)

// plant writes a trace directory.
func plant(t *testing.T, files map[string]string) *trace.Trace {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "2026-11-15", "142004.088-c1")
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := trace.Open(dir, "c1")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func write(t *testing.T, opts bundle.Options) map[string]string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "b.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := bundle.Write(file, opts); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, data)
}

func unpack(t *testing.T, data []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "perigee-c1/")] = string(text)
	}
}

func TestABundleHasNoSecretsAndNoAddresses(t *testing.T) {
	const key = "client/key+of=ada"
	tr := plant(t, map[string]string{
		"meta.json":           `{"id":"c1","account":"ada@example.com","tries":[{"account":"bob@example.com"},{"account":"ada@example.com"}]}`,
		"client_request.json": `{"env":"` + key + `","b":"` + base64.StdEncoding.EncodeToString([]byte("u:"+key)) + `","api_key":"unknown-to-perigee-1234"}`,
		"events.jsonl":        `{"ms":1,"kind":"start","account":"ada\u0040example.com"}` + "\n",
		"client_response.txt": url.QueryEscape(key) + " by eve@example.org and ada%40example.com, carl@example.com",
	})
	files := write(t, bundle.Options{Trace: tr, Version: "v1", Now: time.Now(), Accounts: []string{"carl@example.com"},
		Secrets: append(secrets.All("keys[0].secret", perigee.NewSecret(key)), secrets.All("admin token", perigee.NewSecret("0123456789abcdef"))...)})
	all := ""
	for _, text := range files {
		all += text
	}
	for _, bad := range []string{key, url.QueryEscape(key), "key+of=ada", "example.com", "example.org", "unknown-to-perigee", "Y2xpZW50L2tleS"} {
		if strings.Contains(all, bad) {
			t.Errorf("the bundle has %s", bad)
		}
	}
	if want := "[redacted] by [redacted] and account-2, account-3"; files["client_response.txt"] != want {
		t.Errorf("got %q, want %q", files["client_response.txt"], want)
	}
	if !strings.Contains(files["meta.json"], `"account":"account-2","tries":[{"account":"account-1"},{"account":"account-2"}]`) {
		t.Errorf("meta.json: %s", files["meta.json"])
	}
	var got bundle.Manifest
	if err := json.Unmarshal([]byte(files["manifest.json"]), &got); err != nil {
		t.Fatal(err)
	}
	if len(files) != 5 || len(got.Files) != 4 || got.Call != "c1" || got.Accounts != 3 || len(got.SearchedFor) != 2 ||
		got.SearchedFor[1] != (bundle.Searched{Name: "keys[0].secret", Count: 1}) {
		t.Errorf("%+v", got)
	}
	for _, f := range got.Files {
		sum := sha256.Sum256([]byte(files[f.Name]))
		if f.SHA256 != hex.EncodeToString(sum[:]) || f.Size != int64(len(files[f.Name])) {
			t.Errorf("%+v", f)
		}
	}
}

// What is searched is the written archive: a secret in a place that is not cleaned, such as the
// name of a file, is found.
func TestABundleWithASecretIsRefused(t *testing.T) {
	tr := plant(t, map[string]string{"meta.json": `{"id":"c1"}`, "client_request.json": "{}"})
	file, err := os.Create(filepath.Join(t.TempDir(), "b.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	err = bundle.Write(file, bundle.Options{Trace: tr, Now: time.Now(),
		Secrets: secrets.All("keys[0].secret", perigee.NewSecret("client_request.json"))})
	if err == nil || !strings.Contains(err.Error(), "keys[0].secret") || strings.Contains(err.Error(), "client_request.json") {
		t.Errorf("%v", err)
	}
}

// deltas are how the dialects spell a text over several events.
var deltas = map[string]string{
	"chat":      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n",
	"responses": "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":%q}\n\n",
	"messages":  "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n",
	"gemini":    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%q}]}}]}\n\n",
}

// said is what a reader joins of a stream: the values of content, delta and text.
func said(stream string) string {
	var all strings.Builder
	for _, m := range regexp.MustCompile(`"(?:content|delta|text)":"((?:[^"\\]|\\.)*)`).FindAllStringSubmatch(stream, -1) {
		all.WriteString(m[1])
	}
	return all.String()
}

// A secret that an answer spells over events is in no bundle of a call that is open, or that was
// open when perigee was killed, and not in the files of the latter.
func TestSecretsSpelledByCallsThatDidNotEnd(t *testing.T) {
	const secret = "pk-0123456789abcdefghijklm"
	known := secrets.All("keys[0].secret", perigee.NewSecret(secret))
	redactor := redact.New(known[0].Secret)
	for dialect, format := range deltas {
		for _, size := range []int{1, 3, 8} {
			for _, whole := range []bool{false, true} {
				dir := t.TempDir()
				opts := trace.Options{Dir: dir, Keep: 1 << 20, Bodies: true, Share: 1, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
					Redactor: func() *redact.Redactor { return redactor }}
				text := "It is " + secret
				if whole {
					text += strings.Repeat(" and more", 99)
				}
				store := openCall(t, opts, format, text, size)
				tr, err := trace.Open(dir, "c1")
				if err != nil || tr.Meta.Outcome != perigee.OutcomeOpen {
					t.Fatal(tr, err)
				}
				check := func(when string, files map[string]string) {
					t.Helper()
					for _, name := range []string{"client_response.txt", "events.jsonl", "upstream_response.sse"} {
						got := said(files[name])
						if !strings.HasPrefix(got, "It is ") || strings.Contains(got, secret[:4]) || strings.Contains(got, secret[9:13]) {
							t.Errorf("%s, %d characters, %s: %s has %q", dialect, size, when, name, got)
						}
					}
				}
				files := write(t, bundle.Options{Trace: tr, Secrets: known, Now: time.Now()})
				check("open", files)
				closeStore(t, store) // writes nothing of open calls: as if it was killed

				next := trace.New(opts)
				kept := map[string]string{}
				await.Until(t, "the files to be redacted", func() bool {
					for _, name := range tr.Files() {
						data, _ := tr.Read(name)
						kept[name] = string(data)
					}
					return !strings.Contains(said(kept["events.jsonl"])+said(kept["client_response.txt"])+said(kept["upstream_response.sse"]), secret[:4])
				})
				check("after a start", kept)
				closeStore(t, next)
				files = write(t, bundle.Options{Trace: tr, Secrets: known, Now: time.Now()})
				check("killed", files)
			}
		}
	}
}

// openCall returns a Store with a call that has been answered with a text, a few characters in each
// event, and goes on.
func openCall(t *testing.T, opts trace.Options, format, text string, size int) *trace.Store {
	t.Helper()
	store := trace.New(opts)
	w := store.Watch(&perigee.Call{ID: "c1", Time: time.Now(), Outcome: perigee.OutcomeOpen, Stream: true}, &perigee.Origin{Method: "POST", Path: "/"})
	w.Body(perigee.TapClientRequest, []byte("{}"))
	w.Body(perigee.TapProviderRequest, []byte("{}"))
	for text != "" {
		n := min(size, len(text))
		w.Body(perigee.TapProviderAnswer, fmt.Appendf(nil, deltas["gemini"], text[:n]))
		w.Event(&perigee.Event{Kind: perigee.EventText, Text: text[:n]})
		w.Body(perigee.TapClientAnswer, fmt.Appendf(nil, format, text[:n]))
		text = text[n:]
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store.Flush(ctx)
	return store
}

func closeStore(t *testing.T, s *trace.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// The check of the written archive joins events as well.
func TestABundleThatSpellsASecretIsRefused(t *testing.T) {
	for _, c := range []struct {
		outcome, last string
		refused       bool
	}{{"done", "cret-name.json", true}, {"open", "cret-name.js", true}, {"done", "cret-name.js", false}} {
		tr := plant(t, map[string]string{"meta.json": `{"id":"c1","outcome":"` + c.outcome + `"}`,
			"events.jsonl": `{"text":"a.se"}` + "\n" + `{"text":"` + c.last + `"}` + "\n"})
		file, err := os.Create(filepath.Join(t.TempDir(), "b.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		err = bundle.WriteUncleaned(file, bundle.Options{Trace: tr, Now: time.Now(), Secrets: secrets.All("a token", perigee.NewSecret("se"+"cret-name.json"))})
		_ = file.Close()
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A call that is written as one file has its files under their own names in a bundle.
func TestABundleOfOneFile(t *testing.T) {
	meta, request := `{"id":"c1","outcome":"done"}`, `{"key":"a-known-secret"}`
	text := meta + "\n" + request + "\n"
	head := fmt.Sprintf(`{"files":[{"name":"meta.json","at":0,"size":%d},{"name":"client_request.json","at":%d,"size":%d},`+
		`{"name":"upstream_request.json","at":%d,"size":%d}]}`, len(meta), len(meta)+1, len(request), len(meta)+1, len(request))
	got := write(t, bundle.Options{Trace: plant(t, map[string]string{trace.PackedName: head + "\n" + text}),
		Secrets: []secrets.Named{{Name: "key", Secret: perigee.NewSecret("a-known-secret")}}, Now: time.Now()})
	found := 0
	for name, content := range got {
		if strings.HasSuffix(name, "client_request.json") || strings.HasSuffix(name, "upstream_request.json") {
			found++
			if content != `{"key":"[redacted]"}` {
				t.Errorf("%s: %s", name, content)
			}
		}
		if strings.HasSuffix(name, trace.PackedName) {
			t.Errorf("%s is in the bundle", name)
		}
	}
	if found != 2 {
		t.Errorf("files %v", got)
	}
}

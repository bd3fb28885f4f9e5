package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/secrets"
	"perigee/internal/trace"
	"perigee/internal/trace/bundle"
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

func write(t *testing.T, opts bundle.Options) (map[string]string, *bundle.Manifest) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "b.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	m, err := bundle.Write(file, opts)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, data), m
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
	files, m := write(t, bundle.Options{Trace: tr, Version: "v1", Now: time.Now(), Accounts: []string{"carl@example.com"},
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
	if len(files) != 5 || len(got.Files) != 4 || len(m.Files) != 4 || got.Call != "c1" || got.Accounts != 3 || len(got.SearchedFor) != 2 ||
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

// What is searched is the written archive: a secret in a place that is not cleaned, such as the name of a file, is found.
func TestABundleWithASecretIsRefused(t *testing.T) {
	tr := plant(t, map[string]string{"meta.json": `{"id":"c1"}`, "client_request.json": "{}"})
	file, err := os.Create(filepath.Join(t.TempDir(), "b.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	_, err = bundle.Write(file, bundle.Options{Trace: tr, Now: time.Now(),
		Secrets: secrets.All("keys[0].secret", perigee.NewSecret("client_request.json"))})
	if err == nil || !strings.Contains(err.Error(), "keys[0].secret") || strings.Contains(err.Error(), "client_request.json") {
		t.Errorf("%v", err)
	}
}

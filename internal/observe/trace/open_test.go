package trace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"perigee"
	"perigee/internal/observe/trace"
)

// plant writes a trace directory by hand.
func plant(t *testing.T, dir, day, name string, files map[string]string) string {
	t.Helper()
	path := filepath.Join(dir, day, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestOpenReadsADirectory(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "2026-11-15", "142004.088-c1", map[string]string{
		"meta.json":           `{"id":"c1","model":"m","outcome":"done","status":200,"method":"POST","tries":[{"upstream":"studio","status":200}]}`,
		"client_request.json": "{}", "client_response.txt": "hi", "events.jsonl": "", "upstream_request.json": "1", "upstream_response.json": "2",
		"upstream_request.2.json": "3", "upstream_response.2.sse": "4", "upstream_request.10.json": "5", "notes.json": "[]", ".meta.json": "x",
	})
	got, err := trace.Open(dir, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if m := got.Meta; m.Outcome != perigee.OutcomeDone || !m.Bodies || m.Method != "POST" || len(m.Tries) != 1 || m.Tries[0].Upstream != "studio" {
		t.Errorf("%+v", m)
	}
	want := []string{"meta.json", "client_request.json", "notes.json", "upstream_request.json", "upstream_response.json",
		"upstream_request.2.json", "upstream_response.2.sse", "upstream_request.10.json", "events.jsonl", "client_response.txt"}
	if names := got.Files(); !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	if data, err := got.Read("client_response.txt"); err != nil || string(data) != "hi" {
		t.Errorf("%q, %v", data, err)
	}
	for _, name := range []string{"error.json", "../142004.088-c1/meta.json", "", ".", "..", ".meta.json", "/etc/hostname"} {
		if data, err := got.Read(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is read: %q, %v", name, data, err)
		}
	}
}

// A daemon that is killed leaves a directory without a meta.json, or with a part of one.
func TestADirectoryOfACallThatWasCutOffIsReadable(t *testing.T) {
	dir := t.TempDir()
	for id, files := range map[string]map[string]string{
		"none": {"client_request.json": "{}"}, "part": {"client_request.json": "{}", "meta.json": `{"id":"par`},
	} {
		plant(t, dir, "2026-11-15", "142004.088-"+id, files)
		got, err := trace.Open(dir, id)
		if err != nil {
			t.Fatal(err)
		}
		if m := got.Meta; m.ID != id || m.Outcome != perigee.OutcomeOpen || !m.Bodies || !m.Time.Equal(time.Date(2026, 11, 15, 14, 20, 4, 88e6, time.UTC)) {
			t.Errorf("%s: %+v", id, m)
		}
	}
}

func TestOpenOfACallWithoutADirectory(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "2026-11-15", "142004.088-c1", nil)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "2026-11-15", "142005.000-linked")); err != nil {
		t.Skip(err)
	}
	for _, id := range []string{"c", "c2", "", "../c1", "088-c1", "linked"} {
		if _, err := trace.Open(dir, id); err == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := trace.Open(filepath.Join(dir, "missing"), "c1"); err == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("%v", err)
	}
}

func TestHasTellsWhichCallsCanBeSentAgain(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "2026-11-14", "142004.088-old", map[string]string{"client_request.json": "{}"})
	plant(t, dir, "2026-11-15", "142004.088-new", map[string]string{"client_request.json": "{}"})
	plant(t, dir, "2026-11-15", "142005.088-bare", map[string]string{"meta.json": "{}"})
	plant(t, dir, "notes", "142005.088-elsewhere", map[string]string{"client_request.json": "{}"})
	got := trace.Has(dir, "old", "new", "bare", "gone", "elsewhere")
	if len(got) != 2 || !got["old"] || !got["new"] {
		t.Errorf("%v", got)
	}
	if got := trace.Has(filepath.Join(dir, "missing"), "old"); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

package edit_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee/internal/lib/edit"
)

var update = flag.Bool("update", false, "rewrite the expected files of testdata")

// parseSettings reads lines "a/b/c = value". Paths are separated by slashes, because names contain
// dots.
func parseSettings(t *testing.T, text string) []edit.Setting {
	t.Helper()
	var settings []edit.Setting
	for line := range strings.Lines(text) {
		path, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			t.Fatalf("no setting: %q", line)
		}
		s := edit.Setting{Path: strings.Split(path, "/"), Value: value}
		if raw, ok := strings.CutPrefix(value, "raw:"); ok {
			s.Value = edit.Raw(raw)
		}
		settings = append(settings, s)
	}
	return settings
}

// TestFiles edits each file of testdata. The comment of an archive says what it shows; the sections
// are the settings, the file before and after, and, where an edit is refused, the error. What was
// edited is reverted to the same bytes. A line end "␍" stands for CRLF, and "␃" at the end for a
// file without a last line end.
func TestFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) < 20 {
		t.Fatalf("found %d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { testFile(t, path) })
	}
}

func testFile(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, f := range archive.Files {
		sections[f.Name] = string(f.Data)
	}
	format := edit.Format(strings.SplitN(filepath.Base(path), "_", 2)[0])
	real := strings.NewReplacer("␍", "\r", "␃\n", "", "␂", "\uFEFF")
	shown := strings.NewReplacer("\r", "␍", "\uFEFF", "␂")
	src := []byte(real.Replace(sections["before"]))
	got, undo, err := edit.Apply(format, src, parseSettings(t, sections["settings"]))
	after, refused := shown.Replace(string(got)), ""
	if !strings.HasSuffix(after, "\n") && err == nil {
		after += "␃\n"
	}
	if err != nil {
		after, refused = "", err.Error()+"\n"
	}
	if *update {
		archive.Files = archive.Files[:2]
		if err != nil {
			archive.Files = append(archive.Files, txtar.File{Name: "refused", Data: []byte(refused)})
		} else {
			archive.Files = append(archive.Files, txtar.File{Name: "after", Data: []byte(after)})
		}
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if after != sections["after"] || refused != sections["refused"] {
		t.Fatalf("got:\n%s\nrefused: %s\nwant:\n%s\nrefused: %s", after, refused, sections["after"], sections["refused"])
	}
	if err != nil {
		return
	}
	back, err := edit.Revert(format, got, undo)
	if err != nil {
		t.Fatalf("revert: %v", err)
	}
	if string(back.Data) != string(src) {
		t.Errorf("reverted:\n%q\nwant:\n%q", back.Data, src)
	}
	again, _, err := edit.Apply(format, got, parseSettings(t, sections["settings"]))
	if err != nil || string(again) != string(got) {
		t.Errorf("the same settings again change the file: %q, %v", again, err)
	}
}

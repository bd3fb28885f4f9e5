package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"
)

// Whatever the file holds, Load gives a configuration or problems that all stand somewhere in the
// file.
func FuzzLoad(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if file.Name == "config.yaml" {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		src := Sources{
			Path: "config.yaml", HomeDir: "/h",
			Env: func(name string) (string, bool) { return "a value", name == "K" },
			ReadFile: func(path string) ([]byte, error) {
				if path == "config.yaml" {
					return text, nil
				}
				return nil, os.ErrNotExist
			},
		}
		loaded, err := Load(src)
		if err == nil {
			if loaded.Config == nil || len(loaded.Values()) == 0 {
				t.Fatal("no error and no configuration")
			}
			return
		}
		problems, ok := errors.AsType[*Problems](err)
		if !ok || loaded != nil || len(problems.List) == 0 {
			t.Fatalf("the error is %T, loaded is %v", err, loaded)
		}
		lines := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) + bytes.Count(text, []byte("\u2028")) + bytes.Count(text, []byte("\u2029")) + bytes.Count(text, []byte("\u0085")) + 1
		last := 0
		for _, p := range problems.List {
			if p.Source != "config.yaml" || p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" {
				t.Errorf("problem without a place among %d lines: %+v", lines, p)
			}
			if p.Line < last {
				t.Errorf("out of order: %+v", p)
			}
			last = p.Line
		}
	})
}

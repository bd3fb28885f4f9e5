package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// Each file in testdata is a configuration and what comes of it. Its parts:
//
//	config.yaml     the file; without it there is none
//	env, flags      NAME=value, key=value
//	models          names of models that are known
//	spare           keys that will not be used, and what is in them
//	values          what is not a default, with its origin
//	all             every value
//	warnings        what is allowed but unwise
//	problems        everything that is wrong
//
// Other parts are files that secrets refer to.
func TestLoad(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no test data", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			if strings.Contains(path, "xdg") && runtime.GOOS == "windows" {
				t.Skip("the paths in it are not absolute there")
			}
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			results := run(archive)
			if *update {
				rewrite(t, path, archive, results)
				return
			}
			compare(t, archive, results)
		})
	}
}

// run gives the parts that a configuration should have led to.
func run(archive *txtar.Archive) map[string]string {
	loaded, err := Load(sourcesOf(archive))
	if err != nil {
		return map[string]string{"problems": err.Error() + "\n"}
	}
	var values, all strings.Builder
	for _, v := range loaded.Values() {
		line := fmt.Sprintf("%s = %s (%s)\n", v.Key, filepath.ToSlash(v.Value), v.Origin)
		all.WriteString(line)
		if v.Origin != fromDefault {
			values.WriteString(line)
		}
	}
	warnings := ""
	for _, w := range loaded.Warnings {
		warnings += w.String() + "\n"
	}
	return map[string]string{"values": values.String(), "all": all.String(), "warnings": warnings}
}

func sourcesOf(archive *txtar.Archive) Sources {
	files := make(map[string][]byte)
	for _, f := range archive.Files {
		files[f.Name] = f.Data
	}
	env := lines(files["env"])
	src := Sources{
		Flags: lines(files["flags"]),
		Env:   func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		Environ: func() []string {
			var list []string
			for name, value := range env {
				list = append(list, name+"="+value)
			}
			return list
		},
		ReadFile: func(path string) ([]byte, error) {
			if data, ok := files[filepath.ToSlash(path)]; ok {
				return data, nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		Now:       func() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) },
		HomeDir:   "/home/me",
		ConfigDir: "/home/me/.config",
		system:    "linux",
	}
	if _, ok := files["config.yaml"]; ok {
		src.Path = "config.yaml"
	}
	for name := range lines(files["models"]) {
		src.Models = append(src.Models, name)
	}
	if spare := lines(files["spare"]); len(spare) > 0 {
		src.Spare = func(key string) bool {
			for prefix := range spare {
				if strings.HasPrefix(key, prefix) {
					return true
				}
			}
			return false
		}
	}
	return src
}

func lines(text []byte) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		m[name] = value
	}
	return m
}

func isResult(name string) bool {
	return name == "values" || name == "all" || name == "warnings" || name == "problems"
}

func compare(t *testing.T, archive *txtar.Archive, results map[string]string) {
	t.Helper()
	expected := 0
	for _, f := range archive.Files {
		if !isResult(f.Name) {
			continue
		}
		expected++
		if got := results[f.Name]; got != string(f.Data) {
			t.Errorf("%s:\n%s\nwant:\n%s", f.Name, got, f.Data)
		}
	}
	if expected == 0 {
		t.Error("the file expects nothing")
	}
	if _, failed := results["problems"]; failed && t.Failed() {
		t.Log(results["problems"])
	}
}

// rewrite keeps the part that was expected when it still applies, and else writes the one that
// does.
func rewrite(t *testing.T, path string, archive *txtar.Archive, results map[string]string) {
	t.Helper()
	var kept []txtar.File
	written := false
	for _, f := range archive.Files {
		result, ok := results[f.Name]
		switch {
		case !isResult(f.Name):
			kept = append(kept, f)
		case ok:
			kept = append(kept, txtar.File{Name: f.Name, Data: []byte(result)})
			written = true
		}
	}
	for _, name := range []string{"problems", "values"} {
		if result, ok := results[name]; ok && !written {
			kept = append(kept, txtar.File{Name: name, Data: []byte(result)})
		}
	}
	archive.Files = kept
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A configuration that does not hold can be looked at: what is wrong is the error, and what was
// refused has no value.
func TestInspect(t *testing.T) {
	text := "listen: 127.0.0.1:9\nlimits: {body: a lot}\nupstreams: [{name: one, kind: antigravity}]\n"
	src := Sources{Path: "c.yaml", ReadFile: func(string) ([]byte, error) { return []byte(text), nil }, HomeDir: "/home/ada", ConfigDir: "/etc",
		Env: func(string) (string, bool) { return "", false }}
	loaded, err := Inspect(src)
	if problems, ok := errors.AsType[*Problems](err); !ok || len(problems.List) != 2 || loaded == nil {
		t.Fatalf("got %v, %v", loaded, err)
	}
	got := map[string]string{}
	for _, v := range loaded.Values() {
		got[v.Key] = v.Value
	}
	for key, want := range map[string]string{"listen": "127.0.0.1:9", "limits.body": "[refused]", "upstreams[0].accept_terms_risk": "false", "limits.idle": "5m"} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	text = "listen: 127.0.0.1:9\n"
	if loaded, err := Inspect(src); err != nil || loaded == nil {
		t.Errorf("got %v, %v", loaded, err)
	}
	text = "listen: ["
	if loaded, err := Inspect(src); err == nil || loaded != nil {
		t.Errorf("got %v, %v", loaded, err)
	}
}

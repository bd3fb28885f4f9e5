package perigee_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// vague are words that hide what a comment is about. "The recorder writes one row per call" names
// the part and what can be relied on.
var vague = regexp.MustCompile(`(?i)\b(who|whom|whoever|nobody|somebody|anybody|others)\b`)

// TestCommentsNameTheirSubject holds the first rule for comments in CONTRIBUTING.md.
func TestCommentsNameTheirSubject(t *testing.T) {
	parseGo(t, func(path string, files *token.FileSet, file *ast.File) {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if word := vague.FindString(comment.Text); word != "" && path != "words_test.go" {
					t.Errorf("%s: a comment says %q: name the thing that it is about", files.Position(comment.Pos()), word)
				}
			}
		}
	})
}

// TestTranscriptsNameTheirSubject holds the same rule for *.txtar files: for the description before
// the first file, and for lines that begin with #. A script begins with such a line and has no
// description: its other lines are commands.
func TestTranscriptsNameTheirSubject(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && foreignDir(entry) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		number, description := 0, !strings.HasPrefix(string(text), "#")
		for line := range strings.Lines(string(text)) {
			number++
			description = description && !strings.HasPrefix(line, "-- ")
			if word := vague.FindString(line); word != "" && (description || strings.HasPrefix(line, "#")) {
				t.Errorf("%s:%d: a description or comment says %q: name the thing that it is about", path, number, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Error("no *.txtar file was found")
	}
}

// foreignDir says whether a directory has files of other projects: what npm installs, and what e2e
// and git keep.
func foreignDir(entry fs.DirEntry) bool {
	return entry.IsDir() && (entry.Name() == "node_modules" || len(entry.Name()) > 1 && entry.Name()[0] == '.')
}

// parseGo calls visit with each Go file of the repository.
func parseGo(t *testing.T, visit func(path string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	all, err := goFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		visit(f.path, f.files, f.file)
	}
}

// A goFile is a Go file of the repository that is not generated.
type goFile struct {
	path  string
	files *token.FileSet
	file  *ast.File
}

var goFiles = sync.OnceValues(func() (all []goFile, err error) {
	files := token.NewFileSet()
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (path == "gen" || foreignDir(entry)) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, goFile{path, files, file})
		return err
	})
	return all, err
})

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

	"perigee/internal/testing/perigeetest"
)

// vague are words that hide what a comment is about. "The recorder writes one row per call" names
// the part and what can be relied on.
var vague = regexp.MustCompile(`(?i)\b(who|whom|whoever|nobody|somebody|anybody|others)\b`)

// TestCommentsNameTheirSubject holds the first rule for comments in CONTRIBUTING.md.
func TestCommentsNameTheirSubject(t *testing.T) {
	perigeetest.Unraced(t)
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

// rare are patterns that a native engineer would seldom write, with the number of comments in which
// they still are. The numbers only fall: a test fails for a new one, and for a number that is too
// high.
var rare = []struct {
	pattern string
	count   int
}{
	{`\b(says|said) whether\b`, 0},
	{`\bwhose\b`, 1},
	{`\b(says?|said|tells?|told)\b`, 0},
	{`\b(stands?|stood)\b`, 11},
	{`\b(goes|go|gone|went) on\b`, 1},
	{`\bas (it|they) (is|are|was|were|came|comes?|stands?)\b`, 4},
	{`\bin the words of\b`, 0},
	{`\bpictures?\b`, 0},
	{`\b(trouble|mishaps?|astray|verdicts?|judges?|blames?|settles?|knobs?|mends?|wish|lent)\b`, 2},
	{`\b(that|those) of\b`, 7},
	{`(?m)(^|[;,.] )(nil|empty|0|zero|""): `, 0},
	{`(?m)(^|\. )what\b`, 15},
	{`\bis no [a-z]+ (of|that|and)\b`, 0},
}

// TestRareWordsBecomeFewer counts the patterns in comments of the product and of its SQL.
func TestRareWordsBecomeFewer(t *testing.T) {
	perigeetest.Unraced(t)
	type comment struct{ at, text string }
	var comments []comment
	parseGo(t, func(path string, files *token.FileSet, file *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") || dir != "." && !isProduct(dir) && !within(dir, "cmd") {
			return
		}
		for _, group := range file.Comments {
			comments = append(comments, comment{files.Position(group.Pos()).String(), group.Text()})
		}
	})
	sql, err := filepath.Glob("internal/store/sqlstore/migrations/*.sql")
	if err != nil || len(sql) == 0 {
		t.Fatalf("found %d SQL files: %v", len(sql), err)
	}
	for _, path := range sql {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, remark, ok := strings.Cut(line, "--"); ok {
				comments = append(comments, comment{path, remark})
				if word := vague.FindString(remark); word != "" {
					t.Errorf("%s: a comment says %q: name the thing that it is about", path, word)
				}
			}
		}
	}
	for _, r := range rare {
		pattern, places := regexp.MustCompile(`(?i)`+r.pattern), []string(nil)
		for _, c := range comments {
			if pattern.MatchString(c.text) {
				places = append(places, c.at)
			}
		}
		switch {
		case len(places) > r.count:
			t.Errorf("%d comments match %s, at most %d: write a plain sentence instead, in one of\n%s",
				len(places), r.pattern, r.count, strings.Join(places, "\n"))
		case len(places) < r.count:
			t.Errorf("%d comments match %s: lower its number from %d", len(places), r.pattern, r.count)
		}
	}
}

// TestTranscriptsNameTheirSubject holds the same rule for *.txtar files: for the description before
// the first file, and for lines that begin with #. A script begins with such a line and has no
// description: its other lines are commands.
func TestTranscriptsNameTheirSubject(t *testing.T) {
	perigeetest.Unraced(t)
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

// foreignDir reports whether a directory has files of other projects: what npm installs, and what e2e
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

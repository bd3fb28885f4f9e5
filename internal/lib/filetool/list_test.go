package filetool_test

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/testing/perigeetest"
)

func TestEntriesHaveTypes(t *testing.T) {
	r := newRig(t, map[string]string{"file": "12345", "dir/": "", "link -> file": "", "linkdir -> dir": "", "broken -> nothing": ""})
	when := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if err := os.Chtimes(r.path("file"), when, when); err != nil {
		t.Fatal(err)
	}
	result, err := r.tools.List(t.Context(), filetool.ListInput{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range result.Entries {
		got += fmt.Sprintf("%s %s %d\n", e.Path, e.Type, e.Size)
	}
	if want := "broken symlink 0\ndir directory 0\nfile file 5\nlink symlink 0\nlinkdir symlink 0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if !result.Entries[2].Modified.Equal(when) {
		t.Errorf("modified %v", result.Entries[2].Modified)
	}
	empty, err := r.tools.List(t.Context(), filetool.ListInput{Path: "dir"})
	if err != nil || empty.Entries == nil || len(empty.Entries) != 0 || empty.NextCursor != "" {
		t.Errorf("got %+v, %v", empty, err)
	}
	if got := r.list(filetool.ListInput{Path: "linkdir/.."}); len(got) != 5 {
		t.Errorf("got %q", got)
	}
}

func TestEntriesAreInTheOrderOfTheirPaths(t *testing.T) {
	r := newRig(t, map[string]string{"a/b/c": "", "a/b.c/d": "", "a-b": "", "a.b": "", "a0": "", "A": "", "é": "", "a/b-": ""})
	got := r.list(filetool.ListInput{Recursive: true})
	if want := slices.Sorted(slices.Values(got)); !slices.Equal(got, want) || len(got) != 11 {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestGlobs(t *testing.T) {
	r := newRig(t, map[string]string{"a.go": "", "b.ts": "", "src/a.go": "", "src/x/y/c.tsx": "", "src/x/d.ts": "", "srcs/z.ts": "", ".hidden.go": ""})
	for _, test := range []struct {
		in   filetool.ListInput
		want []string
	}{
		{filetool.ListInput{Glob: "*.go"}, []string{".hidden.go", "a.go"}},
		{filetool.ListInput{Glob: "*.go", Recursive: true}, []string{".hidden.go", "a.go", "src/a.go"}},
		{filetool.ListInput{Glob: "**/*.go"}, []string{".hidden.go", "a.go", "src/a.go"}},
		{filetool.ListInput{Glob: "./src/*.go"}, []string{"src/a.go"}},
		{filetool.ListInput{Glob: "src/**/*.{ts,tsx}"}, []string{"src/x/d.ts", "src/x/y/c.tsx"}},
		{filetool.ListInput{Glob: "src/*/*.ts"}, []string{"src/x/d.ts"}},
		{filetool.ListInput{Glob: "x/**", Path: "src"}, []string{"src/x", "src/x/d.ts", "src/x/y", "src/x/y/c.tsx"}},
		{filetool.ListInput{Glob: "*/*.ts"}, []string{"srcs/z.ts"}},
		{filetool.ListInput{Glob: "{src,srcs}/*.{go,ts}"}, []string{"src/a.go", "srcs/z.ts"}},
		{filetool.ListInput{Glob: "src", Recursive: true}, []string{"src"}},
		{filetool.ListInput{Glob: "nothing/*"}, []string{}},
	} {
		if got := r.list(test.in); !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %q, want %q", test.in, got, test.want)
		}
	}
	for _, glob := range []string{"[a", "{a,b", "/abs/*", "../*", strings.Repeat("{a,a}", 7), strings.Repeat("x", 2000)} {
		_, err := r.tools.List(t.Context(), filetool.ListInput{Glob: glob})
		refused(t, err, perigee.ClassInvalid, "glob")
	}
}

// pages lists all pages, and calls between after each of them.
func (r *fileRig) pages(in filetool.ListInput, between func()) (all []string, pages int) {
	r.Helper()
	for {
		result, err := r.tools.List(r.Context(), in)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, paths(result)...)
		pages++
		if in.Cursor = result.NextCursor; in.Cursor == "" {
			return all, pages
		}
		if len(result.Entries) != 1000 {
			r.Errorf("a page of %d entries with a cursor", len(result.Entries))
		}
		if between != nil {
			between()
		}
	}
}

func TestPagesHaveEveryEntryOnce(t *testing.T) {
	r := newRig(t, nil)
	want := []string{}
	for i := range 12 {
		dir := fmt.Sprintf("d%02d", i)
		r.put(dir+"/", "")
		want = append(want, dir)
		for j := range 250 {
			r.put(fmt.Sprintf("%s/%d", dir, j), "")
			want = append(want, fmt.Sprintf("%s/%d", dir, j))
		}
	}
	slices.Sort(want)
	if got, pages := r.pages(filetool.ListInput{Recursive: true}, nil); !slices.Equal(got, want) || pages != 4 {
		t.Errorf("%d entries on %d pages, want %d", len(got), pages, len(want))
	}
	if got, pages := r.pages(filetool.ListInput{Recursive: true, Glob: "d0[0-3]/*"}, nil); len(got) != 1000 || pages != 1 {
		t.Errorf("%d entries on %d pages: a page that is exactly full is the last", len(got), pages)
	}
	// Files that come and go between pages do not move the rest.
	number := 0
	got, _ := r.pages(filetool.ListInput{Recursive: true}, func() {
		number++
		r.put(fmt.Sprintf("a new %d", number), "") // before every cursor
		if err := os.RemoveAll(r.path(fmt.Sprintf("d%02d", number))); err != nil {
			t.Error(err)
		}
		r.put(fmt.Sprintf("z new %d", number), "")
	})
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) || !slices.Contains(got, "z new 1") {
		t.Errorf("%d entries", len(got))
	}
	for _, path := range want {
		if strings.HasPrefix(path, "d00") || path > "d04" {
			if _, found := slices.BinarySearch(got, path); !found {
				t.Errorf("%s is missing", path)
			}
		}
	}
}

func TestCursorBelongsToItsListing(t *testing.T) {
	r := newRig(t, map[string]string{"dir/": ""})
	for i := range 1001 {
		r.put(fmt.Sprint(i), "")
	}
	first, err := r.tools.List(t.Context(), filetool.ListInput{})
	if err != nil || first.NextCursor == "" {
		t.Fatal(err)
	}
	for _, in := range []filetool.ListInput{
		{Cursor: first.NextCursor, Recursive: true}, {Cursor: first.NextCursor, Path: "dir"}, {Cursor: first.NextCursor, Glob: "*"},
		{Cursor: "x"}, {Cursor: "%"}, {Cursor: base64.RawURLEncoding.EncodeToString([]byte("12345678../../etc"))},
	} {
		_, err := r.tools.List(t.Context(), in)
		refused(t, err, perigee.ClassInvalid, "cursor")
	}
	if got := r.list(filetool.ListInput{Cursor: first.NextCursor, Path: "."}); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

// TestListingIsAWalkInOrder compares listings of random trees with a walk of the whole tree that is
// sorted.
func TestListingIsAWalkInOrder(t *testing.T) {
	perigeetest.Slow(t)
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp(base, "root")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a-", "a.b", "a0", "b", "é", "\x01", "~"}), 1, 4)
		for range rapid.IntRange(0, 20).Draw(t, "files") {
			path := filepath.Join(root, filepath.Join(names.Draw(t, "path")...))
			if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
				_ = os.WriteFile(path, nil, 0o644)
			}
		}
		want := []string{}
		_ = filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if rel, _ := filepath.Rel(root, path); rel != "." {
				want = append(want, filepath.ToSlash(rel))
			}
			return err
		})
		slices.Sort(want)
		tools, err := filetool.New(filetool.Options{Roots: []string{root}})
		if err != nil {
			t.Fatal(err)
		}
		defer tools.Close()
		tools.SetPage(rapid.IntRange(1, 5).Draw(t, "page"))
		got, in := []string{}, filetool.ListInput{Recursive: true}
		for {
			result, err := tools.List(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, paths(result)...)
			if in.Cursor = result.NextCursor; in.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	})
}

var hugeTree = flag.Int("files", 5_000, "how many files TestHugeTreesAreListedPageByPage lists")

// TestHugeTreesAreListedPageByPage has many files in one directory, and in a hundred.
func TestHugeTreesAreListedPageByPage(t *testing.T) {
	perigeetest.Slow(t)
	files := *hugeTree
	for _, test := range []struct {
		name string
		path func(i int) string
	}{
		{"one directory", func(i int) string { return fmt.Sprintf("d/%07d", i*7919%files) }},
		{"a hundred directories", func(i int) string { return fmt.Sprintf("d/%02d/%d", i%100, i/100) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, map[string]string{".gitignore": "*.o\n/build\n!keep\n", "d/": ""})
			for i := range files {
				path := r.path(test.path(i))
				f, err := os.Create(path)
				if os.IsNotExist(err) {
					_ = os.Mkdir(filepath.Dir(path), 0o755)
					f, err = os.Create(path)
				}
				if err != nil {
					t.Fatal(err)
				}
				_ = f.Close()
			}
			all, pages := r.pages(filetool.ListInput{Path: "d", Recursive: true}, func() {})
			if len(all) < files || !slices.IsSorted(all) {
				t.Errorf("%d entries", len(all))
			}
			t.Logf("%d entries on %d pages", len(all), pages)
		})
	}
}

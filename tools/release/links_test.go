package release

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestDeadLinksBecomeText(t *testing.T) {
	packed := make(map[string]bool)
	for _, name := range []string{"README.md", "docs/a.md", "docs/b c.md"} {
		addPath(packed, name)
	}
	for text, want := range map[string]string{
		"see [the `code`](../bench/README.md#x).":              "see the `code`.",
		"[over\ntwo lines](gone.md \"title\") and [b](<gone>)": "over\ntwo lines and b",
		"a ![picture](images/a.png) b":                         "a  b",
		"[![picture](images/a.png) c](gone.md)":                " c",
		"[![picture](images/a.png) c](a.md)":                   "[ c](a.md)",
		"[[x] y](gone.md) [x] [y](a.md)":                       "[x] y [x] [y](a.md)",
		"\\[x](gone.md), `[x](gone.md)`, ``a ` [x](gone.md)``": "\\[x](gone.md), `[x](gone.md)`, ``a ` [x](gone.md)``",
		"a ` [x](gone.md)\n\nand ` later":                      "a ` x\n\nand ` later",
		"[a](a.md#b) [c](b%20c.md) [d](../README.md) [e](.) [f](..) [g](#here) [h](https://example.com/x.md) [i](mailto:a@b) [j](//host/x) [k](/x)": "",
		"- x\n\n  ```console\n  [x](gone.md)\n  ```\n\n[y](gone.md)":                                                                                "- x\n\n  ```console\n  [x](gone.md)\n  ```\n\ny",
		"````\n```\n[x](gone.md)\n````\n[y](gone.md)\n~~~\n[z](gone.md)\n":                                                                          "````\n```\n[x](gone.md)\n````\ny\n~~~\n[z](gone.md)\n",
		"[not closed\n\n](gone.md) [": "",
		"":                            "",
	} {
		if want == "" {
			want = text
		}
		if got := string(unlink("docs/a.md", []byte(text), packed)); got != want {
			t.Errorf("%q became\n%q, want\n%q", text, got, want)
		}
		if got := string(unlink("docs/a.json", []byte(text), packed)); got != text {
			t.Errorf("%q, which is not Markdown, became %q", text, got)
		}
	}
}

// TestPackedDocumentsHaveNoDeadLinks packs the documents of this repository.
func TestPackedDocumentsHaveNoDeadLinks(t *testing.T) {
	r := releaseRig(t, nil)
	binary := filepath.Join(t.TempDir(), "perigee")
	if err := os.WriteFile(binary, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []Platform{{"linux", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		files, err := r.contents(p, binary, nil)
		if err != nil {
			t.Fatal(err)
		}
		packed := make(map[string][]byte)
		for _, f := range files {
			packed[f.name] = f.content
		}
		checkLinks(t, p.String(), packed, "README.md", "CHANGELOG.md", "docs/dashboard.md")
		if p.OS != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			pack, err := r.describe(p, format, files)
			if err != nil {
				t.Fatal(err)
			}
			clear(packed)
			for _, f := range pack.Files {
				packed[f.Path] = f.Content
			}
			const dir = "/usr/share/doc/perigee/"
			checkLinks(t, format, packed, dir+"README.md", dir+"changelog.gz", dir+"SECURITY.md", dir+"docs/dashboard.md")
		}
	}
}

var (
	code = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```|`[^`]*`")
	// link has the target of a link, of the definition of one, or of an attribute of HTML.
	link = regexp.MustCompile(`(?m)\]\(\s*<?([^)\s>]*)|^ *\[[^\]]+\]:\s*<?([^\s>]+)|(?:href|src)="([^"]*)"`)
)

// checkLinks checks that each relative link in the documents of an archive has a target in it.
func checkLinks(t *testing.T, archive string, packed map[string][]byte, want ...string) {
	t.Helper()
	documents, relative := make(map[string]bool), 0
	for name, content := range packed {
		if base := path.Base(name); base == "changelog.gz" {
			from, err := gzip.NewReader(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			content, _ = io.ReadAll(from)
		} else if path.Ext(name) != ".md" {
			continue
		}
		documents[name] = true
		for _, found := range link.FindAllSubmatch(code.ReplaceAll(content, nil), -1) {
			target, _, _ := strings.Cut(string(found[1])+string(found[2])+string(found[3]), "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			relative++
			if to := path.Join(path.Dir(name), target); packed[to] == nil {
				t.Errorf("%s: %s has a link to %s, which is not packed", archive, name, to)
			}
		}
	}
	for _, name := range want {
		if !documents[name] {
			t.Errorf("%s has no %s", archive, name)
		}
	}
	if len(documents) < 20 || relative < 100 {
		t.Errorf("%s has %d documents with %d links", archive, len(documents), relative)
	}
}

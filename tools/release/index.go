package release

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// An index lists releases, the newest first. "perigee upgrade --check" reads it.
type index struct {
	Schema   int     `json:"schema"`
	Releases []entry `json:"releases"`
}

type entry struct {
	Version  string   `json:"version"`
	Date     string   `json:"date"`     // of the commit, as 2026-01-31
	URL      string   `json:"url"`      // of the directory with the files, or empty
	Notes    string   `json:"notes"`    // address of the release notes, or empty
	Security bool     `json:"security"` // the changelog has a section Security
	Files    []listed `json:"files"`
}

type listed struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kind   string `json:"kind"` // archive, deb or rpm
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// list adds a file of the release to its entry in the index.
func (r *release) list(p Platform, kind, name string) {
	r.files = append(r.files, listed{p.OS, p.Arch, kind, name, r.out.hashes[name], r.out.sizes[name]})
}

// index writes index.json: this release, and those of the index that Options.Index names.
func (r *release) index() error {
	security, err := r.security()
	if err != nil {
		return err
	}
	all := index{Schema: 1, Releases: []entry{{Version: r.Version, Date: r.time.Format("2006-01-02"), URL: r.BaseURL, Notes: r.Notes,
		Security: security, Files: r.files}}}
	if r.Index != "" {
		earlier, err := readIndex(r.Index)
		if err != nil {
			return err
		}
		for _, e := range earlier.Releases {
			if e.Version != r.Version {
				all.Releases = append(all.Releases, e)
			}
		}
	}
	slices.SortStableFunc(all.Releases, func(a, b entry) int { return semver.Compare("v"+b.Version, "v"+a.Version) })
	content, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return r.add("index.json", append(content, '\n'))
}

func readIndex(path string) (index, error) {
	var i index
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &i)
	}
	if err == nil && i.Schema != 1 {
		err = fmt.Errorf("its schema is %d, want 1", i.Schema)
	}
	for _, e := range i.Releases {
		if err == nil && !usable(e.Version) {
			err = fmt.Errorf("it has the version %q", e.Version)
		}
	}
	if err != nil {
		return index{}, fmt.Errorf("%s is not the index of the earlier releases: %w", path, err)
	}
	return i, nil
}

// security reports whether the changelog has a section Security for the version.
func (r *release) security() (bool, error) {
	content, err := os.ReadFile(filepath.Join(r.Source, "CHANGELOG.md"))
	if err != nil {
		return false, err
	}
	// The heading may have more, such as a date, but 0.1.0-rc.1 is another version than 0.1.0.
	section := regexp.MustCompile(`(?ms)^## \[?v?` + regexp.QuoteMeta(r.Version) + `(?:$|[^0-9A-Za-z.+-]).*?(\n## |\z)`).FindString(string(content))
	if section == "" {
		_, err = fmt.Fprintf(r.Log, "CHANGELOG.md has no section ## %s: write it before you publish\n", r.Version)
	}
	return strings.Contains(section, "\n**Security**") || strings.Contains(section, "\n### Security"), err
}

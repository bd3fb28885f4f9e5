package release

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// missingURL is where files are said to be if no address was given. The name does not resolve.
const missingURL = "https://no-base-url.invalid"

// A description is the data of the templates for package managers.
type description struct{ Version, Homepage, Warning string }

// errMissing means that a template needs a file that the release does not have.
var errMissing = errors.New("not in this release")

// templates fills the files of dist/templates: a formula for Homebrew, a manifest for Scoop, a
// package for Nix. A template for platforms that are not in the release is left out.
func (r *release) templates() error {
	found, err := filepath.Glob(filepath.Join(r.Source, "dist", "templates", "*"))
	if err != nil {
		return err
	}
	for _, at := range found {
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		content, err := r.fill(string(text))
		if errors.Is(err, errMissing) {
			if _, err := fmt.Fprintf(r.Log, "%s: not written: it is for platforms that are not in this release\n", filepath.Base(at)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if err := r.add(filepath.Base(at), content); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) fill(text string) ([]byte, error) {
	base, d := strings.TrimSuffix(r.BaseURL, "/"), description{Version: r.Version}
	if base == "" {
		base, d.Warning = missingURL, " NOT USABLE: no BASE_URL was given."
	}
	d.Homepage, _, _ = strings.Cut(base, "/releases/")
	archive := func(platform string) (string, error) {
		for _, ending := range []string{".tar.gz", ".zip"} {
			if name := r.dir(platform) + ending; r.out.hashes[name] != "" {
				return name, nil
			}
		}
		return "", fmt.Errorf("%s is %w", platform, errMissing)
	}
	filled, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"dir": r.dir,
		"sum": func(platform string) (string, error) {
			name, err := archive(platform)
			return r.out.hashes[name], err
		},
		"url": func(platform string) (string, error) {
			name, err := archive(platform)
			return base + "/" + strings.ReplaceAll(name, "+", "%2B"), err
		},
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = filled.Execute(&out, d)
	return out.Bytes(), err
}

// dir returns the name of the directory in the archive for a platform.
func (r *release) dir(platform string) string { return "perigee_" + r.Version + "_" + platform }

// plainURL has no character that means something in a shell or in a template; perigee upgrade refuses
// an index with another address.
var plainURL = regexp.MustCompile(`^https://[0-9A-Za-z._:@-]+(/[0-9A-Za-z._~:/@%+,=-]*)?$`)

// checkURL returns an error unless an address is empty or can stand in templates and in the index.
func checkURL(name, address string) error {
	if address == "" || plainURL.MatchString(address) {
		return nil
	}
	return fmt.Errorf("%s is %q: give the https address of the directory with the files, such as https://example.com/perigee/v0.1.0", name, address)
}

package probe

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Find returns the path of the language server: configured, which may also be the directory of an
// installation, or the first that is found in the installations of Antigravity on this system.
func Find(configured string) (string, error) {
	p := system()
	if configured != "" {
		return p.configured(configured)
	}
	places := p.candidates(p.roots())
	places = append(places, p.remote()...)
	for _, place := range places {
		if info, err := os.Stat(place); err == nil && info.Mode().IsRegular() {
			return place, nil
		}
	}
	return "", fmt.Errorf("no language server found: Antigravity is not installed in any of %s; install it, or set binary to the "+
		"path of the language server", strings.Join(p.roots(), ", "))
}

// places has the locations of installations on one system.
type places struct {
	os, arch string
	home     string
	getenv   func(string) string
}

func system() places {
	home, _ := os.UserHomeDir()
	return places{os: runtime.GOOS, arch: runtime.GOARCH, home: home, getenv: os.Getenv}
}

func (p places) configured(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return executable(path)
	}
	tried := p.candidates([]string{path})
	for _, name := range p.names() {
		tried = append(tried, filepath.Join(path, name))
	}
	for _, place := range tried {
		if info, err := os.Stat(place); err == nil && info.Mode().IsRegular() {
			return executable(place)
		}
	}
	return "", fmt.Errorf("there is no language server in %s; set binary to its file or to the directory of the installation", path)
}

// roots returns the directories that packages and installers put resources in.
func (p places) roots() []string {
	var roots []string
	in := func(dir string, names ...string) {
		for _, name := range names {
			if dir != "" {
				roots = append(roots, filepath.Join(dir, name))
			}
		}
	}
	switch p.os {
	case "darwin":
		for _, dir := range []string{"/Applications", filepath.Join(p.home, "Applications")} {
			in(dir, "Antigravity.app/Contents", "Antigravity IDE.app/Contents")
		}
	case "windows":
		names := []string{"Antigravity", "Antigravity IDE"}
		if local := p.getenv("LOCALAPPDATA"); local != "" {
			in(filepath.Join(local, "Programs"), names...)
		}
		in(p.getenv("ProgramFiles"), names...)
	default:
		in("/usr/share", "antigravity", "antigravity-ide")
		in("/opt", "antigravity", "antigravity-ide", "Antigravity", "Antigravity IDE")
		if p.home != "" {
			in(filepath.Join(p.home, ".local/share"), "Antigravity", "antigravity")
			in(p.home, "Antigravity")
		}
	}
	return roots
}

// candidates returns the files that may be language servers below installations: of the IDE first,
// then of the desktop app.
func (p places) candidates(roots []string) []string {
	resources := "resources"
	if p.os == "darwin" {
		resources = "Resources"
	}
	var found []string
	for _, root := range roots {
		for _, name := range p.names() {
			found = append(found, filepath.Join(root, resources, "app", "extensions", "antigravity", "bin", name))
		}
	}
	for _, root := range roots {
		found = append(found, filepath.Join(root, resources, "bin", p.plainName()))
	}
	return found
}

// remote returns the files that the IDE installs on a machine that it uses by SSH, the most recent
// first.
func (p places) remote() []string {
	changed := map[string]time.Time{} // by path
	var paths []string
	for _, dir := range []string{".antigravity-server", ".antigravity-ide-server"} {
		for _, name := range p.names() {
			matches, _ := filepath.Glob(filepath.Join(p.home, dir, "bin", "*", "extensions", "antigravity", "bin", name))
			for _, path := range matches {
				if info, err := os.Stat(path); err == nil {
					paths, changed[path] = append(paths, path), info.ModTime()
				}
			}
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return changed[b].Compare(changed[a]) })
	return paths
}

// names returns the names of the binary in the IDE's extension.
func (p places) names() []string {
	system := map[string]string{"darwin": "macos", "windows": "windows"}[p.os]
	if system == "" {
		system = "linux"
	}
	arch := "x64"
	if strings.HasPrefix(p.arch, "arm") {
		arch = "arm"
	}
	name := "language_server_" + system + "_" + arch
	if p.os == "windows" {
		name += ".exe"
	}
	return []string{name, p.plainName()}
}

func (p places) plainName() string {
	if p.os == "windows" {
		return "language_server.exe"
	}
	return "language_server"
}

// productVersion returns ideVersion of the nearest product.json above a file: in an ancestor
// directory, or in its resources/app. The member version is the version of the editor's engine and
// does not count.
func productVersion(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		for _, below := range []string{"", "app", "resources/app", "Resources/app"} {
			if version := ideVersion(filepath.Join(dir, below, "product.json")); version != "" {
				return version
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

func ideVersion(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var product struct {
		Version string `json:"ideVersion"`
	}
	if json.Unmarshal(text, &product) != nil {
		return ""
	}
	return product.Version
}

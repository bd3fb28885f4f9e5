package find

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Places say where programs keep their files. The zero value is this system and user.
type Places struct {
	Home   string
	System string // as runtime.GOOS
	Getenv func(string) string

	// Installed are directories of programs, whose data is beside them where they are portable.
	Installed []string
	// UserData are directories that were given to the IDE with --user-data-dir.
	UserData []string
}

// A Profile is the data of one user of an IDE.
type Profile struct {
	Name          string // of the directory: Antigravity, Antigravity IDE
	Dir           string
	StateDatabase string
}

// products are the names of the directories.
var products = []string{"Antigravity", "Antigravity IDE"}

// Profiles returns the profiles that have a database. What was named explicitly comes first.
func Profiles(p Places) []Profile {
	p = p.complete()
	var dirs []string
	dirs = append(dirs, p.UserData...)
	if portable := p.Getenv("VSCODE_PORTABLE"); portable != "" {
		dirs = append(dirs, filepath.Join(portable, "user-data"))
	}
	for _, dir := range p.Installed {
		dirs = append(dirs, filepath.Join(dir, "data", "user-data"))
	}
	if base := p.config(); base != "" {
		for _, product := range products {
			dirs = append(dirs, filepath.Join(base, product))
		}
	}
	var profiles []Profile
	for _, dir := range dirs {
		path := filepath.Join(dir, "User", "globalStorage", "state.vscdb")
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || slices.ContainsFunc(profiles, func(p Profile) bool { return p.StateDatabase == path }) {
			continue
		}
		profiles = append(profiles, Profile{Name: filepath.Base(dir), Dir: dir, StateDatabase: path})
	}
	return profiles
}

// AppDataDirs returns the directories of conversations of all products: ~/.gemini/*/conversations.
func AppDataDirs(p Places) []string {
	p = p.complete()
	if p.Home == "" {
		return nil
	}
	base := filepath.Join(p.Home, ".gemini")
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, entry := range entries {
		dir := filepath.Join(base, entry.Name(), "conversations")
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (p Places) complete() Places {
	if p.Getenv == nil {
		p.Getenv = os.Getenv
	}
	if p.Home == "" {
		p.Home, _ = os.UserHomeDir() // without one nothing is found
	}
	p.System = cmp.Or(p.System, runtime.GOOS)
	return p
}

// config is the directory with the data of all programs.
func (p Places) config() string {
	under := func(base string, parts ...string) string {
		if base == "" {
			return ""
		}
		return filepath.Join(append([]string{base}, parts...)...)
	}
	switch p.System {
	case "windows":
		return cmp.Or(p.Getenv("APPDATA"), under(p.Home, "AppData", "Roaming"))
	case "darwin":
		return under(p.Home, "Library", "Application Support")
	}
	return cmp.Or(p.Getenv("XDG_CONFIG_HOME"), under(p.Home, ".config"))
}

// directoryOf returns the path of a file URI. A path, and a URI of another kind, is returned as it is.
func directoryOf(text string) string {
	if !strings.HasPrefix(text, "file:") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host != "" && u.Host != "localhost" {
		return text
	}
	path := u.Path
	if len(path) > 2 && path[0] == '/' && path[2] == ':' { // /c:/…
		path = path[1:]
	}
	return filepath.FromSlash(path)
}

// A relation says whether a conversation is about a workspace.
type relation uint8

const (
	relationUnknown relation = iota
	relationSame
	relationOther
)

// relate compares the workspaces of a conversation with ours. One that contains another, or is on another machine, proves
// nothing.
func relate(ours, theirs []string) relation {
	if len(ours) == 0 || len(theirs) == 0 {
		return relationUnknown
	}
	result := relationOther
	for _, a := range ours {
		for _, b := range theirs {
			a, b := comparable(a), comparable(b)
			switch {
			case a == b:
				return relationSame
			case strings.Contains(a, "://") != strings.Contains(b, "://"), within(a, b), within(b, a):
				result = relationUnknown
			}
		}
	}
	return result
}

func within(dir, path string) bool { return strings.HasPrefix(path, strings.TrimRight(dir, "/")+"/") }

// comparable is a form of a directory that is the same for all its names.
func comparable(dir string) string {
	dir = directoryOf(dir)
	if strings.Contains(dir, "://") {
		return strings.TrimRight(dir, "/")
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	dir = filepath.ToSlash(filepath.Clean(dir))
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir = strings.ToLower(dir)
	}
	return dir
}

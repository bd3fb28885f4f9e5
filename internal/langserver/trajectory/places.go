package trajectory

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// products are the names of the directories in which the IDE keeps its data.
var products = []string{"Antigravity", "Antigravity IDE"}

// StateDatabases returns the state.vscdb of each product that has one. An empty home is the home
// directory of this user, with the settings of the environment.
func StateDatabases(home string) (paths []string) {
	var dirs []string
	config, err := filepath.Join(home, ".config"), error(nil)
	if home == "" {
		if portable := os.Getenv("VSCODE_PORTABLE"); portable != "" {
			dirs = append(dirs, filepath.Join(portable, "user-data"))
		}
		config, err = os.UserConfigDir()
	}
	for _, product := range products {
		if err == nil {
			dirs = append(dirs, filepath.Join(config, product))
		}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, "User", "globalStorage", "state.vscdb")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			paths = append(paths, path)
		}
	}
	return paths
}

// ConversationDirs returns the directories of conversations of all products:
// ~/.gemini/*/conversations. An empty home is the home directory of this user.
func ConversationDirs(home string) (dirs []string) {
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return nil
		}
	}
	base := filepath.Join(home, ".gemini")
	entries, _ := os.ReadDir(base)
	for _, entry := range entries {
		dir := filepath.Join(base, entry.Name(), "conversations")
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// directoryOf returns the path of a file URI. It returns a path, or a URI of another kind,
// unchanged.
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

// A relation is the relation of a conversation to a workspace.
type relation uint8

const (
	relationUnknown relation = iota
	relationSame
	relationOther
)

// relate compares the workspaces of a conversation with ours. A workspace that contains another,
// or is on another machine, is no evidence.
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

// comparable returns a form of a directory that is the same for all its names.
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

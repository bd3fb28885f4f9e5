package connect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/lib/edit"
)

// Overrides returns the settings of this shell, of the working directory and of the machine that
// count before those that connect writes, as texts for a person.
func (c *Client) Overrides(m Machine, t Target) []string {
	written := c.Files(m, t)
	var found []string
	for _, name := range c.Variables {
		if value := m.Getenv(name); value != "" && !isSet(written, name, value) {
			found = append(found, "the environment variable "+name)
		}
	}
	for _, project := range c.Projects {
		if path := upwards(m, project); path != "" && touches(path, written) {
			found = append(found, path)
		}
	}
	managed, ok := c.Managed[m.System]
	if !ok {
		managed = c.Managed[""]
	}
	if managed != "" && touches(managed, written) {
		found = append(found, managed)
	}
	for _, f := range written {
		tree, err := readTree(f)
		for _, path := range c.Own {
			if _, there := edit.Get(tree, path); err == nil && there {
				found = append(found, path.String()+" in "+f.Path)
			}
		}
	}
	return found
}

// isSet reports whether a variable has the value that is written to a file.
func isSet(files []File, name, value string) bool {
	return slices.ContainsFunc(files, func(f File) bool {
		return slices.ContainsFunc(f.Set, func(s edit.Setting) bool {
			return s.Path[len(s.Path)-1] == name && s.Value == any(value)
		})
	})
}

// formats are the formats of project files, by the end of their name.
var formats = map[string]edit.Format{".json": edit.JSON, ".jsonc": edit.JSON, ".toml": edit.TOML, ".yml": edit.YAML}

// touches reports whether a file has one of the settings, with any value. A file of variables
// always counts: only the first one that is found is read.
func touches(path string, written []File) bool {
	if filepath.Base(path) == ".env" {
		_, err := os.Stat(path)
		return err == nil
	}
	tree, err := readTree(File{Path: path, Format: formats[filepath.Ext(path)]})
	if err != nil {
		return false
	}
	for _, f := range written {
		for _, s := range f.Set {
			if _, there := edit.Get(tree, s.Path); there {
				return true
			}
		}
	}
	return false
}

// upwards finds a file in the working directory or the nearest one above it, and below the home
// directory.
func upwards(m Machine, name string) string {
	for dir := m.Dir; dir != "" && dir != m.Home && filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
		if !strings.HasPrefix(dir, m.Home+string(filepath.Separator)) {
			// Files above a directory outside of the home directory are not settings of this user.
			break
		}
	}
	return ""
}

package discover

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// Choose returns the language server of a workspace, a path of a directory or of a
// *.code-workspace file. Without a workspace it returns the language server that has none, or the
// only one. It never guesses: if none or several match, the error lists the candidates.
func Choose(candidates []Candidate, workspace string) (Candidate, error) {
	fits := slices.Clone(candidates)
	if workspace != "" {
		ids := workspaceIDs(workspace)
		fits = slices.DeleteFunc(fits, func(c Candidate) bool { return !c.has(ids) })
	} else if len(fits) > 1 {
		fits = slices.DeleteFunc(fits, func(c Candidate) bool { return c.Workspace != "" || c.hash != "" })
	}
	switch {
	case len(fits) == 1:
		return fits[0], nil
	case len(candidates) == 0:
		return Candidate{}, perigee.Errorf(perigee.ClassUnavailable, "no language server of a running IDE was found").
			WithHint("start the IDE, or set attach: false")
	case len(fits) > 1:
		return Candidate{}, choiceError("several language servers would do", fits, "close all but one of these windows")
	case workspace == "":
		return Candidate{}, choiceError("several workspaces are open", candidates, "set workspace: to one of them")
	}
	return Candidate{}, choiceError("no language server has the workspace open", candidates, "open it in the IDE, or set workspace: to one that is open")
}

// choiceError returns an error that lists candidates, without their workspaces, which clients must
// not see.
func choiceError(what string, candidates []Candidate, hint string) error {
	var list []string
	for _, c := range candidates {
		name := c.Workspace
		if name == "" {
			name = "no workspace"
			if c.hash != "" {
				name = "a workspace with the hash " + c.hash
			}
		}
		list = append(list, fmt.Sprintf("%s (process %d)", name, c.PID))
	}
	err := perigee.Errorf(perigee.ClassUnavailable, "%s: %s", what, strings.Join(list, ", ")).WithHint("%s", hint)
	err.Public = what + "; " + hint
	return err
}

// Opens reports whether a directory is the workspace of the candidate, as far as the workspace ID
// shows: in an ID every run of punctuation is one underscore.
func (c Candidate) Opens(dir string) bool {
	return c.HasWorkspace() && c.has(workspaceIDs(dir))
}

// HasWorkspace reports whether the candidate belongs to a window with a workspace.
func (c Candidate) HasWorkspace() bool { return c.Workspace != "" || c.hash != "" }

// Headless reports whether perigee has started the language server: its home is in a data
// directory.
func (c Candidate) Headless() bool {
	upstream := filepath.Dir(c.Home)
	return filepath.Base(c.Home) == "home" && filepath.Base(filepath.Dir(upstream)) == "langserver"
}

// has reports whether the workspace of a candidate is one of ids.
func (c Candidate) has(ids []string) bool {
	if c.Workspace == "" && c.hash != "" {
		return slices.ContainsFunc(ids, func(id string) bool { return hashOf(id) == c.hash })
	}
	return slices.Contains(ids, c.Workspace)
}

// hashOf returns the part of a file name that represents a workspace.
func hashOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// workspaceIDs returns the names that a workspace can have: its URI, in which every run of other
// characters than letters and digits is one underscore. Versions differ in whether the URI is
// escaped before that. A path with links has the names of both ends.
func workspaceIDs(path string) []string {
	paths := []string{path}
	if absolute, err := filepath.Abs(path); err == nil {
		paths = append(paths, absolute)
		if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
			paths = append(paths, resolved)
		}
	}
	var ids []string
	for _, p := range paths {
		p = strings.TrimPrefix(strings.TrimRight(filepath.ToSlash(p), "/"), "file://")
		if p != "" && !strings.HasPrefix(p, "/") && !windowsPath(p) {
			continue // relative; its absolute form comes next
		}
		for _, id := range []string{underscored("file:///" + uriPath(p)), WorkspaceID(p)} {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// WorkspaceID returns the name that the IDE gives to a workspace of one folder, by its absolute
// path: its URI, as the editor encodes it, with _ for each run of punctuation.
func WorkspaceID(dir string) string { return underscored("file:///" + escape(uriPath(dir))) }

// uriPath returns the path in the URI of a file, without the first slash.
func uriPath(path string) string {
	if windowsPath(path) {
		path = strings.ToLower(path[:1]) + strings.ReplaceAll(path[1:], `\`, "/")
	}
	return strings.TrimPrefix(path, "/")
}

func windowsPath(p string) bool {
	return len(p) > 2 && p[1] == ':' && (p[2] == '/' || p[2] == '\\') && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z')
}

// escape escapes a path as the editor does in URIs: all but letters, digits, and a few signs that
// become underscores anyway.
func escape(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(part), "+", "%20")
	}
	return strings.Join(parts, "/")
}

// punctuation matches a run of ASCII characters other than letters and digits.
var punctuation = lazyregexp.New(`[^0-9A-Za-z\x{80}-\x{10FFFF}]+`)

// underscored replaces every run of punctuation and space, and each byte that is not UTF-8 with
// the replacement character.
func underscored(uri string) string {
	return punctuation().ReplaceAllString(string([]rune(uri)), "_")
}

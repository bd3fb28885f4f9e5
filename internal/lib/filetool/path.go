package filetool

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee"
)

// A place is a path inside a root. Its parts contain neither "." nor "..", but may name links.
type place struct {
	root  *root
	parts []string
}

// locate finds the root of a path: relative to the first root, absolute, or a file URI. It does not
// check whether the file exists.
func (t *Tools) locate(asked string) (place, error) {
	path, err := fromURI(asked)
	if err != nil {
		return place{}, err
	}
	if strings.ContainsRune(path, 0) {
		return place{}, perigee.Errorf(perigee.ClassInvalid, "the path %q contains a NUL byte", asked).WithHint("remove it")
	}
	if !filepath.IsAbs(path) {
		if runtime.GOOS == "windows" && (filepath.VolumeName(path) != "" || strings.HasPrefix(path, `\`) || strings.HasPrefix(path, "/")) {
			return place{}, t.refuseReserved(asked)
		}
		path = filepath.Join(t.roots[0].path, path)
	}
	path = filepath.Clean(path)
	r, rest, ok := t.rootOf(path)
	if !ok {
		return place{}, t.outside(asked)
	}
	at := place{root: r, parts: split(rest)}
	if runtime.GOOS == "windows" && slices.ContainsFunc(at.parts, reservedOnWindows) {
		return place{}, t.refuseReserved(asked)
	}
	return at, nil
}

// rootOf returns the innermost root that an absolute path is in, and the rest of the path.
func (t *Tools) rootOf(path string) (found *root, rest string, ok bool) {
	match := func(path string, base func(*root) string) {
		for _, r := range t.roots {
			if below, inside := within(base(r), path); inside && (!ok || len(below) < len(rest)) {
				found, rest, ok = r, below, true
			}
		}
	}
	match(path, func(r *root) string { return r.path })
	if !ok {
		match(path, func(r *root) string { return r.real })
	}
	if ok {
		return found, rest, ok
	}
	// The same directory may have other names: links above the root, such as /tmp on macOS, other
	// case, short names.
	path = WithoutLinks(path)
	match(path, func(r *root) string { return r.real })
	for base := path; !ok; base = filepath.Dir(base) {
		if info, err := os.Stat(base); err == nil {
			for _, r := range t.roots {
				if below, inside := within(base, path); inside && os.SameFile(info, r.info) {
					found, rest, ok = r, below, true
				}
			}
		}
		if filepath.Dir(base) == base {
			break
		}
	}
	return found, rest, ok
}

// WithoutLinks replaces links in the part of an absolute path that exists.
func WithoutLinks(path string) string {
	rest := ""
	for base := path; ; {
		if resolved, err := filepath.EvalSymlinks(base); err == nil {
			return filepath.Join(resolved, rest)
		}
		parent := filepath.Dir(base)
		if parent == base {
			return path
		}
		rest = filepath.Join(filepath.Base(base), rest)
		base = parent
	}
}

// within returns the part of path after base, if path is base or below it. Both are clean.
func within(base, path string) (rest string, ok bool) {
	if path == base {
		return "", true
	}
	if !os.IsPathSeparator(base[len(base)-1]) { // as in "/" and `C:\`
		base += string(filepath.Separator)
	}
	return strings.CutPrefix(path, base)
}

// split returns the components of a path.
func split(path string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(path, func(r rune) bool { return r < utf8.RuneSelf && os.IsPathSeparator(uint8(r)) }),
		func(part string) bool { return part == "." })
}

// maxPath is the maximum length of a requested path in bytes. No system has longer ones.
const maxPath = 4096

// fromURI returns the path of a file URI, and everything else unchanged. A path that is too long is
// neither looked at nor repeated.
func fromURI(asked string) (string, error) {
	if len(asked) > maxPath {
		return "", perigee.Errorf(perigee.ClassInvalid, "the path has %d bytes, and at most %d are allowed", len(asked), maxPath).
			WithHint("name a file inside the roots")
	}
	if len(asked) < 6 || !strings.EqualFold(asked[:6], "file:/") {
		return asked, nil
	}
	bad := func(why string) error {
		return perigee.Errorf(perigee.ClassInvalid, "%q is not a URI of a file here: %s", asked, why).
			WithHint("use file:///absolute/path with special characters percent-encoded, or a plain path")
	}
	u, err := url.Parse(asked)
	switch {
	case err != nil:
		return "", bad("it cannot be parsed")
	case u.Host != "" && !strings.EqualFold(u.Host, "localhost"):
		return "", bad("its host is " + u.Host)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(asked, "#"):
		return "", bad("it has a query or a fragment")
	case u.User != nil:
		return "", bad("it names a user")
	}
	path := u.Path
	if runtime.GOOS == "windows" && len(path) >= 3 && path[0] == '/' && path[2] == ':' {
		path = path[1:]
	}
	return filepath.FromSlash(path), nil
}

// show returns a path as results contain it: relative to the root, or absolute if there are several
// roots. A name that is not UTF-8 makes it a file URI, because JSON could not carry it. Every path
// that show returns can be passed to locate.
func (t *Tools) show(at place) string {
	path := strings.Join(at.parts, "/")
	if !utf8.ValidString(path) {
		absolute := filepath.ToSlash(filepath.Join(at.root.path, filepath.FromSlash(path)))
		if !strings.HasPrefix(absolute, "/") {
			absolute = "/" + absolute
		}
		return (&url.URL{Scheme: "file", Path: absolute}).String()
	}
	switch {
	case len(t.roots) > 1:
		return filepath.Join(at.root.path, filepath.FromSlash(path))
	case path == "":
		return "."
	case len(path) >= 5 && strings.EqualFold(path[:5], "file:"):
		return "./" + path
	}
	return path
}

// reservedOnWindows reports whether Windows gives a file name another meaning: a device, or a
// stream of a file.
func reservedOnWindows(name string) bool {
	if strings.ContainsAny(name, `:<>"|?*`) || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return true
	}
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	if port, ok := strings.CutPrefix(base, "COM"); ok || strings.HasPrefix(base, "LPT") {
		if !ok {
			port = base[3:]
		}
		return slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"}, port)
	}
	return slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}, base)
}

func (t *Tools) refuseReserved(asked string) error {
	return perigee.Errorf(perigee.ClassInvalid, "%q is refused: Windows reserves names such as CON, NUL, COM1 and a:stream", asked).
		WithHint("use a path relative to %s, or an absolute path with a drive letter, without reserved names", t.roots[0].path)
}

// outside returns the error for a path that is in none of the roots.
func (t *Tools) outside(asked string) error {
	return perigee.Errorf(perigee.ClassForbidden, "%q is outside of the roots: %s", asked, strings.Join(t.Roots(), ", ")).
		WithHint("use a path relative to %s, or an absolute path inside a root", t.roots[0].path)
}

package mount

import (
	"strings"

	"perigee"
	"perigee/internal/lib/match"
)

// UnknownPath returns the error about a path that does not exist. Its hint is a similar path for
// which exists returns true, or the nearest of the known ones.
func UnknownPath(method, path string, known []string, exists func(path string) bool) error {
	e := perigee.Errorf(perigee.ClassNotFound, "no such path: %s %s", method, Shorten(path))
	// Clients are given base URLs with too much or too little at their ends.
	for _, prefix := range []string{"/v1/v1", "/v1/v1beta", "/v1beta/v1beta", "/v1beta/v1", "/v1beta/openai", "/v1beta",
		"/v1/perigee/v1", "/perigee/v1/v1", "/perigee/v1beta", "/perigee/v1", "/perigee", ""} {
		rest, ok := strings.CutPrefix(path, prefix+"/")
		if !ok {
			continue
		}
		for _, base := range []string{"/perigee/v1/", "/v1/", "/v1beta/"} {
			if exists(base + rest) {
				return e.WithHint("did you mean %s? check the client's base URL", Shorten(base+rest))
			}
		}
	}
	if near := match.Nearest(path, known, 1); len(near) > 0 && match.Distance(path, near[0]) <= 3 {
		return e.WithHint("did you mean %s?", near[0])
	}
	if strings.HasPrefix(path, "/perigee/") {
		return e.WithHint("docs/http.md lists perigee's own paths, which begin with /perigee/v1")
	}
	return e.WithHint("the paths of models begin with /v1 or /v1beta; check the client's base URL")
}

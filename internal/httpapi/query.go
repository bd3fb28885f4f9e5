package httpapi

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/names"
)

// checkQuery refuses a query that does not parse. net/url leaves out the parameters that it cannot read, so a request would
// be answered as if it did not have them.
func checkQuery(query string) error {
	if !strings.ContainsAny(query, ";%") { // everything else parses
		return nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		if _, err := url.ParseQuery(pair); err == nil {
			continue
		}
		name, _, _ := strings.Cut(pair, "=")
		e := perigee.Errorf(perigee.ClassInvalid, "the query parameter %q cannot be read", shorten(name)) // its value may be a key
		if strings.Contains(pair, ";") {
			return e.WithNext("separate parameters with & and write a semicolon as %%3B")
		}
		return e.WithNext("write a percent sign as %%25")
	}
	return nil
}

// knownParameters refuses what a query cannot be asked: a misspelt or repeated parameter would get another answer than the
// one that was asked for.
func knownParameters(query url.Values, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		allowed := slices.Contains(known, name) || name == "key" // in which clients may present theirs
		if allowed && len(query[name]) == 1 {
			continue
		}
		if allowed {
			return perigee.Errorf(perigee.ClassInvalid, "parameter %q is there %d times", name, len(query[name])).WithNext("send it once")
		}
		e := perigee.Errorf(perigee.ClassInvalid, "no parameter %q", shorten(name))
		if near := names.Nearest(name, known, 1); len(near) > 0 {
			return e.WithNext("did you mean %s?", near[0])
		}
		if len(known) == 0 {
			return e.WithNext("this path has no parameters")
		}
		return e.WithNext("known parameters: %s", strings.Join(known, ", "))
	}
	return nil
}

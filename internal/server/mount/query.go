package mount

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/match"
)

// CheckQuery refuses a query that does not parse. net/url leaves out the parameters that it cannot
// read, so a request would be answered as if it did not have them.
func CheckQuery(query string) error {
	if !strings.ContainsAny(query, ";%") { // everything else parses
		return nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		if _, err := url.ParseQuery(pair); err == nil {
			continue
		}
		name, _, _ := strings.Cut(pair, "=")
		// The value may be a key, so it is left out.
		e := perigee.Errorf(perigee.ClassInvalid, "the query parameter %q cannot be read", Shorten(name))
		if strings.Contains(pair, ";") {
			return e.WithHint("separate parameters with & and write a semicolon as %%3B")
		}
		return e.WithHint("write a percent sign as %%25")
	}
	return nil
}

// KnownParameters refuses parameters that a path does not have: a misspelt or repeated one would
// get another answer than the one that was asked for.
func KnownParameters(query url.Values, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		// Clients may present their key in the parameter key.
		allowed := slices.Contains(known, name) || name == "key"
		if allowed && len(query[name]) == 1 {
			continue
		}
		if allowed {
			return perigee.Errorf(perigee.ClassInvalid, "parameter %q is given %d times", name, len(query[name])).WithHint("send it once")
		}
		e := perigee.Errorf(perigee.ClassInvalid, "no parameter %q", Shorten(name))
		if near := match.Nearest(name, known, 1); len(near) > 0 {
			return e.WithHint("did you mean %s?", near[0])
		}
		if len(known) == 0 {
			return e.WithHint("this path has no parameters")
		}
		return e.WithHint("known parameters: %s", strings.Join(known, ", "))
	}
	return nil
}

// usedParameters are those that have a meaning on every path of a dialect.
var usedParameters = []string{"alt", "$alt", "key", "prettyPrint", "$prettyPrint"}

// UnusedParameters returns the parameters of a URL that have no effect on an answer of a model, in
// order. Ignored are further ones that need no note.
func UnusedParameters(u *url.URL, ignored []string) []string {
	if u.RawQuery == "" || u.RawQuery == "alt=sse" {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(u.Query())), func(name string) bool {
		return slices.Contains(usedParameters, name) || slices.Contains(ignored, name)
	})
}

// TimeParameter reads a time; without the parameter it is zero.
func TimeParameter(query url.Values, name string) (t time.Time, err error) {
	text := query.Get(name)
	if text == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, text); err != nil {
		return t, perigee.Errorf(perigee.ClassInvalid, "%s %q is not a time", name, Shorten(text)).
			WithHint("write it as 2026-01-31T00:00:00Z")
	}
	return t, nil
}

// TimeRange reads the parameters since and until; one that is missing is zero.
func TimeRange(query url.Values) (since, until time.Time, err error) {
	if since, err = TimeParameter(query, "since"); err == nil {
		until, err = TimeParameter(query, "until")
	}
	return since, until, err
}

// BoolParameter reads a truth value; without the parameter it is false.
func BoolParameter(query url.Values, name string) (bool, error) {
	text := query.Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, perigee.Errorf(perigee.ClassInvalid, "%s is %q", name, Shorten(text)).
			WithHint("write %[1]s=true or %[1]s=false", name)
	}
	return on, nil
}

// Limit reads the parameter limit, which is a number from 1 to most; without the parameter, it is
// otherwise. The hint is for numbers out of range.
func Limit(query url.Values, otherwise, most int, hint string) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, perigee.Errorf(perigee.ClassInvalid, "limit %q is not a number from 1 to %d", Shorten(text), most).
			WithHint("%s", hint)
	}
	return n, nil
}

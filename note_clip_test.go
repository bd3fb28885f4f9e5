package perigee_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"perigee"
)

func TestClip(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"as it is", 8, "as it is"},
		{"one too many", 11, "one too …"},
		{"naïve", 5, "na…"},   // the cut would be inside of ï
		{"a🚀bcdef", 7, "a…"},  // and here inside of the rocket
		{"a🚀bcdef", 8, "a🚀…"}, // it just fits
		{strings.Repeat("\x80", 20), 10, strings.Repeat("\x80", 4) + "…"},
		{"nothing fits", 2, "…"},
	} {
		got := perigee.Clip(test.text, test.limit)
		if got != test.want || len(got) > max(test.limit, len("…")) || utf8.ValidString(test.text) != utf8.ValidString(got) {
			t.Errorf("%q to %d: got %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

package names

import (
	"slices"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "anything/at all", true},
		{"", "", true},
		{"", "x", false},
		{"gemini-*", "gemini-3-flash", true},
		{"gemini-*", "gemini-", true},
		{"gemini-*", "Gemini-3", false},
		{"gemini-*", "claude-opus", false},
		{"*-flash", "gemini-3-flash", true},
		{"*-flash", "gemini-3-flash-lite", false},
		{"g*3*h", "gemini-3-flash", true},
		{"gemini-?.5-*", "gemini-2.5-pro", true},
		{"gemini-?.5-*", "gemini-25-pro", false},
		{"a?", "a", false},
		{"models/*", "models/a/b", true},
		{"gr?ße-*", "größe-1", true},
		{"*?", "ö", true},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestMatchIsNotExponential(t *testing.T) {
	if Match(strings.Repeat("a*", 200)+"b", strings.Repeat("a", 20_000)) {
		t.Error("matched")
	}
}

func TestNearest(t *testing.T) {
	known := []string{"gemini-3-flash", "gemini-2.5-pro", "gemini-2.5-flash", "claude-sonnet-4-6", "concurrency", "listen"}
	for word, want := range map[string][]string{
		"gemini-3-flsah":          {"gemini-3-flash", "gemini-2.5-flash"},
		"conurrency":              {"concurrency"},
		"sonnet":                  {"claude-sonnet-4-6"},
		"zzz":                     nil,
		strings.Repeat("x", 9999): nil,
	} {
		if got := Nearest(word, known, 2); !slices.Equal(got, want) {
			t.Errorf("Nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abcd", "acbd", 1}, {"größe", "grösse", 2},
	} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("Distance(%q, %q) = %d, and back %d; want %d", c.a, c.b, got, back, c.want)
		}
	}
}

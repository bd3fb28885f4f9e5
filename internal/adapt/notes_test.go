package adapt

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A client's word in a note is short, and as whole as it came: it is cut between characters.
func TestClipCutsBetweenCharacters(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"short", "read_file", "read_file"},
		{"just fits", strings.Repeat("n", 80), strings.Repeat("n", 80)},
		{"plain", strings.Repeat("n", 81), strings.Repeat("n", 80) + "..."},
		{"at a boundary", strings.Repeat("é", 41), strings.Repeat("é", 40) + "..."},
		{"inside two bytes", "n" + strings.Repeat("é", 40), "n" + strings.Repeat("é", 39) + "..."},
		{"inside three bytes", strings.Repeat("語", 27), strings.Repeat("語", 26) + "..."},
		{"inside four bytes", "n" + strings.Repeat("🙂", 20), "n" + strings.Repeat("🙂", 19) + "..."},
		{"no text at all", strings.Repeat("\x80", 200), strings.Repeat("\x80", 76) + "..."},
	} {
		got := clip(c.in)
		if got != c.want {
			t.Errorf("%s: clip(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
		if utf8.ValidString(c.in) && !utf8.ValidString(got) {
			t.Errorf("%s: clip(%q) = %q, which is no text", c.name, c.in, got)
		}
	}
}

package schema

import (
	"strings"
	"testing"
)

// Every word is found by its names, and by no others.
func TestWordsAreFoundByTheirNames(t *testing.T) {
	taken := map[string]word{}
	find := func(name string, want word, alias bool) {
		if other, double := taken[name]; double {
			t.Errorf("%q is the name of words %d and %d", name, other, want)
		}
		taken[name] = want
		if w, a := lookup([]byte(name)); w != want || a != alias {
			t.Errorf("lookup(%q) = %d, %t, want %d, %t", name, w, a, want, alias)
		}
	}
	for w := wUnknown + 1; w < wordCount; w++ {
		if words[w].name == "" {
			t.Errorf("word %d has no name", w)
			continue
		}
		find(words[w].name, w, false)
		if words[w].alias != "" {
			find(words[w].alias, w, true)
		}
	}
	for name := range taken {
		for _, other := range []string{strings.ToUpper(name), name + "s", name[1:], name[:len(name)-1], "_" + name, name[:1] + "\x00" + name[1:]} {
			if w, _ := lookup([]byte(other)); taken[other] != w {
				t.Errorf("lookup(%q) = %q", other, words[w].name)
			}
		}
	}
	for _, name := range []string{"", "a", "schema", "file_path"} {
		if w, alias := lookup([]byte(name)); w != wUnknown || alias {
			t.Errorf("lookup(%q) = %q, %t", name, words[w].name, alias)
		}
	}
}

// The rows of the table do not contradict themselves.
func TestWordsMakeSense(t *testing.T) {
	for w := wUnknown + 1; w < wordCount; w++ {
		e := words[w]
		switch {
		case (e.kept == byNobody) != (e.takes == nothing):
			t.Errorf("%s is kept by %d and takes %d", e.name, e.kept, e.takes)
		case e.role != constrains && (e.kept != byNobody || e.implies != kindUnknown):
			t.Errorf("%s is kept or implies a type, but is no constraint", e.name)
		case e.role == foreign:
			t.Errorf("%s has a name and is foreign", e.name)
		}
	}
}

// The hash keeps names apart: what is looked up most often is found at once.
func TestWordsDoNotCrowd(t *testing.T) {
	for i, s := range spellings {
		if s.name == "" {
			continue
		}
		if away := uint8(i) - hash([]byte(s.name)); away > 4 {
			t.Errorf("%s stands %d places away from where it is looked for", s.name, away)
		}
	}
}

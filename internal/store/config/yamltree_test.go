package config

import (
	"strings"
	"testing"
)

func TestParseSaysWhereTheTextIsNoDocument(t *testing.T) {
	for text, want := range map[string]Problem{
		"a: 1\nb: \xff":             {Origin{Line: 2, Column: 4}, "the file is not UTF-8 text", ""},
		"a: 1\n---\nb: 2\n":         {Origin{Line: 2, Column: 1}, "the file contains a second YAML document", ""},
		"a:\n\tb: 1\n":              {Origin{Line: 2, Column: 1}, "a tab in the indentation", ""},
		"a: 1\nb: [1, 2\nc: 3\n":    {Origin{Line: 2, Column: 1}, "not valid YAML", ""},
		"a: *secret\n":              {Origin{Line: 1, Column: 1}, "not valid YAML: * refers to an anchor that does not exist", ""},
		"a: 1\nb:\n  c: d: e\nf: 1": {Origin{Line: 3, Column: 3}, "not valid YAML: a second colon", ""},
	} {
		_, got := parseTree([]byte(text))
		if got == nil || got.Line != want.Line || got.Column != want.Column || !strings.HasPrefix(got.Message, want.Message) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{"", "# nothing\n"} {
		if root, err := parseTree([]byte(text)); root != nil || err != nil {
			t.Errorf("%q: got %v, %v", text, root, err)
		}
	}
	if root, err := parseTree([]byte("a: 1\n")); err != nil || len(root.Content) != 2 {
		t.Errorf("got %v, %v", root, err)
	}
}

package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTablesFitATerminal(t *testing.T) {
	text := func(columns ...tableColumn) *table { return &table{columns} }
	for name, c := range map[string]struct {
		table *table
		width int
		want  string
	}{
		"what fits stays as it is": {
			text(tableColumn{"ACCOUNT", []string{"a", "b"}}, tableColumn{"UPSTREAM", []string{"g", "g"}}), 80,
			"ACCOUNT  UPSTREAM\na        g\nb        g\n",
		},
		"what says the same everywhere goes first": {
			text(tableColumn{"ACCOUNT", []string{"a", "b"}}, tableColumn{"PROJECT", []string{"p", "q"}}, tableColumn{"UPSTREAM", []string{"g", "g"}}), 20,
			"ACCOUNT  PROJECT\na        p\nb        q\n",
		},
		"then what is seldom asked for": {
			text(tableColumn{"ACCOUNT", []string{"a", "b"}}, tableColumn{"PROJECT", []string{"p", "q"}}, tableColumn{"UPSTREAM", []string{"g", "h"}}), 20,
			"ACCOUNT  UPSTREAM\na        g\nb        h\n",
		},
		"the first column stays, whatever its name": {
			text(tableColumn{"ACCOUNT", []string{"a", "a"}}, tableColumn{"MS", []string{"1", "1"}}), 8,
			"ACCOUNT\na\na\n",
		},
		"long sentences are folded at words": {
			text(tableColumn{"ACCOUNT", []string{"a", "b"}}, tableColumn{"WHY", []string{"it is not usable before tomorrow at noon", "usable"}}), 34,
			"ACCOUNT  WHY\na        it is not usable before\n         tomorrow at noon\nb        usable\n",
		},
		"a word that is longer than its column is cut": {
			text(tableColumn{"KEY", []string{"a"}}, tableColumn{"VALUE", []string{"https://example.com/"}}, tableColumn{"ORIGIN", []string{"x"}}), 24,
			"KEY  VALUE        ORIGIN\na    https://exa  x\n     mple.com/    \n",
		},
		"what still has room comes back": {
			text(tableColumn{"ID", []string{"1"}}, tableColumn{"ACCOUNT", []string{"ada@example.com"}}, tableColumn{"MS", []string{"120"}}, tableColumn{"OUT", []string{"7"}}), 16,
			"ID  MS   OUT\n1   120  7\n",
		},
		"nothing in it": {text(tableColumn{"ACCOUNT", nil}, tableColumn{"UPSTREAM", nil}), 10, "ACCOUNT\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.table.fit(c.width)
			var b strings.Builder
			if err := c.table.write(&b); err != nil || b.String() != c.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, b.String(), c.want)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > c.width {
					t.Errorf("a line has %d characters", n)
				}
			}
		})
	}
}

// An address below a table is not cut: somebody has to open it.
func TestFoldWordsKeepsAddresses(t *testing.T) {
	got := strings.Join(foldWords("  open https://example.com/a-long-address now", 14, false), "\n")
	if want := "  open\n  https://example.com/a-long-address\n  now"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTablesFitTheTerminal(t *testing.T) {
	table := func(heads string, rows ...[]any) *Table {
		t := NewTable(strings.Split(heads, "|")...)
		for _, row := range rows {
			t.Add(row...)
		}
		return t
	}
	for name, c := range map[string]struct {
		table *Table
		width int
		want  string
	}{
		"a table that fits is unchanged": {
			table("ACCOUNT|UPSTREAM", []any{"a", "g"}, []any{"b", "g"}), 80,
			"ACCOUNT  UPSTREAM\na        g\nb        g\n",
		},
		"optional columns are left out in their order": {
			table("ACCOUNT|PROJECT|UPSTREAM", []any{"a", "p", "g"}, []any{"b", "q", "h"}), 20,
			"ACCOUNT  PROJECT\na        p\nb        q\n",
		},
		"the first column stays, also an optional one": {
			table("ACCOUNT|MS", []any{"a", "1"}, []any{"a", "1"}), 8,
			"ACCOUNT\na\na\n",
		},
		"long sentences are folded at words": {
			table("ACCOUNT|WHY", []any{"a", "it is not usable before tomorrow at noon"}, []any{"b", "usable"}), 34,
			"ACCOUNT  WHY\na        it is not usable before\n         tomorrow at noon\nb        usable\n",
		},
		"a word is cut where no column can be left out": {
			table("KEY|VALUE|ORIGIN", []any{"a", "https://example.com/", "x"}), 24,
			"KEY  VALUE        ORIGIN\na    https://exa  x\n     mple.com/\n",
		},
		"a word is not cut where an optional column can be left out": {
			table("ID|MODEL|ACCOUNT|RESULT", []any{"1", "gemini-3-flash", "ada@example.com", "done"},
				[]any{"2", "claude-opus-4-6-thinking-preview", "-", "verification_required"}), 64,
			"ID  MODEL                             RESULT\n1   gemini-3-flash                    done\n" +
				"2   claude-opus-4-6-thinking-preview  verification_required\n",
		},
		"the zone in a head does not count": {
			table("ID|TIME (+02:00)|RESULT", []any{"1", "2026-01-31 10:00:00", "verification_required"}), 40,
			"ID  RESULT\n1   verification_required\n",
		},
		"numbers are aligned to the right, and counts are short": {
			table("MODEL|CALLS|INPUT|MS", []any{"a", 1, Count(123456), Decimal(7)}, []any{"b", 12, "-", Decimal(12.34)}), 80,
			"MODEL  CALLS   INPUT    MS\na          1  123.5k   7.0\nb         12       -  12.3\n",
		},
		"columns without content are left out": {
			table("ID|ACCOUNT|KEY|OUT", []any{"-", "-", "-", 0}, []any{"-", "", "ci", 0}), 80,
			"ID  KEY  OUT\n-   -      0\n-   ci     0\n",
		},
		"a long name in the first column is shortened when nothing else helps": {
			table("KEY|CALLS|RESULT", []any{"a-key-with-a-name-that-fills-a-line-by-itself", 7, "done"}, []any{"ci", 7, "done"}), 40,
			"KEY                        CALLS  RESULT\na-key-with-a-name-that-f…      7  done\nci                             7  done\n",
		},
		"no rows": {table("ACCOUNT|UPSTREAM"), 10, "ACCOUNT\n"},
		"a pipe gets everything": {
			table("ID|ACCOUNT|INPUT", []any{"1", "-", Count(123456)}, []any{"a\x1b[2J", "", Count(1)}), 0,
			"ID     ACCOUNT   INPUT\n1      -        123456\na?[2J                1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := c.table.Write(&b, c.width); err != nil || b.String() != c.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, b.String(), c.want)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); c.width > 0 && n > c.width {
					t.Errorf("a line has %d characters", n)
				}
			}
		})
	}
}

// An ID is copied, and a dozen characters are needed to tell names apart, so these are not
// shortened at any width.
func TestWhatIsNotShortened(t *testing.T) {
	for cell, want := range map[[2]string]string{
		{"ID", "01ktqe5x1v6n0q3hw8zd"}:    "01ktqe5x1v6n0q3hw8zd  done",
		{"KEY", "a-key-with-a-long-name"}: "a-key-with-…  done",
	} {
		table := NewTable(cell[0], "RESULT")
		table.Add(cell[1], "done")
		var out strings.Builder
		if err := table.Write(&out, 10); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("got %v\n%s\nwant %q in it", err, out.String(), want)
		}
	}
}

func TestShortCounts(t *testing.T) {
	for n, want := range map[Count]string{
		0: "0", 9999: "9999", 12_345: "12.3k", 999_949: "999.9k", 999_950: "1.0M", 1_048_576: "1.0M", 2_500_000_000: "2.5B",
	} {
		if got := n.Short(); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestFoldKeepsAddressesWhole(t *testing.T) {
	got := strings.Join(Fold("  open https://example.com/a-long-address now", 14), "\n")
	if want := "  open\n  https://example.com/a-long-address\n  now"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"perigee"
)

func TestTablesFitATerminal(t *testing.T) {
	left := func(head string, cells []string) tableColumn { return tableColumn{head: head, cells: cells} }
	right := func(head string, cells []string) tableColumn {
		return tableColumn{head: head, cells: cells, right: true}
	}
	text := func(columns ...tableColumn) *table { return &table{columns} }
	for name, c := range map[string]struct {
		table *table
		width int
		want  string
	}{
		"what fits stays as it is": {
			text(left("ACCOUNT", []string{"a", "b"}), left("UPSTREAM", []string{"g", "g"})), 80,
			"ACCOUNT  UPSTREAM\na        g\nb        g\n",
		},
		"what says the same everywhere goes first": {
			text(left("ACCOUNT", []string{"a", "b"}), left("PROJECT", []string{"p", "q"}), left("UPSTREAM", []string{"g", "g"})), 20,
			"ACCOUNT  PROJECT\na        p\nb        q\n",
		},
		"then what is seldom asked for": {
			text(left("ACCOUNT", []string{"a", "b"}), left("PROJECT", []string{"p", "q"}), left("UPSTREAM", []string{"g", "h"})), 20,
			"ACCOUNT  UPSTREAM\na        g\nb        h\n",
		},
		"the first column stays, whatever its name": {
			text(left("ACCOUNT", []string{"a", "a"}), left("MS", []string{"1", "1"})), 8,
			"ACCOUNT\na\na\n",
		},
		"long sentences are folded at words": {
			text(left("ACCOUNT", []string{"a", "b"}), left("WHY", []string{"it is not usable before tomorrow at noon", "usable"})), 34,
			"ACCOUNT  WHY\na        it is not usable before\n         tomorrow at noon\nb        usable\n",
		},
		"a word that is longer than its column is cut": {
			text(left("KEY", []string{"a"}), left("VALUE", []string{"https://example.com/"}), left("ORIGIN", []string{"x"})), 24,
			"KEY  VALUE        ORIGIN\na    https://exa  x\n     mple.com/\n",
		},
		"what still has room comes back": {
			text(left("ID", []string{"1"}), left("ACCOUNT", []string{"ada@example.com"}), left("MS", []string{"120"}), left("OUT", []string{"7"})), 16,
			"ID  MS   OUT\n1   120  7\n",
		},
		"a word is not cut where another column can go": {
			text(left("ID", []string{"1", "2"}), left("MODEL", []string{"gemini-3-flash", "claude-opus-4-6-thinking-preview"}), left("ACCOUNT", []string{"ada@example.com", "-"}), left("RESULT", []string{"done", "verification_required"})), 64,
			"ID  MODEL                             RESULT\n1   gemini-3-flash                    done\n2   claude-opus-4-6-thinking-preview  verification_required\n",
		},
		"what says little without the other goes with it": {
			text(left("ID", []string{"1", "2"}), left("IN", []string{"3", "12345678"}), left("OUT", []string{"7", "9"}), left("RESULT", []string{"done", "failed"})), 20,
			"ID  RESULT\n1   done\n2   failed\n",
		},
		"a time goes last, whatever its zone": {
			text(left("ID", []string{"1"}), left("TIME (+02:00)", []string{"2026-01-31 10:00:00"}), left("RESULT", []string{"verification_required"})), 40,
			"ID  RESULT\n1   verification_required\n",
		},
		"numbers end where numbers end": {
			text(left("MODEL", []string{"a", "b"}), right("CALLS", []string{"1", "12"}), right("TOKENS", []string{"123456", "-"})), 80,
			"MODEL  CALLS  TOKENS\na          1  123456\nb         12       -\n",
		},
		"nothing in it": {text(left("ACCOUNT", nil), left("UPSTREAM", nil)), 10, "ACCOUNT\n"},
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

func TestColumnsWithNothingInThemGo(t *testing.T) {
	shown := &table{[]tableColumn{{head: "ID", cells: []string{"-", "-"}}, {head: "ACCOUNT", cells: []string{"-", ""}}, {head: "KEY", cells: []string{"-", "ci"}}, {head: "OUT", cells: []string{"0", "0"}}}}
	shown.dropEmpty()
	var b strings.Builder
	if err := shown.write(&b); err != nil || b.String() != "ID  KEY  OUT\n-   -    0\n-   ci   0\n" {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestShortNumbers(t *testing.T) {
	for n, want := range map[amount]string{0: "0", 9999: "9999", 12_345: "12.3k", 999_949: "999.9k", 999_950: "1.0M", 1_048_576: "1.0M", 2_500_000_000: "2.5B"} {
		if got := n.short(); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestSpansAsPeopleSayThem(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "a moment", 400 * time.Millisecond: "a moment", time.Second: "1s", 59 * time.Minute: "59m", 3 * time.Hour: "3h00m", 50 * time.Hour: "2d02h"} {
		if got := span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	var help strings.Builder
	if code := run(t.Context(), &environment{stdout: &help, stderr: &help}, []string{"help"}); code != 0 {
		t.Fatal(code, help.String())
	}
	for _, c := range commands() {
		if !strings.HasPrefix(c.usage, "usage: perigee "+c.name) {
			t.Errorf("the help of %s does not begin with its usage", c.name)
		}
		help.WriteString(c.usage)
	}
	for line := range strings.Lines(help.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > usualWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestCommandsAboutOneAccountNameIt(t *testing.T) {
	for text, want := range map[string]string{
		"open it, then run `perigee account enable` with its address": "open it, then run `perigee account enable ada@example.com`",
		"after that, perigee account enable EMAIL":                    "after that, perigee account enable ada@example.com",
		"`perigee account enable bob@example.com` changes that":       "`perigee account enable bob@example.com` changes that",
	} {
		if got := addressed(text, "ada@example.com"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An address below a table is not cut: somebody has to open it.
func TestFoldWordsKeepsAddresses(t *testing.T) {
	got := strings.Join(foldWords("  open https://example.com/a-long-address now", 14, false), "\n")
	if want := "  open\n  https://example.com/a-long-address\n  now"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What a trace says is folded beside its names.
func TestTracesFitATerminal(t *testing.T) {
	trace := &perigee.Trace{Operation: perigee.OperationGenerate, Error: "the quota of this model is used up until tomorrow", Notes: []string{"mapped max_tokens to the limit of the model"}}
	trace.ID, trace.Outcome, trace.Class, trace.Status = "01ktqe5x1v6n0q3hw8zd", perigee.OutcomeFailed, perigee.ClassExhausted, 429
	var b strings.Builder
	if err := tellTrace(&b, 40, trace); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"note      mapped max_tokens to the limit\n          of the model\n", "status    429 Too Many Requests\n",
		"result    failed, exhausted, the quota\n          of this model is used up until\n          tomorrow\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

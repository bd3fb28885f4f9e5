package main

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"perigee/internal/cli"
	"perigee/internal/lib/terminal"
)

func TestHelpFitsATerminal(t *testing.T) {
	var help strings.Builder
	if code := run(t.Context(), &cli.Env{Stdout: &help, Stderr: &help}, []string{"help"}); code != 0 {
		t.Fatal(code, help.String())
	}
	for _, c := range program.Commands {
		if !strings.HasPrefix(program.HelpText(c.Name), "usage: perigee "+c.Name) {
			t.Errorf("the help of %s does not begin with its usage", c.Name)
		}
		help.WriteString(program.HelpText(c.Name))
	}
	for line := range strings.Lines(help.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > terminal.DefaultWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestReadmeListsEveryCommand(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range program.Commands {
		if !strings.Contains(string(readme), "| `perigee "+c.Name) {
			t.Errorf("the table of commands in README.md does not list %s", c.Name)
		}
	}
}

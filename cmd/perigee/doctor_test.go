package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"perigee/internal/cli"
)

// suggestedFix is a command of perigee at the beginning of a text, or after && or sudo.
var suggestedFix = regexp.MustCompile(`(?:^|&& |sudo )perigee ([a-z]+)((?: [a-z]+)?)((?: --[a-z]+)*)`)

// TestFixesAreCommandsOfTheProgram reads the commands that doctor suggests from its source, so that
// it finds also those of results that no test provokes.
func TestFixesAreCommandsOfTheProgram(t *testing.T) {
	found := 0
	for _, pattern := range []string{"../../internal/cli/doctor/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, _ := strconv.Unquote(literal.Value)
					for _, fix := range suggestedFix.FindAllStringSubmatch(text, -1) {
						found++
						checkFix(t, text, fix[1], strings.TrimSpace(fix[2]), strings.Fields(fix[3]))
					}
				}
				return true
			})
		}
	}
	if found < 20 {
		t.Errorf("found only %d commands", found)
	}
}

func checkFix(t *testing.T, text, name, word string, flags []string) {
	t.Helper()
	i := slices.IndexFunc(program.Commands, func(c cli.Command) bool { return c.Name == name })
	if i < 0 {
		t.Errorf("%q: there is no command %s", text, name)
		return
	}
	if len(program.Commands[i].Subcommands) > 0 && word != "" &&
		!slices.ContainsFunc(program.Commands[i].Subcommands, func(s string) bool { return strings.Fields(s)[0] == word }) {
		t.Errorf("%q: %s has no subcommand %s", text, name, word)
	}
	for _, flag := range flags {
		if !strings.Contains(program.HelpText(name), flag) {
			t.Errorf("%q: the help of %s does not have %s", text, name, flag)
		}
	}
}

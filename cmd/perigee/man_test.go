package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee/internal/cli"
)

// plain undoes the escapes of a manual page.
var plain = strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\-`, "-", `\~`, " ", `\&`, "", `\e`, `\`, `\(ga`, "`", `\(ha`, "^",
	`\(ti`, "~", `\(aq`, "'", `\(dq`, `"`, `\[u2265]`, "≥", `\[u2713]`, "✓", `\[u2717]`, "✗")

// A manual page has every word of the help text, every flag that the command defines, and only
// macros and escapes that troff and mandoc know.
func TestManualPages(t *testing.T) {
	p := program
	p.Version = "1.2.3"
	macro := regexp.MustCompile(`^\.(\\" .*|TH|SH|SY|YS|TP|PP|RS|RE|EX|EE|br|nh|ad|ss)\b`)
	for _, name := range append([]string{"perigee"}, names(p.Commands)...) {
		page := p.Man(name)
		if again := p.Man(name); page != again {
			t.Errorf("%s: two pages differ", name)
		}
		if !strings.Contains(page, ` 1 "" "perigee 1.2.3" `) {
			t.Errorf("%s: the title lacks the version", name)
		}
		open := 0
		for line := range strings.Lines(page) {
			switch text := strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(text, ".RS"):
				open++
			case text == ".RE":
				open--
			case strings.HasPrefix(text, ".") && !macro.MatchString(text) || strings.HasPrefix(text, "'") || text == "":
				t.Errorf("%s: %q is not a macro and not text", name, text)
			case !strings.HasPrefix(text, ".") && strings.ContainsAny(plain.Replace(strings.ReplaceAll(text, `\e`, "")), `\`):
				t.Errorf("%s: %q has an unknown escape", name, text)
			case !strings.HasPrefix(text, ".") && regexp.MustCompile(`(^|[^\\])-`).MatchString(text):
				t.Errorf("%s: %q has a hyphen that cannot be copied", name, text)
			}
		}
		if open != 0 {
			t.Errorf("%s: .RS and .RE are not in pairs", name)
		}
		words := strings.Fields(plain.Replace(page))
		for i, word := range words {
			words[i] = strings.Trim(word, `"`) // of .SY
		}
		for _, word := range strings.Fields(strings.TrimPrefix(p.HelpText(name), "usage: ")) {
			if !slices.Contains(words, strings.Trim(word, `"`)) {
				t.Errorf("%s: the page lacks %q of the help", name, word)
			}
		}
	}
	for _, command := range p.Commands {
		env := &cli.Env{Stdout: io.Discard, Stderr: io.Discard}
		args := []string{command.Name, "--no-such-flag"}
		if len(command.Subcommands) > 0 {
			args = slices.Insert(args, 1, strings.Fields(command.Subcommands[0])[0])
		}
		_ = run(context.Background(), env, args) // it ends at the flag that there is not
		page, checked := p.Man(command.Name), 0
		env.Flags.VisitAll(func(f *flag.Flag) {
			checked++
			undocumented := f.Name == "config" && !strings.Contains(p.HelpText(command.Name), "--config") || command.Name+f.Name == "runbackground"
			if !undocumented && !strings.Contains(page, "\\fB\\-\\-"+strings.ReplaceAll(f.Name, "-", `\-`)+"\\fR") {
				t.Errorf("perigee-%s(1) lacks --%s", command.Name, f.Name)
			}
		})
		if checked == 0 {
			t.Errorf("perigee %s defines no flags", command.Name)
		}
	}
}

func names(commands []cli.Command) (list []string) {
	for _, c := range commands {
		list = append(list, c.Name)
	}
	return list
}

// The exit codes of the manual page are those of README.md.
func TestExitCodesAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "| exit code | meaning |\n|---|---|\n"
	for _, e := range exitTable {
		want += fmt.Sprintf("| %s | %s |\n", e.Term, e.Text)
	}
	if !strings.Contains(string(readme), want) {
		t.Errorf("README.md lacks this table:\n%s", want)
	}
}

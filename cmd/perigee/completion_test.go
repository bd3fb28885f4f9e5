package main

import (
	"context"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"perigee/internal/cli"
	"perigee/internal/cli/completioncmd"
)

// Completion knows flags from the help. The help names flags that the command has, and all of them:
// each flag that is completed is defined, and each that is defined is completed for at least one
// form of the command.
func TestCompletionKnowsTheFlags(t *testing.T) {
	completer := completioncmd.Completer{Program: &program}
	for _, command := range program.Commands {
		subcommands := []string{""}
		for _, s := range command.Subcommands {
			subcommands = append(subcommands, strings.Fields(s)[0])
		}
		completed, defined := map[string]bool{}, map[string]bool{}
		for _, sub := range subcommands {
			line := slices.DeleteFunc([]string{command.Name, sub}, func(word string) bool { return word == "" })
			env := &cli.Env{Stdout: io.Discard, Stderr: io.Discard}
			// The command ends at the flag that there is not, after it has defined those that there
			// are.
			if code := run(context.Background(), env, append(slices.Clone(line), "--no-such-flag")); code != exitUsage {
				t.Errorf("%v: exit %d", line, code)
			}
			has := map[string]bool{"--help": true}
			env.Flags.VisitAll(func(f *flag.Flag) { has["--"+f.Name] = true })
			for name := range has {
				defined[name] = true
			}
			for _, w := range completer.Complete(t.Context(), line, "--").Words {
				completed[w.Text] = true
				if !has[w.Text] && (sub != "" || len(command.Subcommands) == 0) {
					t.Errorf("perigee %s has no flag %s, which its help has", strings.Join(line, " "), w.Text)
				}
			}
		}
		for name := range defined {
			if !completed[name] && command.Name+" "+name != "run --background" { // perigee starts its daemon with it
				t.Errorf("perigee %s has the flag %s, which is not in the usage lines of its help", command.Name, name)
			}
		}
	}
}

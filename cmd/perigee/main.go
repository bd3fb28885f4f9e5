// Command perigee brings the models that a developer has access to close to the tools that they like.
//
// One file per command: flags, streams, exit code. The work is done by the packages below internal.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"perigee/internal/names"
)

// version is set by the release build; other builds say what Go knows of them.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // who asks twice means it: the second signal ends the process at once
	code := run(ctx, &environment{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// An environment is what a command may touch. Answers go to stdout, everything else to stderr as
// "perigee: lower-case sentence".
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	command        *command // the one that runs
	config         string   // what it was given as --config
	reader         *bufio.Reader
}

// say writes a sentence to stderr. At a terminal it is folded at its words.
func (e *environment) say(format string, args ...any) {
	line := "perigee: " + e.hint(fmt.Sprintf(format, args...))
	if width := streamWidth(e.stderr); width > 0 && utf8.RuneCountInString(line) > width {
		line = strings.Join(foldWords(line, width-2, false), "\n  ")
	}
	fmt.Fprintln(e.stderr, line)
}

// A command is one word that perigee understands.
type command struct {
	name    string
	summary string
	usage   string // a line that begins with "usage:", then examples
	run     func(ctx context.Context, env *environment, args []string) error
}

// commands in the order of the help text.
func commands() []command {
	return []command{serveCommand, loginCommand, accountCommand, modelsCommand, quotaCommand, usageCommand, traceCommand, auditCommand, storeCommand, simulateCommand,
		configCommand, versionCommand}
}

func run(ctx context.Context, env *environment, args []string) int {
	err := dispatch(ctx, env, args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		env.say("%s", printable(line)) // it may quote a provider
	}
	return exitCode(err)
}

func dispatch(ctx context.Context, env *environment, args []string) error {
	if len(args) == 0 {
		return help(env, nil)
	}
	args, err := commandFirst(args)
	if err != nil {
		return err
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help(env, args[1:])
	case "-v", "-version", "--version":
		args = []string{"version"}
	}
	for _, c := range commands() {
		if c.name == args[0] {
			env.command = &c
			return c.run(ctx, env, args[1:])
		}
	}
	if err := notYet(args[0]); err != nil {
		return err
	}
	var known []string
	for _, c := range commands() {
		known = append(known, c.name)
	}
	if near := names.Nearest(args[0], known, 1); len(near) > 0 {
		return usagef("no command %q; did you mean perigee %s?", args[0], near[0])
	}
	return usagef("no command %q; perigee help lists them", args[0])
}

// later are commands that are promised and that this version does not have. Nobody is told to use another in their place.
var later = []string{"mcp", "langserver", "ca", "redirect", "connect", "doctor", "dashboard"}

func notYet(name string) error {
	if slices.Contains(later, name) {
		return usagef("perigee %s is not in this version; perigee help lists the commands that are", name)
	}
	return nil
}

// commandFirst puts a --config that stands before the command behind it, where flags are read.
func commandFirst(args []string) ([]string, error) {
	if !strings.HasPrefix(args[0], "-") || slices.Contains([]string{"-h", "-help", "--help", "-v", "-version", "--version"}, args[0]) {
		return args, nil
	}
	name, value, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	rest := args[1:]
	if name != "config" {
		return nil, usagef("%s stands before the command; flags come behind it: perigee COMMAND %[1]s", args[0])
	}
	if !joined {
		if len(rest) == 0 {
			return nil, usagef("--config needs a file, and a command; perigee help lists them")
		}
		value, rest = rest[0], rest[1:]
	}
	if len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil, usagef("no command given; perigee help lists them")
	}
	if rest[0] == "help" {
		return rest, nil
	}
	return append(slices.Clone(rest), "--config", value), nil
}

func help(env *environment, args []string) error {
	if len(args) > 0 && args[0] != "help" {
		for _, c := range commands() {
			if c.name == args[0] {
				fmt.Fprint(env.stdout, c.usage)
				return nil
			}
		}
		if err := notYet(args[0]); err != nil {
			return err
		}
		return usagef("no command %q; perigee help lists them", args[0])
	}
	fmt.Fprint(env.stdout, `usage: perigee COMMAND [FLAGS]

perigee is a gateway: point OpenAI, Anthropic and Gemini clients at it, and use
the models that you have access to.

  perigee serve --simulate    try it, with answers from the built-in simulator
  perigee serve               run the gateway with your configuration
  perigee config check        is the configuration good?

Commands:
`)
	for _, c := range commands() {
		fmt.Fprintf(env.stdout, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprint(env.stdout, "\nperigee help COMMAND tells more; every command takes --config FILE\n")
	return nil
}

// flags returns a flag set for the command that runs, with --config in it. It reports nothing by itself.
func flags(env *environment, configPath *string) *flag.FlagSet {
	set := flag.NewFlagSet(env.command.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(configPath, "config", "", "")
	return set
}

// noSecrets is for commands that never use one: they work in a shell that does not have them.
func noSecrets(string) bool { return true }

// parse reads flags and refuses what is left over beyond a number of arguments.
func parse(env *environment, set *flag.FlagSet, args []string, positional int) error {
	name := env.command.name
	err := set.Parse(args)
	env.config = set.Lookup("config").Value.String()
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(env.stdout, env.command.usage)
		return err
	}
	if err != nil {
		return usagef("%s: %s", name, flagTrouble(err, name, set))
	}
	if set.NArg() > positional {
		return usagef("%s: unexpected argument %q; perigee help %s tells more", name, set.Arg(positional), name)
	}
	return nil
}

var versionCommand = command{
	name:    "version",
	summary: "print the version",
	run:     sayVersion,
	usage: `usage: perigee version

Prints the version, the Go release it was built with, and the platform.
`,
}

func sayVersion(_ context.Context, env *environment, args []string) error {
	var unused string
	if err := parse(env, flags(env, &unused), args, 0); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "perigee %s %s %s/%s\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

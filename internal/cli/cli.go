package cli

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"perigee/internal/lib/match"
	"perigee/internal/lib/terminal"
)

// A Program is a table of commands.
type Program struct {
	Commands []Command // in the order of the help text
	Help     fs.FS     // has help/NAME.txt for each command, and help/perigee.txt
	Version  string    // as perigee version prints it
	Files    []Entry   // for the manual page
	Exits    []Entry   // the exit codes, for the manual page
}

// A Command is a subcommand of perigee.
type Command struct {
	Name, Summary string
	Subcommands   []string // with their arguments: "list", "show ID"
	JSON          bool     // it has the flag --json
	NoConfig      bool     // it uses no configuration, although it accepts --config
	Run           func(ctx context.Context, env *Env, args []string) error
}

// An Env has the input and output of a command, and its command line. Results go to Stdout,
// messages to Stderr as "perigee: lower-case sentence".
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Program        *Program
	Command        *Command
	Flags          *flag.FlagSet // of the command; --config and --json are defined
	Config         string        // the value of --config
	JSON           bool          // the value of --json
	CSV            bool          // the value of --csv, of commands that define it with DefineCSV
	reader         *bufio.Reader // of Stdin
	progress       atomic.Pointer[terminal.Progress]
}

// A UsageError is an error in the command line.
type UsageError struct{ message string }

func (e *UsageError) Error() string { return e.message }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Remark writes a message to Stderr. At a terminal it is folded.
func (e *Env) Remark(format string, args ...any) {
	e.progress.Load().Around(func() { e.remark(fmt.Sprintf(format, args...)) })
}

func (e *Env) remark(text string) {
	line := "perigee: " + e.Hint(text)
	if width := terminal.Width(e.Stderr); width > 0 && utf8.RuneCountInString(line) > width {
		line = strings.Join(terminal.Fold(line, width-2), "\n  ")
	}
	fmt.Fprintln(e.Stderr, line)
}

// Width returns the number of characters in a line of Stdout, or 0 if Stdout is not a terminal.
func (e *Env) Width() int { return terminal.Width(e.Stdout) }

// Run runs the command that the arguments name.
func (p *Program) Run(ctx context.Context, env *Env, args []string) error {
	env.Program = p
	args, err := commandFirst(args)
	if err != nil {
		return err
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return p.help(env.Stdout, args[1:])
	case "-v", "-version", "--version":
		args = []string{"version"}
	}
	if env.Command, err = p.find(args[0]); err != nil {
		return err
	}
	env.Flags = flag.NewFlagSet(args[0], flag.ContinueOnError)
	env.Flags.SetOutput(io.Discard)
	env.Flags.StringVar(&env.Config, "config", "", "")
	if env.Command.JSON {
		env.Flags.BoolVar(&env.JSON, "json", false, "")
	}
	if err := env.Command.Run(ctx, env, args[1:]); !errors.Is(err, flag.ErrHelp) {
		return err
	}
	return nil
}

// commandFirst moves a --config before the command to the end, where flags are read. Without
// arguments it returns help.
func commandFirst(args []string) ([]string, error) {
	switch {
	case len(args) == 0:
		return []string{"help"}, nil
	case !strings.HasPrefix(args[0], "-") || slices.Contains([]string{"-h", "-help", "--help", "-v", "-version", "--version"}, args[0]):
		return args, nil
	}
	name, value, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	rest := args[1:]
	if name != "config" {
		return nil, Usagef("%s stands before the command; flags come behind it: perigee COMMAND %[1]s", args[0])
	}
	if !joined {
		if len(rest) == 0 {
			return nil, Usagef("--config needs a file, and a command; perigee help lists them")
		}
		value, rest = rest[0], rest[1:]
	}
	switch {
	case len(rest) == 0 || strings.HasPrefix(rest[0], "-"):
		return nil, Usagef("no command given; perigee help lists them")
	case rest[0] == "help":
		return rest, nil
	}
	return append(slices.Clone(rest), "--config", value), nil
}

// find returns a command, or an error that names the nearest one.
func (p *Program) find(name string) (*Command, error) {
	var known []string
	for i, c := range p.Commands {
		if c.Name == name {
			return &p.Commands[i], nil
		}
		known = append(known, c.Name)
	}
	if near := match.Nearest(name, known, 1); len(near) > 0 {
		return nil, Usagef("no command %q; did you mean perigee %s?", name, near[0])
	}
	return nil, Usagef("no command %q; perigee help lists them", name)
}

// HelpText returns the help for a command, or the introduction for perigee.
func (p *Program) HelpText(name string) string {
	text, err := fs.ReadFile(p.Help, "help/"+name+".txt")
	if err != nil {
		panic("perigee: no help for " + name)
	}
	return string(text)
}

func (p *Program) help(out io.Writer, args []string) error {
	given := len(args)
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--man" || arg == "-man" })
	print := p.HelpText
	if len(args) < given {
		print = p.Man
	}
	if len(args) > 0 && args[0] != "help" && !strings.HasPrefix(args[0], "-") {
		c, err := p.find(args[0])
		if err == nil {
			fmt.Fprint(out, print(c.Name))
		}
		return err
	}
	if len(args) < given {
		fmt.Fprint(out, p.Man("perigee"))
		return nil
	}
	fmt.Fprint(out, p.HelpText("perigee"), "\nCommands:\n")
	for _, c := range p.Commands {
		fmt.Fprintf(out, "  %-10s %s\n", c.Name, c.Summary)
	}
	fmt.Fprint(out, "\nRun perigee help COMMAND for details, or with --man for a manual page. Every\ncommand accepts --config FILE.\n")
	return nil
}

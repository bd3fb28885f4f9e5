package cli

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"perigee/internal/lib/match"
)

// DefineCSV defines the flag --csv, for a command with a List as its result.
func (e *Env) DefineCSV() { e.Flags.BoolVar(&e.CSV, "csv", false, "") }

// Structured reports whether the result is for programs: with --json or --csv.
func (e *Env) Structured() bool { return e.JSON || e.CSV }

// Parse reads flags before, between and after the arguments. It returns the arguments and refuses
// more than most of them.
func (e *Env) Parse(args []string, most int) (rest []string, err error) {
	for len(args) > 0 {
		err := e.Flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(e.Stdout, e.Program.HelpText(e.Command.Name))
			return nil, err
		}
		if err != nil {
			return nil, e.flagError(err)
		}
		if args = e.Flags.Args(); len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	if e.JSON && e.CSV {
		return nil, Usagef("%s: use either --json or --csv", e.Command.Name)
	}
	if len(rest) > most {
		return nil, Usagef("%s: unexpected argument %q; perigee help %[1]s has details", e.Command.Name, rest[most])
	}
	return rest, nil
}

const undefinedFlag = "flag provided but not defined: -"

// flagErrors are the errors of package flag, which are texts only, and how perigee reports them.
var flagErrors = []struct {
	pattern string
	message string
}{
	{`^` + undefinedFlag + `-*(.*)$`, "no flag --$1"},
	{`^flag needs an argument: -+(.*)$`, "--$1 needs a value"},
	{`^invalid boolean value (".*") for -([^:]*): .*$`, "--$2 takes no value, or true or false, and not $1"},
	{`^invalid value (".*") for flag -([^:]*): .*$`, "--$2 takes a number, and not $1"},
	{`^bad flag syntax: (.*)$`, `"$1" is not a flag`},
}

func (e *Env) flagError(err error) error {
	text, name := err.Error(), e.Command.Name
	for _, f := range flagErrors {
		pattern := regexp.MustCompile(f.pattern)
		if parts := pattern.FindStringSubmatch(text); len(parts) > 2 && e.takesDuration(parts[2]) {
			text = fmt.Sprintf("--%s takes a duration such as 30s, and not %s", parts[2], parts[1])
		}
		text = pattern.ReplaceAllString(text, f.message)
	}
	if unknown, ok := strings.CutPrefix(err.Error(), undefinedFlag); ok {
		var known []string
		e.Flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		if near := match.Nearest(strings.TrimLeft(unknown, "-"), known, 1); len(near) > 0 {
			return Usagef("%s: %s; did you mean --%s?", name, text, near[0])
		}
	}
	return Usagef("%s: %s; perigee help %s has details", name, text, name)
}

// takesDuration reports whether the value of a flag is a time.Duration.
func (e *Env) takesDuration(name string) bool {
	f := e.Flags.Lookup(name)
	if f == nil {
		return false
	}
	getter, ok := f.Value.(flag.Getter)
	if !ok {
		return false
	}
	_, ok = getter.Get().(time.Duration)
	return ok
}

// Subcommand returns the first argument, which has to be a subcommand of the command.
func (e *Env) Subcommand(args []string) (string, error) {
	name, words := e.Command.Name, e.Command.Subcommands
	var known []string
	for _, word := range words {
		known = append(known, strings.Fields(word)[0])
	}
	use := words[len(words)-1]
	if len(words) > 1 {
		use = strings.Join(words[:len(words)-1], ", ") + " or " + use
	}
	switch {
	case len(args) == 0:
		return "", Usagef("%s: use %s; perigee help %[1]s has details", name, use)
	case slices.Contains(known, args[0]):
		return args[0], nil
	case strings.HasPrefix(args[0], "-"):
		if _, err := e.Parse(args, len(args)); err != nil {
			return "", err
		}
		return "", Usagef("%s: use %s first; perigee help %[1]s has details", name, use)
	}
	if near := match.Nearest(args[0], known, 1); len(near) > 0 {
		use += "; did you mean perigee " + name + " " + near[0] + "?"
	}
	return "", Usagef("%s: unknown subcommand %q; use %s", name, args[0], use)
}

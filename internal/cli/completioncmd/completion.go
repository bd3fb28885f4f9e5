package completioncmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"perigee/internal/cli"
)

// Candidates are the words that a word can be completed to.
type Candidates struct {
	Kind  Kind
	Words []Word
}

// A Kind is a kind of further words that a word can be.
type Kind string

// The kinds.
const (
	Words Kind = "words" // nothing else
	Files Kind = "files" // a file
	Dirs  Kind = "dirs"  // a directory
)

// A Word is a candidate.
type Word struct{ Text, Help string }

// A Completer completes command lines.
type Completer struct {
	Program *cli.Program
	// Values returns the values of an argument ("EMAIL") or of a flag ("--upstream"); nil if they
	// are not known. Config is the value of --config on the command line.
	Values func(ctx context.Context, of, config string) []string
}

// Complete returns the candidates for the word that is being typed, in a line that has these words
// before it, without the name of the program.
func (c *Completer) Complete(ctx context.Context, before []string, current string) Candidates {
	line := c.read(before)
	var list Candidates
	switch {
	case line.pending != nil:
		list = c.values(ctx, line, line.pending.name, line.pending.value).after(line.pending, current)
	case strings.HasPrefix(current, "-") && strings.Contains(current, "="):
		name, typed, _ := strings.Cut(current, "=")
		if f := line.find(name); f != nil {
			list = c.values(ctx, line, f.name, f.value).after(f, typed)
			for i := range list.Words {
				list.Words[i].Text = name + "=" + list.Words[i].Text
			}
		}
	case strings.HasPrefix(current, "-"):
		list.Words = line.unusedFlags()
	case line.command == nil && line.help && len(line.arguments) > 0:
	case line.command == nil:
		list.Words = c.commands()
	default:
		list = c.arguments(ctx, line)
	}
	if list.Kind == "" {
		list.Kind = Words
	}
	list.Words = slices.DeleteFunc(list.Words, func(w Word) bool { return !strings.HasPrefix(w.Text, current) })
	return list
}

// after returns the candidates for the last name of what was typed, if the value of the flag is a
// list such as A,B: those that are not in the list yet, with the names before them.
func (c Candidates) after(f *flag, typed string) Candidates {
	end := strings.LastIndexByte(typed, ',') + 1
	if end == 0 || !strings.Contains(f.value, ",") {
		return c
	}
	names := strings.Split(typed[:end], ",")
	c.Words = slices.DeleteFunc(c.Words, func(w Word) bool { return slices.Contains(names, w.Text) })
	for i := range c.Words {
		c.Words[i].Text = typed[:end] + c.Words[i].Text
	}
	return c
}

func (c *Completer) commands() (list []Word) {
	for _, command := range c.Program.Commands {
		list = append(list, Word{command.Name, command.Summary})
	}
	return append(list, Word{"help", "explain a command"})
}

// A line is the parsed words before the current one.
type line struct {
	help      bool // perigee help
	command   *cli.Command
	config    string
	sub       string
	arguments []string // without the subcommand
	used      []string // flags
	pending   *flag    // the flag that the current word is the value of; nil if there is none
	ended     bool     // there was a --

	forms     []usage
	describes map[string]string
}

var (
	configFlag = flag{name: "--config", value: "FILE"}
	helpFlag   = flag{name: "--help"}
	manFlag    = flag{name: "--man"} // of perigee help
)

func (c *Completer) read(words []string) *line {
	l := &line{}
	for _, word := range words {
		switch {
		case l.pending != nil:
			if l.pending.name == configFlag.name {
				l.config = word
			}
			l.pending = nil
		case l.ended:
			l.arguments = append(l.arguments, word)
		case word == "--":
			l.ended = true
		case strings.HasPrefix(word, "-"):
			l.readFlag("--" + strings.TrimLeft(word, "-"))
		case l.command == nil && !l.help:
			l.readCommand(c.Program, word)
		case l.sub == "" && len(l.arguments) == 0 && l.hasSubcommand(word):
			l.sub = word
		default:
			l.arguments = append(l.arguments, word)
		}
	}
	return l
}

func (l *line) readFlag(word string) {
	name, value, joined := strings.Cut(word, "=")
	l.used = append(l.used, name)
	f := l.find(name)
	switch {
	case f == nil || f.value == "":
	case !joined:
		l.pending = f
	case name == configFlag.name:
		l.config = value
	}
}

func (l *line) readCommand(p *cli.Program, name string) {
	if name == "help" {
		l.help = true
		return
	}
	for i := range p.Commands {
		if p.Commands[i].Name == name {
			l.command = &p.Commands[i]
			l.forms, l.describes = parseHelp(p.HelpText(name), subcommands(l.command))
		}
	}
	if l.command == nil {
		l.help = true // an unknown command has no candidates
		l.arguments = append(l.arguments, name)
	}
}

// subcommands returns the names of the subcommands of a command.
func subcommands(c *cli.Command) (names []string) {
	for _, s := range c.Subcommands {
		names = append(names, strings.Fields(s)[0])
	}
	return names
}

func (l *line) hasSubcommand(name string) bool {
	return l.command != nil && slices.Contains(subcommands(l.command), name)
}

// applicable returns the forms that the line may have.
func (l *line) applicable() (list []usage) {
	for _, u := range l.forms {
		if l.sub == "" && len(u.subcommands) == 0 || slices.Contains(u.subcommands, l.sub) {
			list = append(list, u)
		}
	}
	return list
}

// flags returns the flags that the line may have.
func (l *line) flags() (list []flag) {
	add := func(flags ...flag) {
		for _, f := range flags {
			if !slices.ContainsFunc(list, func(g flag) bool { return g.name == f.name }) {
				list = append(list, f)
			}
		}
	}
	for _, u := range l.applicable() {
		add(u.flags...)
	}
	add(configFlag, helpFlag)
	if l.help && l.command == nil {
		add(manFlag)
	}
	return list
}

func (l *line) find(name string) *flag {
	flags := l.flags()
	if i := slices.IndexFunc(flags, func(f flag) bool { return f.name == name }); i >= 0 {
		return &flags[i]
	}
	return nil
}

func (l *line) unusedFlags() (list []Word) {
	if l.ended {
		return nil
	}
	for _, f := range l.flags() {
		if f.repeated || !slices.Contains(l.used, f.name) {
			list = append(list, Word{f.name, l.describes[f.name]})
		}
	}
	return list
}

// arguments returns the candidates for an argument: a subcommand, or the words at its place in the
// forms.
func (c *Completer) arguments(ctx context.Context, l *line) (list Candidates) {
	if l.ended {
		return Candidates{Kind: Files}
	}
	if l.sub == "" && len(l.arguments) == 0 {
		for _, name := range subcommands(l.command) {
			list.Words = append(list.Words, Word{name, l.describes[name]})
		}
	}
	for _, u := range l.applicable() {
		if len(u.arguments) > len(l.arguments) {
			name := u.arguments[len(l.arguments)]
			more := c.values(ctx, l, name, name)
			list.Words = append(list.Words, more.Words...)
			if more.Kind != Words {
				list.Kind = more.Kind
			}
		}
	}
	slices.SortStableFunc(list.Words, func(a, b Word) int { return strings.Compare(a.Text, b.Text) })
	list.Words = slices.CompactFunc(list.Words, func(a, b Word) bool { return a.Text == b.Text })
	return list
}

// values returns the values of a flag or an argument. what is its description in the help: FILE, or
// a|b|c.
func (c *Completer) values(ctx context.Context, l *line, of, what string) Candidates {
	if strings.Contains(what, "|") {
		var list Candidates
		for value := range strings.SplitSeq(what, "|") {
			list.Words = append(list.Words, Word{Text: value})
		}
		return list
	}
	switch what {
	case "FILE":
		return Candidates{Kind: Files}
	case "DIR":
		return Candidates{Kind: Dirs}
	case "PROFILE":
		of = what // doctor has a flag --profile, too
	}
	list := Candidates{Kind: Words}
	if c.Values != nil {
		for _, value := range c.Values(ctx, of, l.config) {
			list.Words = append(list.Words, Word{Text: value})
		}
	}
	return list
}

// Write prints candidates for the scripts: the kind, and a line for each word with its description
// after a tab.
func (c Candidates) Write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, c.Kind)
	clean := strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")
	for _, w := range c.Words {
		if strings.ContainsAny(w.Text, "\t\r\n ") {
			continue // no shell could take it unquoted
		}
		fmt.Fprintf(&b, "%s\t%s\n", w.Text, clean.Replace(w.Help))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

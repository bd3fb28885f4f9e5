package cli

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

// An Entry is a line of a table in the manual page: an exit code or a file, and its description.
type Entry struct{ Term, Text string }

// Man returns the manual page of a command, or of perigee if name is "perigee", in the macros of
// man(7). It consists of the help text and the tables of the Program alone: the same program
// returns the same page.
func (p *Program) Man(name string) string {
	m := manPage{program: p, name: name}
	m.read(p.HelpText(name))
	title, summary := "perigee", "connects coding agents to the models that you have access to"
	for _, c := range p.Commands {
		if c.Name == name {
			title, summary = "perigee-"+name, c.Summary
		}
	}
	m.printf(`.\" Made from the help text of perigee.` + "\n")
	m.printf(".TH %s 1 \"\" \"%s\" \"perigee manual\"\n", strings.ToUpper(roff(title)), "perigee "+roff(p.Version))
	m.printf(".nh\n.ad l\n.ss 12 0\n") // no hyphenation, no filled lines, one space after a sentence
	m.printf(".SH NAME\n%s \\- %s\n", roff(title), roff(summary))
	m.synopsis()
	m.section("DESCRIPTION", m.description)
	if name == "perigee" {
		m.commands()
		m.table("OPTIONS", []Entry{{"--config FILE", "the configuration; every command accepts it"},
			{"--help", "print the help text of a command"}, {"--version", "print the version"}})
	}
	m.section("OPTIONS", m.options)
	m.section("EXAMPLES", m.examples)
	if name == "perigee" {
		m.table("FILES", p.Files)
		m.table("EXIT STATUS", p.Exits)
	}
	m.seeAlso()
	return m.out.String()
}

// A manPage is a page that is being made from a help text: its usage lines, and the blocks that
// empty lines separate, in the macros of man(7).
type manPage struct {
	program                        *Program
	name                           string
	usage                          []string // one for each form of the command
	description, options, examples []string
	text                           string // the help text
	out                            strings.Builder
}

func (m *manPage) printf(format string, args ...any) { fmt.Fprintf(&m.out, format, args...) }

func (m *manPage) section(title string, lines []string) {
	if len(lines) > 0 {
		m.printf(".SH %s\n%s\n", title, strings.TrimPrefix(strings.Join(lines, "\n"), ".PP\n"))
	}
}

func (m *manPage) table(title string, entries []Entry) {
	var lines []string
	for _, e := range entries {
		lines = append(lines, ".TP", term(e.Term), prose(e.Text))
	}
	m.section(title, lines)
}

// synopsis writes the usage lines, which are folded between the words of their arguments.
func (m *manPage) synopsis() {
	m.printf(".SH SYNOPSIS\n")
	for _, form := range m.usage {
		words := strings.Fields(form)
		lead := min(2, len(words))
		m.printf(".SY \"%s\"\n", roff(strings.Join(words[:lead], " ")))
		group := ""
		for _, word := range words[lead:] {
			group += word
			if strings.Count(group, "[") > strings.Count(group, "]") {
				group += " "
				continue
			}
			m.printf("%s\n", guard(strings.ReplaceAll(term(group), " ", `\~`)))
			group = ""
		}
		m.printf(".YS\n")
	}
}

func (m *manPage) commands() {
	var entries []Entry
	for _, c := range m.program.Commands {
		entries = append(entries, Entry{"perigee-" + c.Name + "(1)", c.Summary})
	}
	m.table("COMMANDS", entries)
}

// seeAlso names the pages of the commands that the help text mentions.
func (m *manPage) seeAlso() {
	mentions := map[string]bool{}
	for _, found := range mentioned().FindAllStringSubmatch(m.text, -1) {
		mentions[found[1]] = true
	}
	var pages []string
	if m.name != "perigee" {
		pages = append(pages, term("perigee(1)"))
	}
	for _, c := range m.program.Commands {
		if c.Name != m.name && mentions[c.Name] {
			pages = append(pages, term("perigee-"+c.Name+"(1)"))
		}
	}
	m.printf(".SH SEE ALSO\n%s\n", strings.Join(pages, ",\n"))
}

var (
	mentioned = lazyregexp.New(`\bperigee\s+([a-z]+)`)
	item      = lazyregexp.New(`^ +(\S+(?: \S+)*?)(?: {2,}(\S.*))?$`)
	flags     = lazyregexp.New(`(^|[\s(,])(--[a-z][a-z-]*)`)
	argument  = lazyregexp.New(`^[A-Z][A-Z_]*$`)
	termWord  = lazyregexp.New(`^[A-Za-z/~$%_*-][A-Za-z0-9/~$%_:*-]*(?:\.[A-Za-z0-9/~$%_:*-]+)*`)
)

// read takes a help text apart.
func (m *manPage) read(text string) {
	m.text = text
	head, rest, _ := strings.Cut(strings.TrimRight(text, "\n"), "\n\n")
	for line := range strings.Lines(strings.TrimPrefix(head, "usage: ")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "perigee ") {
			m.usage = append(m.usage, line)
		} else {
			m.usage[len(m.usage)-1] += " " + line
		}
	}
	if rest == "" {
		return
	}
	for i, block := range strings.Split(rest, "\n\n") {
		lines := strings.Split(block, "\n")
		indented := strings.HasPrefix(block, " ")
		switch {
		case indented && (i == 0 || strings.HasPrefix(block, "  perigee ")):
			m.examples = append(m.examples, literal(lines)...)
		case indented:
			m.indented(lines)
		default:
			m.paragraph(lines)
		}
	}
}

// paragraph adds a paragraph to the description. Indented lines at its end are a list or literal.
func (m *manPage) paragraph(lines []string) {
	end := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, " ") })
	if end < 0 {
		end = len(lines)
	}
	m.description = append(m.description, ".PP")
	for _, line := range lines[:end] {
		m.description = append(m.description, prose(line))
	}
	if end < len(lines) {
		m.indented(lines[end:])
	}
}

// listIndent is the largest indentation of a term; descriptions begin further to the right.
const listIndent = 6

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// indented adds a list of two columns, or literal lines. Flags at the left of a list are options.
func (m *manPage) indented(lines []string) {
	found := item().FindStringSubmatch(lines[0])
	continued := len(lines) > 1 && indentation(lines[1]) > listIndent
	if found == nil || found[2] == "" && !continued {
		m.description = append(m.description, literal(lines)...)
		return
	}
	to, nested := &m.description, false
	for i, line := range lines {
		depth := indentation(line)
		if depth > listIndent {
			if i > 0 && strings.HasSuffix(lines[i-1], ":") {
				*to = append(*to, ".br")
			}
			*to = append(*to, prose(strings.TrimSpace(line)))
			continue
		}
		if inner := depth > 2; inner != nested {
			*to = append(*to, map[bool]string{true: ".RS", false: ".RE"}[inner])
			nested = inner
		}
		if to = &m.description; depth <= 2 && strings.HasPrefix(strings.TrimSpace(line), "-") {
			to = &m.options
		}
		found := item().FindStringSubmatch(line)
		*to = append(*to, ".TP", term(found[1]))
		if found[2] != "" {
			*to = append(*to, prose(found[2]))
		}
	}
	if nested {
		*to = append(*to, ".RE")
	}
}

// literal returns lines unchanged, in an indented block.
func literal(lines []string) []string {
	list := []string{".PP", ".RS 4", ".EX"}
	for _, line := range lines {
		list = append(list, guard(roff(strings.TrimPrefix(line, "  "))))
	}
	return append(list, ".EE", ".RE")
}

// prose returns a line of text with its flags in bold.
func prose(line string) string {
	line = flags().ReplaceAllString(line, "$1\x01$2\x02")
	return guard(fonts.Replace(roff(line)))
}

// term returns words of a command line or the first column of a list: flags and words in bold,
// placeholders in italics.
func term(words string) string {
	var b strings.Builder
	for rest := words; rest != ""; {
		word := termWord().FindString(rest)
		switch {
		case word == "":
			word = rest[:1]
			b.WriteString(word)
		case argument().MatchString(word):
			b.WriteString("\x03" + word + "\x02")
		default:
			b.WriteString("\x01" + word + "\x02")
		}
		rest = rest[len(word):]
	}
	return guard(fonts.Replace(roff(b.String())))
}

var (
	fonts   = strings.NewReplacer("\x01", `\fB`, "\x02", `\fR`, "\x03", `\fI`) // marks, which roff leaves alone
	escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `'`, `\(aq`, `"`, `\(dq`)
)

// roff escapes text: a hyphen of a command stays one that can be copied, and letters outside of
// ASCII are named.
func roff(text string) string {
	var b strings.Builder
	for _, r := range escapes.Replace(text) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}

// guard returns a line that is not read as a macro.
func guard(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

package doctor

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"

	"perigee/internal/cli"
	"perigee/internal/lib/terminal"
)

// A mark shows a status.
type mark struct{ symbol, word, colour string }

var marks = map[Status]mark{
	OK:   {"✓", "ok", terminal.Good},
	Warn: {"!", "warn", terminal.Warning},
	Fail: {"✗", "fail", terminal.Bad},
}

// print writes results: with --json as an array, otherwise in groups, with a summary.
func print(env *cli.Env, results []Result) error {
	if env.JSON {
		return cli.WriteJSON(env, results)
	}
	p := printer{width: env.Width(), symbols: isUTF8(os.Getenv), colours: terminal.PaletteOf(env.Stdout)}
	for _, r := range results {
		p.column = max(p.column, utf8.RuneCountInString(r.Check))
	}
	if p.column = min(p.column, 28); p.width > 0 {
		p.column = min(p.column, max(shortest, p.width-leastDetail-6))
	}
	for _, g := range Groups {
		p.group(g, results)
	}
	p.summary(results)
	_, err := env.Stdout.Write([]byte(p.text.String()))
	return err
}

const (
	leastDetail = 24 // characters of a line of a detail, at least
	shortest    = 8  // characters of the column of names, at least
)

// A printer writes results for people.
type printer struct {
	text    strings.Builder
	width   int  // of the terminal; 0 if there is none
	column  int  // width of the names of checks
	symbols bool // marks are symbols, otherwise words
	colours terminal.Palette
}

func (p *printer) group(g Group, results []Result) {
	hasTitle := false
	for _, r := range results {
		if !g.Has(r.Check) {
			continue
		}
		if !hasTitle {
			hasTitle = true
			if p.text.Len() > 0 {
				p.text.WriteByte('\n')
			}
			fmt.Fprintln(&p.text, p.colours.Paint(g.Title, terminal.Strong))
		}
		p.result(r)
	}
}

func (p *printer) result(r Result) {
	m := marks[r.Status]
	shown, size := m.symbol, 1
	if !p.symbols {
		shown, size = m.word, 4
	}
	name := terminal.Printable(r.Check)
	if p.width > 0 {
		name = terminal.Shorten(name, p.width-size-3)
	}
	indent := 2 + size + 1 + p.column + 2
	fmt.Fprintf(&p.text, "  %s%s %-*s", p.colours.Paint(shown, m.colour), strings.Repeat(" ", size-utf8.RuneCountInString(shown)), p.column, name)
	separator := "  "
	if utf8.RuneCountInString(name) > p.column {
		separator = "\n" + strings.Repeat(" ", indent)
	}
	p.text.WriteString(separator + p.fold(terminal.Printable(r.Detail), indent) + "\n")
	if r.Fix != "" { // never folded, so that it can be copied
		label := "fix:"
		if r.Look {
			label = "look:"
		}
		fmt.Fprintf(&p.text, "%s%s %s\n", strings.Repeat(" ", indent), p.colours.Paint(label, terminal.Faint), terminal.Printable(r.Fix))
	}
}

// fold breaks a text into lines that begin at a column.
func (p *printer) fold(text string, indent int) string {
	if p.width == 0 {
		return text
	}
	return strings.Join(terminal.Fold(text, max(p.width-indent, shortest)), "\n"+strings.Repeat(" ", indent))
}

func (p *printer) summary(results []Result) {
	worst := marks[Worst(results)]
	text := "everything is in order"
	if warnings, failures := count(results, Warn), count(results, Fail); warnings+failures > 0 {
		text = terminal.Number(count(results, OK), "check is ok", "checks are ok")
		if warnings > 0 {
			text += ", " + terminal.Number(warnings, "has a warning", "have warnings")
		}
		if failures > 0 {
			text += ", " + terminal.Number(failures, "has failed", "have failed")
		}
	}
	fmt.Fprintf(&p.text, "\n%s\n", p.colours.Paint(p.fold(text, 0), worst.colour))
}

func count(results []Result, status Status) (n int) {
	for _, r := range results {
		if r.Status == status {
			n++
		}
	}
	return n
}

// isUTF8 reports whether the locale of the environment has UTF-8.
func isUTF8(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	if locale == "" {
		return runtime.GOOS == "darwin" || runtime.GOOS == "windows" && getenv("WT_SESSION") != ""
	}
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

package schema_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"perigee/internal/adapt/schema"
)

var update = flag.Bool("update", false, "write what the schemas become into testdata/cases.txt")

const casesFile = "testdata/cases.txt"

// A checked is a schema and what should become of it, by family.
type checked struct {
	name, kind, in string // kind is x, root or answer
	want           map[string]string
}

// whole is the schema that is cleaned, and alone what is shown of the result.
func (c checked) whole() string {
	if c.kind == "x" {
		return inX + c.in + afterX
	}
	return c.in
}

const (
	inX    = `{"type":"object","properties":{"x":`
	afterX = `},"required":["x"]}`
)

func (c checked) clean(family schema.Family) schema.Result {
	if c.kind == "answer" {
		return schema.CleanResponse([]byte(c.whole()), family)
	}
	return schema.Clean([]byte(c.whole()), family)
}

// shown is the result with its changes, on one line.
func (c checked) shown(family schema.Family) string {
	result := c.clean(family)
	text := string(result.Schema)
	if c.kind == "x" {
		text = strings.TrimSuffix(strings.TrimPrefix(text, inX), afterX)
	}
	var changes []string
	for _, change := range result.Changes {
		changes = append(changes, change.String())
	}
	if len(changes) > 0 {
		text += " // " + strings.Join(changes, ", ")
	}
	return text
}

// checklist reads the cases.
func checklist(t testing.TB) []checked {
	data, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []checked
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "== "); ok {
			all = append(all, checked{name: name, want: map[string]string{}})
			continue
		}
		kind, text, _ := strings.Cut(line, " ")
		text = strings.TrimLeft(text, " ")
		if len(all) == 0 || kind == "" {
			continue
		}
		c := &all[len(all)-1]
		switch kind {
		case "x", "root", "answer":
			c.kind, c.in = kind, text
		case "both":
			c.want["claude"], c.want["gemini"] = text, text
		case "claude", "gemini":
			c.want[kind] = text
		default:
			t.Fatalf("%s: what is %q?", c.name, line)
		}
	}
	return all
}

func TestCases(t *testing.T) {
	all := checklist(t)
	if *update {
		rewrite(t, all)
		all = checklist(t)
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			for name, family := range map[string]schema.Family{"claude": schema.Claude, "gemini": schema.Gemini} {
				if got := c.shown(family); got != c.want[name] {
					t.Errorf("%s\ngot  %s\nwant %s", name, got, c.want[name])
				}
				if problem := problemOf([]byte(c.whole()), family, c.kind == "answer"); problem != "" {
					t.Error(problem)
				}
			}
		})
	}
}

// rewrite puts the results behind the schemas, to be reviewed like code.
func rewrite(t *testing.T, all []checked) {
	data, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(data), "\n== ")
	var b strings.Builder
	b.WriteString(head)
	group := ""
	for _, c := range all {
		if number, _, _ := strings.Cut(c.name, " "); section(number) != group {
			b.WriteString("\n")
			group = section(number)
		}
		b.WriteString("== " + c.name + "\n" + strings.TrimRight(pad(c.kind)+c.in, " ") + "\n")
		claude, gemini := c.shown(schema.Claude), c.shown(schema.Gemini)
		if claude == gemini {
			b.WriteString(pad("both") + claude + "\n")
			continue
		}
		b.WriteString(pad("claude") + claude + "\n" + pad("gemini") + gemini + "\n")
	}
	if err := os.WriteFile(casesFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// section is 6.4 of 6.4/7, and 6.5/3 of 6.5/3.12.
func section(number string) string {
	section, rest, _ := strings.Cut(number, "/")
	if paragraph, _, ok := strings.Cut(rest, "."); ok {
		return section + "/" + paragraph
	}
	return section
}

func pad(s string) string { return s + strings.Repeat(" ", 7-len(s)) }

package edit_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/lib/edit"
)

// names and values are what settings files contain, with what makes parsers stumble.
var (
	names  = rapid.SampledFrom([]string{"env", "model", "a", "provider", "x-y", "é", "with space", "PERIGEE"})
	values = rapid.SampledFrom([]string{"perigee", "http://127.0.0.1:8741/v1", "", "a b", "true", "17", "# no comment", `q"uo'te`, "back\\slash", "é"})
)

// jsonText is an object with comments and white space wherever they are allowed.
func jsonText(t *rapid.T, depth int) string {
	extra := func() string {
		return rapid.SampledFrom([]string{"", "", " ", "\n", "\n  ", "\r\n\t", " // note }\n", "/* , */", "\n// a\n\n  ", " /* b */ "}).Draw(t, "extra")
	}
	text := new(strings.Builder)
	text.WriteString("{" + extra())
	members := rapid.SliceOfNDistinct(names, 0, 4, rapid.ID[string]).Draw(t, "members")
	for i, name := range members {
		value := rapid.SampledFrom([]string{`"x"`, "1.50", "true", "null", "[1, {\"a\":2},]", "\"//\\u00e9\""}).Draw(t, "value")
		if depth > 0 && rapid.Bool().Draw(t, "object") {
			value = jsonText(t, depth-1)
		}
		fmt.Fprintf(text, "%q%s:%s%s%s", name, extra(), extra(), value, extra())
		if i < len(members)-1 || rapid.Bool().Draw(t, "trailing comma") {
			text.WriteString("," + extra())
		}
	}
	return text.String() + "}"
}

func tomlText(t *rapid.T) string {
	text := new(strings.Builder)
	table := ""
	seen := map[string]bool{}
	for range rapid.IntRange(0, 12).Draw(t, "lines") {
		name := rapid.SampledFrom([]string{"env", "model", "a", "provider", "x-y", `"é"`, `"with space"`}).Draw(t, "name")
		switch rapid.IntRange(0, 4).Draw(t, "line") {
		case 0:
			text.WriteString("# comment = 1\n")
		case 1:
			text.WriteString("\n")
		case 2:
			if !seen["["+name] && !seen[name] {
				seen["["+name] = true
				table = name
				fmt.Fprintf(text, "[%s] # table\n", name)
			}
		default:
			key := strings.Trim(table+"."+name, ".")
			if table == "" && seen["["+name] || seen[key] {
				continue
			}
			seen[key] = true
			value := rapid.SampledFrom([]string{`"x"`, "17", "'''\na\n# b\n'''", "[1,\n 2, # two\n]", "true # yes", "1979-05-27"}).Draw(t, "value")
			fmt.Fprintf(text, "%s%s=%s%s\n", strings.Repeat(" ", rapid.IntRange(0, 2).Draw(t, "indent")), name, " ", value)
		}
	}
	return text.String()
}

func yamlText(t *rapid.T) string {
	text := new(strings.Builder)
	seen := map[string]bool{}
	for range rapid.IntRange(0, 10).Draw(t, "lines") {
		name := names.Draw(t, "name")
		switch rapid.IntRange(0, 4).Draw(t, "line") {
		case 0:
			text.WriteString("# comment: 1\n")
		case 1:
			text.WriteString("\n")
		default:
			if seen[name] {
				continue
			}
			seen[name] = true
			value := rapid.SampledFrom([]string{" x", " 17 # n", "", " 'it''s'", ` "a\"b" # c`, "\n  b: 1\n  c:\n    - d", "\n- name: p\n  q: r\n- s", " []", " |\n  a\n\n  b", " {a: 1}"}).Draw(t, "value")
			fmt.Fprintf(text, "%s:%s\n", name, value)
		}
	}
	return text.String()
}

func dotenvText(t *rapid.T) string {
	text := new(strings.Builder)
	seen := map[string]bool{}
	for range rapid.IntRange(0, 8).Draw(t, "lines") {
		line := rapid.SampledFrom([]string{"# c", "", "A=b", " export B = c # d", "C='a\nb'", `D="x # y"`, "E=", "F:  g", "junk"}).Draw(t, "line")
		if !seen[line] {
			text.WriteString(line + "\n")
			seen[line] = len(line) > 0 && line[0] != '#'
		}
	}
	return text.String()
}

// What was set is taken out again: the file has its bytes back. Unless an edit is refused, the
// values are there.
func TestWhatIsSetCanBeTakenOut(t *testing.T) {
	texts := map[edit.Format]func(*rapid.T) string{
		edit.JSON: func(t *rapid.T) string { return jsonText(t, 2) }, edit.TOML: tomlText, edit.YAML: yamlText, edit.Dotenv: dotenvText,
	}
	for format, text := range texts {
		t.Run(string(format), func(t *testing.T) {
			refused, done := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				src := text(t)
				if rapid.Bool().Draw(t, "CRLF") {
					src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\n", "\r\n")
				}
				if rapid.Bool().Draw(t, "no line end") {
					src = strings.TrimRight(src, "\r\n")
				}
				if rapid.Bool().Draw(t, "byte order mark") {
					src = "\uFEFF" + src
				}
				if _, err := edit.Parse(format, []byte(src)); err != nil {
					t.Skip("the generated text is invalid", err)
				}
				depth := 3
				if format == edit.Dotenv {
					depth = 1
				}
				var settings []edit.Setting
				for range rapid.IntRange(1, 4).Draw(t, "settings") {
					path := rapid.SliceOfN(names, 1, depth).Draw(t, "path")
					if format == edit.Dotenv {
						path = []string{rapid.SampledFrom([]string{"A", "B", "C", "E", "G_H"}).Draw(t, "name")}
					}
					settings = append(settings, edit.Setting{Path: path, Value: values.Draw(t, "value")})
				}
				got, undo, err := edit.Apply(format, []byte(src), settings)
				if err != nil {
					refused++
					return
				}
				done++
				last := settings[len(settings)-1]
				tree, err := edit.Parse(format, got)
				if value, ok := edit.Get(tree, last.Path); err != nil || !ok || value != last.Value {
					t.Fatalf("%s is %v, %v, in\n%q", last.Path, value, err, got)
				}
				back, err := edit.Revert(format, got, undo)
				if err != nil || string(back.Data) != src {
					t.Fatalf("%v\nreverted %q\nwant     %q\nvia      %q", err, back.Data, src, got)
				}
			})
			if t.Logf("%d edits were refused, and %d done", refused, done); done == 0 { // with -short there are 20, of which up to half are refused
				t.Error("no edit was done")
			}
		})
	}
}

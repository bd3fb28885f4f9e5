package completioncmd

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"perigee/internal/cli"
)

func program() *cli.Program {
	return &cli.Program{
		Commands: []cli.Command{
			{Name: "serve", Summary: "run the gateway"},
			{Name: "account", Summary: "manage accounts", Subcommands: []string{"list", "import FILE", "use E", "explain M"}},
			{Name: "store", Summary: "show what is stored", Subcommands: []string{"compact"}},
			{Name: "usage", Summary: "show usage"},
			{Name: "run", Summary: "run a client"},
		},
		Help: fstest.MapFS{
			"help/serve.txt": {Data: []byte("usage: perigee serve [--listen ADDR] [--config FILE]\n\n  perigee serve --listen x\n\n  --listen ADDR  where\n                 to listen\n")},
			"help/account.txt": {Data: []byte(`usage: perigee account list [--json]
       perigee account import FILE [--upstream NAME] [--partial]
         [--json]
       perigee account use EMAIL --user U [--from DIR]...
       perigee account explain MODEL [--json | --csv]

  import FILE      read a file
    --partial      skip
`)},
			"help/store.txt": {Data: []byte("usage: perigee store [--json]\n       perigee store compact [--all]\n\ntext\n")},
			"help/usage.txt": {Data: []byte("usage: perigee usage [--by model|day] [--of A,B] [--since T]\n\n")},
			"help/run.txt":   {Data: []byte("usage: perigee run CLIENT [-- ARGS...]\n\n")},
		},
	}
}

// at completes a line; the last word is being typed.
func at(c *Completer, line string) Candidates {
	words := strings.Split(line, " ")
	return c.Complete(context.Background(), words[:len(words)-1], words[len(words)-1])
}

func TestCandidates(t *testing.T) {
	c := &Completer{Program: program(), Values: func(_ context.Context, of, config string) []string {
		return map[string][]string{
			"EMAIL": {"ada@example.com", "bob@example.com"}, "--upstream": {"gravity", "studio", "of:" + config}, "CLIENT": {"codex"},
			"--of": {"one", "two", "three"},
		}[of]
	}}
	for line, want := range map[string]string{
		"":                                       "words: serve account store usage run help",
		"s":                                      "words: serve store",
		"x":                                      "words:",
		"nonsense ":                              "words:",
		"help ":                                  "words: serve account store usage run help",
		"help a":                                 "words: account",
		"help account ":                          "words:",
		"account ":                               "words: explain import list use",
		"account i":                              "words: import",
		"account import ":                        "files:",
		"account import x ":                      "words:",
		"account import --":                      "words: --upstream --partial --json --config --help",
		"account import --partial --":            "words: --upstream --json --config --help",
		"account import -":                       "words: --upstream --partial --json --config --help",
		"account import --p":                     "words: --partial",
		"account import --upstream ":             "words: gravity studio of:",
		"account import --upstream g":            "words: gravity",
		"account import --upstream=s":            "words: --upstream=studio",
		"account import -upstream gravity f":     "files:",
		"account import --upstream=x ":           "files:",
		"account import --config ":               "files:",
		"account import --config c --upstream o": "words: of:c",
		"--config=d account import --upstream o": "words: of:d",
		"--config d account import --upstream o": "words: of:d",
		"account import --nonsense x=":           "files:",
		"account import --nonsense=x":            "words:",
		"account list ":                          "words:",
		"account list --":                        "words: --json --config --help",
		"account use ":                           "words: ada@example.com bob@example.com",
		"account use ada@":                       "words: ada@example.com",
		"account use --user x b":                 "words: bob@example.com",
		"account use --from ":                    "dirs:",
		"account use --from x --f":               "words: --from",
		"account explain --":                     "words: --json --csv --config --help",
		"account explain --json ":                "words:",
		"store ":                                 "words: compact",
		"store --":                               "words: --json --config --help",
		"store compact --":                       "words: --all --config --help",
		"usage --by ":                            "words: model day",
		"usage --by=d":                           "words: --by=day",
		"usage --of ":                            "words: one two three",
		"usage --of t":                           "words: two three",
		"usage --of two,":                        "words: two,one two,three",
		"usage --of two,x,t":                     "words: two,x,three",
		"usage --of=one,tw":                      "words: --of=one,two",
		"usage --by model,":                      "words:",
		"usage --since ":                         "words:",
		"serve --listen x --":                    "words: --config --help",
		"run ":                                   "words: codex",
		"run codex -- ":                          "files:",
		"run codex -- --":                        "words:",
	} {
		got := at(c, line)
		text := string(got.Kind) + ":"
		for _, w := range got.Words {
			text += " " + w.Text
		}
		if text != want {
			t.Errorf("%q: got %q, want %q", line, text, want)
		}
	}
	if list := at(c, "account import --pa").Words; len(list) != 1 || list[0].Help != "skip" {
		t.Errorf("descriptions: %+v", list)
	}
	if list := at(c, "account im").Words; len(list) != 1 || list[0].Help != "read a file" {
		t.Errorf("descriptions: %+v", list)
	}
	c.Values = nil
	if got := at(c, "account use "); len(got.Words) != 0 {
		t.Errorf("without values: %+v", got)
	}
}

func TestCandidatesAreLines(t *testing.T) {
	var out bytes.Buffer
	list := Candidates{Files, []Word{{"a", "x\ty\nz"}, {"two words", ""}, {"b", ""}}}
	if err := list.Write(&out); err != nil || out.String() != "files\na\tx y z\nb\t\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// Each shell that is installed accepts its script.
func TestScriptsAreValid(t *testing.T) {
	checked := 0
	for _, shell := range Subcommands {
		script, err := scripts.ReadFile("scripts/" + shell)
		if err != nil || !bytes.Contains(script, []byte("completion candidates")) || bytes.Contains(script, []byte("\r")) {
			t.Errorf("%s: %v, %q", shell, err, script)
		}
		if !slices.Contains([]string{"bash", "zsh", "fish"}, shell) {
			continue
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		checked++
		cmd := exec.CommandContext(t.Context(), path, "-n")
		cmd.Stdin = bytes.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
	if checked == 0 {
		t.Skip("no shell is installed")
	}
}

func FuzzComplete(f *testing.F) {
	for _, line := range []string{"", "account import --upstream=", "--config", "run -- --", "help help"} {
		f.Add(line)
	}
	c := &Completer{Program: program()}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		for _, w := range at(c, line).Words {
			if !strings.HasPrefix(w.Text, words[len(words)-1]) {
				t.Errorf("%q is offered for %q", w.Text, line)
			}
		}
	})
}

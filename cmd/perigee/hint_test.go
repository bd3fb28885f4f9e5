package main

import (
	"strings"
	"testing"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/store/config"
)

func TestHintsRepeatTheConfiguration(t *testing.T) {
	for _, c := range []struct{ config, message, want string }{
		{"", "run perigee login", "run perigee login"},
		{"a.yaml", "run perigee login", "run perigee login --config a.yaml"},
		{"a.yaml", "run `perigee login`, or see `perigee account list`", "run `perigee login --config a.yaml`, or see `perigee account list --config a.yaml`"},
		{"a.yaml", "perigee account enable ada@example.com", "perigee account enable --config a.yaml ada@example.com"},
		{"a.yaml", "perigee config show lists them", "perigee config show --config a.yaml lists them"},
		{"it's mine.yaml", "run perigee quota", `run perigee quota --config 'it'\''s mine.yaml'`},
		{"$HOME.yaml", "run perigee quota", "run perigee quota --config '$HOME.yaml'"},
		{"a.yaml", "perigee help account has details", "perigee help account has details"},
		{"a.yaml", "another perigee (process 7) uses it", "another perigee (process 7) uses it"},
		{"a.yaml", "the paths that perigee serves", "the paths that perigee serves"},
		{"a.yaml", "perigee orbit is not in this version", "perigee orbit is not in this version"},
	} {
		env := &cli.Env{Program: &program, Config: c.config}
		if got := env.Hint(c.message); got != c.want {
			t.Errorf("%q with %q: got %q, want %q", c.message, c.config, got, c.want)
		}
	}
}

// A new command is suggested sooner or later.
func TestHintsKnowEveryCommand(t *testing.T) {
	env := &cli.Env{Program: &program, Config: "a.yaml"}
	for _, c := range program.Commands {
		without := c.NoConfig
		one, two := env.Hint("run perigee "+c.Name), env.Hint("run perigee "+c.Name+" word")
		if !strings.Contains(one+two, " --config a.yaml") != without {
			t.Errorf("a hint becomes %q or %q", one, two)
		}
	}
}

// The error about a list that does not come names the upstream, and what to do.
func TestLateListsNameTheUpstream(t *testing.T) {
	two := &config.Config{Upstreams: []config.Upstream{{Name: "studio"}, {Name: "vllm"}}}
	for _, c := range []struct {
		cfg            *config.Config
		upstream, want string
	}{
		{two, "vllm", "upstream vllm has not listed its models within 30s"},
		{&config.Config{Upstreams: two.Upstreams[:1]}, "", "upstream studio has not listed its models within 30s"},
		{two, "", "no upstream has listed its models within 30s"},
	} {
		e := perigee.AsError(lateLists(c.cfg, c.upstream))
		if e.Message != c.want || !strings.HasPrefix(e.Hint, "perigee doctor ") {
			t.Errorf("got %q with the hint %q, want %q", e.Message, e.Hint, c.want)
		}
	}
}

// What takes more words than a table has room for stands below it.
func TestAccountsAreExplained(t *testing.T) {
	rows := []perigee.AccountRow{{Email: "a@example.com", Upstream: "gravity"}, {Email: "b@example.com", Upstream: "other"}}
	rows[0].State, rows[0].Reason = perigee.AccountVerification, "see https://example.com/a-long-address"
	var out strings.Builder
	env := &cli.Env{Program: &program, Stdout: &out, Config: "a.yaml"}
	for range command.ManyAccounts {
		rows = append(rows, perigee.AccountRow{Email: "c@example.com", State: perigee.AccountUntested})
	}
	if err := command.PrintStates(env, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\na@example.com: see https://example.com/a-long-address\n",
		"\nuntested: imported; the first call with it will show whether it works\n",
		"\nverification: the provider wants its owner to verify it; after that, run perigee account enable --config a.yaml a@example.com\n",
		"\n22 accounts: ", " 20 untested, 1 verification; 22 disabled\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

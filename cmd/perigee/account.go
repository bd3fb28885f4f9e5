package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/names"
)

var accountCommand = command{
	name:    "account",
	summary: "see and manage the accounts that are signed in",
	run:     account,
	usage: `  perigee account list
  perigee account import antigravity-accounts.json
  perigee account disable ada@example.com
  perigee account explain claude-sonnet-4-6

  list             the accounts, their state, and what they rest from
  import FILE      add the accounts in a file: a list of email and refresh_token, an export of perigee's, the file of
                   the OpenCode plugin, a credential of type antigravity, or the IDE's own state.vscdb
  export FILE      write all accounts to a file, refresh tokens in clear; only you can read it
  enable EMAIL     use an account again, also one that the provider stopped
  disable EMAIL    do not use it
  remove EMAIL     forget it
  use EMAIL        use it before all others
  explain MODEL    which account would be taken now, and why not the others

All of it works with and without a running daemon, which sees each change at once.

  --upstream NAME  which upstream's accounts, where several have some
  --json           for list, import and explain: a JSON array
  --partial        for import: take what can be used, and leave the rest
  --yes            for export: do not ask
`,
}

// An accountRun is one use of the command.
type accountRun struct {
	env      *environment
	loaded   *config.Loaded  // for what goes past the daemon
	control  perigee.Control // for everything else
	name     string          // what it is about: EMAIL, FILE or MODEL
	upstream string
	asJSON   bool
	partial  bool
	yes      bool
}

// An accountAction is a word after account.
type accountAction struct {
	argument string // what it needs; empty: nothing
	run      func(context.Context, *accountRun) error
	direct   bool // it goes past the daemon
}

var accountActions = map[string]accountAction{
	"list":    {run: listAccounts},
	"import":  {argument: "FILE", run: importAccounts},
	"export":  {argument: "FILE", run: exportAccounts, direct: true},
	"enable":  {argument: "EMAIL", run: enableAccount},
	"disable": {argument: "EMAIL", run: disableAccount},
	"remove":  {argument: "EMAIL", run: removeAccount},
	"use":     {argument: "EMAIL", run: useAccount},
	"explain": {argument: "MODEL", run: explainAccounts},
}

const accountWords = "list, import, export, enable, disable, remove, use or explain"

func account(ctx context.Context, env *environment, args []string) error {
	if len(args) == 0 {
		return usagef("account: say %s; perigee help account tells more", accountWords)
	}
	r := &accountRun{env: env}
	src := config.Sources{Spare: noSecrets}
	set := flags(env, &src.Path)
	set.StringVar(&r.upstream, "upstream", "", "")
	set.BoolVar(&r.asJSON, "json", false, "")
	set.BoolVar(&r.partial, "partial", false, "")
	set.BoolVar(&r.yes, "yes", false, "")
	if strings.HasPrefix(args[0], "-") {
		if err := parse(env, set, args, 0); err != nil {
			return err
		}
		return usagef("account: say %s first; perigee help account tells more", accountWords)
	}
	word := args[0]
	action, ok := accountActions[word]
	if !ok {
		known := []string{}
		for k := range accountActions {
			known = append(known, k)
		}
		slices.Sort(known)
		if near := names.Nearest(word, known, 1); len(near) > 0 {
			return usagef("account: no %q; did you mean perigee account %s?", word, near[0])
		}
		return usagef("account: no %q; say %s", word, accountWords)
	}
	rest, err := parseAround(env, set, args[1:])
	if err != nil {
		return err
	}
	switch {
	case action.argument != "" && len(rest) == 0:
		return usagef("account %s: say which: perigee account %s %s", word, word, action.argument)
	case action.argument != "":
		r.name, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		return usagef("account: unexpected argument %q; perigee help account tells more", rest[0])
	}
	if r.loaded, err = config.Load(src); err != nil {
		return err
	}
	if err := knownUpstream(r.loaded.Config, r.upstream); err != nil {
		return err
	}
	if action.direct {
		return action.run(ctx, r)
	}
	handle, err := openControl(ctx, env, src, word == "import")
	if err != nil {
		return err
	}
	defer handle.Close()
	r.control = handle
	return action.run(ctx, r)
}

// parseAround reads flags before and behind the arguments, which it returns.
func parseAround(env *environment, set *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := parse(env, set, args, len(args)); err != nil {
			return nil, err
		}
		if set.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, set.Arg(0)), set.Args()[1:]
	}
}

// openControl connects to the accounts. Secrets are needed only by who has to ask the provider, and only without a
// daemon.
func openControl(ctx context.Context, env *environment, src config.Sources, secrets bool) (*daemon.Handle, error) {
	src.Spare = noSecrets
	loaded, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	if secrets && !daemon.Running(ctx, loaded.Config) {
		src.Spare = notForSignIn
		if loaded, err = config.Load(src); err != nil {
			return nil, err
		}
	}
	return daemon.Connect(ctx, daemonOptions(env, loaded))
}

// notForSignIn is for commands that use no other secret than that of the OAuth client.
func notForSignIn(key string) bool { return !strings.HasSuffix(key, ".oauth.client_secret") }

// daemonOptions are what commands use the house with.
func daemonOptions(env *environment, loaded *config.Loaded) daemon.Options {
	return daemon.Options{
		Loaded: loaded, Version: programVersion(),
		Logger: slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

func (r *accountRun) account() perigee.AccountName {
	return perigee.AccountName{Email: r.name, Upstream: r.upstream}
}

func listAccounts(ctx context.Context, r *accountRun) error {
	rows, err := r.control.Accounts(ctx)
	if err != nil {
		return err
	}
	if r.upstream != "" {
		rows = slices.DeleteFunc(rows, func(row perigee.AccountRow) bool { return row.Upstream != r.upstream })
	}
	if len(rows) == 0 {
		r.env.say("no account is signed in; with an upstream of kind antigravity, perigee login changes that")
	}
	now := time.Now()
	return list(r.env, r.asJSON, rows,
		column[perigee.AccountRow]{"ACCOUNT", func(row perigee.AccountRow) any { return row.Email }},
		column[perigee.AccountRow]{"UPSTREAM", func(row perigee.AccountRow) any { return row.Upstream }},
		column[perigee.AccountRow]{"ENABLED", func(row perigee.AccountRow) any { return yesNo(row.Enabled) }},
		column[perigee.AccountRow]{"PROJECT", func(row perigee.AccountRow) any { return orDash(row.ProjectID) }},
		column[perigee.AccountRow]{"STATE", func(row perigee.AccountRow) any { return row.State }},
		column[perigee.AccountRow]{"RESTS", func(row perigee.AccountRow) any { return restsOf(row, now) }},
	)
}

// restsOf says why an account is not used, or not for everything.
func restsOf(row perigee.AccountRow, now time.Time) string {
	var words []string
	if row.Reason != "" {
		words = append(words, row.Reason)
	}
	for _, c := range row.Cooldowns {
		what := strings.TrimSpace(c.Family + " " + c.Pool)
		if what == "" {
			what = "everything"
		}
		words = append(words, fmt.Sprintf("%s for %s (%s)", what, span(c.Until.Sub(now)), c.Reason))
	}
	return orDash(strings.Join(words, "; "))
}

// span is a time from now as a person would say it.
func span(d time.Duration) string {
	switch {
	case d <= 0:
		return "a moment"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second)/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%02dh", int(d/(24*time.Hour)), int(d%(24*time.Hour)/time.Hour))
}

func enableAccount(ctx context.Context, r *accountRun) error {
	row, err := r.control.EnableAccount(ctx, r.account(), true)
	if err != nil {
		return err
	}
	if row.State == perigee.AccountSignedOut {
		return perigee.Errorf(perigee.ClassUnauthenticated, "%s is enabled, but it is signed out", row.Email).
			WithNext("sign in again with perigee login --upstream %s", row.Upstream)
	}
	return r.did("enabled", row.Email)
}

func disableAccount(ctx context.Context, r *accountRun) error {
	row, err := r.control.EnableAccount(ctx, r.account(), false)
	if err != nil {
		return err
	}
	return r.did("disabled", row.Email)
}

func removeAccount(ctx context.Context, r *accountRun) error {
	if err := r.control.RemoveAccount(ctx, r.account()); err != nil {
		return err
	}
	return r.did("removed", r.name)
}

func useAccount(ctx context.Context, r *accountRun) error {
	if err := r.control.UseAccount(ctx, r.account()); err != nil {
		return err
	}
	return r.did("first", r.name)
}

func (r *accountRun) did(what, email string) error {
	_, err := fmt.Fprintf(r.env.stdout, "%s: %s\n", what, printable(email))
	return err
}

func explainAccounts(ctx context.Context, r *accountRun) error {
	rows, err := r.control.ExplainAccounts(ctx, r.name)
	if err != nil {
		return err
	}
	if r.upstream != "" {
		rows = slices.DeleteFunc(rows, func(row perigee.ChoiceRow) bool { return row.Upstream != r.upstream })
	}
	now := time.Now()
	err = list(r.env, r.asJSON, rows,
		column[perigee.ChoiceRow]{"ACCOUNT", func(row perigee.ChoiceRow) any { return row.Email }},
		column[perigee.ChoiceRow]{"UPSTREAM", func(row perigee.ChoiceRow) any { return row.Upstream }},
		column[perigee.ChoiceRow]{"POOL", func(row perigee.ChoiceRow) any { return row.Pool }},
		column[perigee.ChoiceRow]{"TAKEN", func(row perigee.ChoiceRow) any { return taken(row) }},
		column[perigee.ChoiceRow]{"WHY", func(row perigee.ChoiceRow) any {
			if row.Until.IsZero() {
				return row.Why
			}
			return row.Why + ", for " + span(row.Until.Sub(now))
		}},
	)
	if err != nil || slices.ContainsFunc(rows, func(row perigee.ChoiceRow) bool { return row.Chosen }) {
		return err
	}
	if len(rows) == 0 {
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is signed in").WithNext("run perigee login")
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "no account can be taken for %s now", printable(r.name)).
		WithNext("the list says why; perigee login adds another")
}

func taken(row perigee.ChoiceRow) string {
	switch {
	case row.Chosen:
		return "yes"
	case row.Usable:
		return "next"
	}
	return "no"
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/names"
)

var accountCommand = command{
	name:    "account",
	summary: "show and manage accounts",
	run:     account,
	usage: `usage: perigee account list [--json]
       perigee account import FILE [--upstream NAME] [--partial] [--json]
       perigee account export FILE [--upstream NAME] [--yes]
       perigee account enable|disable|use EMAIL [--upstream NAME]
       perigee account remove EMAIL [--upstream NAME] [--yes]
       perigee account explain MODEL [--json]

  perigee account list
  perigee account import antigravity-accounts.json
  perigee account disable ada@example.com
  perigee account explain claude-sonnet-4-6

  list             the accounts in the order in which they are used, the
                   preferred one first, with their state and cooldowns
  import FILE      add the accounts in a file: an object or a list of email and
                   refresh_token, an export of perigee's, the file of the
                   OpenCode plugin, a credential of type antigravity, or the
                   IDE's own state.vscdb
  export FILE      write all accounts to a file, with refresh tokens in plain
                   text; only you can read it
  enable EMAIL     use an account again, also one that the provider stopped
  disable EMAIL    do not use it
  remove EMAIL     delete it and its refresh token
  use EMAIL        use it before all others
  explain MODEL    which account would be used now, and why the others would
                   not

Works with and without a running daemon, which sees each change at once.

  --upstream NAME  which upstream's accounts, where several have some
  --config FILE    the configuration
  --json           for list, import and explain: a JSON array
  --partial        for import: take what can be used, and leave the rest
  --yes            for export and remove: do not ask; for export also:
                   overwrite an existing file
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
	file     *daemon.File // for import
}

// An accountAction is a word after account, and what is different about it.
type accountAction struct {
	argument string                                   // what it needs; empty: nothing
	upstream upstreamCheck                            // what --upstream may say
	prepare  func(context.Context, *accountRun) error // what comes before anything is opened; nil: nothing
	run      func(context.Context, *accountRun) error
	direct   bool // it goes past the daemon
	asks     bool // without a daemon it has to ask the provider, which takes secrets
}

var accountActions = map[string]accountAction{
	"list":    {upstream: anyUpstream, run: listAccounts},
	"import":  {argument: "FILE", upstream: oneUpstream, prepare: readAccounts, run: importAccounts, asks: true},
	"export":  {argument: "FILE", upstream: oneUpstream, run: exportAccounts, direct: true},
	"enable":  {argument: "EMAIL", upstream: someUpstream, run: enableAccount},
	"disable": {argument: "EMAIL", upstream: someUpstream, run: disableAccount},
	"remove":  {argument: "EMAIL", upstream: formerUpstream, run: removeAccount},
	"use":     {argument: "EMAIL", upstream: someUpstream, run: useAccount},
	"explain": {argument: "MODEL", upstream: someUpstream, run: explainAccounts},
}

// An upstreamCheck sees to it that what --upstream says makes sense, here rather than in the daemon, which would not say it
// any better.
type upstreamCheck func(command string, cfg *config.Config, name string) error

func anyUpstream(_ string, cfg *config.Config, name string) error { return knownUpstream(cfg, name) }

func someUpstream(command string, cfg *config.Config, name string) error {
	return accountUpstream(command, cfg, name, false)
}

func oneUpstream(command string, cfg *config.Config, name string) error {
	return accountUpstream(command, cfg, name, true)
}

// formerUpstream is for what may belong to an upstream that is no longer configured.
func formerUpstream(command string, cfg *config.Config, _ string) error {
	return accountUpstream(command, cfg, "", false)
}

const accountWords = "list, import, export, enable, disable, remove, use or explain"

func account(ctx context.Context, env *environment, args []string) error {
	if len(args) == 0 {
		return usagef("account: use %s; perigee help account tells more", accountWords)
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
		return usagef("account: use %s first; perigee help account tells more", accountWords)
	}
	word := args[0]
	action, ok := accountActions[word]
	if !ok {
		return noAction(word)
	}
	rest, err := parseAround(env, set, args[1:])
	if err != nil {
		return err
	}
	if r.name, err = action.theArgument(word, rest); err != nil {
		return err
	}
	if r.loaded, err = config.Load(src); err != nil {
		return err
	}
	if err := action.upstream("account "+word, r.loaded.Config, r.upstream); err != nil {
		return err
	}
	return r.act(ctx, src, action)
}

// noAction is the error about a word that means nothing here.
func noAction(word string) error {
	if near := names.Nearest(word, slices.Sorted(maps.Keys(accountActions)), 1); len(near) > 0 {
		return usagef("account: unknown subcommand %q; did you mean perigee account %s?", word, near[0])
	}
	return usagef("account: unknown subcommand %q; use %s", word, accountWords)
}

// theArgument is what stands behind the word, if something has to, and nothing else may.
func (a *accountAction) theArgument(word string, rest []string) (name string, err error) {
	switch {
	case a.argument != "" && len(rest) == 0:
		return "", usagef("account %s: missing argument; use perigee account %s %s", word, word, a.argument)
	case a.argument != "":
		name, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		return "", usagef("account: unexpected argument %q; perigee help account tells more", rest[0])
	}
	return name, nil
}

// act does it, connected to the accounts unless it goes past the daemon.
func (r *accountRun) act(ctx context.Context, src config.Sources, action accountAction) error {
	if action.prepare != nil {
		if err := action.prepare(ctx, r); err != nil {
			return err
		}
	}
	if action.direct {
		return action.run(ctx, r)
	}
	spare := noSecrets
	if action.asks {
		spare = notForSignIn
	}
	handle, err := openControl(ctx, r.env, src, spare)
	if err != nil {
		return err
	}
	defer handle.Close()
	r.control = handle
	err = action.run(ctx, r)
	if action.argument == "EMAIL" {
		return misused(r.nobody(ctx, err)) // it names several, or nobody
	}
	return err
}

// nobody gives an error about an address that no account has the one that was meant, if any looks like it.
func (r *accountRun) nobody(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); !ok || e.Class != perigee.ClassNotFound {
		return err
	}
	rows, failed := r.control.Accounts(ctx)
	if failed != nil {
		return err
	}
	email := r.account().Email
	var known []string
	for _, row := range rows {
		if row.Email == email { // at another upstream, or it has just come
			return err
		}
		known = append(known, row.Email)
	}
	near := names.NearestAddress(email, known)
	e := perigee.Errorf(perigee.ClassNotFound, "there is no account %s", printable(email))
	if near == "" {
		return e.WithNext("see `perigee account list`")
	}
	return e.WithNext("did you mean %s?", near)
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

// openControl connects to a daemon or, where there is none, does without. Only then are secrets needed, by commands that ask a
// provider: spare says which are not.
func openControl(ctx context.Context, env *environment, src config.Sources, spare func(key string) bool) (*daemon.Handle, error) {
	src.Spare = noSecrets
	loaded, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	if !daemon.Running(ctx, loaded.Config) {
		src.Spare = spare
		if loaded, err = config.Load(src); err != nil {
			return nil, err
		}
	}
	return daemon.Connect(ctx, daemonOptions(env, loaded))
}

// notForSignIn is for commands that use no other secrets than those of the OAuth client and of proxies.
func notForSignIn(key string) bool {
	return !strings.HasSuffix(key, ".oauth.client_secret") && !strings.HasSuffix(key, "proxy")
}

// daemonOptions are what commands use the house with.
func daemonOptions(env *environment, loaded *config.Loaded) daemon.Options {
	return daemon.Options{
		Loaded: loaded, Version: programVersion(),
		Logger: slog.New(&sayHandler{say: func(line string, _ error) { env.say("%s", line) }}),
	}
}

// account is the one that the command is about, spelt as it is kept.
func (r *accountRun) account() perigee.AccountName {
	return perigee.AccountName{Email: strings.ToLower(strings.TrimSpace(r.name)), Upstream: r.upstream}
}

func enableAccount(ctx context.Context, r *accountRun) error {
	row, err := r.control.EnableAccount(ctx, r.account(), true)
	if err != nil {
		return err
	}
	if row.Unopened { // who signs in again would seal with a key that others may not have
		return perigee.Errorf(perigee.ClassUnauthenticated, "%s is enabled, but %s", row.Email, row.Reason)
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

// removeAccount deletes an account. At a terminal it asks first: the refresh token cannot be had back.
func removeAccount(ctx context.Context, r *accountRun) error {
	if !r.yes && r.env.input() == terminalInput && r.exists(ctx) {
		r.env.say("%s and its refresh token will be deleted; using it again takes a new sign-in", printable(r.account().Email))
		if err := r.env.agree(ctx, "remove it?", "pass --yes"); err != nil {
			return err
		}
	}
	if err := r.control.RemoveAccount(ctx, r.account()); err != nil {
		return err
	}
	return r.did("removed", r.account().Email)
}

// exists says whether there is an account of the name. Of one that there is not, the daemon says so.
func (r *accountRun) exists(ctx context.Context) bool {
	rows, err := r.control.Accounts(ctx)
	return err == nil && slices.ContainsFunc(rows, func(row perigee.AccountRow) bool { return row.Email == r.account().Email })
}

func useAccount(ctx context.Context, r *accountRun) error {
	if err := r.control.UseAccount(ctx, r.account()); err != nil {
		return err
	}
	r.warnUnusable(ctx)
	return r.did("preferred", r.account().Email)
}

// warnUnusable says why an account that somebody has put first will not be taken all the same. Not knowing is no trouble.
func (r *accountRun) warnUnusable(ctx context.Context) {
	rows, err := r.control.Accounts(ctx)
	if err != nil {
		return
	}
	for _, row := range rows {
		if row.Email != r.account().Email || r.upstream != "" && row.Upstream != r.upstream {
			continue
		}
		switch email := printable(row.Email); {
		case !row.Enabled:
			r.env.say("%s comes first, but it is disabled, so others are used; perigee account enable %s enables it", email, email)
		case !perigee.UsableState(row.State):
			r.env.say("%s comes first, but it is %s, so others are used; perigee account list tells more", email, stateWord(row.State))
		case row.State == perigee.AccountUntested:
			r.env.say("%s comes first, but it is untested; the first call with it will show whether it works", email)
		}
	}
}

// stateWord is a state inside a sentence.
func stateWord(state string) string {
	if state == perigee.AccountVerification {
		return "to be verified"
	}
	return strings.ReplaceAll(state, "_", " ")
}

func (r *accountRun) did(what, email string) error {
	_, err := fmt.Fprintf(r.env.stdout, "%s: %s\n", what, printable(email))
	return err
}

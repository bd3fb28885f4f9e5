package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/match"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// An accountRun is one run of the command account.
type accountRun struct {
	env      *cli.Env
	loaded   *config.Loaded
	control  perigee.Control
	argument string // EMAIL, FILE or MODEL
	upstream string
	partial  bool
	yes      bool
}

// accountArguments are the arguments of the subcommands that have one.
var accountArguments = map[string]string{
	"import": "FILE", "export": "FILE", "enable": "EMAIL", "disable": "EMAIL", "remove": "EMAIL", "use": "EMAIL", "explain": "MODEL",
}

func account(ctx context.Context, env *cli.Env, args []string) error {
	r := &accountRun{env: env}
	env.Flags.StringVar(&r.upstream, "upstream", "", "")
	env.Flags.BoolVar(&r.partial, "partial", false, "")
	env.Flags.BoolVar(&r.yes, "yes", false, "")
	word, err := env.Subcommand(args)
	if err != nil {
		return err
	}
	argument := accountArguments[word]
	rest, err := env.Parse(args[1:], len(strings.Fields(argument)))
	switch {
	case err != nil:
		return err
	case argument != "" && len(rest) == 0:
		return cli.Usagef("account %s: missing argument; use perigee account %[1]s %s", word, argument)
	case argument != "":
		r.argument = rest[0]
	}
	if r.loaded, err = command.Load(env, command.NoSecrets); err != nil {
		return err
	}
	if err := r.checkUpstream(word); err != nil {
		return err
	}
	switch word {
	case "import": // it reads its file before it connects
		return importAccounts(ctx, r)
	case "export": // it does not use the daemon
		return exportAccounts(ctx, r)
	}
	handle, err := command.Connect(ctx, env, r.loaded, command.NoSecrets)
	if err != nil {
		return err
	}
	defer handle.Close()
	r.control = handle.Control
	err = map[string]func(context.Context, *accountRun) error{
		"list": listAccounts, "enable": enableAccount, "disable": disableAccount, "remove": removeAccount, "use": useAccount,
		"explain": explainAccounts,
	}[word](ctx, r)
	if argument == "EMAIL" {
		// The address may belong to several accounts, or to none.
		return command.Misused(r.suggestAccount(ctx, err))
	}
	return err
}

// checkUpstream checks --upstream before it is sent to the daemon.
func (r *accountRun) checkUpstream(word string) error {
	switch cfg := r.loaded.Config; word {
	case "list":
		return command.KnownUpstream(cfg, r.upstream)
	case "remove": // also from an upstream that is no longer configured
		return command.AccountUpstream("account remove", cfg, "", false)
	default:
		return command.AccountUpstream("account "+word, cfg, r.upstream, word == "import" || word == "export")
	}
}

// suggestAccount adds the nearest address to an error about an account that does not exist.
func (r *accountRun) suggestAccount(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); !ok || e.Class != perigee.ClassNotFound {
		return err
	}
	rows, failed := r.control.Accounts(ctx)
	if failed != nil || r.exists(rows) { // it exists at another upstream, or was added just now
		return err
	}
	var known []string
	for _, row := range rows {
		known = append(known, row.Email)
	}
	email := r.account().Email
	e := perigee.Errorf(perigee.ClassNotFound, "there is no account %s", terminal.Printable(email))
	if near := match.NearestAddress(email, known); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("see `perigee account list`")
}

// account returns the account that the command names, in the spelling of the store.
func (r *accountRun) account() perigee.AccountName {
	return perigee.AccountName{Email: strings.ToLower(strings.TrimSpace(r.argument)), Upstream: r.upstream}
}

func (r *accountRun) exists(rows []perigee.AccountRow) bool {
	return slices.ContainsFunc(rows, func(row perigee.AccountRow) bool { return row.Email == r.account().Email })
}

func (r *accountRun) done(what, name string) error {
	_, err := fmt.Fprintf(r.env.Stdout, "%s: %s\n", what, terminal.Printable(name))
	return err
}

func enableAccount(ctx context.Context, r *accountRun) error {
	row, err := r.control.EnableAccount(ctx, r.account(), true)
	switch {
	case err != nil:
		return err
	case row.Unopened: // a new sign-in would encrypt with a key that other replicas may not have
		return perigee.Errorf(perigee.ClassUnauthenticated, "%s is enabled, but %s", row.Email, row.Reason)
	case row.State == perigee.AccountSignedOut:
		return perigee.Errorf(perigee.ClassUnauthenticated, "%s is enabled, but it is signed out", row.Email).
			WithHint("sign in again with perigee login --upstream %s", row.Upstream)
	}
	return r.done("enabled", row.Email)
}

func disableAccount(ctx context.Context, r *accountRun) error {
	row, err := r.control.EnableAccount(ctx, r.account(), false)
	if err != nil {
		return err
	}
	return r.done("disabled", row.Email)
}

// removeAccount deletes an account. At a terminal it asks first, because the refresh token cannot
// be restored.
func removeAccount(ctx context.Context, r *accountRun) error {
	email := r.account().Email
	if !r.yes && r.env.Input() == cli.TerminalInput {
		if rows, err := r.control.Accounts(ctx); err == nil && r.exists(rows) {
			r.env.Remark("%s and its refresh token will be deleted; using it again requires a new sign-in", terminal.Printable(email))
			if err := r.env.Confirm(ctx, "remove it?", "pass --yes"); err != nil {
				return err
			}
		}
	}
	if err := r.control.RemoveAccount(ctx, r.account()); err != nil {
		return err
	}
	return r.done("removed", email)
}

// useAccount makes an account the preferred one, and prints a warning if it cannot be used now.
func useAccount(ctx context.Context, r *accountRun) error {
	if err := r.control.UseAccount(ctx, r.account()); err != nil {
		return err
	}
	rows, _ := r.control.Accounts(ctx) // without them there is no warning
	for _, row := range rows {
		if row.Email != r.account().Email || r.upstream != "" && row.Upstream != r.upstream {
			continue
		}
		switch email := terminal.Printable(row.Email); {
		case !row.Enabled:
			r.env.Remark("%s is preferred, but disabled, so other accounts are used; run perigee account enable %[1]s", email)
		case !perigee.UsableState(row.State):
			r.env.Remark("%s is preferred, but %s, so other accounts are used; perigee account list has details", email, command.StateText(row.State))
		case row.State == perigee.AccountUntested:
			r.env.Remark("%s is preferred, but untested; the first call will show whether it works", email)
		}
	}
	return r.done("preferred", r.account().Email)
}

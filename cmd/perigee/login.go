package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/account/roster"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// risk is printed before every sign-in, one message per line.
const risk = "the Antigravity gateway is a private API. The provider's terms allow only its own clients there, " +
	"and accounts used with other clients have been suspended, in part or entirely.\n" +
	"perigee does not impersonate another client: it names itself in every request.\n" +
	"The recommended source is an upstream of kind gemini with an API key, which the provider offers for this purpose."

// A loginRun is one run of the command login.
type loginRun struct {
	env       *cli.Env
	upstream  string
	email     string
	ide       string
	noBrowser bool
	paste     bool
}

func login(ctx context.Context, env *cli.Env, args []string) error {
	r := &loginRun{env: env}
	env.Flags.StringVar(&r.upstream, "upstream", "", "")
	env.Flags.StringVar(&r.email, "email", "", "")
	env.Flags.StringVar(&r.ide, "ide", "", "")
	env.Flags.BoolVar(&r.noBrowser, "no-browser", false, "")
	env.Flags.BoolVar(&r.paste, "paste", false, "")
	yes := env.Flags.Bool("yes", false, "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	if r.paste && env.Input() == cli.NoInput {
		return cli.Usagef("login: --paste reads the address from stdin, which is closed; " +
			"run it at a terminal or with a pipe, or leave --paste out")
	}
	loaded, err := command.Load(env, command.ExceptSignIn)
	if err != nil {
		return err
	}
	upstream, err := r.choose(loaded.Config)
	if err != nil {
		return err
	}
	// Reasons for a failure are found before the question: a missing OAuth client, and a store that
	// cannot be used.
	opts := command.DaemonOptions(env, loaded)
	starting := opts
	starting.IDE = r.ide
	login, err := daemon.StartLogin(ctx, starting, upstream, r.email)
	if err != nil {
		return err
	}
	defer login.Close()
	if err := withControl(ctx, opts, func(control perigee.Control) error {
		_, err := control.Accounts(ctx) // a daemon that hangs accepts connections
		return err
	}); err != nil {
		return err
	}
	for line := range strings.Lines(risk) {
		env.Remark("%s", strings.TrimSpace(line))
	}
	if !*yes {
		if err := env.Confirm(ctx, "sign in at your own risk?", "pass --yes to accept the risk"); err != nil {
			return err
		}
	}
	entry := perigee.AuditEntry{Action: perigee.AuditSignInStarted, Object: r.email, Detail: "upstream " + upstream.Name}
	// A failure is logged; if the store fails for good, storing the account fails too.
	_ = daemon.RecordAct(ctx, opts, entry)
	user, err := r.signIn(ctx, login)
	if err == nil {
		entry.Object = user.Email
		// The connection is a new one: a daemon may have started or ended since.
		err = withControl(ctx, opts, func(control perigee.Control) error { return r.keep(ctx, control, upstream, user) })
	}
	entry.Action, entry.Result = signInResult(err)
	_ = daemon.RecordAct(context.WithoutCancel(ctx), opts, entry)
	return err
}

// withControl calls a function with the control of the daemon or, if none runs, of the store.
func withControl(ctx context.Context, opts daemon.Options, do func(perigee.Control) error) error {
	handle, err := daemon.Connect(ctx, opts)
	if err != nil {
		return err
	}
	defer handle.Close()
	return do(handle.Control)
}

// signInResult returns the action and the result that the audit log records for the end of a
// sign-in. An account that must be verified is stored, so its sign-in is finished.
func signInResult(err error) (action, result string) {
	if err == nil {
		return perigee.AuditSignInFinished, perigee.AuditResultOK
	}
	class := perigee.AsError(err).Class
	switch {
	case class == perigee.ClassVerification:
		return perigee.AuditSignInFinished, string(class)
	case errors.Is(err, cli.ErrInterrupted):
		class = perigee.ClassCanceled
	}
	return perigee.AuditSignInFailed, string(class)
}

// choose returns the upstream to sign in to.
func (r *loginRun) choose(cfg *config.Config) (config.Upstream, error) {
	known := command.WithAccounts(cfg)
	for _, u := range cfg.Upstreams {
		if u.HasAccounts() && (u.Name == r.upstream || r.upstream == "" && len(known) == 1) {
			return u, nil
		}
	}
	switch {
	case len(known) == 0:
		return config.Upstream{}, cli.Usagef("login: no upstream of kind antigravity is configured; " +
			"with an API key (kind: gemini, recommended) there is nothing to sign in to")
	case r.upstream == "":
		return config.Upstream{}, cli.Usagef("login: several upstreams have accounts; choose one with --upstream: %s", strings.Join(known, ", "))
	}
	return config.Upstream{}, cli.Usagef("login: upstream %q has no sign-in; --upstream takes %s", r.upstream, strings.Join(known, ", "))
}

// signIn shows the provider's page and waits until the browser returns or its address is pasted.
func (r *loginRun) signIn(ctx context.Context, login *roster.Login) (*roster.SignedIn, error) {
	r.reportClient(login)
	if !r.noBrowser && !r.paste && cli.OpenBrowser(ctx, login.URL) {
		r.env.Remark("a browser opens; if it does not, open this page:")
	} else {
		r.env.Remark("open this page in a browser:")
	}
	fmt.Fprintln(r.env.Stderr, login.URL)
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	progress := r.env.Progress(ctx)
	defer progress.Close()
	if r.env.Input() == cli.NoInput {
		r.env.Remark("if the browser is on another machine, run perigee login --paste at a terminal or with a pipe on stdin instead")
		progress.Step("waiting for the browser")
	} else {
		r.env.Remark("if the browser stops at a page that it cannot load, paste its address here and press Enter")
		go r.readPasted(waiting, cancel, login) // without progress, which would be drawn over the typed text
	}
	user, err := login.Wait(waiting, func(step string) { progress.Step("%s", step) })
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("login: %w", cli.ErrInterrupted)
	}
	if cause := context.Cause(waiting); errors.Is(err, context.Canceled) && cause != nil {
		return nil, cause
	}
	return user, err
}

// reportClient prints which OAuth client signs in, if it is not the configured one.
func (r *loginRun) reportClient(login *roster.Login) {
	switch {
	case login.Identity.File == "" && r.ide != "":
		r.env.Remark("%s was not searched: oauth.client_id and oauth.client_secret are configured", terminal.Printable(r.ide))
	case login.Identity.File != "":
		r.env.Remark("the OAuth client is %s, found in %s", terminal.Printable(login.Identity.ID), terminal.Printable(login.Identity.File))
		r.env.Remark("the provider's page will therefore name the IDE, and not perigee")
		if dir, err := filepath.Abs(r.ide); r.ide != "" && err == nil {
			r.env.Remark("perigee serve needs it, too, and finds it there when %s=%s is in its environment", roster.IDEVariable, terminal.Printable(dir))
		}
	}
}

// maxPasted is the number of lines that are tried, because a program may write endlessly many.
const maxPasted = 100

// readPasted reads lines of stdin until one of them completes the sign-in. If none does, --paste
// ends the sign-in; otherwise the browser may still return.
func (r *loginRun) readPasted(ctx context.Context, cancel context.CancelCauseFunc, login *roster.Login) {
	var err error
	for tried := 0; err == nil && tried <= maxPasted; tried++ {
		var line string
		line, err = r.env.Lines().ReadString('\n')
		if strings.TrimSpace(line) == "" {
			continue
		}
		refused := login.Paste(ctx, line)
		if refused == nil || ctx.Err() != nil {
			return
		}
		r.reportRefused(refused)
	}
	switch {
	case ctx.Err() != nil:
	case r.paste:
		if err == nil || err == io.EOF {
			err = errors.New("no pasted address completed the sign-in")
		}
		cancel(perigee.Errorf(perigee.ClassUnauthenticated, "login: %w", err).WithHint("run perigee login again"))
	default:
		r.env.Remark("stdin has ended; still waiting for the browser")
	}
}

// reportRefused prints why a pasted line does not sign in. Errors that end the sign-in are returned
// by its Wait.
func (r *loginRun) reportRefused(refused error) {
	switch e := perigee.AsError(refused); e.Class {
	case perigee.ClassInvalid:
		r.env.Remark("%s", terminal.Printable(refused.Error()))
	case perigee.ClassUnauthenticated, perigee.ClassIdentity:
		r.env.Remark("%s; paste another, or press Ctrl-C to give up", terminal.Printable(e.Message))
	}
}

// keep stores the account, also one that must be verified first, and prints the result.
func (r *loginRun) keep(ctx context.Context, control perigee.Control, upstream config.Upstream, user *roster.SignedIn) error {
	if user.State != perigee.AccountReady && user.State != perigee.AccountVerification {
		return rejectedAccount(user)
	}
	rows, err := control.ImportAccounts(ctx, user.Import)
	if err != nil {
		return fmt.Errorf("%s is signed in, but cannot be stored: %w", user.Email, err)
	}
	switch {
	case user.State == perigee.AccountVerification:
		if user.Link != "" {
			r.env.Remark("the provider requires verification of this account; open this page in a browser that is signed in to it:")
			fmt.Fprintln(r.env.Stderr, terminal.Printable(user.Link))
		}
		return perigee.Errorf(perigee.ClassVerification, "%s: %s", user.Email, perigee.AsError(user.Err).Message).
			WithHint("verify it, then run perigee account enable %s", user.Email)
	case user.Err != nil:
		r.env.Remark("its project is not known yet (%s); it is requested with the first call", terminal.Printable(user.Err.Error()))
	}
	result := perigee.ImportAdded
	if len(rows) > 0 {
		result = rows[0].Result
	}
	facts := terminal.Joined("upstream "+upstream.Name,
		terminal.Labelled("project", user.Project), terminal.Labelled("tier", user.Tier))
	_, err = fmt.Fprintf(r.env.Stdout, "%s: %s (%s)\n", result, terminal.Printable(user.Email), terminal.Printable(facts))
	return err
}

// rejectedAccount returns the error about an account that the provider refuses. The account is not
// stored, so enabling it cannot be the next step.
func rejectedAccount(user *roster.SignedIn) error {
	e := *perigee.AsError(user.Err)
	if user.State == perigee.AccountBanned {
		e.Hint = "see in Antigravity itself, signed in with this account, why that is; " +
			"if it is undone, run perigee login again, or use another account meanwhile"
	}
	e.Message = user.Email + " is not kept, as it cannot be used: " + e.Message
	return &e
}

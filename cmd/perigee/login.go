package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
)

var loginCommand = command{
	name:    "login",
	summary: "sign in with your own Google account",
	run:     login,
	usage: `usage: perigee login [--upstream NAME] [--email EMAIL] [--ide DIR]
         [--no-browser] [--paste] [--yes]

  perigee login
  perigee login --upstream antigravity --no-browser
  perigee login --ide ~/Antigravity

Signs an account in to an upstream of kind antigravity: opens the provider's
page in a browser and waits for it to come back. If the browser is on another
machine it ends on a page that cannot be reached; paste that page's address
here, at any time. Without a terminal it can be written to stdin, after the
line "yes" that accepts the risk.

Where the configuration has no oauth.client_id and oauth.client_secret, they are
looked for in your installed copy of the Antigravity IDE; an oauth.client_id
without a secret chooses among several. perigee serve does the same.

  --upstream NAME  which upstream, where several have accounts
  --email EMAIL    the account to offer first
  --ide DIR        where that IDE is installed (default: $PERIGEE_IDE, else
                   where it installs itself)
  --no-browser     only print the address of the page
  --paste          open no browser, and give up when stdin ends without an
                   address that completes a sign-in
  --yes            accept the risk without a prompt (for scripts)
  --config FILE    the configuration
`,
}

// risk is what everybody hears before they sign in, a paragraph for each line.
const risk = "the Antigravity gateway is a private interface of the provider. Its terms allow only the provider's own clients to use it, " +
	"and accounts that were used with other clients have been suspended, in part or altogether.\n" +
	"perigee does not hide: it names itself in every request.\n" +
	"Recommended instead: an upstream of kind gemini with an API key, which the provider offers for this purpose."

// A loginRun is one use of the command.
type loginRun struct {
	env       *environment
	upstream  string
	email     string
	ide       string
	noBrowser bool
	paste     bool
	yes       bool
}

func login(ctx context.Context, env *environment, args []string) error {
	r := &loginRun{env: env}
	src := config.Sources{Spare: notForSignIn}
	set := flags(env, &src.Path)
	set.StringVar(&r.upstream, "upstream", "", "")
	set.StringVar(&r.email, "email", "", "")
	set.StringVar(&r.ide, "ide", "", "")
	set.BoolVar(&r.noBrowser, "no-browser", false, "")
	set.BoolVar(&r.paste, "paste", false, "")
	set.BoolVar(&r.yes, "yes", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	if r.paste && env.input() == noInput {
		return usagef("login: --paste takes the address from stdin, where nothing can come from here; run it at a terminal or with a pipe, or leave --paste out")
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	upstream, err := r.choose(loaded.Config)
	if err != nil {
		return err
	}
	// Who cannot sign in anyway is not asked whether they want to. Nobody knows the page yet.
	login, err := r.start(ctx, daemonOptions(env, loaded), upstream)
	if err != nil {
		return err
	}
	defer login.Close()
	// Whether there is somewhere to keep the account is better known before than after; but a daemon may come or go
	// while the person is with the provider.
	handle, err := daemon.Connect(ctx, daemonOptions(env, loaded))
	if err != nil {
		return err
	}
	_, err = handle.Accounts(ctx) // a daemon that hangs can be connected to
	handle.Close()
	if err != nil {
		return err
	}
	for line := range strings.Lines(risk) {
		env.say("%s", strings.TrimSpace(line))
	}
	if !r.yes {
		if err := env.agree(ctx, "sign in at your own risk?", "pass --yes to accept the risk"); err != nil {
			return err
		}
	}
	opts := daemonOptions(env, loaded)
	entry := perigee.AuditEntry{Action: perigee.AuditSignInStarted, Object: r.email, Detail: "upstream " + upstream.Name}
	_ = daemon.RecordAct(ctx, opts, entry) // what is wrong with the store is said, and ends the sign-in where it has to be kept
	who, err := r.signIn(ctx, login)
	if err == nil {
		entry.Object = who.Email
		err = r.keepIn(ctx, opts, upstream, who)
	}
	entry.Action = perigee.AuditSignInFinished
	if err != nil && perigee.AsError(err).Class != perigee.ClassVerification { // then it is kept
		entry.Action = perigee.AuditSignInFailed
	}
	entry.Result = signInResult(err)
	_ = daemon.RecordAct(context.WithoutCancel(ctx), opts, entry)
	return err
}

// signInResult is what the audit log says of how a sign-in ended.
func signInResult(err error) string {
	switch {
	case err == nil:
		return perigee.AuditResultOK
	case errors.Is(err, errInterrupted):
		return string(perigee.ClassCanceled)
	}
	return string(perigee.AsError(err).Class)
}

// keepIn stores the account with the daemon, or without one.
func (r *loginRun) keepIn(ctx context.Context, opts daemon.Options, upstream config.Upstream, who *daemon.SignedIn) error {
	handle, err := daemon.Connect(ctx, opts)
	if err != nil {
		return err
	}
	defer handle.Close()
	return r.keep(ctx, handle, upstream, who)
}

// choose finds the upstream to sign in to.
func (r *loginRun) choose(cfg *config.Config) (config.Upstream, error) {
	var able []config.Upstream
	var known []string
	for _, u := range cfg.Upstreams {
		if u.Kind != config.KindAntigravity {
			continue
		}
		if u.Name == r.upstream {
			return u, nil
		}
		able, known = append(able, u), append(known, u.Name)
	}
	switch {
	case len(able) == 0:
		return config.Upstream{}, usagef("login: no upstream of kind antigravity is configured; with an API key (kind: gemini, recommended) there is nothing to sign in to")
	case r.upstream != "":
		return config.Upstream{}, usagef("login: upstream %q has no sign-in; --upstream takes %s", r.upstream, strings.Join(known, ", "))
	case len(able) > 1:
		return config.Upstream{}, usagef("login: say which upstream with --upstream: %s", strings.Join(known, ", "))
	}
	return able[0], nil
}

func (r *loginRun) start(ctx context.Context, opts daemon.Options, upstream config.Upstream) (*daemon.Login, error) {
	opts.IDE = r.ide
	return daemon.StartLogin(ctx, opts, upstream, r.email)
}

// signIn sends the person to the provider, and waits for them to come back by whichever way.
func (r *loginRun) signIn(ctx context.Context, login *daemon.Login) (*daemon.SignedIn, error) {
	r.sayClient(login)
	opened := !r.noBrowser && !r.paste && openBrowser(ctx, login.URL)
	if opened {
		r.env.say("a browser opens; if it does not, open this page:")
	} else {
		r.env.say("open this page in a browser:")
	}
	fmt.Fprintln(r.env.stderr, login.URL)
	asked := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.env.input() == noInput {
		r.env.say("if the browser is on another machine, run perigee login --paste at a terminal or with a pipe on stdin instead")
	} else {
		r.env.say("if the browser ends on a page that cannot be reached, paste its address here and press Enter")
		go r.takePasted(ctx, cancel, login)
	}
	who, err := login.Wait(ctx, func(line string) { r.env.say("%s", printable(line)) })
	if err != nil && asked.Err() != nil {
		return nil, fmt.Errorf("login: %w", errInterrupted)
	}
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil {
		return nil, cause
	}
	return who, err
}

// sayClient tells as whom the person signs in, when the configuration does not.
func (r *loginRun) sayClient(login *daemon.Login) {
	switch {
	case login.FoundIn == "" && r.ide != "":
		r.env.say("nothing was looked for in %s: oauth.client_id and oauth.client_secret are configured", printable(r.ide))
	case login.FoundIn != "":
		r.env.say("the OAuth client is %s, found in %s", printable(login.ClientID), printable(login.FoundIn))
		r.env.say("the provider's page will therefore name the IDE, and not perigee")
		if dir, err := filepath.Abs(r.ide); r.ide != "" && err == nil {
			r.env.say("perigee serve needs it, too, and finds it there when %s=%s is in its environment", daemon.IDEVariable, printable(dir))
		}
	}
}

// takePasted reads what is pasted. When that has come to nothing the browser may still come back, unless somebody said that it
// will not.
func (r *loginRun) takePasted(ctx context.Context, cancel context.CancelCauseFunc, login *daemon.Login) {
	err := r.readPasted(ctx, login)
	switch {
	case err == nil || ctx.Err() != nil:
	case r.paste:
		cancel(err)
	default:
		r.env.say("nothing more can be pasted; the browser may still come back by itself")
	}
}

// mostPasted is how many lines are tried: another program may have no end of them.
const mostPasted = 100

// readPasted takes lines from stdin until one of them signs somebody in. The error says that there will be no more.
func (r *loginRun) readPasted(ctx context.Context, login *daemon.Login) error {
	for tried := 0; ; tried++ {
		line, err := r.env.lines().ReadString('\n')
		if strings.TrimSpace(line) != "" {
			refused := login.Paste(ctx, line)
			if refused == nil || ctx.Err() != nil {
				return nil
			}
			r.sayRefused(refused)
		}
		if err == nil && tried == mostPasted {
			err = io.EOF
		}
		if err != nil {
			if err == io.EOF {
				err = errors.New("nothing was pasted that signs anybody in")
			}
			return perigee.Errorf(perigee.ClassUnauthenticated, "login: %w", err).WithNext("run perigee login again")
		}
	}
}

// sayRefused tells about something pasted that signs nobody in. Whatever ends the sign-in is told by who waits for it.
func (r *loginRun) sayRefused(refused error) {
	switch e := perigee.AsError(refused); e.Class {
	case perigee.ClassInvalid:
		r.env.say("%s", printable(refused.Error()))
	case perigee.ClassUnauthenticated, perigee.ClassIdentity:
		r.env.say("%s; paste another, or press Ctrl-C to give up", printable(e.Message))
	}
}

// notKept is the error about somebody who signed in and whom the provider does not want. The next step is not the one for an
// account that is kept: there is nothing to enable.
func notKept(who *daemon.SignedIn) error {
	e := *perigee.AsError(who.Trouble)
	if who.State == perigee.AccountBanned {
		e.Next = "see in Antigravity itself, signed in with this account, why that is; if it is undone, run perigee login again, or use another account meanwhile"
	}
	e.Message = who.Email + " is not kept, as it cannot be used: " + e.Message
	return &e
}

// keep stores the account, also one that the provider wants something of first, and says how it stands.
func (r *loginRun) keep(ctx context.Context, control perigee.Control, upstream config.Upstream, who *daemon.SignedIn) error {
	if who.State != perigee.AccountReady && who.State != perigee.AccountVerification {
		return notKept(who)
	}
	rows, err := control.ImportAccounts(ctx, who.Import)
	if err != nil {
		return fmt.Errorf("%s is signed in, but cannot be kept: %w", who.Email, err)
	}
	switch {
	case who.State == perigee.AccountVerification:
		if who.Link != "" {
			r.env.say("the provider wants this account verified first; open this page in a browser that is signed in to it:")
			fmt.Fprintln(r.env.stderr, printable(who.Link))
		}
		e := perigee.AsError(who.Trouble)
		return perigee.Errorf(perigee.ClassVerification, "%s: %s", who.Email, e.Message).
			WithNext("verify it, then run perigee account enable %s", who.Email)
	case who.Trouble != nil:
		r.env.say("its project is not known yet (%s); it will be asked for with the first call", printable(who.Trouble.Error()))
	}
	result := perigee.ImportAdded
	if len(rows) > 0 {
		result = rows[0].Result
	}
	words := []string{"upstream " + upstream.Name}
	if who.Project != "" {
		words = append(words, "project "+who.Project)
	}
	if who.Tier != "" {
		words = append(words, "tier "+who.Tier)
	}
	_, err = fmt.Fprintf(r.env.stdout, "%s: %s (%s)\n", result, printable(who.Email), printable(strings.Join(words, ", ")))
	return err
}

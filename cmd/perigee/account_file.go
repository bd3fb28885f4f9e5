package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
)

// readAccounts reads the file, before there is anything to keep its accounts in.
func readAccounts(ctx context.Context, r *accountRun) error {
	path, err := filepath.Abs(r.name)
	if err != nil {
		return err
	}
	r.file, err = daemon.ReadAccounts(ctx, path, r.partial)
	if r.file != nil {
		r.report(r.file.Lines)
	}
	return err
}

// mostReported is how many entries of a file are named one by one.
const mostReported = 20

// report says what is wrong with the entries of a file, or remarkable about them. Of those that do not say whose they are it says
// nothing yet: the provider will.
func (r *accountRun) report(lines []daemon.FileLine) {
	more := 0
	for _, line := range lines {
		who := line.Where
		if line.Email != "" {
			who += " (" + line.Email + ")"
		}
		text := who + ": " + line.Note
		switch {
		case line.Problem != "":
			text = who + " cannot be used: " + line.Problem
		case line.Note == "":
			continue
		}
		if more++; more <= mostReported {
			r.env.say("%s", printable(text))
		}
	}
	if more > mostReported {
		r.env.say("and %d more", more-mostReported)
	}
}

// importAccounts adds the accounts of a file, and says for each what became of it.
func importAccounts(ctx context.Context, r *accountRun) error {
	r.warnNoClient(ctx)
	rows, err := r.control.ImportAccounts(ctx, perigee.AccountImport{Upstream: r.upstream, Document: r.file.Document, Partial: r.partial})
	if err != nil && !r.partial {
		err = misused(err) // the file is good, so it is about the configuration
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", r.name, err)
	}
	r.sayWhose(rows)
	return list(r.env, r.asJSON, rows,
		column[perigee.ImportedRow]{"ACCOUNT", func(row perigee.ImportedRow) any { return orDash(row.Email) }},
		column[perigee.ImportedRow]{"UPSTREAM", func(row perigee.ImportedRow) any { return row.Upstream }},
		column[perigee.ImportedRow]{"RESULT", func(row perigee.ImportedRow) any { return strings.TrimSuffix(row.Result+": "+row.Why, ": ") }},
	)
}

// sayWhose tells what the provider said about entries without a name. The rows are in the order of the file, so they can be told
// apart unless some of them stayed unknown.
func (r *accountRun) sayWhose(rows []perigee.ImportedRow) {
	var without []daemon.FileLine
	named := map[string]bool{}
	for _, line := range r.file.Lines {
		named[line.Email] = true
		if line.Nameless {
			without = append(without, line)
		}
	}
	var found []string
	for _, row := range rows {
		if row.Result != perigee.ImportSkipped && !named[row.Email] {
			found = append(found, row.Email)
		}
	}
	if len(found) != len(without) {
		return
	}
	for i, line := range without {
		r.env.say("%s is %s, according to the provider", printable(line.Where), printable(found[i]))
	}
}

// warnNoClient says before an import that nobody will be able to use what is imported. To find out, it looks where a sign-in
// would.
func (r *accountRun) warnNoClient(ctx context.Context) {
	for _, u := range r.loaded.Config.Upstreams {
		if u.Kind != config.KindAntigravity || r.upstream != "" && u.Name != r.upstream || u.OAuth.ClientID != "" && !u.OAuth.ClientSecret.IsZero() {
			continue
		}
		login, err := daemon.StartLogin(ctx, daemonOptions(r.env, r.loaded), u, "")
		if err == nil {
			login.Close()
			continue
		}
		if _, ok := errors.AsType[*daemon.ConfigError](err); ok {
			r.env.say("upstream %s has no OAuth client, neither in the configuration nor in an IDE that is installed here; refresh tokens "+
				"are good only with the client that they were issued to, so set oauth.client_id and oauth.client_secret", printable(u.Name))
		}
	}
}

// exportAccounts writes the accounts to a file. That goes past the daemon: no token leaves it over any wire.
func exportAccounts(ctx context.Context, r *accountRun) error {
	if r.name == "-" {
		return usagef("account export: refresh tokens are not written to a terminal or a pipe; name a file")
	}
	exists := usagef("account export: %s exists; name another file, or pass --yes to overwrite it", printable(r.name))
	if _, err := os.Lstat(r.name); err == nil && !r.yes {
		return exists
	}
	r.env.say("%s will hold refresh tokens in plain text: anyone who has it can use these accounts until you revoke their access at the provider", printable(r.name))
	if !r.yes {
		if err := r.env.agree(ctx, "write it?", "pass --yes"); err != nil {
			return err
		}
	}
	path, err := filepath.Abs(r.name)
	if err != nil {
		return err
	}
	done, err := daemon.ExportAccounts(ctx, daemonOptions(r.env, r.loaded), r.upstream, path, r.yes)
	if errors.Is(err, fs.ErrExist) { // since it was looked for
		return exists
	}
	for _, email := range done.Skipped {
		r.env.say("%s is left out: its refresh token cannot be decrypted; perigee account list says why", printable(email))
	}
	if err != nil {
		return err
	}
	for _, row := range done.Unsaid {
		r.env.say("%s is %s, which the file does not say: after an import the first call will show it", printable(row.Email), stateWord(row.State))
	}
	return r.did("exported "+number(done.Accounts, "account", "accounts"), r.name)
}

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
	"perigee/internal/account/roster"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
)

// importAccounts adds the accounts of a file and lists the result for each.
func importAccounts(ctx context.Context, r *accountRun) error {
	path, err := filepath.Abs(r.argument)
	if err != nil {
		return err
	}
	file, err := roster.ReadFile(ctx, path, r.partial)
	if file != nil {
		r.reportEntries(file.Lines)
	}
	if err != nil {
		return err
	}
	handle, err := command.Connect(ctx, r.env, r.loaded, command.ExceptSignIn)
	if err != nil {
		return err
	}
	defer handle.Close()
	r.warnNoClient(ctx)
	progress := r.env.Progress(ctx)
	// Addresses are requested one by one; everything else takes no time.
	if n := nameless(file.Lines); len(n) > 0 {
		progress.Step("asking the provider for %s", terminal.Number(len(n), "address", "addresses"))
	}
	rows, err := handle.ImportAccounts(ctx, perigee.AccountImport{Upstream: r.upstream, Document: file.Document, Partial: r.partial})
	progress.Close()
	if err != nil && !r.partial {
		err = command.Misused(err) // the file is valid, so the error is about the configuration
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", r.argument, err)
	}
	r.reportAddresses(file.Lines, rows)
	return cli.List(r.env, rows, []string{"ACCOUNT", "UPSTREAM", "RESULT"}, func(row perigee.ImportedRow) []any {
		return []any{command.OrDash(row.Email), row.Upstream, strings.TrimSuffix(row.Result+": "+row.Why, ": ")}
	})
}

// maxReported is the number of entries of a file that are reported one by one.
const maxReported = 20

// reportEntries prints the problems and notes of the entries of a file.
func (r *accountRun) reportEntries(lines []roster.FileLine) {
	reported := 0
	for _, line := range lines {
		entry := line.Where
		if line.Email != "" {
			entry += " (" + line.Email + ")"
		}
		text := entry + ": " + line.Note
		switch {
		case line.Problem != "":
			text = entry + " cannot be used: " + line.Problem
		case line.Note == "":
			continue
		}
		if reported++; reported <= maxReported {
			r.env.Remark("%s", terminal.Printable(text))
		}
	}
	if reported > maxReported {
		r.env.Remark("and %d more", reported-maxReported)
	}
}

// reportAddresses prints the addresses that the provider has for entries without one. Rows are in
// the order of the file, so they can be assigned unless an entry was skipped.
func (r *accountRun) reportAddresses(lines []roster.FileLine, rows []perigee.ImportedRow) {
	nameless := nameless(lines)
	named := map[string]bool{}
	for _, line := range lines {
		named[line.Email] = true
	}
	var found []string
	for _, row := range rows {
		if row.Result != perigee.ImportSkipped && !named[row.Email] {
			found = append(found, row.Email)
		}
	}
	if len(found) != len(nameless) {
		return
	}
	for i, line := range nameless {
		r.env.Remark("%s is %s, according to the provider", terminal.Printable(line.Where), terminal.Printable(found[i]))
	}
}

// nameless returns the entries that have no address.
func nameless(lines []roster.FileLine) (found []roster.FileLine) {
	for _, line := range lines {
		if line.Nameless {
			found = append(found, line)
		}
	}
	return found
}

// warnNoClient warns before an import if there is no OAuth client to use the accounts with. It
// looks where a sign-in would.
func (r *accountRun) warnNoClient(ctx context.Context) {
	for _, u := range r.loaded.Config.Upstreams {
		configured := u.OAuth.ClientID != "" && !u.OAuth.ClientSecret.IsZero()
		if !u.HasAccounts() || r.upstream != "" && u.Name != r.upstream || configured {
			continue
		}
		login, err := daemon.StartLogin(ctx, command.DaemonOptions(r.env, r.loaded), u, "")
		if err == nil {
			login.Close()
			continue
		}
		if _, ok := errors.AsType[*daemon.ConfigError](err); ok {
			r.env.Remark("upstream %s has no OAuth client, neither in the configuration nor in an IDE that is installed here; refresh tokens "+
				"are good only with the client that they were issued to, so set oauth.client_id and oauth.client_secret", terminal.Printable(u.Name))
		}
	}
}

// exportAccounts writes the accounts to a file. It does not use the daemon, which never sends a
// token anywhere.
func exportAccounts(ctx context.Context, r *accountRun) error {
	if r.argument == "-" {
		return cli.Usagef("account export: refresh tokens are not written to a terminal or a pipe; name a file")
	}
	name := terminal.Printable(r.argument)
	exists := cli.Usagef("account export: %s exists; name another file, or pass --yes to overwrite it", name)
	if _, err := os.Lstat(r.argument); err == nil && !r.yes {
		return exists
	}
	r.env.Remark("%s will contain refresh tokens in plain text: anyone with the file can use these accounts "+
		"until you revoke their access at the provider", name)
	if !r.yes {
		if err := r.env.Confirm(ctx, "write it?", "pass --yes"); err != nil {
			return err
		}
	}
	path, err := filepath.Abs(r.argument)
	if err != nil {
		return err
	}
	done, err := daemon.ExportAccounts(ctx, command.DaemonOptions(r.env, r.loaded), r.upstream, path, r.yes)
	if errors.Is(err, fs.ErrExist) { // it was created in the meantime
		return exists
	}
	for _, email := range done.Skipped {
		r.env.Remark("%s is left out: its refresh token cannot be decrypted; perigee account list says why", terminal.Printable(email))
	}
	if err != nil {
		return err
	}
	for _, row := range done.WithoutState {
		r.env.Remark("%s is %s, which is not part of the file: after an import, it is untested again",
			terminal.Printable(row.Email), command.StateText(row.State))
	}
	return r.done("exported "+terminal.Number(done.Accounts, "account", "accounts"), r.argument)
}

package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perigee"
	"perigee/internal/audit"
	"perigee/internal/oauth/accountfile"
)

// ImportAccounts adds the accounts of a document.
func (c control) ImportAccounts(ctx context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	r, err := c.roster(in.Upstream)
	if err != nil {
		return nil, err
	}
	list, err := accountfile.Parse(in.Document, c.house.opts.Now())
	if err != nil {
		return nil, err
	}
	var skipped []perigee.ImportedRow
	for _, line := range list.Lines {
		if line.Problem != "" {
			skipped = append(skipped, perigee.ImportedRow{Email: line.Email, Upstream: r.upstream, Result: perigee.ImportSkipped, Where: line.Where, Why: line.Problem})
		}
	}
	signIns, unknown, err := r.identify(ctx, list.Accounts, in.Partial)
	if err != nil {
		return nil, err
	}
	skipped = append(skipped, unknown...)
	if len(skipped) > 0 && !in.Partial || len(signIns) == 0 {
		return nil, unusable(skipped, len(list.Lines))
	}
	before := len(r.everybody())
	if err := r.recognize(ctx, signIns); err != nil {
		return nil, err
	}
	if err := r.forgetRefused(ctx, signIns); err != nil {
		return nil, err
	}
	added, err := r.store.AddSignIns(ctx, signIns)
	if err != nil {
		return nil, err
	}
	r.keepRests(ctx, signIns, added)
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	if before == 0 && list.Active != "" {
		// Whoever was in use elsewhere goes on being used here. That nobody of that name came along is no trouble.
		_ = c.UseAccount(ctx, perigee.AccountName{Email: list.Active, Upstream: r.upstream})
	}
	var rows []perigee.ImportedRow
	for i, s := range signIns {
		row := perigee.ImportedRow{Email: s.Email, Upstream: r.upstream, Result: perigee.ImportRenewed}
		if added[i] {
			row.Result = perigee.ImportAdded
		}
		rows = append(rows, row)
	}
	return append(rows, skipped...), nil
}

// identify asks whose the tokens are of which the document does not say it. Whom it cannot identify it leaves out where
// that is allowed.
func (r *roster) identify(ctx context.Context, list []accountfile.Imported, partial bool) (signIns []perigee.SignIn, unknown []perigee.ImportedRow, err error) {
	for _, a := range list {
		if a.Email == "" {
			email, grant, err := r.client.Identify(ctx, a.Refresh)
			switch {
			case err != nil && partial:
				unknown = append(unknown, perigee.ImportedRow{Upstream: r.upstream, Result: perigee.ImportSkipped, Why: "nobody knows whose it is: " + err.Error()})
				continue
			case err != nil:
				return nil, nil, fmt.Errorf("whose account it is: %w", err)
			}
			a.Email, a.Refresh = email, grant.Refresh
			if a.State == perigee.AccountUntested {
				a.State = perigee.AccountReady // it has just been tried
			}
		}
		signIns = append(signIns, a.SignIn(r.upstream))
	}
	return signIns, unknown, nil
}

// keepRests stores what new accounts rest from. Of those that were there already more is known here than in a document.
func (r *roster) keepRests(ctx context.Context, signIns []perigee.SignIn, added []bool) {
	for i, s := range signIns {
		if !added[i] {
			continue
		}
		for _, cooldown := range s.Cooldowns {
			if err := r.store.SaveCooldown(ctx, r.upstream, s.Email, cooldown); err != nil {
				r.logger.Warn("what an account rests from cannot be kept", "upstream", r.upstream, "account", s.Email, "error", err)
			}
		}
	}
}

// recognize leaves those ready that are, with the same refresh token: to import them once more changes nothing, also when the
// file is from a time when the provider had disabled one.
func (r *roster) recognize(ctx context.Context, signIns []perigee.SignIn) error {
	stored, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		return err
	}
	known := make(map[string]perigee.SignIn, len(stored))
	for _, s := range stored {
		known[s.Email] = s
	}
	for i := range signIns {
		s := &signIns[i]
		before, ok := known[s.Email]
		if ok && (s.State == perigee.AccountUntested || s.State == perigee.AccountBanned) && before.State == perigee.AccountReady && before.Refresh.Equal(s.Refresh.Reveal()) {
			s.State, s.Reason = perigee.AccountReady, ""
		}
	}
	return nil
}

// unusable is the error about a document that is refused whole.
func unusable(skipped []perigee.ImportedRow, entries int) error {
	if entries == 0 {
		return perigee.Errorf(perigee.ClassInvalid, "there are no accounts in it").WithNext("sign in with `perigee login`")
	}
	var problems []string
	for _, row := range skipped {
		if len(problems) == 5 {
			problems = append(problems, "…")
			break
		}
		problems = append(problems, strings.TrimPrefix(row.Where+": "+row.Why, ": "))
	}
	e := perigee.Errorf(perigee.ClassInvalid, "%d of %d accounts cannot be used (%s)", len(skipped), entries, strings.Join(problems, "; "))
	if len(skipped) >= entries {
		return e.WithNext("sign in with `perigee login`")
	}
	return e.WithNext("put them right, or import the others with --partial")
}

// A File is accounts that were read from a file.
type File struct {
	Lines    []FileLine
	Document []byte // for AccountImport; nil when the file is refused
}

// A FileLine reports on one entry of a file.
type FileLine struct {
	Where, Email  string
	Problem, Note string // why it cannot be used; what is worth knowing about it all the same
	Nameless      bool   // it can be used, and only the provider knows whose it is
}

// ReadAccounts reads the accounts of a file, which it does not change: any of the JSON formats, or the IDE's own database.
// A file with an entry that cannot be used is refused, unless partial is true; its Lines are returned either way.
func ReadAccounts(ctx context.Context, path string, partial bool) (*File, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	list, err := accountfile.ReadFile(ctx, path, partial, time.Now())
	if list == nil {
		return nil, err
	}
	f := &File{}
	for _, line := range list.Lines {
		f.Lines = append(f.Lines, FileLine{line.Where, line.Email, line.Problem, line.Note, line.Nameless})
	}
	if err != nil {
		return f, err
	}
	var signIns []perigee.SignIn
	for _, a := range list.Accounts {
		if a.State == perigee.AccountReady {
			a.State = perigee.AccountUntested // a file cannot know
		}
		signIns = append(signIns, a.SignIn(""))
	}
	f.Document = accountfile.Document(signIns, list.Active)
	return f, nil
}

// Exported says what became of the accounts that were to be written to a file.
type Exported struct {
	Accounts int                  // how many are in it
	Skipped  []string             // whose token cannot be had
	Unsaid   []perigee.AccountRow // they are in it, but it has no place for the state that they are in
}

// ExportAccounts writes the accounts of an upstream to a file that only the user can read, tokens in clear. A file that is
// there is replaced only if replace is true, and is fs.ErrExist otherwise. Without an entry in the audit log nothing is
// written: a copy of refresh tokens cannot be taken back, so it may not be made without a trace.
func ExportAccounts(ctx context.Context, opts Options, upstream, path string, replace bool) (done Exported, err error) {
	recorded := false
	back, err := openBackDoor(ctx, opts)
	if err != nil {
		return done, err
	}
	defer back.close()
	r, err := control{back.house}.roster(upstream)
	if err != nil {
		return done, err
	}
	entry := perigee.AuditEntry{Action: perigee.AuditAccountExport, Detail: ofUpstream(r.upstream) + ", to " + path}
	list, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		return done, err
	}
	if len(list) == 0 {
		return done, perigee.Errorf(perigee.ClassUnauthenticated, "there are no accounts to export").WithNext("sign in with `perigee login`")
	}
	export := accountfile.ExportOptions{Replace: replace, Before: func(emails []string) error {
		entry.Object = strings.Join(emails, ", ")
		if err := RecordAct(ctx, opts, entry); err != nil {
			return perigee.Errorf(perigee.ClassUnavailable, "nothing was exported: the audit log cannot be written: %w", err).
				WithNext("make the database usable again, then export")
		}
		recorded = true
		return nil
	}}
	if list[0].Preferred { // or else nobody is
		export.Active = list[0].Email
	}
	if done.Skipped, err = accountfile.Export(path, list, export); err != nil {
		if recorded { // as done
			entry.Result, entry.Detail = audit.ResultOf(err), entry.Detail+": not written"
			_ = RecordAct(ctx, opts, entry)
		}
		return done, err
	}
	done.Accounts = len(list) - len(done.Skipped)
	for _, s := range list {
		if !s.Refresh.IsZero() && (s.State == perigee.AccountSignedOut || s.State == perigee.AccountMisnamed) {
			done.Unsaid = append(done.Unsaid, accountRow(s))
		}
	}
	return done, nil
}

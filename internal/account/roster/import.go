package roster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perigee"
	"perigee/internal/store/audit"
)

// ImportAccounts adds the accounts of a document.
func (c Control) ImportAccounts(ctx context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	r, err := c.Roster(in.Upstream)
	if err != nil {
		return nil, err
	}
	list, err := parseAccounts(in.Document, c.Now())
	if err != nil {
		return nil, err
	}
	var skipped []perigee.ImportedRow
	for _, line := range list.Lines {
		if line.Problem != "" {
			skipped = append(skipped, perigee.ImportedRow{
				Email: line.Email, Upstream: r.upstream, Result: perigee.ImportSkipped, Where: line.Where, Why: line.Problem,
			})
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
	before := len(r.all())
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
	r.storeCooldowns(ctx, signIns, added)
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	if before == 0 && list.Active != "" {
		// The account that was active elsewhere stays so here. It is not an error if the document
		// does not have it.
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

// identify asks the provider for the email of accounts that the document has no email of. Those
// that it cannot identify are left out if partial is true.
func (r *Roster) identify(ctx context.Context, list []perigee.SignIn, partial bool) (
	signIns []perigee.SignIn, unknown []perigee.ImportedRow, err error,
) {
	for _, a := range list {
		if a.Email == "" {
			email, grant, err := r.client.Identify(ctx, a.Refresh)
			switch {
			case err != nil && partial:
				unknown = append(unknown, perigee.ImportedRow{
					Upstream: r.upstream, Result: perigee.ImportSkipped, Why: "its owner is not known: " + err.Error(),
				})
				continue
			case err != nil:
				return nil, nil, fmt.Errorf("find the owner of an account: %w", err)
			}
			a.Email, a.Refresh = email, grant.Refresh
			if a.State == perigee.AccountUntested {
				a.State = perigee.AccountReady // it has just been tried
			}
		}
		a.Upstream = r.upstream
		signIns = append(signIns, a)
	}
	return signIns, unknown, nil
}

// storeCooldowns stores the cooldowns of new accounts. The cooldowns of accounts that exist already
// are newer than a document.
func (r *Roster) storeCooldowns(ctx context.Context, signIns []perigee.SignIn, added []bool) {
	for i, s := range signIns {
		if !added[i] {
			continue
		}
		for _, cooldown := range s.Cooldowns {
			if err := r.store.SaveCooldown(ctx, r.upstream, s.Email, cooldown); err != nil {
				r.logger.Warn("cooldown of an imported account not stored", "upstream", r.upstream, "account", s.Email, "error", err)
			}
		}
	}
}

// recognize keeps the state of accounts that are stored as ready with the same refresh token:
// importing such an account again changes nothing, even if the file is older and has it as
// disabled.
func (r *Roster) recognize(ctx context.Context, signIns []perigee.SignIn) error {
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
		doubtful := s.State == perigee.AccountUntested || s.State == perigee.AccountBanned
		if ok && doubtful && before.State == perigee.AccountReady && before.Refresh.Equal(s.Refresh.Reveal()) {
			s.State, s.Reason = perigee.AccountReady, ""
		}
	}
	return nil
}

// unusable returns the error about a document that is refused whole.
func unusable(skipped []perigee.ImportedRow, entries int) error {
	if entries == 0 {
		return perigee.Errorf(perigee.ClassInvalid, "there are no accounts in it").WithHint("sign in with `perigee login`")
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
		return e.WithHint("sign in with `perigee login`")
	}
	return e.WithHint("correct them, or import the rest with --partial")
}

// A File is accounts that were read from a file.
type File struct {
	Lines    []FileLine
	Document []byte // for AccountImport; nil when the file is refused
}

// ReadFile reads the accounts of a file, which it does not change: any of the JSON formats, or the
// IDE's own database. A file with an entry that cannot be used is refused, unless partial is true;
// its Lines are returned either way.
func ReadFile(ctx context.Context, path string, partial bool) (*File, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	list, err := readAccounts(ctx, path, partial, time.Now())
	if list == nil {
		return nil, err
	}
	f := &File{Lines: list.Lines}
	if err != nil {
		return f, err
	}
	for i := range list.Accounts {
		if a := &list.Accounts[i]; a.State == perigee.AccountReady {
			a.State = perigee.AccountUntested // the state in a file may be outdated
		}
	}
	f.Document = encodeAccounts(list.Accounts, list.Active)
	return f, nil
}

// Exported is the result of an export of accounts to a file.
type Exported struct {
	Accounts int      // how many are in it
	Skipped  []string // accounts without an available token
	// WithoutState are accounts in the file that are in a state which the file cannot express.
	WithoutState []perigee.AccountRow
}

// Export writes the accounts to a file that only the user can read, tokens in clear. A file that is
// there is replaced only if replace is true, and is fs.ErrExist otherwise. Without an entry in the
// audit log nothing is written: a copy of refresh tokens cannot be taken back, so it may not be
// made without a trace.
func (r *Roster) Export(ctx context.Context, path string, replace bool, record func(perigee.AuditEntry) error) (done Exported, err error) {
	list, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		return done, err
	}
	if len(list) == 0 {
		return done, perigee.Errorf(perigee.ClassUnauthenticated, "there are no accounts to export").
			WithHint("sign in with `perigee login`")
	}
	kept, skipped, err := exportable(list)
	if err != nil {
		return Exported{Skipped: skipped}, err
	}
	var emails []string
	for _, s := range kept {
		emails = append(emails, s.Email)
	}
	active := ""
	if list[0].Preferred { // the preferred one comes first
		active = list[0].Email
	}
	entry := perigee.AuditEntry{Action: perigee.AuditAccountExport, Object: strings.Join(emails, ", "),
		Detail: "upstream " + r.upstream + ", to " + path}
	if err := record(entry); err != nil {
		return done, perigee.Errorf(perigee.ClassUnavailable, "nothing was exported: the audit log cannot be written: %w", err).
			WithHint("make the database usable again, then export")
	}
	if err := writeAccounts(path, kept, active, replace); err != nil {
		// The first entry reports an export.
		entry.Result, entry.Detail = audit.ResultOf(err), entry.Detail+": not written"
		_ = record(entry)
		return done, err
	}
	done.Accounts, done.Skipped = len(kept), skipped
	for _, s := range list {
		if !s.Refresh.IsZero() && (s.State == perigee.AccountSignedOut || s.State == perigee.AccountMisnamed) {
			done.WithoutState = append(done.WithoutState, accountRow(s))
		}
	}
	return done, nil
}

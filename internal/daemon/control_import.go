package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"perigee"
	"perigee/internal/oauth"
)

// ImportAccounts adds the accounts of a document.
func (c control) ImportAccounts(ctx context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	r, err := c.roster(in.Upstream)
	if err != nil {
		return nil, err
	}
	list, err := oauth.Parse(in.Document)
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
func (r *roster) identify(ctx context.Context, list []oauth.Imported, partial bool) (signIns []perigee.SignIn, unknown []perigee.ImportedRow, err error) {
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

// recognize leaves those ready that are, with the same refresh token: to import them once more changes nothing.
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
		if ok && s.State == perigee.AccountUntested && before.State == perigee.AccountReady && before.Refresh.Equal(s.Refresh.Reveal()) {
			s.State = perigee.AccountReady
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

// A document is accounts on their way from a command to where they are kept, in the second of the formats that are read.
type document struct {
	Accounts []documentAccount `json:"accounts"`
	Active   string            `json:"active,omitempty"`
}

type documentAccount struct {
	Email        string     `json:"email,omitempty"`
	Refresh      string     `json:"refresh_token"` // in clear, for a socket that only the owner can reach, or for no wire at all
	ProjectID    string     `json:"project_id,omitempty"`
	Enabled      bool       `json:"enabled"`
	Added        *time.Time `json:"added_at,omitempty"`
	Verification bool       `json:"verificationRequired,omitempty"`
	Reason       string     `json:"verificationRequiredReason,omitempty"`
	Tested       bool       `json:"tested,omitempty"` // it has just been signed in
}

// writeDocument is accounts as ImportAccounts takes them.
func writeDocument(list []perigee.SignIn, active string) []byte {
	d := document{Active: active}
	for _, s := range list {
		a := documentAccount{Email: s.Email, Refresh: s.Refresh.Reveal(), ProjectID: s.ProjectID, Enabled: s.Enabled,
			Tested: s.State == perigee.AccountReady}
		if !s.Added.IsZero() {
			added := s.Added.UTC()
			a.Added = &added
		}
		if s.State == perigee.AccountVerification {
			a.Verification, a.Reason = true, s.Reason
		}
		d.Accounts = append(d.Accounts, a)
	}
	raw, _ := json.Marshal(d) // strings, booleans and times
	return raw
}

// A File is accounts that were read from a file.
type File struct {
	Format   string
	Lines    []FileLine
	Document []byte // for AccountImport; nil when the file is refused
}

// A FileLine reports on one entry of a file.
type FileLine struct {
	Where, Email  string
	Problem, Note string // why it cannot be used; what is worth knowing about it all the same
}

// ReadAccounts reads the accounts of a file, which it does not change: any of the JSON formats, or the IDE's own database.
// A file with an entry that cannot be used is refused, unless partial is true; its Lines are returned either way.
func ReadAccounts(ctx context.Context, path string, partial bool) (*File, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	list, err := oauth.ReadFile(ctx, path, partial)
	if list == nil {
		return nil, err
	}
	f := &File{Format: list.Format}
	for _, line := range list.Lines {
		f.Lines = append(f.Lines, FileLine{line.Where, line.Email, line.Problem, line.Note})
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
	f.Document = writeDocument(signIns, list.Active)
	return f, nil
}

// ExportAccounts writes the accounts of an upstream to a file that only the user can read, tokens in clear. It returns how
// many, and who was left out because their token cannot be had.
func ExportAccounts(ctx context.Context, opts Options, upstream, path string) (exported int, skipped []string, err error) {
	back, err := openBackDoor(ctx, opts)
	if err != nil {
		return 0, nil, err
	}
	defer back.close()
	r, err := control{back.house}.roster(upstream)
	if err != nil {
		return 0, nil, err
	}
	list, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		return 0, nil, err
	}
	if len(list) == 0 {
		return 0, nil, perigee.Errorf(perigee.ClassUnauthenticated, "there are no accounts to export").WithNext("sign in with `perigee login`")
	}
	skipped, err = oauth.Export(path, list, list[0].Email) // the first is the one that is preferred
	return len(list) - len(skipped), skipped, err
}

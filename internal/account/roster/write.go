package roster

import (
	"encoding/json"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
)

// A document is accounts on their way from one perigee to another, or from a command to where they
// are kept: FormatAccounts, with the members that the readers of other formats know by the same
// names.
type document struct {
	Accounts []documentAccount `json:"accounts"`
	Active   string            `json:"active,omitempty"`
}

type documentAccount struct {
	Email        string             `json:"email,omitempty"`
	Refresh      string             `json:"refresh_token"` // in clear: the file exists to carry it
	ProjectID    string             `json:"project_id,omitempty"`
	Enabled      bool               `json:"enabled"`
	Added        *time.Time         `json:"added_at,omitempty"`
	Verification bool               `json:"verificationRequired,omitempty"`
	Wanted       string             `json:"verificationRequiredReason,omitempty"`
	State        string             `json:"state,omitempty"` // of an account that the provider has disabled
	Reason       string             `json:"reason,omitempty"`
	Tested       bool               `json:"tested,omitempty"` // it has just been signed in
	Cooldowns    []perigee.Cooldown `json:"cooldowns,omitempty"`
}

// Document writes accounts as Parse reads them. Those that are ready are taken to have been tested
// just now. active may be empty.
func Document(list []perigee.SignIn, active string) []byte {
	d := document{Active: active, Accounts: []documentAccount{}}
	for _, s := range list {
		d.Accounts = append(d.Accounts, documented(s))
	}
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic("accountfile: " + err.Error()) // strings, booleans and times can always be encoded
	}
	return append(raw, '\n')
}

func documented(s perigee.SignIn) documentAccount {
	a := documentAccount{Email: s.Email, Refresh: s.Refresh.Reveal(), ProjectID: s.ProjectID, Enabled: s.Enabled}
	if !s.Added.IsZero() {
		added := s.Added.UTC()
		a.Added = &added
	}
	switch s.State {
	case perigee.AccountReady:
		a.Tested = true
	case perigee.AccountVerification:
		a.Verification, a.Wanted = true, s.Reason
	case perigee.AccountBanned:
		a.State, a.Reason = s.State, s.Reason
	}
	for _, c := range s.Cooldowns {
		c.Until = c.Until.UTC()
		a.Cooldowns = append(a.Cooldowns, c)
	}
	return a
}

// ExportOptions control how an account file is written.
type ExportOptions struct {
	Active  string // may be empty
	Replace bool   // write in place of a file that is there; otherwise that is fs.ErrExist
	// Before is called with the emails that will be in the file, before anything is written. If it
	// returns an error, Export returns that error and writes no file.
	Before func(emails []string) error
}

// Export writes accounts to a file of FormatAccounts, which only the user can read (0600); the file
// is there whole or not at all. Accounts without a refresh token are left out, and their emails
// returned; when none is left nothing is written.
func Export(path string, list []perigee.SignIn, opts ExportOptions) (skipped []string, err error) {
	var kept []perigee.SignIn
	var emails []string
	for _, s := range list {
		if s.Refresh.IsZero() {
			skipped = append(skipped, s.Email)
			continue
		}
		if s.State == perigee.AccountReady {
			s.State = perigee.AccountUntested // the reader has to test it anew
		}
		kept, emails = append(kept, s), append(emails, s.Email)
	}
	if len(kept) == 0 {
		return skipped, perigee.Errorf(perigee.ClassNotFound, "there are no accounts to export").WithHint("sign in with `perigee login`")
	}
	if opts.Before != nil {
		if err := opts.Before(emails); err != nil {
			return nil, err
		}
	}
	write := atomicfile.Create
	if opts.Replace {
		write = atomicfile.Write
	}
	if err := write(path, Document(kept, opts.Active)); err != nil {
		return nil, perigee.Errorf(perigee.ClassInvalid, "export: %w", err).WithHint("choose a place that can be written to")
	}
	return skipped, nil
}

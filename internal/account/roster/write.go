package roster

import (
	"encoding/json"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
)

// A document holds accounts on their way from one perigee to another, or from a command to the
// store. Readers of the other formats have the same names for its members.
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
	State        string             `json:"state,omitempty"` // only of a disabled account
	Reason       string             `json:"reason,omitempty"`
	Tested       bool               `json:"tested,omitempty"` // it has just been signed in
	Cooldowns    []perigee.Cooldown `json:"cooldowns,omitempty"`
}

// encodeAccounts writes accounts as parseAccounts reads them. Those that are ready are taken to
// have been tested just now. active may be empty.
func encodeAccounts(list []perigee.SignIn, active string) []byte {
	d := document{Active: active, Accounts: []documentAccount{}}
	for _, s := range list {
		d.Accounts = append(d.Accounts, documented(s))
	}
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic("roster: " + err.Error()) // strings, booleans and times can always be encoded
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

// exportable returns the accounts that can be exported: those with a refresh token. skipped has the
// emails of the other accounts. It is an error if no account is left.
func exportable(list []perigee.SignIn) (kept []perigee.SignIn, skipped []string, err error) {
	for _, s := range list {
		if s.Refresh.IsZero() {
			skipped = append(skipped, s.Email)
			continue
		}
		if s.State == perigee.AccountReady {
			s.State = perigee.AccountUntested // the reader has to test it anew
		}
		kept = append(kept, s)
	}
	if len(kept) == 0 {
		err = perigee.Errorf(perigee.ClassNotFound, "there are no accounts to export").WithHint("sign in with `perigee login`")
	}
	return kept, skipped, err
}

// writeAccounts writes accounts to a file that only the user can read (0600). The file is there
// whole or not at all. One that exists is replaced if replace is true, and is fs.ErrExist
// otherwise. active may be empty.
func writeAccounts(path string, list []perigee.SignIn, active string, replace bool) error {
	write := atomicfile.Create
	if replace {
		write = atomicfile.Write
	}
	if err := write(path, encodeAccounts(list, active)); err != nil {
		return perigee.Errorf(perigee.ClassInvalid, "export: %w", err).WithHint("choose a place that can be written to")
	}
	return nil
}

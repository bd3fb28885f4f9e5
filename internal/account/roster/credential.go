package roster

import (
	"context"
	"slices"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
)

// A Choice is an account for a service that uses one account at a time until something changes, in
// contrast to calls, which lease an account each.
type Choice struct {
	Email     string
	Preferred bool
	Usable    bool // it is enabled and the provider accepts it
	Cooling   bool // calls would use other accounts for now
	Refused   bool // because its access tokens are refused
}

// Choices lists the accounts in the order in which the pool would choose them for a call.
func (r *Roster) Choices() []Choice {
	status, preferred := r.status(), r.preferred()
	var list []Choice
	for _, row := range r.pool.Explain(pool.Request{}) {
		a, known := status[row.Email]
		if !known || slices.ContainsFunc(list, func(c Choice) bool { return c.Email == row.Email }) {
			continue // an account has a row for each pool
		}
		list = append(list, Choice{
			Email: row.Email, Preferred: row.Email == preferred, Usable: a.Enabled && perigee.UsableState(a.State), Cooling: !row.Usable,
			Refused: slices.ContainsFunc(a.Cooldowns, tokensRefused),
		})
	}
	return list
}

// tokensRefused reports whether a cooldown was started because access tokens of the account are
// refused.
func tokensRefused(c perigee.Cooldown) bool {
	return c.Reason == string(providererr.KindUnauthenticated)
}

// A Credential is an access token of an account with the project that it is for. At Renew, the next
// Credential of the account begins to replace the token; Refreshed is published when there is a new
// one.
type Credential struct {
	Email, Project string
	Access         perigee.Secret
	Expiry, Renew  time.Time
}

// Credential returns the access token and project of an account of the roster. It waits for a
// refresh of the token and for finding the project if these are necessary.
func (r *Roster) Credential(ctx context.Context, email string) (c Credential, err error) {
	s := r.find(email)
	if s == nil {
		return c, perigee.Errorf(perigee.ClassUnavailable, "the account %s was removed: %w", email, errNoAccount).WithHint("try again")
	}
	for range 3 { // the token may be replaced concurrently
		access, err := s.Token(ctx)
		if v, ok := providererr.Of(err); ok {
			r.pool.Report(s, v)
		}
		if err != nil {
			return c, err
		}
		if left, ahead := s.tokens.Left(access); left > 0 {
			now := r.now()
			return Credential{email, s.SignIn().ProjectID, access, now.Add(left), now.Add(left - ahead)}, nil
		}
	}
	return c, perigee.Errorf(perigee.ClassUnavailable, "the access token of %s changes faster than it can be read", email)
}

// refusedPause is how long after a refused token another one is not replaced: as long as the
// cooldown of the account.
const refusedPause = time.Minute

// Refused reports that the provider did not accept an access token that Credential has returned,
// like Lease.Refused for a lease. It returns whether the account has another token, or gets one
// with the next Credential. If the token replaced one that was refused within the last minute, it
// stays for a minute, and the account has a cooldown.
func (r *Roster) Refused(email string, token perigee.Secret) (replaced bool) {
	s := r.find(email)
	if s == nil {
		return true
	}
	if left, _ := s.tokens.Left(token); left == 0 {
		return true
	}
	now := r.now()
	s.mu.Lock()
	last := s.refusal
	replaced = now.Sub(last.at).Abs() >= refusedPause
	if replaced || last.token != token {
		s.refusal = refusal{token, now}
	}
	s.mu.Unlock()
	switch {
	case replaced:
		s.Refused(token)
	case last.token != token:
		r.pool.RefusedAgain(s)
	}
	return replaced
}

// Refusal returns the reason why no account, or not the named one, can be used; it returns nil if
// one can, or if there are no accounts. Calls that lease an account get the same error.
func (r *Roster) Refusal(email string) error { return r.pool.Refusal(pool.Request{Email: email}) }

// find returns the source of an account, or nil.
func (r *Roster) find(email string) *Source { return byEmail(r.all())[email] }

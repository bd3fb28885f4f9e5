package roster

import (
	"context"

	"perigee"
)

// Follow updates the pool with changes that other replicas have made in the store. Unlike load it
// keeps the access tokens of accounts after another replica has rotated the refresh token:
// otherwise the replicas would refresh in turns for ever.
func (r *Roster) Follow(ctx context.Context) error {
	before, nobody := r.preferred(), len(r.all()) == 0
	if err := r.loadWith(ctx, (*Source).follow); err != nil {
		return err
	}
	if after := r.preferred(); after != "" && after != before && !nobody {
		return r.pool.Use(after) // preferred through another replica
	}
	return nil
}

// preferred returns the address of the preferred account; empty if there is none.
func (r *Roster) preferred() string {
	for _, s := range r.all() {
		if signIn := s.SignIn(); signIn.Preferred {
			return signIn.Email
		}
	}
	return ""
}

// follow takes over changes of the account, including a new refresh token.
func (s *Source) follow(signIn perigee.SignIn) *Source {
	s.tokens.Adopt(signIn)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = signIn
	return s
}

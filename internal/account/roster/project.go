package roster

import (
	"context"
	"errors"
	"time"

	"perigee"
	"perigee/internal/account/pool"
)

// lookupTime is how long looking a project up may take; the call waits for it, and may be refused
// for another reason.
const lookupTime = 10 * time.Second

// projectPause is how long the result of looking up a project is used.
const projectPause = 10 * time.Minute

var _ pool.ProjectFinder = (*Source)(nil)

// takeTurn allows one call at a time to look up the project of the account; waiting calls then find
// it.
func (s *Source) takeTurn(ctx context.Context) (release func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// discover finds the project of the account, once for all calls that need it. It may take as long
// as creating a project takes.
func (s *Source) discover(ctx context.Context, token perigee.Secret) error {
	release, err := s.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s.SignIn().ProjectID != "" {
		return nil
	}
	project, err := s.roster.discoverer.Discover(ctx, token, nil)
	if err != nil {
		return err
	}
	s.replaceProject(ctx, "", project.ID)
	return nil
}

// FindProject looks the project up after the provider has refused one, and reports whether the
// account has another one now. An account that was brought from elsewhere may have come with the
// wrong one. One that was just looked up is not looked up again.
func (s *Source) FindProject(ctx context.Context, refused string) bool {
	release, err := s.takeTurn(ctx)
	if err != nil {
		return false
	}
	defer release()
	if s.SignIn().ProjectID != refused {
		return true // another call has found it, or the next token does
	}
	now := s.roster.now()
	s.mu.Lock()
	known := s.checked.project == refused && now.Sub(s.checked.at).Abs() < projectPause
	s.mu.Unlock()
	if known {
		return false
	}
	token, err := s.tokens.Token(ctx)
	if err != nil {
		return false
	}
	looking, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, due, err := s.roster.discoverer.Look(looking, token)
	if ctx.Err() != nil {
		return false
	}
	if err != nil || found.ID == "" && !due || found.ID == refused {
		s.mu.Lock()
		s.checked = lookup{refused, now, found.ID == refused}
		s.mu.Unlock()
		s.roster.logger.Debug("no other project found", "upstream", s.roster.upstream, "project", refused, "error", err)
		return false
	}
	s.replaceProject(ctx, refused, found.ID) // without one, the next token finds it
	s.roster.logger.Info("refused project replaced", "upstream", s.roster.upstream,
		"account", s.tokens.SignIn().Email, "refused", refused, "project", found.ID)
	return s.SignIn().ProjectID != refused
}

// replaceProject replaces the project wrong by one that was looked up, unless the account has
// another one by now. If the project cannot be stored, it is used all the same.
func (s *Source) replaceProject(ctx context.Context, wrong, project string) {
	s.mu.Lock()
	s.project, s.refusedProject = project, wrong
	s.checked = lookup{project, s.roster.now(), true}
	s.mu.Unlock()
	known, err := change(ctx, s.roster.store, s.roster.upstream, s.tokens.SignIn().Email, func(signIn *perigee.SignIn) bool {
		if signIn.ProjectID != wrong || !s.tokens.Covers(*signIn) {
			return false
		}
		signIn.ProjectID = project
		return true
	})
	switch {
	case err == nil:
		s.adopt(known)
	case !errors.Is(err, errNoAccount):
		s.roster.logger.Warn("project of an account not stored", "upstream", s.roster.upstream, "error", err)
	}
	s.roster.publishUpdate(s)
}

// doubtful reports whether a project was refused and could not be found to be the account's.
func (s *Source) doubtful(project string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return project != "" && s.checked.project == project && !s.checked.confirmed
}

// forgetProject has the project looked up again by the next call that needs it.
func (s *Source) forgetProject() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.project, s.refusedProject, s.checked = "", "", lookup{}
}

// forgetRefused removes projects that the provider refuses from accounts that are imported again
// without a project.
func (r *Roster) forgetRefused(ctx context.Context, signIns []perigee.SignIn) error {
	status, known := r.status(), byEmail(r.all())
	for _, brought := range signIns {
		a, s := status[brought.Email], known[brought.Email]
		refused := a.Refused
		if s != nil && s.doubtful(a.ProjectID) {
			refused = a.ProjectID
		}
		if refused == "" || brought.ProjectID != "" {
			continue
		}
		if _, err := change(ctx, r.store, r.upstream, brought.Email, func(s *perigee.SignIn) bool {
			differs := s.ProjectID == refused
			s.ProjectID = ""
			return differs
		}); err != nil && !errors.Is(err, errNoAccount) {
			return err
		}
		if s != nil {
			s.forgetProject()
		}
	}
	return nil
}

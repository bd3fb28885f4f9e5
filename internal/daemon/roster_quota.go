package daemon

import (
	"context"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/verdict"
)

const (
	// quotaPause is how long a reading of an account's quota is good enough for choosing accounts, which looks
	// only while calls are made.
	quotaPause = 5 * time.Minute
	// quotaTime is how long asking for one account's may take.
	quotaTime = 30 * time.Second
)

// used notes that an account is being used, and has a look at its quota if nobody has for a while. That costs no tokens,
// and an account that nobody uses is never asked about; nor is one that there is no choice about.
func (r *roster) used(s *source) {
	if !r.watchQuota {
		return
	}
	now := r.now()
	s.mu.Lock()
	due := s.looked.IsZero() || now.Sub(s.looked) >= quotaPause || now.Before(s.looked)
	if due {
		s.looked = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sources) < 2 || r.base.Err() != nil {
		return
	}
	r.background.Go(func() {
		ctx, cancel := context.WithTimeout(r.base, quotaTime)
		defer cancel()
		if _, err := r.readQuota(ctx, s); err != nil && ctx.Err() == nil {
			r.logger.Debug("the quota of an account cannot be read", "upstream", r.upstream, "error", err)
		}
	})
}

// readQuota asks what an account has left, and lets the pool know.
func (r *roster) readQuota(ctx context.Context, s *source) ([]perigee.QuotaRow, error) {
	now := r.now()
	s.mu.Lock()
	s.looked = now
	s.mu.Unlock()
	rows, err := r.askQuota(ctx, s)
	if v, ok := verdict.Of(err); ok {
		r.pool.Report(s, v)
	}
	if err != nil {
		return nil, err
	}
	email := s.SignIn().Email
	of := func(pool string) (list []perigee.Quota) {
		for _, row := range rows {
			if row.Pool == pool {
				list = append(list, perigee.Quota{Account: email, Model: row.Model, Remaining: row.Remaining, ResetsAt: row.ResetsAt})
			}
		}
		return list
	}
	r.pool.ReportQuota(email, of(account.PoolAntigravity), now)
	r.pool.ReportCLIQuota(email, of(account.PoolCLI), now)
	return rows, nil
}

// look reads the quota of accounts in the background, for a pool in which calls find nobody.
func (r *roster) look(emails []string) <-chan struct{} {
	if !r.watchQuota {
		return nil
	}
	sources := byEmail(r.everybody())
	done, places := make(chan struct{}), make(chan struct{}, quotaAtOnce)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.base.Err() != nil {
		return nil
	}
	r.background.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(r.base, quotaTime)
		defer cancel()
		var asking sync.WaitGroup
		for _, email := range emails {
			s := sources[email]
			if s == nil {
				continue
			}
			places <- struct{}{}
			asking.Go(func() {
				defer func() { <-places }()
				if _, err := r.readQuota(ctx, s); err != nil && ctx.Err() == nil {
					r.logger.Debug("the quota of an account that rests cannot be read", "upstream", r.upstream, "error", err)
				}
			})
		}
		asking.Wait()
	})
	return done
}

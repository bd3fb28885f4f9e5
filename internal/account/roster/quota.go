package roster

import (
	"context"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
)

const (
	// quotaPause is how long a reading of an account's quota is good enough for choosing accounts,
	// which looks only while calls are made.
	quotaPause = 5 * time.Minute
	// quotaTime is how long asking for one account's may take.
	quotaTime = 30 * time.Second
)

// A QuotaReporter reads the remaining quota of an account from the provider: in the pool of the
// CLI, too, if cli is true.
type QuotaReporter interface {
	QuotaOf(ctx context.Context, s pool.Source, cli bool) ([]perigee.QuotaRow, error)
}

// ReadQuotaFrom sets the source of quota readings, and whether quota is read while accounts are
// used. It must be called before any other method.
func (r *Roster) ReadQuotaFrom(reporter QuotaReporter, watch bool) {
	r.quotas, r.watchQuota = reporter, watch
}

// readQuotaOnUse reads the quota of an account that is being used, in the background and every
// quotaPause at most. That costs no tokens. It does not read the quota of an unused account, or of
// an only account.
func (r *Roster) readQuotaOnUse(s *Source) {
	if !r.watchQuota {
		return
	}
	now, looked := r.now().UnixNano(), s.quotaReadAt.Load()
	due := looked == 0 || now < looked || now-looked >= int64(quotaPause)
	if !due || !s.quotaReadAt.CompareAndSwap(looked, now) { // each call comes here, so without a lock
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sources) > 1 {
		// The error is ignored: a roster that is closed reads nothing.
		_ = r.start(func(ctx context.Context) { r.tryReadQuota(ctx, s) })
	}
}

// start runs f in the background, with quotaTime to go, unless the roster is closed. r.mu is held.
func (r *Roster) start(f func(ctx context.Context)) error {
	if err := r.base.Err(); err != nil {
		return err
	}
	r.background.Go(func() {
		ctx, cancel := context.WithTimeout(r.base, quotaTime)
		defer cancel()
		f(ctx)
	})
	return nil
}

func (r *Roster) tryReadQuota(ctx context.Context, s *Source) {
	if _, err := r.readQuota(ctx, s); err != nil && ctx.Err() == nil {
		r.logger.Debug("quota not read", "upstream", r.upstream, "error", err)
	}
}

// eachSource calls f with each source, at most quotaAtOnce at the same time.
func eachSource(sources []*Source, f func(i int, s *Source)) {
	places := make(chan struct{}, quotaAtOnce)
	var running sync.WaitGroup
	for i, s := range sources {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			f(i, s)
		})
	}
	running.Wait()
}

// readQuota reads the remaining quota of an account, and reports it to the pool.
func (r *Roster) readQuota(ctx context.Context, s *Source) ([]perigee.QuotaRow, error) {
	now := r.now()
	s.quotaReadAt.Store(now.UnixNano())
	rows, err := r.quotas.QuotaOf(ctx, s, r.cli)
	if v, ok := providererr.Of(err); ok {
		r.pool.Report(s, v)
	}
	if err != nil {
		return nil, err
	}
	r.pool.ReportQuota(s.SignIn().Email, rows, now)
	r.history.add(rows, now)
	return rows, nil
}

// look reads the quota of accounts in the background, for a pool in which calls find no usable
// account.
func (r *Roster) look(emails []string) <-chan struct{} {
	if !r.watchQuota {
		return nil
	}
	sources := slices.DeleteFunc(r.all(), func(s *Source) bool { return !slices.Contains(emails, s.SignIn().Email) })
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.start(func(ctx context.Context) {
		defer close(done)
		eachSource(sources, func(_ int, s *Source) { r.tryReadQuota(ctx, s) })
	}) != nil {
		return nil
	}
	return done
}

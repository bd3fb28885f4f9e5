package account

import (
	"context"
	"errors"
	"slices"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

var _ Lender = (*Pool)(nil)

// A borrowing is a call on its way from account to account. It belongs to the goroutine of the call, which waits while others
// serve it under the pool's lock.
type borrowing struct {
	pool  *Pool
	want  Want
	group group
	lanes []*lane // in the order of the configured pools

	trail
	asking
}

// A trail is what a call has met so far.
type trail struct {
	member *member // who was asked last; nil: nobody yet
	lane   *lane
	spent  []spending    // whom the call has lost, and to what
	brief  bool          // who was asked last will be good again in a moment
	waited time.Duration // over all loans

	failed *member // whom the provider has failed with trouble of its own; nil: nobody yet
	again  bool    // that may have passed by now, so that the same account may be asked again

	refused    []*member // who had no access token when one was needed in the middle of a loan
	refusedErr error     // why, the last time
}

// An asking is one Next on its way.
type asking struct {
	began    instant
	deadline instant // until when it may wait

	looked   bool // it has had the quotas looked at
	overflow bool // the session's account is only busy, so the session stays bound to it

	tokenless []*member // whose access token could not be renewed
	failures  int       // how many of them were tried
	tokenErr  error     // why, the last time
	over      bool      // tokenErr is the answer
}

// Borrow begins to lend accounts to a call.
func (p *Pool) Borrow(want Want) Borrowing { return p.borrow(want) }

func (p *Pool) borrow(want Want) *borrowing {
	g := groupOf(want)
	return &borrowing{pool: p, want: want, group: g, lanes: p.byGroup[g]}
}

// Next lends an account that can be asked for what is wanted, and whose access token is good. A session stays with its
// account while that is usable. When nobody is usable but somebody will be in time, Next waits; those who came first
// are served first. Otherwise the error is a *perigee.Error that says what the accounts wait for, with the time after
// which to try again.
func (b *borrowing) Next(ctx context.Context) (Loan, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(b.lanes) == 0 {
		return nil, perigee.Errorf(perigee.ClassNotFound, "%s can only be asked from the pool %s", b.want.Model, PoolAntigravity).
			WithNext("add %s to pools of this upstream in the configuration", PoolAntigravity)
	}
	p := b.pool
	p.begin(b)
	p.recall(ctx, b)
	for {
		l, err := p.obtain(ctx, b)
		if err != nil && b.tokenErr != nil {
			return nil, b.tokenErr // it says more than that nobody is left
		}
		if err != nil {
			return nil, err
		}
		if !l.paused(ctx) {
			l.release()
			return nil, ctx.Err()
		}
		took, err := l.prepare(ctx)
		if err == nil {
			return l, nil
		}
		if b.want.Witness != nil && ctx.Err() == nil && !errors.Is(err, ErrLeftAlone) {
			b.want.Witness.WithoutToken(l, err, took)
		}
		if b.over {
			return nil, b.tokenErr
		}
	}
}

func (p *Pool) begin(b *borrowing) {
	p.mu.Lock()
	defer p.unlock()
	now := p.clock.read()
	b.asking = asking{began: now, deadline: now + max(0, p.opts.MaxWait-b.waited),
		tokenless: slices.Clone(b.refused), failures: len(b.refused), tokenErr: b.refusedErr}
}

// excludes says whether a call does not want an account, because its access token cannot be renewed.
func (b *borrowing) excludes(m *member) bool { return slices.Contains(b.tokenless, m) }

// remember notes who was asked last. What came of it is added by those who judge it.
func (t *trail) remember(l *loan) {
	t.member, t.lane, t.brief = l.member, l.lane, false
	t.waited += l.why.waited
}

// A spending is an account that was lost to a cause.
type spending struct {
	kind   verdict.Kind
	member *member
}

// spend notes that a call has lost a member to a cause, and says how many it has lost to it by now.
func (t *trail) spend(kind verdict.Kind, m *member) (lost int) {
	if !slices.Contains(t.spent, spending{kind, m}) {
		t.spent = append(t.spent, spending{kind, m})
	}
	for _, s := range t.spent {
		if s.kind == kind {
			lost++
		}
	}
	return lost
}

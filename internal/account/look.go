package account

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// What follows is how rests that the provider has told are doubted. It says when a quota returns, which may be a week from
// now, and now and then some returns before that: a window is reset, or the owner has bought more.

const (
	// lookEvery is how often at most the quota of an account that rests is asked for, because calls find nobody.
	lookEvery = time.Minute
	// lookAfterLie is how long it is not after figures have woken an account that still had to rest.
	lookAfterLie = 15 * time.Minute
	// lookWait is how long a call waits for the figures, if it may wait at all.
	lookWait = 5 * time.Second
	// believed is how long what the provider told about a rest is believed without asking again.
	believed = time.Hour
)

// A Look asks the provider what accounts have left, and reports it to the pool. It returns at once, with a channel that is
// closed when all is reported; nil: it does not look.
type Look func(emails []string) <-chan struct{}

// look has the quota of those looked at who could not be lent to a call because theirs was used up. It returns what to wait
// for; nil: nothing. It is called without the lock.
func (p *Pool) look(b *borrowing) <-chan struct{} {
	if p.opts.Look == nil || b.looked {
		return nil
	}
	b.looked = true
	p.mu.Lock()
	emails, running := p.doubtful(b, p.advance()), p.looking
	p.mu.Unlock()
	if len(emails) == 0 {
		return running // somebody else's is as good
	}
	done := p.opts.Look(emails)
	if done == nil {
		return nil
	}
	p.mu.Lock()
	p.looking = done
	p.mu.Unlock()
	return done
}

// doubtful is whose quota may have returned, for all that is known, and was not asked for lately.
func (p *Pool) doubtful(b *borrowing, now instant) (emails []string) {
	if p.brake.until > 0 {
		return nil // nobody is to be asked for anything
	}
	for _, m := range p.members {
		if !m.inUse() || m.lookAt > now {
			continue
		}
		for _, l := range b.lanes {
			if s := &m.slots[l.id]; s.active(now) && usedUp(s.kind) && s.since+lookEvery <= now {
				m.lookAt = now + lookEvery
				emails = append(emails, m.email)
				break
			}
		}
	}
	return emails
}

func usedUp(kind verdict.Kind) bool { return kind == verdict.KindQuota || kind == verdict.KindCredits }

// awaitLook waits for figures as long as the call may, and says whether there are any.
func (p *Pool) awaitLook(ctx context.Context, b *borrowing, done <-chan struct{}) bool {
	p.mu.Lock()
	left := min(b.deadline-p.clock.read(), lookWait)
	p.mu.Unlock()
	if done == nil || left <= 0 {
		return false
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// ReportCLIQuota is ReportQuota for PoolCLI, whose figures are good for nothing but to end rests: not all models have one.
func (p *Pool) ReportCLIQuota(email string, list []perigee.Quota, at time.Time) {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	age := max(0, p.opts.Now().Sub(at))
	m := p.find(email)
	if m == nil || age >= quotaAge || len(list) == 0 {
		return
	}
	least, known := list[0].Remaining, map[string]float64{}
	for _, q := range list {
		least = min(least, q.Remaining)
		known[q.Model] = q.Remaining
	}
	for _, l := range p.lanes {
		if l.pool == PoolCLI {
			left, ok := known[m.slots[l.id].model]
			if !ok {
				left = least
			}
			p.returned(m, l, left, now-age, now)
		}
	}
}

// wokenInVain notes that an account was woken because of figures that were wrong: its quota is used up as before.
func (m *member) wokenInVain(s *slot, now instant) {
	if s.wokenAt > 0 && now-s.wokenAt < lookEvery {
		m.lookAt = max(m.lookAt, now+lookAfterLie)
	}
}

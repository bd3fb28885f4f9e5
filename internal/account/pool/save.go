package pool

import (
	"context"
	"time"

	"perigee"
)

// saveTime is how long storing one value may take.
const saveTime = 10 * time.Second

// A cooldownKey identifies a stored cooldown.
type cooldownKey struct{ upstream, email, family, pool string }

type storedCooldown struct {
	cooldownKey
	perigee.Cooldown
}

// saveCooldowns stores cooldowns once: a later answer of the provider starts a cooldown that was
// not stored again.
func (p *Pool) saveCooldowns(ctx context.Context, batch []storedCooldown) error {
	for _, c := range batch {
		p.saveOnce(ctx, "cooldown", func(ctx context.Context) error {
			return p.opts.Store.SaveCooldown(ctx, c.upstream, c.email, c.Cooldown)
		})
	}
	return nil
}

// saveSessions stores the bindings of sessions, except for those forgotten since.
func (p *Pool) saveSessions(ctx context.Context, batch []sessionKey) error {
	for _, key := range batch {
		p.mu.Lock()
		b, known := p.boundTo(key)
		p.mu.Unlock()
		if known {
			p.saveOnce(ctx, "session", func(ctx context.Context) error {
				return p.opts.Sessions.SaveSession(ctx, key.session, string(key.group), b.member.email, b.group.pool)
			})
		}
	}
	return nil
}

func (p *Pool) saveOnce(ctx context.Context, what string, save func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := save(ctx); err != nil {
		p.opts.Logger.Debug(what+" not stored", "error", err)
	}
}

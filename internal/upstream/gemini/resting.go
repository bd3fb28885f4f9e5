package gemini

import (
	"fmt"
	"time"
)

// Resting says why the provider would refuse a call for a model now: each API key has a cooldown, the first until the returned time.
// It is empty if a key has none.
func (u *Upstream) Resting(string) (why string, until time.Time) {
	now := u.opts.Now()
	u.keys.mu.Lock()
	defer u.keys.mu.Unlock()
	for _, k := range u.keys.keys {
		if !k.until.After(now) {
			return "", time.Time{}
		}
		if until.IsZero() || k.until.Before(until) {
			until = k.until
		}
	}
	if len(u.keys.keys) == 1 {
		return "the provider has limited its API key", until
	}
	return fmt.Sprintf("the provider has limited its %d API keys", len(u.keys.keys)), until
}

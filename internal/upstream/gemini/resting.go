package gemini

import (
	"fmt"
	"time"
)

// Resting says why the provider would refuse a call for a model now: each API key has a cooldown, the first until the returned time.
// It is empty if a key has none.
func (u *Upstream) Resting(model string) (why string, until time.Time) {
	now, q := u.opts.Now(), quotaOf(model, "")
	u.keys.mu.Lock()
	defer u.keys.mu.Unlock()
	for _, k := range u.keys.keys {
		rest := k.rest(q, now)
		if rest == 0 {
			return "", time.Time{}
		}
		if end := now.Add(rest); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	if len(u.keys.keys) == 1 {
		return "the provider has limited its API key", until
	}
	return fmt.Sprintf("the provider has limited its %d API keys", len(u.keys.keys)), until
}

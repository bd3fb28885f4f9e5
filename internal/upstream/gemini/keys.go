package gemini

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
)

// A keyring chooses among API keys: always the first that is not cooling, because the provider's prompt
// cache belongs to the key's project.
type keyring struct {
	mu   sync.Mutex
	keys []*key
}

type key struct {
	number int // its place in the configuration, from 1: what logs may say of it
	secret perigee.Secret
	until  time.Time // resting until then

	rejected atomic.Bool // the provider's last word about the key was that it is not valid
}

func newKeyring(secrets []perigee.Secret) *keyring {
	ring := &keyring{}
	for i, secret := range secrets {
		ring.keys = append(ring.keys, &key{number: i + 1, secret: secret})
	}
	if len(ring.keys) == 0 { // the simulator takes calls without one
		ring.keys = []*key{{number: 1}}
	}
	return ring
}

// minRedacted is how long a key must be to be looked for in texts: shorter ones are words.
const minRedacted = 12

// redact takes the keys out of what the provider said. Some repeat the key that they refuse, and what they say
// goes to clients, into the record and into the log.
func (r *keyring) redact(text string) string {
	for _, k := range r.keys {
		if secret := k.secret.Reveal(); len(secret) >= minRedacted {
			text = strings.ReplaceAll(text, secret, k.secret.String())
		}
	}
	return text
}

// order returns the keys to try: the rested ones as configured, then the resting ones, soonest first, since
// a refusal that says when it ends is a better answer than none.
func (r *keyring) order(now time.Time) []*key {
	if len(r.keys) == 1 {
		return r.keys
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	order := make([]*key, 0, len(r.keys))
	var soonest *key
	for _, k := range r.keys {
		switch {
		case !k.until.After(now):
			order = append(order, k)
		case soonest == nil || k.until.Before(soonest.until):
			soonest = k
		}
	}
	if len(order) == 0 {
		order = append(order, soonest)
	}
	return order
}

// maxRest is after how long a key is tried again in any case: providers have been wrong about it.
const maxRest = time.Hour

// blame says whether an error is the key's own, and lets that key rest for a while.
func (r *keyring) blame(k *key, err *perigee.Error, now time.Time) bool {
	var rest time.Duration
	switch err.Class {
	case perigee.ClassRateLimited:
		rest = max(err.Retry, time.Second)
	case perigee.ClassExhausted:
		rest = max(err.Retry, time.Minute)
	case perigee.ClassUnauthenticated, perigee.ClassForbidden:
		rest = time.Minute
	default:
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k.until = now.Add(min(rest, maxRest))
	k.rejected.Store(err.Class == perigee.ClassUnauthenticated)
	return true
}

// accepted notes that a call with the key was answered.
func (k *key) accepted() {
	if k.rejected.Load() {
		k.rejected.Store(false)
	}
}

// allRejected reports whether the provider has called every key invalid a short time ago. After that time the next call
// finds out whether they still are.
func (r *keyring) allRejected(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		if !k.rejected.Load() || !k.until.After(now) {
			return false
		}
	}
	return true
}

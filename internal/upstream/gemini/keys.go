package gemini

import (
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/redact"
)

// A keyring chooses among API keys: always the first that has no cooldown, because the provider's prompt cache belongs to the
// key's project.
type keyring struct {
	mu     sync.Mutex
	keys   []*key
	secret *redact.Redactor // of the keys: some providers repeat the key that they refuse
}

type key struct {
	number int // its place in the configuration, from 1: what logs may say of it
	secret perigee.Secret
	until  time.Time // end of its cooldown

	rejected atomic.Bool // the provider's last word about the key was that it is not valid
}

func newKeyring(secrets []perigee.Secret) *keyring {
	ring := &keyring{}
	var long []perigee.Secret
	for i, secret := range secrets {
		ring.keys = append(ring.keys, &key{number: i + 1, secret: secret})
		if len(secret.Reveal()) >= minRedacted {
			long = append(long, secret)
		}
	}
	ring.secret = redact.New(long...)
	if len(ring.keys) == 0 { // the simulator takes calls without one
		ring.keys = []*key{{number: 1}}
	}
	return ring
}

// minRedacted is how long a key must be to be replaced in what the provider says: shorter ones are words.
const minRedacted = 12

// order returns the keys to try: those without a cooldown as configured, or else the one whose cooldown ends first, since its
// refusal names the delay.
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

// maxRest is the longest cooldown of a key: providers have named wrong delays.
const maxRest = time.Hour

// coolDown starts the cooldown of a key after an error that is about the key, and says whether it is.
func (r *keyring) coolDown(k *key, err *perigee.Error, now time.Time) bool {
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

package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
)

// A keyring chooses among API keys: always the first that has no cooldown, because the provider's
// prompt cache belongs to the key's project, or one after the other if roundRobin is set.
type keyring struct {
	roundRobin bool

	mu   sync.Mutex
	keys []*key
	next int // the position of the key for the next call, if roundRobin is set
	// removes the keys from messages: some providers repeat the key that they refuse
	secret *redact.Redactor
}

// A key is an API key. All fields but the first two are the keyring's.
type key struct {
	number int // its position in the configuration, from 1, by which logs name it
	secret perigee.Secret

	until  time.Time           // end of its cooldown for everything
	models map[quota]time.Time // ends of its cooldowns for single quotas
	// end of the time for which the key counts as invalid; zero if it is valid
	rejected time.Time
}

// A quota is the scope of a provider limit within a key's project: calls of one operation of a
// model. The zero value is the quota of calls without a model, such as the list of models.
type quota struct {
	model     string
	operation string // empty for answers, streamed or not
}

// newKeyring returns a keyring with these keys. Messages must not contain them, nor the secrets in
// also.
func newKeyring(secrets []perigee.Secret, also ...perigee.Secret) *keyring {
	ring := &keyring{}
	long := also
	for i, secret := range secrets {
		ring.keys = append(ring.keys, &key{number: i + 1, secret: secret})
		if len(secret.Reveal()) >= minRedacted {
			long = append(long, secret)
		}
	}
	ring.secret = redact.New(long...)
	if len(ring.keys) == 0 { // the simulator accepts calls without one
		ring.keys = []*key{{number: 1}}
	}
	return ring
}

// clean returns text of the provider without the keys, also where they are escaped as in JSON. It may
// be the text itself.
func (r *keyring) clean(text []byte) []byte { return r.secret.Clean(text) }

// cleanText is clean for a string.
func (r *keyring) cleanText(text string) string { return string(r.clean([]byte(text))) }

// minRedacted is the minimum length of a key that is replaced in messages of the provider: shorter
// ones, such as none, dummy or ollama, are placeholders for servers that need no key.
const minRedacted = 7

// order returns the keys in the order in which to try them for a quota: keys without a cooldown as
// configured, beginning with the next one if roundRobin is set, then keys with one, by its end. A cooldown is an estimate, so a key with one is
// still tried if no other key answers.
func (r *keyring) order(q quota, now time.Time) []*key {
	if len(r.keys) == 1 {
		return r.keys
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	order := slices.Clone(r.keys)
	if r.roundRobin && q != (quota{}) {
		order = append(order[r.next:], r.keys[:r.next]...)
		r.next = (r.next + 1) % len(r.keys)
	}
	slices.SortStableFunc(order, func(a, b *key) int { return cmp.Compare(a.rest(q, now), b.rest(q, now)) })
	return order
}

// rest returns the remaining cooldown of a key for a quota. The caller holds the lock of the
// keyring.
func (k *key) rest(q quota, now time.Time) time.Duration {
	return max(0, k.until.Sub(now), k.models[q].Sub(now))
}

const (
	// the longest cooldown of a key: providers have reported wrong delays
	maxRest      = time.Hour
	rejectedRest = time.Minute // the cooldown of a key that is not valid
	// quotas with a cooldown per key; bounded because clients choose the names of models
	maxRests = 256
)

// coolDown starts the cooldown of a key after an error, and reports whether the call may succeed
// with another key. A rate limit applies to one quota. Only an error about the key itself starts a
// cooldown for all quotas, and a refused list of models starts none: the list has limits and
// permissions of its own.
func (r *keyring) coolDown(k *key, q quota, err *perigee.Error, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch err.Class {
	case perigee.ClassRateLimited, perigee.ClassExhausted:
		if q != (quota{}) {
			maps.DeleteFunc(k.models, func(_ quota, until time.Time) bool { return !until.After(now) })
			if k.models == nil || len(k.models) >= maxRests {
				k.models = map[quota]time.Time{}
			}
			k.models[q] = now.Add(min(delayOf(err), maxRest))
		}
	case perigee.ClassUnauthenticated:
		k.rejected = now.Add(rejectedRest)
		if q != (quota{}) {
			k.until = k.rejected
		}
	case perigee.ClassForbidden:
		if q != (quota{}) && namesKey(err) {
			k.until = now.Add(rejectedRest)
		}
	default:
		return false
	}
	return true
}

// delayOf returns the time after which a key that was rate limited may be tried again.
func delayOf(err *perigee.Error) time.Duration {
	if err.Class == perigee.ClassExhausted {
		return max(err.Retry, time.Minute)
	}
	return max(err.Retry, time.Second)
}

// namesKey reports whether the provider forbids a call because of the key or its project.
// Otherwise the key may be good for the next request: the file, cache or model that this one names
// may belong to another project.
func namesKey(err *perigee.Error) bool {
	text := strings.ToLower(err.Message)
	for _, detail := range err.Details {
		text += strings.ToLower(string(detail))
	}
	return slices.ContainsFunc([]string{"api key", "api_key", "consumer", "service_disabled", "billing_disabled"},
		func(word string) bool { return strings.Contains(text, word) })
}

// moreHelpful returns the error that helps a client more, of two errors of the same call with
// different keys. A rate limit ends by itself, and the one that ends first counts; then come
// errors of the request itself, and last a key that the client cannot change.
func moreHelpful(a, b *perigee.Error) *perigee.Error {
	if a == nil {
		return b
	}
	rank := func(e *perigee.Error) int {
		switch {
		case e.Class == perigee.ClassRateLimited || e.Class == perigee.ClassExhausted:
			return 2
		case e.Class == perigee.ClassForbidden && !namesKey(e):
			return 1
		}
		return 0
	}
	if rank(a) > rank(b) || rank(a) == 2 && rank(b) == 2 && delayOf(a) <= delayOf(b) {
		return a
	}
	return b
}

// markAccepted records that a call with the key was answered: it ends the key's rejection and the
// cooldown of this quota.
func (r *keyring) markAccepted(k *key, q quota) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k.rejected = time.Time{}
	if q != (quota{}) {
		k.until = time.Time{}
		delete(k.models, q)
	}
}

// allRejected reports whether the provider has recently rejected every key as invalid. After that
// time the next call tries them again.
func (r *keyring) allRejected(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.keys, func(k *key) bool { return !k.rejected.After(now) })
}

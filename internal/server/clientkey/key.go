// Package clientkey holds the keys that clients present: which key a request has, what it permits,
// and how much of its limits is used. It also slows down addresses that send wrong keys.
package clientkey

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/match"
)

// A Key is a key that clients present, with its permissions and limits. A zero limit means no
// limit.
type Key struct {
	Name         string
	Secret       perigee.Secret
	Models       []string // patterns; empty means all
	RPM          int
	TokensPerDay int64
	CostPerDay   float64 // in US dollars
	Concurrency  int
	Expires      time.Time
}

// A Guarded is a key and the current use of its limits.
type Guarded struct {
	Key
	digest   [sha256.Size]byte
	use      *keyUse
	Refusals *Refusals
}

type keyUse struct {
	mu       sync.Mutex
	allowed  float64 // requests left in the bucket
	refilled time.Time
	// refused is the time until which, as far as is known, all servers together have no request
	// left.
	refused time.Time
	active  int
	spent   daySpent
}

// Guard returns the keys. A key keeps the use of the key in before with the same name.
func Guard(keys []Key, before []*Guarded) []*Guarded {
	var list []*Guarded
	for _, k := range keys {
		g := &Guarded{Key: k, digest: sha256.Sum256([]byte(k.Secret.Reveal())), use: &keyUse{allowed: float64(k.RPM)},
			Refusals: NewRefusals()}
		for _, old := range before {
			if old.Name == k.Name {
				g.use, g.Refusals = old.use, old.Refusals
				g.use.refill(old.RPM, k.RPM)
			}
		}
		list = append(list, g)
	}
	return list
}

// Find returns the key that is among the offers of a client. All keys are compared, each in
// constant time, so that the time taken reveals nothing about them. If the key has expired, Find
// returns both the key and an error.
func Find(keys []*Guarded, offers []string, now time.Time) (*Guarded, error) {
	var found *Guarded
	for _, offer := range offers {
		digest := sha256.Sum256([]byte(offer))
		for _, k := range keys {
			if subtle.ConstantTimeCompare(digest[:], k.digest[:]) == 1 && (found == nil || found.expired(now)) {
				found = k
			}
		}
	}
	switch {
	case found == nil && len(offers) == 0:
		return nil, Bad("a key is required").WithHint(sendOne)
	case found == nil:
		return nil, Bad("unknown key").WithHint(sendOne)
	case found.expired(now):
		return found, Bad("the key %s expired at %s", found.Name, found.Expires.Format(time.RFC3339)).
			WithHint("set a later expires for it in perigee's configuration")
	}
	return found, nil
}

const sendOne = "send one of the keys in perigee's configuration as Authorization: Bearer, x-api-key or x-goog-api-key"

// Bad returns the error about a key, an admin token or a session that is missing or wrong.
func Bad(format string, args ...any) *perigee.Error {
	e := perigee.Errorf(perigee.ClassUnauthenticated, format, args...)
	e.Cause = perigee.ErrBadKey
	return e
}

func (k *Guarded) expired(now time.Time) bool {
	return !k.Expires.IsZero() && !now.Before(k.Expires)
}

// Allows reports whether a key may be used for a model. Names that no model can have are not
// allowed, although * matches them.
func (k *Guarded) Allows(model string) bool {
	for _, pattern := range k.Models {
		if match.Pattern(pattern, model) {
			return CheckModel(model) == nil
		}
	}
	return len(k.Models) == 0
}

// Acquire counts a call of the key as running, until the caller calls Release. Each server counts
// for itself: a count for several would take two writes for each call, and would have to find the
// calls that have died with their server.
func (k *Guarded) Acquire() error {
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	if k.Concurrency > 0 && u.active >= k.Concurrency {
		e := perigee.Errorf(perigee.ClassRateLimited, "key %s has reached its concurrency limit (%d)", k.Name, k.Concurrency).
			WithHint("wait for a call to end, or raise its concurrency")
		e.Retry = time.Second
		return e
	}
	u.active++
	return nil
}

// Release ends a call that was counted by Acquire.
func (k *Guarded) Release() {
	k.use.mu.Lock()
	defer k.use.mu.Unlock()
	k.use.active--
}

// Offered returns the keys that a request contains, in any of the forms that clients use. If inURL
// is true, keys in the URL are included.
func Offered(r *http.Request, inURL bool) []string {
	var list []string
	if bearer, ok := Bearer(r); ok {
		list = append(list, bearer)
	}
	for _, header := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if v := r.Header.Get(header); v != "" {
			list = append(list, v)
		}
	}
	if inURL && strings.Contains(r.URL.RawQuery, "key=") {
		if v := r.URL.Query().Get("key"); v != "" {
			list = append(list, v)
		}
	}
	return list
}

// Bearer returns the token in the Authorization header.
func Bearer(r *http.Request) (token string, ok bool) {
	const scheme = "bearer "
	value := r.Header.Get("Authorization")
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", false
	}
	return strings.TrimSpace(value[len(scheme):]), true
}

// maxRefusals is how many refused requests of a key are recorded in a minute, or of all requests
// without one. A refusal costs the client nothing, and rows are kept for months: a client that does
// not stop would fill the disk, and displace the rows of calls that cost something while the
// database is slow.
const maxRefusals = 60

// Refusals bounds the refused requests that are recorded.
type Refusals struct{ use keyUse }

// NewRefusals returns a bound of which nothing is used.
func NewRefusals() *Refusals { return &Refusals{keyUse{allowed: maxRefusals}} }

// Record reports whether another refusal is to be recorded.
func (r *Refusals) Record(now time.Time) bool { return r.use.take(1, maxRefusals, now) == 0 }

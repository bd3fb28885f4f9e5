package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	"perigee"
	"perigee/internal/names"
)

// A Key is what a client must present, and what it may do with it. Zero limits are none.
type Key struct {
	Name         string
	Secret       perigee.Secret
	Models       []string // patterns; empty: all
	RPM          int
	TokensPerDay int64
	Concurrency  int
	Expires      time.Time
}

// A guardedKey is a key and what has been used of it.
type guardedKey struct {
	Key
	digest   [sha256.Size]byte
	use      *keyUse
	refusals *keyUse // of its requests that are put on record
}

type keyUse struct {
	mu       sync.Mutex
	allowed  float64 // requests left in the bucket
	refilled time.Time
	refused  time.Time // until when there is not one request left over all servers, as far as is known
	active   int
	spent    int64 // tokens today, as of asked
	asked    time.Time
	asking   bool // somebody finds out how many they are now
}

// spentFresh is how long a reading of the tokens spent today is believed.
const spentFresh = 2 * time.Second

func guardKeys(keys []Key, before []*guardedKey) []*guardedKey {
	var list []*guardedKey
	for _, k := range keys {
		g := &guardedKey{Key: k, digest: sha256.Sum256([]byte(k.Secret.Reveal())), use: &keyUse{allowed: float64(k.RPM)},
			refusals: &keyUse{allowed: recordedRefusals}}
		for _, old := range before {
			if old.Name == k.Name {
				g.use, g.refusals = old.use, old.refusals
				g.use.refill(old.RPM, k.RPM)
			}
		}
		list = append(list, g)
	}
	return list
}

// authenticate finds the key that the client presented. All keys are compared, each in constant time, so that
// the time taken tells nothing about them.
func (c *call) authenticate() error {
	if c.trusted || len(c.state.keys) == 0 {
		return nil
	}
	offers := presented(c.r)
	for _, offer := range offers {
		digest := sha256.Sum256([]byte(offer))
		for _, k := range c.state.keys {
			if subtle.ConstantTimeCompare(digest[:], k.digest[:]) == 1 && (c.key == nil || c.key.expired(c.opts.Now())) {
				c.key = k
			}
		}
	}
	if c.key == nil {
		e := perigee.Errorf(perigee.ClassUnauthenticated, "this key is not known here")
		if len(offers) == 0 {
			e = perigee.Errorf(perigee.ClassUnauthenticated, "a key is required")
		}
		return e.WithNext("send one of the keys in perigee's configuration as Authorization: Bearer, x-api-key, x-goog-api-key or ?key=")
	}
	if c.key.expired(c.opts.Now()) {
		return perigee.Errorf(perigee.ClassUnauthenticated, "the key %s expired at %s", c.key.Name, c.key.Expires.Format(time.RFC3339)).
			WithNext("set a later expires for it in perigee's configuration")
	}
	return nil
}

func (k *guardedKey) expired(now time.Time) bool {
	return !k.Expires.IsZero() && !now.Before(k.Expires)
}

// admit applies the limits of the key to a call for a model. The caller calls release when the call is over.
func (c *call) admit(model string) (release func(), err error) { return c.admitSeveral(model, 1) }

// admitSeveral is admit for a call that makes several requests of the model.
func (c *call) admitSeveral(model string, requests int) (release func(), err error) {
	c.model = model
	k := c.key
	if k == nil {
		return func() {}, nil
	}
	// A pattern may mean the name that the client uses, or the model behind it.
	if behind := c.opts.Model(model); !k.mayAsk(cmp.Or(model, behind)) && !k.mayAsk(behind) {
		return nil, perigee.Errorf(perigee.ClassForbidden, "the key %s may not ask the model %q", k.Name, shorten(model)).
			WithNext("its models in perigee's configuration list the patterns that it may")
	}
	if err := k.checkTokens(c.r.Context(), c.opts.Usage, c.opts.Now()); err != nil {
		return nil, err
	}
	if err := k.takePlace(); err != nil {
		return nil, err
	}
	if err := c.takeRequests(k, requests); err != nil {
		k.leave()
		return nil, err
	}
	return k.leave, nil
}

// letIn is admitSeveral for a request whose model stood in its body: it also accounts for the parameters of the URL, and
// objects to what would be lost where the owner is strict.
func (c *call) letIn(origin *perigee.Origin, model string, requests int) (release func(), err error) {
	origin.Notes = append(origin.Notes, queryNotes(c.r.URL)...)
	release, err = c.admitSeveral(model, requests)
	if err != nil {
		return nil, err
	}
	if err := origin.Object(origin.Notes); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (k *guardedKey) mayAsk(model string) bool {
	for _, pattern := range k.Models {
		if names.Match(pattern, model) {
			return true
		}
	}
	return len(k.Models) == 0
}

// takePlace takes one of the key's places. The caller gives it back with leave. Places are counted by each server for itself:
// who counts them for several has to write twice for each call, and to find out whose calls have died with their server.
func (k *guardedKey) takePlace() error {
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	if k.Concurrency > 0 && u.active >= k.Concurrency {
		e := perigee.Errorf(perigee.ClassRateLimited, "the key %s has as many calls open as it may: %d", k.Name, k.Concurrency).
			WithNext("wait for one to end, or raise its concurrency")
		e.Retry = time.Second
		return e
	}
	u.active++
	return nil
}

func (k *guardedKey) leave() {
	k.use.mu.Lock()
	defer k.use.mu.Unlock()
	k.use.active--
}

// checkTokens refuses a key that has spent its tokens of the day. The day is UTC's, as in the usage list.
func (k *guardedKey) checkTokens(ctx context.Context, usage perigee.UsageReader, now time.Time) error {
	if k.TokensPerDay == 0 || usage == nil {
		return nil
	}
	midnight := now.UTC().Truncate(24 * time.Hour)
	spent, err := k.use.spentSince(ctx, midnight, usage, k.Name, now)
	if err != nil {
		return err
	}
	if spent < k.TokensPerDay {
		return nil
	}
	e := perigee.Errorf(perigee.ClassExhausted, "the key %s has spent its %d tokens of the day", k.Name, k.TokensPerDay).
		WithNext("wait for tomorrow (UTC), or raise its tokens_per_day")
	e.Retry = midnight.Add(24 * time.Hour).Sub(now)
	return e
}

// spentSince is what a key has spent since midnight, as of a moment ago. The lock is not held while the database is asked, as every call
// of the key needs it, also to end; nor is a database that does not answer waited for, or a client that has left by then:
// what was known before is believed for longer, if it is of the same day.
func (u *keyUse) spentSince(ctx context.Context, midnight time.Time, usage perigee.UsageReader, key string, now time.Time) (int64, error) {
	u.mu.Lock()
	known := !u.asked.Before(midnight)
	if known && (u.asking || now.Sub(u.asked).Abs() <= spentFresh) {
		defer u.mu.Unlock()
		return u.spent, nil
	}
	u.asking = true
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
	defer cancel()
	rows, err := usage.Usage(ctx, perigee.UsageQuery{By: perigee.ByKey, Since: midnight, Key: key})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asking = false
	if err != nil {
		if known = !u.asked.Before(midnight); !known {
			return 0, err
		}
		u.asked = now
		return u.spent, nil
	}
	u.spent, u.asked = 0, now
	for _, row := range rows {
		u.spent += row.InputTokens + row.OutputTokens
	}
	return u.spent, nil
}

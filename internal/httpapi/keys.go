package httpapi

import (
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
	digest [sha256.Size]byte
	use    *keyUse
}

type keyUse struct {
	mu       sync.Mutex
	allowed  float64 // requests left in the bucket
	refilled time.Time
	active   int
	spent    int64 // tokens today, as of asked
	asked    time.Time
}

// refill gives a key whose limit was changed a full bucket.
func (u *keyUse) refill(before, now int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if before != now {
		u.allowed, u.refilled = float64(now), time.Time{}
	}
}

// spentFresh is how long a reading of the tokens spent today is believed.
const spentFresh = 2 * time.Second

func guardKeys(keys []Key, before []*guardedKey) []*guardedKey {
	var list []*guardedKey
	for _, k := range keys {
		g := &guardedKey{Key: k, digest: sha256.Sum256([]byte(k.Secret.Reveal())), use: &keyUse{allowed: float64(k.RPM)}}
		for _, old := range before {
			if old.Name == k.Name {
				g.use = old.use
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
func (c *call) admit(model string) (release func(), err error) {
	k := c.key
	if k == nil {
		return func() {}, nil
	}
	if model == "" {
		model = c.state.Default
	}
	// A pattern may mean the name that the client uses, or the model behind it.
	if !k.mayAsk(model) && !k.mayAsk(c.behindAlias(model)) {
		return nil, perigee.Errorf(perigee.ClassForbidden, "the key %s may not ask the model %q", k.Name, shorten(model)).
			WithNext("its models in perigee's configuration list the patterns that it may")
	}
	if err := k.checkTokens(c.r.Context(), c.opts.Usage, c.opts.Now()); err != nil {
		return nil, err
	}
	return k.enter(c.opts.Now())
}

// letIn is admit for a request whose model stood in its body: it also accounts for the parameters of the URL, and
// objects to what would be lost where the owner is strict.
func (c *call) letIn(origin *perigee.Origin, model string) (release func(), err error) {
	origin.Notes = append(origin.Notes, queryNotes(c.r.URL)...)
	release, err = c.admit(model)
	if err != nil {
		return nil, err
	}
	if err := origin.Object(origin.Notes); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// behindAlias follows aliases to their end, as routing does.
func (c *call) behindAlias(model string) string {
	for range len(c.state.Aliases) {
		next, ok := c.state.Aliases[model]
		if !ok {
			break
		}
		model = next
	}
	return model
}

// admitMore takes n further requests out of the key's bucket, for a call that makes several.
func (c *call) admitMore(n int) error {
	k := c.key
	if k == nil || k.RPM == 0 || n <= 0 {
		return nil
	}
	k.use.mu.Lock()
	defer k.use.mu.Unlock()
	if k.use.allowed < float64(n) {
		e := perigee.Errorf(perigee.ClassRateLimited, "the key %s may make %d requests a minute, and this call makes %d more", k.Name, k.RPM, n).
			WithNext("ask for fewer at once, or raise its rpm")
		e.Retry = time.Duration((float64(n) - k.use.allowed) / (float64(k.RPM) / float64(time.Minute)))
		return e
	}
	k.use.allowed -= float64(n)
	return nil
}

func (k *guardedKey) mayAsk(model string) bool {
	for _, pattern := range k.Models {
		if names.Match(pattern, model) {
			return true
		}
	}
	return len(k.Models) == 0
}

// enter takes one request out of the key's bucket and one of its places.
func (k *guardedKey) enter(now time.Time) (release func(), err error) {
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	if k.Concurrency > 0 && u.active >= k.Concurrency {
		e := perigee.Errorf(perigee.ClassRateLimited, "the key %s has as many calls open as it may: %d", k.Name, k.Concurrency).
			WithNext("wait for one to end, or raise its concurrency")
		e.Retry = time.Second
		return nil, e
	}
	if k.RPM > 0 {
		rate := float64(k.RPM) / float64(time.Minute)
		if !u.refilled.IsZero() {
			u.allowed = min(float64(k.RPM), u.allowed+rate*float64(max(0, now.Sub(u.refilled))))
		}
		u.refilled = now
		if u.allowed < 1 {
			wait := time.Duration((1 - u.allowed) / rate)
			e := perigee.Errorf(perigee.ClassRateLimited, "the key %s may make %d requests a minute", k.Name, k.RPM).
				WithNext("wait %s, or raise its rpm", (wait + time.Second - 1).Truncate(time.Second))
			e.Retry = wait
			return nil, e
		}
		u.allowed--
	}
	u.active++
	return func() {
		u.mu.Lock()
		u.active--
		u.mu.Unlock()
	}, nil
}

// checkTokens refuses a key that has spent its tokens of the day. The day is UTC's, as in the usage list.
func (k *guardedKey) checkTokens(ctx context.Context, usage perigee.UsageReader, now time.Time) error {
	if k.TokensPerDay == 0 || usage == nil {
		return nil
	}
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	midnight := now.UTC().Truncate(24 * time.Hour)
	if now.Sub(u.asked).Abs() > spentFresh || u.asked.Before(midnight) {
		rows, err := usage.Usage(ctx, perigee.UsageQuery{By: perigee.ByKey, Since: midnight, Key: k.Name})
		if err != nil {
			return err
		}
		u.spent, u.asked = 0, now
		for _, row := range rows {
			u.spent += row.InputTokens + row.OutputTokens
		}
	}
	if u.spent < k.TokensPerDay {
		return nil
	}
	e := perigee.Errorf(perigee.ClassExhausted, "the key %s has spent its %d tokens of the day", k.Name, k.TokensPerDay).
		WithNext("wait for tomorrow (UTC), or raise its tokens_per_day")
	e.Retry = midnight.Add(24 * time.Hour).Sub(now)
	return e
}

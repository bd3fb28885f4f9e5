package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
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
	tokens   dayTokens
}

// dayTokens is what is known about the tokens of a day. The lock of the keyUse guards it.
type dayTokens struct {
	day   time.Time // its first moment, in UTC; zero: nothing is known
	read  int64     // what was in the store when it was asked,
	saved int64     // with at least so much of it by this process
	asked time.Time // when that was, or when the store last failed; zero: not on this day
	query *tokenQuery
}

// A tokenQuery is a question to the store that is under way.
type tokenQuery struct {
	done chan struct{} // closed when there is an answer
	err  error
}

// A SpentCounter returns how many tokens calls of a key that began on a UTC day have cost in this process, and how many of these
// the store has.
type SpentCounter func(key string, day time.Time) (ended, saved int64)

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
		message := "unknown key"
		if len(offers) == 0 {
			message = "a key is required"
		}
		return badKey("%s", message).WithNext("send one of the keys in perigee's configuration as Authorization: Bearer, x-api-key, x-goog-api-key or ?key=")
	}
	if c.key.expired(c.opts.Now()) {
		return badKey("the key %s expired at %s", c.key.Name, c.key.Expires.Format(time.RFC3339)).
			WithNext("set a later expires for it in perigee's configuration")
	}
	return nil
}

// errBadKey is the cause of errors about the key or the admin token that the client has sent, or has not: the only ones with
// status 401. Agents take a 401 for their own key's, and retry it for minutes.
var errBadKey = errors.New("the client's own key is missing or wrong")

func badKey(format string, args ...any) *perigee.Error {
	e := perigee.Errorf(perigee.ClassUnauthenticated, format, args...)
	e.Cause = errBadKey
	return e
}

func (k *guardedKey) expired(now time.Time) bool {
	return !k.Expires.IsZero() && !now.Before(k.Expires)
}

// mayAsk says whether the key's models have a name. Names that are no models' are in none of them: * would match everything.
func (k *guardedKey) mayAsk(model string) bool {
	for _, pattern := range k.Models {
		if names.Match(pattern, model) {
			return checkModel(model) == nil
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
		e := perigee.Errorf(perigee.ClassRateLimited, "key %s has reached its concurrency limit (%d)", k.Name, k.Concurrency).
			WithNext("wait for a call to end, or raise its concurrency")
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
func (k *guardedKey) checkTokens(ctx context.Context, stored perigee.UsageReader, spent SpentCounter, now time.Time) error {
	if k.TokensPerDay == 0 || stored == nil {
		return nil
	}
	midnight := now.UTC().Truncate(24 * time.Hour)
	tokens, err := k.spentSince(ctx, midnight, stored, spent, now)
	if err != nil {
		return err
	}
	if tokens < k.TokensPerDay {
		return nil
	}
	e := perigee.Errorf(perigee.ClassExhausted, "the key %s has spent its %d tokens of the day", k.Name, k.TokensPerDay).
		WithNext("wait for tomorrow (UTC), or raise its tokens_per_day")
	e.Retry = midnight.Add(24 * time.Hour).Sub(now)
	return e
}

// spentSince is what a key has spent since midnight: what the store had a moment ago, and what this process has spent and the
// store did not have then. One call at a time asks the store, without the lock, as every call of the key needs that, also to
// end. The others use what is known, or wait for the answer where nothing is.
//
// A store that does not answer within countPatience is not waited for: what is known counts on, and grows with what this process
// spends. A process that was already running when the day began knows that nothing was spent then.
func (k *guardedKey) spentSince(ctx context.Context, midnight time.Time, stored perigee.UsageReader, spent SpentCounter, now time.Time) (int64, error) {
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	t := &u.tokens
	if !t.day.IsZero() && !t.day.Equal(midnight) {
		*t = dayTokens{day: midnight, query: t.query}
	}
	known := !t.day.IsZero()
	switch {
	case known && (t.query != nil || now.Sub(t.asked).Abs() <= spentFresh):
	case t.query != nil:
		query := t.query
		u.unlocked(func() {
			select {
			case <-query.done:
			case <-ctx.Done():
			}
		})
		if err := cmp.Or(query.err, ctx.Err()); err != nil {
			return 0, err
		}
	default:
		if err := k.readTokens(ctx, midnight, stored, spent, now); err != nil && !known {
			return 0, err
		}
	}
	ended, _ := spent(k.Name, midnight)
	return t.read + ended - t.saved, nil
}

// readTokens asks the store. The lock is held before and after, but not meanwhile.
func (k *guardedKey) readTokens(ctx context.Context, midnight time.Time, stored perigee.UsageReader, spent SpentCounter, now time.Time) (err error) {
	t := &k.use.tokens
	query := &tokenQuery{done: make(chan struct{})}
	t.query = query
	defer func() {
		t.query, query.err = nil, err
		close(query.done)
	}()
	// What is saved between this and the answer counts twice until the store is asked again, which is better than not at all.
	_, saved := spent(k.Name, midnight)
	var rows []perigee.UsageRow
	k.use.unlocked(func() {
		// A client that leaves meanwhile takes nothing away from the others that wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
		defer cancel()
		rows, err = stored.Usage(ctx, perigee.UsageQuery{By: perigee.ByKey, Since: midnight, Key: k.Name})
	})
	switch {
	case t.day.After(midnight): // a day has begun meanwhile
	case err != nil:
		t.asked = now
	default:
		t.day, t.read, t.saved, t.asked = midnight, 0, saved, now
		for _, row := range rows {
			t.read += row.InputTokens + row.OutputTokens
		}
	}
	return err
}

// unlocked does something without the lock, which is held before and after.
func (u *keyUse) unlocked(do func()) {
	u.mu.Unlock()
	defer u.mu.Lock()
	do()
}

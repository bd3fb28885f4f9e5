package clientkey

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"perigee"
)

// daySpent is the cached cost of a key on one day. The lock of the keyUse guards it.
type daySpent struct {
	day   time.Time     // its first moment, in UTC; zero if nothing is known
	read  perigee.Spent // the cost in the store at the time of asked
	saved perigee.Spent // the part of it that calls of this process have cost, at least
	asked time.Time     // when the store was last read, or last failed; zero if not on this day
	query *spentQuery
}

// A spentQuery is a question to the store that is under way.
type spentQuery struct {
	done chan struct{} // closed when there is an answer
	err  error
}

// A SpentCounter returns the cost of the calls of a key that began on a UTC day and ended in this
// process, and the part of it that is in the store.
type SpentCounter func(key string, day time.Time) (ended, saved perigee.Spent)

const (
	// spentFresh is how long a reading of the store is used.
	spentFresh = 2 * time.Second
	// firstPatience is how long a call waits for the first reading, without which it is refused.
	firstPatience = 5 * time.Second
)

// roundingUSD is the largest difference of two sums of costs that counts as a rounding error.
const roundingUSD = 1e-9

// CheckBudget refuses a key that has used its tokens or dollars of the day. The day is UTC's, as in
// the usage list. Calls of models without a price add nothing to the dollars.
func (k *Guarded) CheckBudget(ctx context.Context, stored perigee.UsageReader, spent SpentCounter, now time.Time) error {
	if k.TokensPerDay == 0 && k.CostPerDay == 0 || stored == nil {
		return nil
	}
	midnight := now.UTC().Truncate(24 * time.Hour)
	today, err := k.spentSince(ctx, midnight, stored, spent, now)
	if err != nil {
		return err
	}
	var budget, setting string
	switch {
	case k.TokensPerDay > 0 && today.Tokens >= k.TokensPerDay:
		budget, setting = fmt.Sprintf("%d tokens", k.TokensPerDay), "tokens_per_day"
	case k.CostPerDay > 0 && today.USD >= k.CostPerDay-roundingUSD:
		budget, setting = perigee.USD(k.CostPerDay).String(), "cost_per_day"
	default:
		return nil
	}
	e := perigee.Errorf(perigee.ClassExhausted, "the key %s has used its %s for today", k.Name, budget).
		WithHint("wait until tomorrow (UTC), or raise its %s", setting)
	e.Retry = midnight.Add(24 * time.Hour).Sub(now)
	return e
}

// spentSince returns the cost of a key since midnight: the last reading of the store, and the calls
// of this process that it did not include. One call at a time reads the store, without holding the
// lock, which every call of the key needs. Concurrent calls use the previous reading, or wait if
// there is none.
//
// If the store does not answer within countPatience, the previous reading stays in use, plus the
// calls of this process. The first reading may take firstPatience. A process that was running when the day began starts with a reading of
// zero.
func (k *Guarded) spentSince(ctx context.Context, midnight time.Time, stored perigee.UsageReader, spent SpentCounter,
	now time.Time) (perigee.Spent, error) {
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	t := &u.spent
	if !t.day.IsZero() && !t.day.Equal(midnight) {
		*t = daySpent{day: midnight, query: t.query}
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
			return perigee.Spent{}, err
		}
	default:
		if err := k.readSpent(ctx, midnight, stored, spent, now); err != nil && !known {
			return perigee.Spent{}, err
		}
	}
	ended, _ := spent(k.Name, midnight)
	return t.read.Plus(ended).Minus(t.saved), nil
}

// readSpent asks the store. The lock is held before and after, but not meanwhile.
func (k *Guarded) readSpent(ctx context.Context, midnight time.Time, stored perigee.UsageReader, spent SpentCounter,
	now time.Time) (err error) {
	t := &k.use.spent
	query := &spentQuery{done: make(chan struct{})}
	t.query = query
	defer func() {
		t.query, query.err = nil, err
		close(query.done)
	}()
	// Costs that are saved between this and the answer count twice until the store is asked again.
	// The reverse order would not count them at all.
	_, saved := spent(k.Name, midnight)
	var rows []perigee.UsageRow
	patience := countPatience
	if t.day.IsZero() {
		patience = firstPatience
	}
	k.use.unlocked(func() {
		// A client that leaves meanwhile does not end the query for the calls that wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		rows, err = stored.Usage(ctx, perigee.UsageQuery{By: perigee.ByKey, Since: midnight, Key: k.Name})
	})
	switch {
	case t.day.After(midnight): // a day has begun meanwhile
	case err != nil:
		t.asked = now
	default:
		t.day, t.read, t.saved, t.asked = midnight, perigee.Spent{}, saved, now
		for _, row := range rows {
			t.read = t.read.Plus(row.Spent())
		}
	}
	return err
}

// unlocked calls do without the lock, which is held before and after.
func (u *keyUse) unlocked(do func()) {
	u.mu.Unlock()
	defer u.mu.Lock()
	do()
}

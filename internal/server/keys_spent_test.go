package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/server/clientkey"
)

// A usageRig is a store that says what was spent on a day, or does not answer, and what this
// process has spent and saved.
type usageRig struct {
	day     time.Time
	spent   int64
	silent  bool
	asked   atomic.Int64
	waiting chan struct{} // nil means it answers at once

	ended, saved int64
}

// Usage is called in bubbles.
func (l *usageRig) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	l.asked.Add(1)
	if l.waiting != nil {
		<-l.waiting
	}
	if l.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if q.Key != "k" || !q.Since.Equal(l.day) {
		return nil, nil
	}
	return []perigee.UsageRow{{InputTokens: l.spent - 1, OutputTokens: 1, CostUSD: perigee.USD(dollars(l.spent))}}, nil
}

// dollars is what tokens cost: a hundred of them, in ten calls, cost a dollar.
func dollars(tokens int64) (sum float64) {
	for ; tokens >= 10; tokens -= 10 {
		sum += 0.1 // which is a little more than a tenth, and less in a sum
	}
	return sum + float64(tokens)/100
}

func (l *usageRig) own(key string, day time.Time) (ended, saved perigee.Spent) {
	if key != "k" || !day.Equal(l.day) {
		return ended, saved
	}
	return perigee.Spent{Tokens: l.ended, USD: dollars(l.ended)}, perigee.Spent{Tokens: l.saved, USD: dollars(l.saved)}
}

func newLedger(spent int64, budget Key) (*usageRig, *clientkey.Guarded) {
	budget.Name = "k"
	return &usageRig{day: time.Now().UTC().Truncate(24 * time.Hour), spent: spent}, clientkey.Guard([]Key{budget}, nil)[0]
}

// budgets are the kinds of budgets that a key can have. Both are used up by a hundred tokens.
var budgets = map[string]Key{
	"tokens_per_day": {TokensPerDay: 100},
	"cost_per_day":   {CostPerDay: 1},
}

// onBudgets runs a test with each kind of budget, in a bubble.
func onBudgets(t *testing.T, test func(t *testing.T, budget Key)) {
	for name, budget := range budgets {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, budget) }) })
	}
}

// check is called in bubbles, and returns how long it took.
func (l *usageRig) check(ctx context.Context, k *clientkey.Guarded) (time.Duration, error) {
	began := time.Now()
	err := k.CheckBudget(ctx, l, l.own, began)
	return time.Since(began), err
}

func isExhausted(err error) bool {
	return err != nil && perigee.AsError(err).Class == perigee.ClassExhausted
}

// A database that does not answer holds no call up for long, not even one that is about to end; and
// what this process spends meanwhile counts. The tests of budgets run in bubbles.
func TestBudgetOfTheDayWithADatabaseThatIsAway(t *testing.T) {
	onBudgets(t, func(t *testing.T, budget Key) {
		l, k := newLedger(90, budget)
		l.silent = true
		asking := make(chan struct{})
		go func() { _, _ = l.check(t.Context(), k); close(asking) }()
		synctest.Wait()
		if err := k.Acquire(); err != nil { // which needs the lock
			t.Error(err)
		}
		k.Release()
		<-asking
		if took, err := l.check(t.Context(), k); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("nothing is known: %v after %v", err, took)
		}
		l.silent, l.ended, l.saved = false, 15, 10 // 10 of the 90 are ours, and 5 are on their way
		if _, err := l.check(t.Context(), k); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		l.silent = true
		for _, step := range []struct {
			ended     int64
			exhausted bool
		}{{15, false}, {19, false}, {20, true}} {
			l.ended = step.ended
			took, err := l.check(t.Context(), k)
			if isExhausted(err) != step.exhausted || took > time.Second {
				t.Errorf("after 90 tokens and %d more: %v after %v", step.ended-l.saved, err, took)
			}
			time.Sleep(time.Minute)
		}
		// They are in the database now, and count once.
		l.silent, l.spent, l.saved = false, 99, 20
		l.ended = 20
		if _, err := l.check(t.Context(), k); err != nil {
			t.Error(err)
		}
		l.ended = 21
		if _, err := l.check(t.Context(), k); !isExhausted(err) {
			t.Errorf("the last token: %v", err)
		}
	})
}

// Calls that find nothing known wait for one answer, and a failure is everybody's. It runs in a
// bubble.
func TestBudgetOfTheDayIsAskedForOnce(t *testing.T) {
	onBudgets(t, func(t *testing.T, budget Key) {
		for _, silent := range []bool{false, true} {
			l, k := newLedger(99, budget)
			l.waiting, l.silent = make(chan struct{}), silent
			gone, leave := context.WithCancel(t.Context())
			var calls sync.WaitGroup
			for i := range 50 {
				ctx := t.Context()
				if i%10 == 0 {
					ctx = gone
				}
				calls.Go(func() {
					_, err := l.check(ctx, k)
					if failed := err != nil; failed != (silent || errors.Is(err, context.Canceled)) {
						t.Errorf("silent %v: got %v", silent, err)
					}
				})
				synctest.Wait()
			}
			leave()
			synctest.Wait()
			close(l.waiting)
			calls.Wait()
			if n := l.asked.Load(); n != 1 {
				t.Errorf("50 calls asked %d times", n)
			}
		}
	})
}

// A new day begins with nothing spent, whether the database can be asked or not, and with one
// question. It runs in a bubble.
func TestBudgetOfANewDay(t *testing.T) {
	onBudgets(t, func(t *testing.T, budget Key) {
		l, k := newLedger(100, budget)
		if _, err := l.check(t.Context(), k); !isExhausted(err) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Until(l.day.Add(24 * time.Hour)))
		l.day, l.spent, l.silent = l.day.Add(24*time.Hour), 50, true
		if _, err := l.check(t.Context(), k); err != nil {
			t.Errorf("the new day: %v", err)
		}
		l.ended = 100
		if _, err := l.check(t.Context(), k); !isExhausted(err) {
			t.Errorf("a hundred tokens later: %v", err)
		}
		time.Sleep(time.Minute)
		l.silent, l.ended = false, 49
		if _, err := l.check(t.Context(), k); err != nil {
			t.Errorf("50 in the database and 49 here: %v", err)
		}
		l.ended = 50
		if _, err := l.check(t.Context(), k); !isExhausted(err) {
			t.Errorf("50 in the database and 50 here: %v", err)
		}
		// A question of yesterday that is answered today says nothing about today.
		time.Sleep(time.Minute)
		l.waiting = make(chan struct{})
		asked := make(chan struct{})
		go func() { _, _ = l.check(t.Context(), k); close(asked) }()
		synctest.Wait()
		l.day = l.day.Add(24 * time.Hour)
		time.Sleep(time.Until(l.day))
		l.ended = 99
		if _, err := l.check(t.Context(), k); err != nil {
			t.Errorf("99 tokens today: %v", err)
		}
		close(l.waiting)
		<-asked
		l.ended = 100
		if _, err := l.check(t.Context(), k); !isExhausted(err) {
			t.Errorf("100 tokens today: %v", err)
		}
	})
}

// A refusal names the budget that is used up, and lasts until the UTC day ends.
func TestRefusalNamesTheBudget(t *testing.T) {
	for _, test := range []struct {
		budget Key
		want   string // empty means let in
	}{
		{Key{TokensPerDay: 100, CostPerDay: 2}, "the key k has used its 100 tokens for today; wait until tomorrow (UTC), or raise its tokens_per_day"},
		{Key{TokensPerDay: 200, CostPerDay: 1}, "the key k has used its $1.00 for today; wait until tomorrow (UTC), or raise its cost_per_day"},
		{Key{CostPerDay: 0.001}, "the key k has used its $0.0010 for today; wait until tomorrow (UTC), or raise its cost_per_day"},
		{Key{TokensPerDay: 101, CostPerDay: 1.01}, ""},
		{Key{}, ""},
	} {
		l, k := newLedger(100, test.budget)
		now := l.day.Add(23 * time.Hour)
		err := k.CheckBudget(t.Context(), l, l.own, now)
		if test.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", test.budget, err)
			}
			continue
		}
		if e := perigee.AsError(err); e == nil || e.Error() != test.want || e.Class != perigee.ClassExhausted || e.Retry != time.Hour {
			t.Errorf("%+v: got %v, want %s", test.budget, err, test.want)
		}
	}
}

package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// A ledger is a store that says what was spent on a day, or does not answer, and what this process has spent and saved.
type ledger struct {
	day     time.Time
	spent   int64
	silent  bool
	asked   atomic.Int64
	waiting chan struct{} // nil: it answers at once

	ended, saved int64
}

func (l *ledger) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
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
	return []perigee.UsageRow{{InputTokens: l.spent - 1, OutputTokens: 1}}, nil
}

func (l *ledger) own(key string, day time.Time) (ended, saved int64) {
	if key != "k" || !day.Equal(l.day) {
		return 0, 0
	}
	return l.ended, l.saved
}

func newLedger(spent int64) (*ledger, *guardedKey) {
	return &ledger{day: time.Now().UTC().Truncate(24 * time.Hour), spent: spent}, &guardedKey{Key: Key{Name: "k", TokensPerDay: 100}, use: &keyUse{}}
}

func (l *ledger) check(ctx context.Context, k *guardedKey) (time.Duration, error) {
	began := time.Now()
	err := k.checkTokens(ctx, l, l.own, began)
	return time.Since(began), err
}

func isExhausted(err error) bool {
	return err != nil && perigee.AsError(err).Class == perigee.ClassExhausted
}

// A database that does not answer holds no call up for long, not even one that is about to end; and what this process
// spends meanwhile counts.
func TestTokensOfTheDayWithADatabaseThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k := newLedger(90)
		l.silent = true
		asking := make(chan struct{})
		go func() { _, _ = l.check(t.Context(), k); close(asking) }()
		synctest.Wait()
		if err := k.takePlace(); err != nil { // which needs the lock
			t.Error(err)
		}
		k.leave()
		<-asking
		if took, err := l.check(t.Context(), k); !errors.Is(err, context.DeadlineExceeded) || took > countPatience {
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
			if isExhausted(err) != step.exhausted || took > countPatience {
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

// Calls that find nothing known wait for one answer, and a failure is everybody's.
func TestTokensOfTheDayAreAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, silent := range []bool{false, true} {
			l, k := newLedger(99)
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

// A new day begins with nothing spent, whether the database can be asked or not, and with one question.
func TestTokensOfANewDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, k := newLedger(100)
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

// To be refused costs nothing, so a client that does not stop must not fill the database with it.
func TestRefusalsOnRecordAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still, however long the requests take
		recorded := 0
		s := New(Options{Refused: func(context.Context, string, perigee.Origin, string, *perigee.Error) { recorded++ }}, Settings{Loopback: true, MaxBody: 100})
		defer s.Close()
		for range 1000 {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader("{"))
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
		if recorded != recordedRefusals {
			t.Errorf("%d of 1000 were recorded", recorded)
		}
	})
}

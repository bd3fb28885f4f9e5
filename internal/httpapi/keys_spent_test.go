package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// A ledger says what was spent, unless it is lost in thought.
type ledger struct {
	spent int64
	lost  bool
}

func (l *ledger) Usage(ctx context.Context, _ perigee.UsageQuery) ([]perigee.UsageRow, error) {
	if l.lost {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []perigee.UsageRow{{InputTokens: l.spent}}, nil
}

// A database that does not answer holds nobody up for long, not even those who only want to end a call, and what was known before
// is believed for longer.
func TestTokensOfTheDayWithADatabaseThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &guardedKey{Key: Key{Name: "k", TokensPerDay: 100}, use: &keyUse{}}
		l := &ledger{spent: 99, lost: true}
		check := func() (time.Duration, error) {
			began := time.Now()
			err := k.checkTokens(t.Context(), l, began)
			return time.Since(began), err
		}
		asking := make(chan struct{})
		go func() { _, _ = check(); close(asking) }()
		synctest.Wait()
		if err := k.takePlace(); err != nil { // which needs the lock
			t.Error(err)
		}
		k.leave()
		<-asking
		if took, err := check(); !errors.Is(err, context.DeadlineExceeded) || took > countPatience {
			t.Errorf("nothing is known: %v after %v", err, took)
		}
		l.lost = false
		if _, err := check(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		l.lost = true
		if took, err := check(); err != nil || took > countPatience {
			t.Errorf("what was known a minute ago: %v after %v", err, took)
		}
	})
}

// To be refused costs nothing, so a client that does not stop must not fill the database with it.
func TestRefusalsOnRecordAreFew(t *testing.T) {
	recorded := 0
	s := New(Options{Refused: func(context.Context, string, perigee.Origin, string, *perigee.Error) { recorded++ }}, Settings{Loopback: true, MaxBody: 100})
	for range 1000 {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader("{"))
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	if recorded != recordedRefusals {
		t.Errorf("%d of 1000 were recorded", recorded)
	}
}

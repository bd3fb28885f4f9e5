package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// contested is a store with one account, of which somebody else is faster a number of times.
type contested struct {
	perigee.AccountStore
	lose   int
	tries  int
	stored perigee.SignIn
}

func (c *contested) SignIns(context.Context, string) ([]perigee.SignIn, error) {
	return []perigee.SignIn{c.stored}, nil
}

func (c *contested) ChangeSignIn(_ context.Context, s perigee.SignIn) (int64, error) {
	if c.tries++; c.tries <= c.lose {
		c.stored.Generation++
		return 0, perigee.ErrAccountChanged
	}
	c.stored = s
	c.stored.Generation++
	return c.stored.Generation, nil
}

func TestChangeOutlastsOthersWhoChangeTheSameAccount(t *testing.T) {
	disable := func(s *perigee.SignIn) bool { s.Enabled = false; return true }
	row := perigee.SignIn{Account: perigee.Account{Email: "ada@example.com", Upstream: "gravity", Enabled: true}}
	t.Run("it is tried again until it succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &contested{lose: 20, stored: row}
			changed, err := change(t.Context(), store, "gravity", row.Email, disable)
			if err != nil || changed.Enabled || changed.Generation != 21 || store.stored.Enabled {
				t.Errorf("got %+v, %v", changed, err)
			}
		})
	})
	t.Run("and not forever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, began := &contested{lose: 1 << 30, stored: row}, time.Now()
			_, err := change(t.Context(), store, "gravity", row.Email, disable)
			e := perigee.AsError(err)
			if e == nil || e.Class != perigee.ClassUnavailable || e.Next != "try again" || !errors.Is(err, perigee.ErrAccountChanged) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took < changeTime || took > 2*changeTime {
				t.Errorf("gave up after %v and %d tries", took, store.tries)
			}
		})
	})
	t.Run("nor for somebody who has gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := change(ctx, &contested{lose: 1 << 30, stored: row}, "gravity", row.Email, disable)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	})
}

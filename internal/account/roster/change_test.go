package roster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// contested is a store with one account that another writer changes first, a number of times.
type contested struct {
	perigee.AccountStore
	lose   int
	tries  int
	stored perigee.SignIn
}

func (c *contested) SignIn(context.Context, string, string) (perigee.SignIn, bool, error) {
	return c.stored, true, nil
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
			if e == nil || e.Class != perigee.ClassUnavailable || e.Hint != "try again" || !errors.Is(err, perigee.ErrAccountChanged) {
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

// However many accounts there are, changing one reads one.
func TestChangeReadsOneAccount(t *testing.T) {
	d := newRig(t, ada, "bob@example.com", "cyd@example.com")
	before := d.sealer.opened.Load()
	changed, err := change(t.Context(), d.store, "gravity", "bob@example.com", func(s *perigee.SignIn) bool { s.Enabled = false; return true })
	if err != nil || changed.Enabled || changed.Email != "bob@example.com" {
		t.Errorf("got %+v, %v", changed, err)
	}
	if n := d.sealer.opened.Load() - before; n != 1 {
		t.Errorf("%d refresh tokens were opened", n)
	}
	if _, err := change(t.Context(), d.store, "gravity", "dan@example.com", func(*perigee.SignIn) bool { return true }); !errors.Is(err, errNoAccount) {
		t.Errorf("an account that is not there: %v", err)
	}
}

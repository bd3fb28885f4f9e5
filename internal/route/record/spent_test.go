package record

import (
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// perToken is a dollar for each token.
func perToken(c *perigee.Call) perigee.Cost { return perigee.USD(float64(c.Usage.Total())) }

// What a key has spent is known when a call ends, and what of it is stored when it is.
func TestSpentByKeyAndDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		store.fail(errBroken)
		r := New(script{start, usage, sleep(time.Second), finish}, Options{Store: &store, Price: perToken}) // 13 tokens
		day := time.Now().UTC().Truncate(24 * time.Hour)
		check := func(day time.Time, ended, saved int64) {
			t.Helper()
			want := [2]perigee.Spent{{Tokens: ended, USD: float64(ended)}, {Tokens: saved, USD: float64(saved)}}
			if e, s := r.Spent("laptop", day); e != want[0] || s != want[1] {
				t.Errorf("%v and %v, want %v", e, s, want)
			}
		}
		stream(t, r, "a")
		stream(t, r, "b")
		check(day, 26, 0)
		store.fail(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		check(day, 26, 26)
		check(day.Add(24*time.Hour), 0, 0)
		if e, s := r.Spent("other", day); e != (perigee.Spent{}) || s != e {
			t.Errorf("another key has spent %v and %v", e, s)
		}

		// A call counts for the day on which it began.
		tomorrow := day.Add(24 * time.Hour)
		time.Sleep(time.Until(tomorrow) - time.Second/2)
		stream(t, r, "c")
		check(day, 39, 26)
		check(tomorrow, 0, 0)
		stream(t, r, "d")
		check(day, 0, 0)
		check(tomorrow, 13, 0)
		r.Flush(t.Context())
		check(tomorrow, 13, 13)
		mustClose(t, r)
	})
}

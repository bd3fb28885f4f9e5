package roster

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/account/pool"
	"perigee/internal/testing/perigeetest/await"
)

// A subscriber counts the changes of the accounts of "gravity".
type subscriber struct{ changes atomic.Int64 }

func (s *subscriber) notify(upstream string) {
	if upstream == "gravity" {
		s.changes.Add(1)
	}
}

// wants waits until there are as many changes.
func (s *subscriber) wants(t *testing.T, changes int64) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%d changes", changes), func() bool { return s.changes.Load() == changes })
}

func TestSubscribersAreInformedAboutEveryChange(t *testing.T) {
	d := newRig(t, ada)
	var first, second subscriber
	stop := d.feed.Subscribe(first.notify)
	d.feed.Subscribe(second.notify)

	d.add("bob@example.com", "sim-refresh-bob")
	second.wants(t, 1)
	lease := d.lend()
	if _, err := lease.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.wants(t, 2)
	if _, err := lease.Token(t.Context()); err != nil { // the same token again
		t.Fatal(err)
	}
	lease.Done(banned())
	first.wants(t, 3)
	second.wants(t, 3)
	stop()
	d.remove("bob@example.com")
	second.wants(t, 4)
	d.add(ada, "sim-refresh-ada-2")
	second.wants(t, 5)
	if err := d.load(t.Context()); err != nil { // changes nothing
		t.Fatal(err)
	}
	d.remove(ada)
	second.wants(t, 6)
	if got := first.changes.Load(); got != 3 {
		t.Errorf("after its end the first subscriber was informed about %d changes", got-3)
	}
}

func TestQueueKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		q := &queue{handle: func(stop pool.Stop) { time.Sleep(time.Second); got = append(got, stop.Email) }}
		for _, email := range []string{"1", "2", "3", "2", "3"} {
			q.add(pool.Stop{Email: email})
		}
		q.close()
		q.add(pool.Stop{Email: "4"})
		if !slices.Equal(got, []string{"1", "2", "3", "4"}) {
			t.Errorf("got %v", got)
		}
	})
}

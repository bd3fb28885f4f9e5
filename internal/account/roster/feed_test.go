package roster

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// A subscriber writes down what it is told.
type subscriber struct {
	mu   sync.Mutex
	list []Change
}

func (s *subscriber) deliver(c Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, c)
}

func (s *subscriber) kinds(email string) (list []ChangeKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.list {
		if c.Email == email && c.Upstream == "gravity" {
			list = append(list, c.Kind)
		}
	}
	return list
}

// wants waits until the changes of an account are these.
func (s *subscriber) wants(t *testing.T, email string, want ...ChangeKind) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%s: %v", email, want), func() bool { return slices.Equal(s.kinds(email), want) })
}

func TestSubscribersGetEveryChange(t *testing.T) {
	d := newRig(t, ada)
	var first, second subscriber
	stop := d.feed.Subscribe(first.deliver)
	d.feed.Subscribe(second.deliver)

	d.add("bob@example.com", "sim-refresh-bob")
	lease := d.lend()
	if _, err := lease.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*subscriber{&first, &second} {
		s.wants(t, "bob@example.com", Added)
		s.wants(t, ada, Refreshed)
	}
	if _, err := lease.Token(t.Context()); err != nil { // the same token again
		t.Fatal(err)
	}
	lease.Done(banned())
	first.wants(t, ada, Refreshed, Updated)
	second.wants(t, ada, Refreshed, Updated)
	stop()
	d.remove("bob@example.com")
	d.add(ada, "sim-refresh-ada-2")
	second.wants(t, "bob@example.com", Added, Removed)
	second.wants(t, ada, Refreshed, Updated, Updated)
	if got := first.kinds("bob@example.com"); !slices.Equal(got, []ChangeKind{Added}) {
		t.Errorf("after its end the first subscriber got %v", got)
	}
	if err := d.load(t.Context()); err != nil { // changes nothing
		t.Fatal(err)
	}
	d.remove(ada)
	second.wants(t, ada, Refreshed, Updated, Updated, Removed)
}

// A subscriber that does not return delays neither calls nor other subscribers, and gets equal
// changes once.
func TestSlowSubscriberDelaysNothing(t *testing.T) {
	d := newRig(t, ada)
	gate := make(chan struct{})
	var slow, quick subscriber
	d.feed.Subscribe(func(c Change) {
		select {
		case <-gate:
		case <-t.Context().Done():
		}
		slow.deliver(c)
	})
	d.feed.Subscribe(quick.deliver)
	d.add("bob@example.com", "sim-refresh-bob")
	for i := range 10 {
		if _, err := change(t.Context(), d.store, "gravity", ada, func(s *perigee.SignIn) bool { s.Enabled = i%2 == 1; return true }); err != nil {
			t.Fatal(err)
		}
		if err := d.load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.lend().Done(nil)
	quick.wants(t, "bob@example.com", Added)
	if got := slow.kinds("bob@example.com"); got != nil {
		t.Errorf("the slow one has got %v", got)
	}
	close(gate)
	slow.wants(t, "bob@example.com", Added)
	slow.wants(t, ada, Updated, Refreshed)
}

func TestQueueKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		q := &queue[int]{handle: func(i int) { time.Sleep(time.Second); got = append(got, i) }}
		for _, i := range []int{1, 2, 3, 2, 3} {
			q.add(i)
		}
		q.close(time.Minute)
		q.add(4)
		if !slices.Equal(got, []int{1, 2, 3, 4}) {
			t.Errorf("got %v", got)
		}
	})
}

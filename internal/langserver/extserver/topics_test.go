package extserver

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"perigee/internal/testing/perigeetest/await"
)

// A replica is what a reader makes of a snapshot and the updates after it.
type replica struct {
	rows map[string]Row
	last map[string]int64 // the versions of rows that were deleted
	err  error            // an update that does not follow what was known
}

func (r *replica) apply(u Update) {
	before, had := r.rows[u.Key]
	switch {
	case u.Deleted:
		delete(r.rows, u.Key)
		r.last[u.Key] = max(r.last[u.Key], before.ETag)
	case had && u.Row.ETag != before.ETag+1, u.Row.ETag <= r.last[u.Key]:
		r.err = fmt.Errorf("%s: version %d follows %d", u.Key, u.Row.ETag, max(before.ETag, r.last[u.Key]))
	default:
		r.rows[u.Key] = u.Row
	}
}

// follow reads a topic until the row "end" arrives. A reader that was too slow, or has read
// patience updates, begins again with a new snapshot. It runs in a bubble.
func follow(s *topicStore, patience int, again *int) *replica {
	for {
		rows, sub := s.Subscribe("t", nil)
		r := &replica{rows: rows, last: map[string]int64{}}
		for read := 0; read < patience; {
			u, ok, err := sub.Next()
			switch {
			case errors.Is(err, ErrSlow):
				*again++
				read = patience
			case err != nil:
				r.err = err
				return r
			case ok:
				r.apply(u)
				read++
			case r.rows["end"].ETag > 0 || r.err != nil:
				sub.Close()
				return r
			default:
				<-sub.Ready()
			}
		}
		sub.Close()
		if r.err != nil {
			return r
		}
	}
}

// TestSnapshotAndUpdatesAreTheFinalState has writers and readers at the same time. Whenever a
// reader subscribes, and however often it falls behind, it ends with the rows of the store.
func TestSnapshotAndUpdatesAreTheFinalState(t *testing.T) {
	slow := 0
	rapid.Check(t, func(drawn *rapid.T) {
		limits := defaultTopicLimits
		limits.Updates = rapid.IntRange(1, 64).Draw(drawn, "updates")
		limits.Waiting = rapid.IntRange(1, 400).Draw(drawn, "waiting")
		store := newTopics(limits)
		type write struct {
			key, value string
			remove     bool
		}
		writes := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) write {
			return write{
				key:    rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"),
				value:  rapid.StringN(0, 20, 40).Draw(t, "value"),
				remove: rapid.IntRange(0, 3).Draw(t, "remove") == 0,
			}
		}), 0, 100), 1, 4).Draw(drawn, "writers")
		patience := rapid.SliceOfN(rapid.SampledFrom([]int{1, 3, 1000}), 1, 6).Draw(drawn, "patience of readers")
		rounds := rapid.SampledFrom([]int{1, 50}).Draw(drawn, "rounds") // many writes, so that readers subscribe between them

		replicas, again := make([]*replica, len(patience)), make([]int, len(patience))
		synctest.Test(t, func(*testing.T) { // which fails if a reader waits for ever
			var reading, writing sync.WaitGroup
			for i := range patience {
				reading.Go(func() { replicas[i] = follow(store, patience[i], &again[i]) })
			}
			for _, list := range writes {
				writing.Go(func() {
					for range rounds {
						for _, w := range list {
							if w.remove {
								store.Delete("t", w.key)
							} else if err := store.Push("t", w.key, w.value); err != nil {
								panic(err)
							}
						}
					}
				})
			}
			writing.Wait()
			store.Set("t", "end", "")
			reading.Wait()
		})
		want := store.Rows("t")
		for i, r := range replicas {
			slow += again[i]
			if r.err != nil || !maps.Equal(r.rows, want) {
				drawn.Fatalf("reader %d has %v, %v; the store has %v", i, r.rows, r.err, want)
			}
		}
	})
	if slow == 0 {
		t.Error("no reader ever fell behind")
	}
}

func TestSlowSubscriptionEndsAndNeverDelaysAPush(t *testing.T) {
	for _, test := range []struct {
		name         string
		value        string
		accepted     int // updates that find room
		updatesLimit int
	}{
		{"updates", "v", 256, 256},
		{"bytes", strings.Repeat("v", 1<<20), 3, 256}, // and the keys: a fourth does not fit into 4 MiB
		{"one large update", strings.Repeat("v", 5<<20), 1, 256},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTopics(defaultTopicLimits)
			ended := make(chan struct{})
			_, sub := s.Subscribe("t", func() { close(ended) })
			_, quick := s.Subscribe("t", nil)
			for i := range test.accepted {
				if err := s.Push("t", fmt.Sprint("key", i%2), test.value); err != nil {
					t.Fatal(err)
				}
				if _, ok, err := quick.Next(); !ok || err != nil {
					t.Fatalf("the quick reader has %v, %v", ok, err)
				}
			}
			select {
			case <-ended:
				t.Fatal("it ended too early")
			default:
			}
			if err := s.Push("t", "key", test.value); err != nil {
				t.Fatal(err)
			}
			await.Receive(t, ended, "the end of the slow subscription")
			if _, ok, err := sub.Next(); ok || !errors.Is(err, ErrSlow) {
				t.Errorf("got %v, %v", ok, err)
			}
			if _, ok, err := quick.Next(); !ok || err != nil {
				t.Errorf("the quick reader has %v, %v", ok, err)
			}
			sub.Close()
			quick.Close()
		})
	}
}

func TestVersionsCountChangesOfARow(t *testing.T) {
	s := newTopics(defaultTopicLimits)
	for want := range int64(3) {
		s.Set("t", "a", "same")
		if got := s.Rows("t")["a"].ETag; got != want+1 {
			t.Errorf("got %d, want %d", got, want+1)
		}
	}
	s.Set("t", "b", "")
	if got := s.Rows("t")["b"].ETag; got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestPushesAreLimited(t *testing.T) {
	limits := topicLimits{Bytes: 1000, Topics: 3, Keys: 2, Updates: 10, Waiting: 1000}
	s := newTopics(limits)
	push := func(topic, key string, size int, want error) {
		t.Helper()
		if err := s.Push(topic, key, strings.Repeat("v", size)); !errors.Is(err, want) {
			t.Errorf("%s/%s of %d bytes: got %v", topic, key, size, err)
		}
	}
	push("a", "1", 1, nil)
	push("a", "2", 1, nil)
	push("a", "3", 1, errTopicsFull) // keys
	push("a", "2", 500, nil)
	push("b", "1", 500, errTopicsFull) // bytes, over all topics
	push("a", "2", 1, nil)             // shorter again
	push("b", "1", 500, nil)
	push("c", "1", 1, nil)
	push("d", "1", 1, errTopicsFull) // topics
	s.Delete("c", "1")
	push("d", "1", 1, nil)
	s.Set("own", "1", strings.Repeat("v", 2000)) // what the server writes is always there
	if len(s.Rows("own")) != 1 {
		t.Error("the row of the server is missing")
	}
	push("a", "2", 1, nil) // no larger than before
	push("a", "2", 2, errTopicsFull)
}

func TestDeletedRowsFreeTheirBytes(t *testing.T) {
	s := newTopics(topicLimits{Bytes: 200, Topics: 10, Keys: 10, Updates: 10, Waiting: 1000})
	for i := range 100 {
		if err := s.Push("t", "key", strings.Repeat("v", 100)); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		s.Delete("t", "key")
	}
}

func TestCloseEndsSubscriptions(t *testing.T) {
	s := newTopics(defaultTopicLimits)
	ended := make(chan struct{})
	_, sub := s.Subscribe("t", func() { close(ended) })
	s.Close()
	await.Receive(t, ended, "the end of the subscription")
	await.Receive(t, sub.Ready(), "the end for the reader")
	if _, ok, err := sub.Next(); ok || !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, %v", ok, err)
	}
	_, late := s.Subscribe("t", nil)
	if _, _, err := late.Next(); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := s.Push("t", "a", ""); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestAnEndedSubscriptionIsNotToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTopics(topicLimits{Bytes: 1000, Topics: 1, Keys: 10, Updates: 1, Waiting: 1000})
		var calls atomic.Int64
		_, sub := s.Subscribe("t", func() { calls.Add(1) })
		for range 5 {
			s.Set("t", "a", "")
		}
		s.Close()
		sub.Close()
		sub.Close()
		synctest.Wait()
		if calls.Load() != 1 {
			t.Errorf("told %d times", calls.Load())
		}
	})
}

// TestVersionsNeverRepeat deletes rows and writes them again, also more of them than are
// remembered, and without a subscription.
func TestVersionsNeverRepeat(t *testing.T) {
	limits := defaultTopicLimits
	limits.Keys = 3
	s := newTopics(limits)
	s.Set("t", "a", "1")
	s.Set("t", "a", "2")
	s.Delete("t", "a")
	s.Set("t", "a", "3")
	if got := s.Rows("t")["a"].ETag; got != 3 {
		t.Errorf("set, set, delete, set: version %d", got)
	}
	s.Set("u", "a", "1")
	if got := s.Rows("u")["a"].ETag; got != 1 {
		t.Errorf("a row of another topic: version %d", got)
	}
	s.Delete("t", "a")
	last := map[string]int64{"a": 3}
	for i := range 10 {
		key := string(rune('b' + i))
		s.Set("t", key, "1")
		last[key] = s.Rows("t")[key].ETag
		s.Delete("t", key)
	}
	for key, before := range last {
		s.Set("t", key, "2")
		if got := s.Rows("t")[key].ETag; got <= before {
			t.Errorf("row %s: version %d after %d", key, got, before)
		}
	}
	if n := s.Remembered(); n > limits.Keys {
		t.Errorf("%d deleted rows are remembered", n)
	}
}

package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

func mustTake(t testing.TB, s *Store, key string, n, perMinute int) time.Duration {
	t.Helper()
	wait, err := s.TakeRequests(context.Background(), key, n, perMinute)
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

// wantWait checks a wait that may have become shorter while the test ran, but not by much.
func wantWait(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got > want || got < want-5*time.Second {
		t.Errorf("%s: wait %v, want %v", what, got, want)
	}
}

// pass lets time go by for a key.
func pass(t *testing.T, s *Store, key string, d time.Duration) {
	t.Helper()
	if _, err := s.db.Write.ExecContext(t.Context(), `UPDATE key_requests SET paid_us = paid_us - $2 WHERE client_key = $1`, key, d.Microseconds()); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasCountRequestsTogether(t *testing.T) {
	list := replicas(t, "a", "b")
	a, b := list[0], list[1]
	for i := range 4 {
		if wait := mustTake(t, list[i%2], "laptop", 1, 4); wait != 0 {
			t.Fatalf("request %d has to wait %v", i, wait)
		}
	}
	wait := mustTake(t, a, "laptop", 1, 4)
	wantWait(t, "one more", wait, 15*time.Second)
	wantWait(t, "one more, asked elsewhere", mustTake(t, b, "laptop", 1, 4), 15*time.Second)
	wantWait(t, "three more", mustTake(t, b, "laptop", 3, 4), 45*time.Second)
	if wait := mustTake(t, b, "desk", 4, 4); wait != 0 {
		t.Errorf("another key has to wait %v", wait)
	}
	pass(t, a, "laptop", wait)
	if wait := mustTake(t, b, "laptop", 1, 4); wait != 0 {
		t.Errorf("who waited as long as was said has to wait %v", wait)
	}
	wantWait(t, "and another one", mustTake(t, a, "laptop", 1, 4), 15*time.Second)
	pass(t, a, "laptop", time.Hour)
	if wait := mustTake(t, a, "laptop", 4, 4); wait != 0 {
		t.Errorf("after an hour four requests have to wait %v", wait)
	}
	wantWait(t, "an hour is not worth more than a minute", mustTake(t, a, "laptop", 1, 4), 15*time.Second)
}

func TestRacingReplicasLetThroughWhatThereIs(t *testing.T) {
	list := replicas(t, "a", "b", "c")
	const perMinute = 5 // so slow that none comes back meanwhile
	for round := range 3 {
		var through atomic.Int64
		var racing sync.WaitGroup
		for i := range 60 {
			racing.Go(func() {
				wait, err := list[i%len(list)].TakeRequests(context.Background(), fmt.Sprint(round), 1, perMinute)
				switch {
				case err != nil:
					t.Error(err)
				case wait == 0:
					through.Add(1)
				case wait > 12*time.Second:
					t.Errorf("somebody has to wait %v", wait)
				}
			})
		}
		await.Return(t, racing.Wait, "the requests")
		if through.Load() != perMinute {
			t.Errorf("%d of 60 were let through, want %d", through.Load(), perMinute)
		}
	}
}

// While a configuration is rolled out, replicas may have different limits for a key.
func TestChangedLimitDoesNotFillTheBucket(t *testing.T) {
	s := replicas(t, "a")[0]
	if wait := mustTake(t, s, "laptop", 4, 4); wait != 0 {
		t.Fatalf("wait %v", wait)
	}
	for range 3 {
		wantWait(t, "the old limit", mustTake(t, s, "laptop", 1, 4), 15*time.Second)
	}
	// The new one is ten times as fast: an empty bucket has its first request ten times as soon.
	if wait := mustTake(t, s, "laptop", 1, 40); wait > 1500*time.Millisecond {
		t.Errorf("the new limit: wait %v", wait)
	}
}

func TestClockThatWasSetBackCostsAMinute(t *testing.T) {
	s := replicas(t, "a")[0]
	mustTake(t, s, "laptop", 1, 4)
	pass(t, s, "laptop", -5*time.Hour)
	wantWait(t, "the first", mustTake(t, s, "laptop", 1, 4), 15*time.Second)
	pass(t, s, "laptop", time.Minute)
	if wait := mustTake(t, s, "laptop", 1, 4); wait != 0 {
		t.Errorf("a minute later: wait %v", wait)
	}
}

// A count does not wait for the disk, and the connection's next write is as durable as before.
func TestCountingRequestsDoesNotWaitForTheDisk(t *testing.T) {
	s := replicas(t, "a")[0]
	s.db.Write.SetMaxOpenConns(1)
	mustTake(t, s, "laptop", 1, 4)
	var setting, inside string
	if err := s.db.Write.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_commit')`).Scan(&setting); err != nil || setting != "on" {
		t.Errorf("afterwards it is %q, %v", setting, err)
	}
	tx, err := s.db.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var wait int64
	if err := tx.QueryRowContext(t.Context(), takeRequests, "laptop", 1, 1).Scan(&wait); err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_commit')`).Scan(&inside); err != nil || inside != "off" {
		t.Errorf("for its own transaction it is %q, %v", inside, err)
	}
}

func TestRequestsThatCannotBeCounted(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	_, err := s.TakeRequests(t.Context(), "laptop", 1, 4)
	wantClass(t, err, perigee.ClassInternal) // a single process counts in memory
	a := replicas(t, "a")[0]
	for _, n := range []int{0, 5} {
		_, err := a.TakeRequests(t.Context(), "laptop", n, 4)
		wantClass(t, err, perigee.ClassInternal)
	}
	if wait := mustTake(t, a, "bad \x00 byte "+strings.Repeat("x", 1000), 1, 1); wait != 0 {
		t.Errorf("wait %v", wait)
	}
}

func BenchmarkTakeRequests(b *testing.B) {
	needPostgres(b)
	s := openWith(b, freshPostgres(b))
	b.Run("one after the other", func(b *testing.B) {
		for b.Loop() {
			mustTake(b, s, "laptop", 1, 1<<20)
		}
	})
	b.Run("many at once", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				mustTake(b, s, "crowd", 1, 1<<20)
			}
		})
	})
}

package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// replicas opens several stores on one new PostgreSQL database, as replicas do.
func replicas(t *testing.T, names ...string) []*Store {
	t.Helper()
	needPostgres(t)
	options := freshPostgres(t)
	var list []*Store
	for _, name := range names {
		options.Replica = name
		list = append(list, openWith(t, options))
	}
	return list
}

func outcome(t *testing.T, s *Store, id string) perigee.Outcome {
	t.Helper()
	calls := mustCalls(t, s, perigee.CallQuery{ID: id})
	if len(calls) != 1 {
		t.Fatalf("%d calls %s", len(calls), id)
	}
	return calls[0].Outcome
}

func TestReplicaLeavesOpenCallsOfOthersAlone(t *testing.T) {
	list := replicas(t, "a", "b")
	a, b := list[0], list[1]
	mustSave(t, a, perigee.Call{ID: "of-a", Time: noon, Outcome: perigee.OutcomeOpen})
	mustSave(t, b, perigee.Call{ID: "of-b", Time: noon, Outcome: perigee.OutcomeOpen})
	for _, s := range list {
		if cut, err := s.CutOffOpenCalls(t.Context()); cut != 0 || err != nil {
			t.Errorf("%s cut off %d calls of the living (%v)", s.replica, cut, err)
		}
	}
	// b has not said for too long that it is alive.
	b.heartbeat.stop()
	await.Receive(t, b.heartbeat.done, "the end of the heartbeat")
	if _, err := a.db.Write.Exec(`UPDATE replicas SET alive_until_us = 1 WHERE id = 'b'`); err != nil {
		t.Fatal(err)
	}
	a.heartbeat.clear(t.Context())
	if got := outcome(t, a, "of-b"); got != perigee.OutcomeCutOff {
		t.Errorf("the call of the one that is gone is %s", got)
	}
	if got := outcome(t, a, "of-a"); got != perigee.OutcomeOpen {
		t.Errorf("the call of the one that is there is %s", got)
	}
	if alive, err := a.Replicas(t.Context()); alive != 1 || err != nil {
		t.Errorf("%d are alive, %v", alive, err)
	}
	// It was not gone after all: what it says about its calls counts, and it is counted again.
	mustSave(t, b, perigee.Call{ID: "of-b", Time: noon, Outcome: perigee.OutcomeDone})
	if err := b.renewReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive, err := a.Replicas(t.Context()); outcome(t, a, "of-b") != perigee.OutcomeDone || alive != 2 || err != nil {
		t.Errorf("its call is %s, %d are alive, %v", outcome(t, a, "of-b"), alive, err)
	}
}

func TestReplicaThatClosesIsGoneAtOnce(t *testing.T) {
	list := replicas(t, "a", "b")
	mustSave(t, list[1], perigee.Call{ID: "of-b", Time: noon, Outcome: perigee.OutcomeOpen})
	mustClose(t, list[1])
	if cut, err := list[0].CutOffOpenCalls(t.Context()); cut != 1 || err != nil {
		t.Errorf("cut off %d, %v", cut, err)
	}
}

// lease asks for the turn of an account in the background.
func lease(ctx context.Context, s *Store, email string) <-chan func() {
	got := make(chan func(), 1)
	go func() {
		defer close(got)
		if release, err := s.Accounts(boundSealer{}).LeaseRefresh(ctx, "gravity", email); err == nil {
			got <- release
		}
	}()
	return got
}

// waitsForTurn returns when a session of the server waits for a lock.
func waitsForTurn(t *testing.T, s *Store) {
	t.Helper()
	await.Until(t, "a session that waits", func() bool {
		var waiting int
		const query = `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE '%perigee refresh%' AND pid <> pg_backend_pid()`
		if err := s.db.Read.QueryRow(query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting > 0
	})
}

func receive(t *testing.T, c <-chan func()) func() {
	t.Helper()
	release := await.Receive(t, c, "the turn")
	if release == nil {
		t.Fatal("the turn did not come")
	}
	return release
}

func TestReplicasRefreshAnAccountInTurns(t *testing.T) {
	list := replicas(t, "a", "b")
	a, b := list[0], list[1]
	release := receive(t, lease(t.Context(), a, "ada@example.com"))
	receive(t, lease(t.Context(), b, "bob@example.com"))() // another account is another matter
	waiting := lease(t.Context(), b, "ADA@example.com ")
	waitsForTurn(t, a)
	release()
	release() // twice does no harm
	receive(t, waiting)()
}

func TestTurnOfAReplicaThatDiedIsFree(t *testing.T) {
	list := replicas(t, "a", "b")
	a, b := list[0], list[1]
	release := receive(t, lease(t.Context(), a, "ada@example.com"))
	defer release()
	waiting := lease(t.Context(), b, "ada@example.com")
	waitsForTurn(t, b)
	// What the server sees of a process that was killed.
	const kill = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%perigee refresh%' AND state = 'idle in transaction'`
	if _, err := b.db.Write.Exec(kill); err != nil {
		t.Fatal(err)
	}
	receive(t, waiting)()
	receive(t, lease(t.Context(), a, "ada@example.com"))() // and the other one finds its way back
}

func TestWaitingForATurnEndsWithItsContext(t *testing.T) {
	list := replicas(t, "a", "b")
	release := receive(t, lease(t.Context(), list[0], "ada@example.com"))
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := list[1].Accounts(boundSealer{}).LeaseRefresh(ctx, "gravity", "ada@example.com")
		given <- err
	}()
	waitsForTurn(t, list[0])
	cancel()
	if err := await.Receive(t, given, "the end of the wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	receive(t, lease(t.Context(), list[1], "ada@example.com"))()
}

// More accounts at once than there are connections for their turns must not stand in each other's
// way for good, and the rotated tokens must still find a connection to be stored.
func TestManyAccountsTakeTheirTurns(t *testing.T) {
	list := replicas(t, "a", "b")
	const accounts = 12 // three for each connection
	done := make(chan error)
	for i := range accounts {
		for _, s := range list {
			go func() {
				email := strings.Repeat("x", i+1) + "@example.com"
				release, err := s.Accounts(boundSealer{}).LeaseRefresh(t.Context(), "gravity", email)
				if err == nil {
					_, err = s.Accounts(boundSealer{}).AddSignIns(t.Context(), []perigee.SignIn{signIn(email, "t")})
					release()
				}
				done <- err
			}()
		}
	}
	for range accounts * len(list) {
		if err := await.Receive(t, done, "a turn"); err != nil {
			t.Error(err)
		}
	}
}

func TestSQLiteLeasesWithinTheProcess(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	if s.Shared() {
		t.Error("a file is shared")
	}
	release := receive(t, lease(t.Context(), s, "ada@example.com"))
	receive(t, lease(t.Context(), s, "bob@example.com"))()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Accounts(boundSealer{}).LeaseRefresh(ctx, "gravity", "ADA@example.com"); !errors.Is(err, context.Canceled) {
		t.Errorf("leased twice: %v", err)
	}
	release()
	receive(t, lease(t.Context(), s, "ada@example.com"))()
}

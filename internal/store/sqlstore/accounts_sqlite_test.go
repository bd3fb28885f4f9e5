package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// TestAccountWritesAreSynced looks at the setting that decides whether a commit survives a power
// cut.
func TestAccountWritesAreSynced(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perigee.db"))
	level := func(row *sql.Row) (n int) {
		t.Helper()
		if err := row.Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	broken := errors.New("broken")
	for _, outcome := range []error{nil, broken} {
		err := s.db.TransactDurably(t.Context(), "test", func(ctx context.Context, tx engine.Tx) error {
			var inside int
			if _, err := engine.One(ctx, tx, "PRAGMA synchronous", nil, &inside); err != nil || inside != 2 {
				t.Errorf("inside it is %d (%v), want 2 (full)", inside, err)
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			t.Errorf("got %v, want %v", err, outcome)
		}
		if got := level(s.db.Write.QueryRow("PRAGMA synchronous")); got != 1 {
			t.Errorf("afterwards it is %d, want 1 (normal)", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.db.TransactDurably(ctx, "test", func(context.Context, engine.Tx) error { cancel(); return nil }); err == nil {
		t.Error("a canceled transaction was committed")
	}
	if got := level(s.db.Write.QueryRow("PRAGMA synchronous")); got != 1 {
		t.Errorf("after a cancellation it is %d, want 1 (normal)", got)
	}
}

func TestAccountsReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	mustAdd(t, open(t, path).Accounts(boundSealer{}), signIn("ada@example.com", "t"))
	s, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	a := s.Accounts(boundSealer{})
	read := theOnly(t, a)
	_, err = a.AddSignIns(t.Context(), []perigee.SignIn{read})
	wantClass(t, err, perigee.ClassInternal)
	_, err = a.ChangeSignIn(t.Context(), read)
	wantClass(t, err, perigee.ClassInternal)
	_, err = a.RemoveSignIn(t.Context(), read.Upstream, read.Email)
	wantClass(t, err, perigee.ClassInternal)
	wantClass(t, a.PreferSignIn(t.Context(), read.Upstream, read.Email), perigee.ClassInternal)
	wantClass(t, a.SaveCooldown(t.Context(), read.Upstream, read.Email, perigee.Cooldown{}), perigee.ClassInternal)
}

// TestAccountsOfAnotherProcess has two stores on one file, as a daemon and a command are.
func TestAccountsOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	daemon, command := open(t, path).Accounts(boundSealer{}), open(t, path).Accounts(boundSealer{})
	mustAdd(t, daemon, signIn("ada@example.com", "first"))
	read := theOnly(t, daemon)
	mustRemove(t, command, "ada@example.com")
	if _, err := daemon.ChangeSignIn(t.Context(), read); !errors.Is(err, perigee.ErrAccountChanged) {
		t.Errorf("got %v", err)
	}
	if list := mustSignIns(t, daemon, ""); len(list) != 0 {
		t.Errorf("%v came back", emails(list))
	}
}

// TestTokensAreNotInTheFile reads the database as a thief would.
func TestTokensAreNotInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	mustAdd(t, open(t, path).Accounts(boundSealer{}), signIn("ada@example.com", "very-secret-token"))
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("very-secret-token")) {
			t.Errorf("%s has the token in it", filepath.Base(name))
		}
	}
}

func BenchmarkChangeSignIn(b *testing.B) {
	a := open(b, filepath.Join(b.TempDir(), "perigee.db")).Accounts(boundSealer{})
	mustAdd(b, a, signIn("ada@example.com", "t"))
	s := theOnly(b, a)
	for b.Loop() {
		s.Generation = mustChange(b, a, s)
	}
}

package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// TestNoQuestionIsWaitedForForever asks everything of a database that takes questions and answers
// none, as behind a network that has swallowed them.
func TestNoQuestionIsWaitedForForever(t *testing.T) {
	signIn := signIn("ada@example.com", "t")
	questions := map[string]func(ctx context.Context, s *Store, a *Accounts) error{
		"SaveCalls": func(ctx context.Context, s *Store, _ *Accounts) error {
			return s.SaveCalls(ctx, []perigee.Call{fullCall("a")})
		},
		"Calls": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, err := s.Calls(ctx, perigee.CallQuery{})
			return err
		},
		"before": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, err := s.Calls(ctx, perigee.CallQuery{Before: "a"})
			return err
		},
		"Usage": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, err := s.Usage(ctx, perigee.UsageQuery{})
			return err
		},
		"Ping": func(ctx context.Context, s *Store, _ *Accounts) error { return s.Ping(ctx) },
		"SaveSignatures": func(ctx context.Context, s *Store, _ *Accounts) error {
			return s.SaveSignatures(ctx, []perigee.Signature{{Key: "a"}})
		},
		"FindSignatures": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, err := s.FindSignatures(ctx, []string{"a"})
			return err
		},
		"SaveResponse": func(ctx context.Context, s *Store, _ *Accounts) error {
			return s.SaveResponse(ctx, &perigee.StoredResponse{ID: "a"})
		},
		"Response": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, err := s.Response(ctx, "k", "a")
			return err
		},
		"DeleteResponse": func(ctx context.Context, s *Store, _ *Accounts) error { return s.DeleteResponse(ctx, "k", "a") },
		"TakeRequests": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, err := s.TakeRequests(ctx, "k", 1, 10)
			return err
		},
		"CutOffOpenCalls": func(ctx context.Context, s *Store, _ *Accounts) error { _, err := s.CutOffOpenCalls(ctx); return err },
		"Upkeep": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, _, err := s.Upkeep(ctx, time.Time{})
			return err
		},
		"Replicas": func(ctx context.Context, s *Store, _ *Accounts) error { _, err := s.Replicas(ctx); return err },
		"Changes":  func(ctx context.Context, s *Store, _ *Accounts) error { _, err := s.Changes(ctx); return err },
		"SaveSession": func(ctx context.Context, s *Store, _ *Accounts) error {
			return s.Sessions("gravity").SaveSession(ctx, "s", "f", "e", "p")
		},
		"FindSession": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, _, err := s.Sessions("gravity").FindSession(ctx, "s", "f")
			return err
		},
		"Known": func(ctx context.Context, s *Store, _ *Accounts) error {
			_, err := s.Sessions("gravity").Known(ctx, 1)
			return err
		},
		"ForgetSessions": func(ctx context.Context, s *Store, _ *Accounts) error {
			return s.Sessions("gravity").ForgetSessions(ctx)
		},
		"SignIns": func(ctx context.Context, _ *Store, a *Accounts) error { _, err := a.SignIns(ctx, ""); return err },
		"SignIn": func(ctx context.Context, _ *Store, a *Accounts) error {
			_, _, err := a.SignIn(ctx, "gravity", "e")
			return err
		},
		"AddSignIns": func(ctx context.Context, _ *Store, a *Accounts) error {
			_, err := a.AddSignIns(ctx, []perigee.SignIn{signIn})
			return err
		},
		"ChangeSignIn": func(ctx context.Context, _ *Store, a *Accounts) error {
			_, err := a.ChangeSignIn(ctx, signIn)
			return err
		},
		"RemoveSignIn": func(ctx context.Context, _ *Store, a *Accounts) error {
			_, err := a.RemoveSignIn(ctx, "gravity", "e")
			return err
		},
		"PreferSignIn": func(ctx context.Context, _ *Store, a *Accounts) error { return a.PreferSignIn(ctx, "gravity", "e") },
		"SaveCooldown": func(ctx context.Context, _ *Store, a *Accounts) error {
			return a.SaveCooldown(ctx, "gravity", "e", perigee.Cooldown{})
		},
	}
	reads := []string{"Calls", "before", "Usage", "FindSignatures", "Response", "Replicas", "Changes", "FindSession", "Known", "Ping", "SignIns", "SignIn", "TakeRequests"}
	for name, ask := range questions {
		patience := 20 * time.Second
		if slices.Contains(reads, name) {
			patience = engine.ReadTimeout
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := sql.OpenDB(mute{})
				defer func() { _ = db.Close() }()
				dialect := engine.Dialect{Name: "postgres://far.away/perigee", Shared: true, Timeout: 20 * time.Second,
					Text: strings.Clone}
				s := &Store{db: &engine.DB{Dialect: dialect, Driver: muteDriver{}, Read: db, Write: db}, now: time.Now}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				err := ask(ctx, s, s.Accounts(boundSealer{}))
				if waited := time.Since(start); !errors.Is(err, engine.ErrTimeout) || waited != patience {
					t.Errorf("after %v: %v", waited, err)
				}
			})
		})
	}
}

// A muteDriver sends the statements of a transaction one by one: there is no server to send them to
// at once.
type muteDriver struct{ engine.Driver }

func (muteDriver) Advice(error) (perigee.Class, string) { return perigee.ClassUnavailable, "" }

func (muteDriver) Transact(ctx context.Context, db *sql.DB, _ bool, work func(tx engine.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return work(muteTx{tx})
}

type muteTx struct{ tx *sql.Tx }

func (m muteTx) Query(ctx context.Context, query string, args []any, _ func(row engine.Row) error) error {
	_, err := m.tx.QueryContext(ctx, query, args...)
	return err
}

func (m muteTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	_, err := m.tx.ExecContext(ctx, statement, args...)
	return 0, err
}

func (m muteTx) Each(ctx context.Context, b engine.Bulk) error {
	_, err := m.tx.ExecContext(ctx, b.Statement)
	return err
}

// mute is a driver whose connections begin and end transactions, take the settings of one, and
// answer nothing.
type mute struct{}

func (m mute) Connect(context.Context) (driver.Conn, error) { return m, nil }
func (m mute) Driver() driver.Driver                        { return nil }
func (m mute) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("asked without a context") }
func (m mute) Close() error                                 { return nil }
func (m mute) Begin() (driver.Tx, error)                    { return m, nil }
func (m mute) Commit() error                                { return nil }
func (m mute) Rollback() error                              { return nil }

func (m mute) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return m, nil }

// QueryContext is called in bubbles.
func (m mute) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// ExecContext is called in bubbles.
func (m mute) ExecContext(ctx context.Context, statement string, _ []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(statement, "set_config") {
		return driver.RowsAffected(0), nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

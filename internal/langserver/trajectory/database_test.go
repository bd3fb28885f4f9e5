package trajectory

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"

	"perigee"
	geminicoder "perigee/gen/gemini_coder"
)

// A writer keeps a conversation in a database as the language server does.
type writer struct {
	db *sql.DB
}

func newWriter(t testing.TB, dir, cascade, journal string) *writer {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, cascade+".db")+"?_pragma=journal_mode("+journal+")&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE steps (idx INTEGER PRIMARY KEY, step_type INTEGER, status INTEGER, step_payload BLOB)`); err != nil {
		t.Fatal(err)
	}
	return &writer{db: db}
}

// save replaces all steps in one transaction.
func (w *writer) save(ctx context.Context, steps []*geminicoder.Step) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `DELETE FROM steps WHERE idx >= ?`, len(steps)); err != nil {
		return err
	}
	for i, s := range steps {
		payload, err := proto.Marshal(s)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?)`, i, int(s.Type), int(s.Status), payload); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// TestFollowDatabase follows random conversations in a database while they are written, with
// restarts in between.
func TestFollowDatabase(t *testing.T) {
	perigeetest.Slow(t)
	dir := t.TempDir()
	n := 0
	var running sync.WaitGroup
	for range 12 {
		ops := rapid.Custom(drawOps).Example(n)
		n++
		cascade, journal := strings.Repeat("c", n), []string{"WAL", "DELETE"}[n%2]
		w := newWriter(t, dir, cascade, journal)
		running.Go(func() {
			c := newConversation()
			writing := make(chan error, 1)
			go func() {
				for _, o := range ops {
					pause(o.Pause / 10)
					c.change(func() { c.steps = o.do(c.steps) })
					if err := w.save(t.Context(), c.steps); err != nil {
						writing <- err
						return
					}
				}
				c.change(func() { c.steps = op{Kind: "finish"}.do(op{Kind: "planner", Text: "the end"}.do(c.steps)) })
				writing <- w.save(t.Context(), c.steps)
			}()
			seen := newView()
			var cursor Cursor
			written := false
			for left := 1; ; left++ {
				// A writer that pauses for long looks like the end of the turn.
				done, err := followSome(t.Context(), Follower{Reader: Database{dir}, Cascade: cascade, Cursor: cursor, Grace: time.Millisecond}, &cursor, &seen, left)
				if err != nil {
					t.Errorf("%s: %v", journal, err)
					return
				}
				if done && written {
					break
				}
				if done {
					if err := <-writing; err != nil {
						t.Errorf("%s: the writer: %v", journal, err)
						return
					}
					written = true
				}
			}
			if d := difference(seen, viewOf(c.steps)); d != "" {
				t.Errorf("%s: %s", journal, d)
			}
		})
	}
	await.Return(t, running.Wait, "the ends of all conversations")
}

// followSome follows for so many events, and reports whether the turn has ended. The cursor is JSON
// in between.
func followSome(ctx context.Context, f Follower, cursor *Cursor, seen *view, events int) (done bool, err error) {
	for e, err := range f.Events(ctx) {
		if err != nil {
			return false, err
		}
		seen.take(e)
		if done = e.Kind == KindDone; done || events == 0 {
			break
		}
		events--
	}
	*cursor, err = encoded(f.Cursor)
	return done, err
}

// Reading leaves no files behind, also when no program has the database open.
func TestReadingLeavesNoFiles(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		dir := t.TempDir()
		w := newWriter(t, dir, "c", journal)
		want := []*geminicoder.Step{user("a"), planner(stepDone, "b")}
		if err := w.save(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		for _, open := range []bool{true, false} {
			if !open {
				if err := w.db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			before, _ := os.ReadDir(dir)
			steps, err := Database{dir}.Steps(t.Context(), "c", 1)
			if err != nil || len(steps) != 1 || !proto.Equal(steps[0], want[1]) {
				t.Errorf("%s, open %t: %v, %v", journal, open, steps, err)
			}
			answer, err := Database{dir}.Trajectory(t.Context(), "c")
			if err != nil || answer.NumTotalSteps != 2 {
				t.Errorf("%s, open %t: %v, %v", journal, open, answer, err)
			}
			if after, _ := os.ReadDir(dir); len(after) != len(before) {
				t.Errorf("%s, open %t: %d files before, %d after", journal, open, len(before), len(after))
			}
		}
	}
}

// A database that is locked is read when the lock is gone. Real time: SQLite waits for the lock in
// it.
func TestLockedDatabase(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir, "c", "DELETE")
	if err := w.save(t.Context(), []*geminicoder.Step{user("a"), planner(stepDone, "b")}); err != nil {
		t.Fatal(err)
	}
	conn, err := w.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	unlocked := make(chan error, 1)
	go func() {
		time.Sleep(20 * time.Millisecond) // most readings begin before that
		_, err := conn.ExecContext(context.Background(), "COMMIT")
		unlocked <- errors.Join(err, conn.Close())
	}()
	steps, err := Database{dir}.Steps(t.Context(), "c", 0)
	if err != nil || len(steps) != 2 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
	if err := await.Receive(t, unlocked, "the end of the lock"); err != nil {
		t.Error(err)
	}
}

func TestDatabasesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text.db"), []byte(strings.Repeat("not a database ", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, dir, "broken", "WAL")
	if _, err := w.db.ExecContext(t.Context(), `INSERT INTO steps VALUES (0, 14, 3, x'ffff')`); err != nil {
		t.Fatal(err)
	}
	for cascade, class := range map[string]perigee.Class{
		"": perigee.ClassInvalid, "../text": perigee.ClassInvalid, `a\b`: perigee.ClassInvalid,
		"missing": perigee.ClassUnavailable, "text": perigee.ClassUnavailable, "broken": perigee.ClassUnavailable,
	} {
		if _, err := (Database{dir}).Steps(t.Context(), cascade, 0); err == nil || perigee.AsError(err).Class != class {
			t.Errorf("%q: %v", cascade, err)
		}
	}
}

// Rows are read up to the first gap, and the columns stand in for a payload without type and
// status.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir, "c", "WAL")
	if _, err := w.db.ExecContext(t.Context(), `INSERT INTO steps VALUES (0, 14, 3, NULL), (1, 15, 8, x''), (3, 15, 8, x'')`); err != nil {
		t.Fatal(err)
	}
	steps, err := Database{dir}.Steps(t.Context(), "c", 0)
	if err != nil || len(steps) != 2 || steps[0].Type != user("").Type || steps[0].Status != stepDone || steps[1].Status != stepGenerating {
		t.Errorf("got %v, %v", steps, err)
	}
}

// FuzzPayload decodes any payload and reports on it.
func FuzzPayload(f *testing.F) {
	for _, s := range []*geminicoder.Step{user("a"), planner(stepDone, "b"), command(stepWaiting, "c"), checkpoint()} {
		payload, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int32(s.Type), int32(s.Status), payload)
	}
	f.Fuzz(func(t *testing.T, kind, status int32, payload []byte) {
		step, err := decodeStep(kind, status, payload, payload)
		if err != nil {
			return
		}
		tracker := NewTracker(Cursor{})
		first := observe(tracker, step)
		if again := observe(tracker, step); len(again) != 0 && hashStep(step) != 0 {
			t.Errorf("%+v, and then %+v", first, again)
		}
		tracker.Outcome(time.Hour)
		if _, err := encoded(tracker.Cursor()); err != nil {
			t.Error(err)
		}
	})
}

// Newer versions keep the metadata of a step beside it.
func TestMetadataInAColumn(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir, "c", "WAL")
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := w.db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.save(t.Context(), []*geminicoder.Step{user("a"), planner(stepDone, "b"), user("c")}); err != nil {
		t.Fatal(err)
	}
	about, err := Database{dir}.Describe(t.Context(), "c")
	if err != nil || about.Steps != 3 || about.Workspaces != nil || len(about.Degraded) != 1 {
		t.Errorf("got %+v, %v", about, err)
	}
	exec(`ALTER TABLE steps ADD COLUMN metadata BLOB`)
	exec(`UPDATE steps SET metadata = x'0a0608caddaed10649aaaaaaaaaaaaaaaa' WHERE idx = 0`) // a time, and a field of another type
	exec(`UPDATE steps SET metadata = x'ff' WHERE idx = 2`)
	exec(`CREATE TABLE trajectory_metadata_blob (id TEXT PRIMARY KEY, data BLOB)`)
	exec(`INSERT INTO trajectory_metadata_blob VALUES ('main', x'0a0a0a0866696c653a2f2f2f12060880ae99a40f')`)
	exec(`CREATE TABLE trajectory_meta (trajectory_id TEXT)`)
	exec(`INSERT INTO trajectory_meta VALUES ('t')`)
	steps, err := Database{dir}.Steps(t.Context(), "c", 0)
	if err != nil || len(steps) != 3 {
		t.Fatal(len(steps), err)
	}
	if at := steps[0].GetMetadata().GetCreatedAt().GetSeconds(); at != 1_781_247_690 {
		t.Errorf("the first step is of %d", at)
	}
	if steps[1].GetMetadata() == nil || steps[2].GetMetadata() != nil {
		t.Errorf("got %v and %v", steps[1].GetMetadata(), steps[2].GetMetadata())
	}
	about, err = Database{dir}.Describe(t.Context(), "c")
	if err != nil || len(about.Workspaces) != 1 || about.Workspaces[0] != "file:///" || about.Created.Unix() != 4102444800 || about.Degraded != nil {
		t.Errorf("got %+v, %v", about, err)
	}
}

// A process that was killed has left a log, and its index is gone.
func TestLogWithoutIndex(t *testing.T) {
	live, dir, temporary := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	w := newWriter(t, live, "c", "WAL")
	if err := w.save(t.Context(), []*geminicoder.Step{user("a"), planner(stepDone, "b")}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c.db", "c.db-wal"} {
		data, err := os.ReadFile(filepath.Join(live, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	steps, err := Database{dir}.Steps(t.Context(), "c", 0)
	if err != nil || len(steps) != 2 {
		t.Errorf("got %d steps, %v", len(steps), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("there are %v", entries)
	}
	if left, _ := os.ReadDir(temporary); len(left) != 0 {
		t.Errorf("%v was left", left)
	}
}

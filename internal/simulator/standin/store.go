package standin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite" // newer versions keep conversations in SQLite

	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// The forms in which conversations are stored: a message, which real versions encrypt, or since 2.0
// a database.
const (
	storeMessage  = "pb"
	storeDatabase = "db"
)

// tables are the tables of the databases of versions since 2.0.
const tables = `
CREATE TABLE IF NOT EXISTS trajectory_meta (trajectory_id TEXT PRIMARY KEY, cascade_id TEXT, trajectory_type INTEGER, source INTEGER);
CREATE TABLE IF NOT EXISTS trajectory_metadata_blob (id TEXT PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS steps (idx INTEGER PRIMARY KEY, step_type INTEGER NOT NULL DEFAULT 0, status INTEGER NOT NULL DEFAULT 0,
	has_subtrajectory NUMERIC NOT NULL DEFAULT false, metadata BLOB, error_details BLOB, permissions BLOB, task_details BLOB, render_info BLOB,
	step_payload BLOB, step_format INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS gen_metadata (idx INTEGER PRIMARY KEY, data BLOB, size INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS executor_metadata (idx INTEGER PRIMARY KEY, data BLOB, size INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS parent_references (idx INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS battle_mode_infos (idx INTEGER PRIMARY KEY, data BLOB);
`

// openDatabase opens the database of a conversation for writing, with a write-ahead log.
func openDatabase(path string) (*sql.DB, error) {
	options := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(OFF)", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: options.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(context.Background(), tables); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// writeDatabase writes the steps of a conversation from an index on.
func writeDatabase(db *sql.DB, t *geminicoder.Trajectory, from int) error {
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	put := func(query string, message proto.Message, args ...any) {
		var data []byte
		if err == nil {
			data, err = proto.Marshal(message)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, query, append(args, data)...)
		}
	}
	put(`INSERT OR REPLACE INTO trajectory_metadata_blob (id, data) VALUES ('main', ?)`, t.Metadata)
	for i, step := range t.Steps[from:] {
		put(`INSERT OR REPLACE INTO steps (idx, step_type, status, metadata, step_payload)
			SELECT ?, ?, ?, ?, ?`, step, from+i, int(step.Type), int(step.Status), marshaled(step.Metadata))
	}
	for i, g := range t.GeneratorMetadata {
		put(`INSERT OR REPLACE INTO gen_metadata (idx, data) VALUES (?, ?)`, g, i)
	}
	for i, e := range t.ExecutorMetadatas {
		put(`INSERT OR REPLACE INTO executor_metadata (idx, data) VALUES (?, ?)`, e, i)
	}
	if err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO trajectory_meta VALUES (?, ?, ?, ?)`, t.TrajectoryId, t.CascadeId, int(t.TrajectoryType), int(t.Source)); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, `DELETE FROM steps WHERE idx >= ?`, len(t.Steps)); err != nil {
		return err
	}
	return tx.Commit()
}

func marshaled(m *cortexpb.CortexStepMetadata) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil // a text that is no UTF-8; the payload has the same error
	}
	return data
}

// readDatabase reads a conversation.
func readDatabase(path string) (t *geminicoder.Trajectory, err error) {
	db, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	t = &geminicoder.Trajectory{Metadata: &cortexpb.CortexTrajectoryMetadata{}}
	var kind, source int32
	ctx := context.Background()
	if err := db.QueryRowContext(ctx, `SELECT trajectory_id, cascade_id, trajectory_type, source FROM trajectory_meta`).Scan(&t.TrajectoryId, &t.CascadeId, &kind, &source); err != nil {
		return nil, err
	}
	t.TrajectoryType, t.Source = cortexpb.CortexTrajectoryType(kind), cortexpb.CortexTrajectorySource(source)
	for _, read := range []struct {
		query string
		add   func() proto.Message
	}{
		{`SELECT data FROM trajectory_metadata_blob`, func() proto.Message { return t.Metadata }},
		{`SELECT step_payload FROM steps ORDER BY idx`, func() proto.Message {
			t.Steps = append(t.Steps, &geminicoder.Step{})
			return t.Steps[len(t.Steps)-1]
		}},
		{`SELECT data FROM gen_metadata ORDER BY idx`, func() proto.Message {
			t.GeneratorMetadata = append(t.GeneratorMetadata, &cortexpb.CortexStepGeneratorMetadata{})
			return t.GeneratorMetadata[len(t.GeneratorMetadata)-1]
		}},
		{`SELECT data FROM executor_metadata ORDER BY idx`, func() proto.Message {
			t.ExecutorMetadatas = append(t.ExecutorMetadatas, &cortexpb.ExecutorMetadata{})
			return t.ExecutorMetadatas[len(t.ExecutorMetadatas)-1]
		}},
	} {
		if err := readRows(ctx, db, read.query, read.add); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func readRows(ctx context.Context, db *sql.DB, query string, add func() proto.Message) (err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return err
		}
		if err := proto.Unmarshal(data, add()); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readStored reads the files of earlier processes.
func (c *conversations) readStored() {
	entries, err := os.ReadDir(filepath.Join(c.p.data, "conversations"))
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(c.p.data, "conversations", entry.Name())
		var t *geminicoder.Trajectory
		switch filepath.Ext(path) {
		case "." + storeMessage:
			t = &geminicoder.Trajectory{}
			var text []byte
			if text, err = os.ReadFile(path); err == nil {
				err = proto.Unmarshal(text, t)
			}
		case "." + storeDatabase:
			t, err = readDatabase(path)
		default:
			continue
		}
		info, statErr := entry.Info()
		if err = errors.Join(err, statErr); err != nil {
			c.p.log.error("failed to load conversation %s: %v", entry.Name(), err)
			continue
		}
		c.stored[t.CascadeId], c.changed[t.CascadeId] = t, info.ModTime()
	}
}

func (c *conversations) path(id, form string) string {
	return filepath.Join(c.p.data, "conversations", strings.NewReplacer("/", "_", `\`, "_", "..", "_").Replace(id)+"."+form)
}

// removeFiles deletes the files of a conversation.
func (c *conversations) removeFiles(id string) error {
	var failed error
	for _, form := range []string{storeMessage, storeDatabase, storeDatabase + "-wal", storeDatabase + "-shm"} {
		if err := os.Remove(c.path(id, form)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = err
		}
	}
	return failed
}

// save writes a conversation, so that it survives the process. A database is left open until the
// turn is over.
func (k *cascade) save(over bool) {
	var err error
	if k.all.p.store == storeDatabase {
		err = k.saveDatabase(over)
	} else {
		err = k.saveMessage()
	}
	if err == nil && over {
		err = k.saveTranscript()
	}
	if err != nil {
		k.all.p.log.error("failed to save conversation %s: %v", k.id, err)
	}
}

// saveTranscript writes the texts of a conversation as later builds do, in clear. Whether they
// remove that with the conversation is not known: here it stays, so that a client does not rely on
// it.
func (k *cascade) saveTranscript() error {
	var text []byte
	k.all.mu.Lock()
	for _, step := range k.steps {
		if said := step.GetPlannerResponse().GetResponse(); said != "" {
			line, _ := json.Marshal(map[string]string{"role": "model", "text": said}) // strings only
			text = append(append(text, line...), '\n')
		}
	}
	gone := k.all.cascades[k.id] != k
	k.all.mu.Unlock()
	dir := filepath.Join(filepath.Dir(filepath.Dir(k.all.path(k.id, storeMessage))), "brain", k.id, ".system_generated", "logs")
	if gone || !filepath.IsLocal(k.id) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "transcript.jsonl"), text, 0o600)
}

func (k *cascade) saveMessage() error {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if k.all.cascades[k.id] != k {
		return nil // it was deleted
	}
	text, err := proto.Marshal(k.snapshot(0, len(k.steps)))
	path := k.all.path(k.id, storeMessage)
	if err == nil {
		err = os.WriteFile(path+".tmp", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	return err
}

// saveDatabase writes the steps that have changed.
func (k *cascade) saveDatabase(over bool) (err error) {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.all.mu.Lock()
	gone := k.all.cascades[k.id] != k
	t := proto.CloneOf(k.snapshot(0, len(k.steps)))
	from := min(k.unsaved, len(k.steps))
	k.unsaved = len(k.steps)
	k.all.mu.Unlock()
	if gone {
		return k.closeDatabase()
	}
	if k.database == nil {
		if k.database, err = openDatabase(k.all.path(k.id, storeDatabase)); err != nil {
			return err
		}
	}
	if err = writeDatabase(k.database, t, from); err != nil {
		err = fmt.Errorf("steps from %d on: %w", from, err)
		k.all.mu.Lock()
		k.unsavedFrom(from)
		k.all.mu.Unlock()
	}
	if over {
		err = errors.Join(err, k.closeDatabase())
	}
	return err
}

func (k *cascade) closeDatabase() error {
	if k.database == nil {
		return nil
	}
	err := k.database.Close()
	k.database = nil
	return err
}

// stepSaved saves a step that was added or has another status, where conversations are databases.
func (k *cascade) stepSaved() {
	if k.all.p.store == storeDatabase {
		k.save(false)
	}
}

// unsavedFrom marks the steps from an index on as changed. Its caller holds the lock.
func (k *cascade) unsavedFrom(i int) { k.unsaved = min(k.unsaved, i) }

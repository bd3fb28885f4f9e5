package trajectory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite" // the driver

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// A Database reads the conversations that newer language servers keep in a directory, one SQLite
// database each. It needs no language server, writes nothing and leaves no files behind. It has no
// status of the conversation and no stream of updates. The older files of type .pb are encrypted
// and cannot be read.
type Database struct{ Dir string }

var _ Reader = Database{}

// Limits of one reading; further steps come with the next one.
const (
	maxRows  = 1000
	maxBytes = 64 << 20
)

// busyTime is how long a reading waits for a lock of the writer. WAL readers need none, except
// during recovery.
const busyTime = 2 * time.Second

// Trajectory returns the number of steps.
func (d Database) Trajectory(ctx context.Context, cascade string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	answer := &languageserverpb.GetCascadeTrajectoryResponse{}
	err := d.read(ctx, cascade, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT coalesce(max(idx) + 1, 0) FROM steps`).Scan(&answer.NumTotalSteps)
	})
	return answer, err
}

// Steps returns steps from an index on.
func (d Database) Steps(ctx context.Context, cascade string, offset int) (steps []*geminicoder.Step, err error) {
	err = d.read(ctx, cascade, func(db *sql.DB) error {
		steps, err = query(ctx, db, offset)
		return err
	})
	return steps, err
}

// Updates returns errors.ErrUnsupported: there is no stream.
func (d Database) Updates(context.Context, string) iter.Seq2[*jetskicortexpb.AgentStateUpdate, error] {
	return func(yield func(*jetskicortexpb.AgentStateUpdate, error) bool) {
		yield(nil, errors.ErrUnsupported)
	}
}

// A Description has the properties of a conversation in its database, apart from its steps.
type Description struct {
	Workspaces []string // URIs
	Created    time.Time
	Steps      int
	Degraded   []string // parts that differ from the known format
}

// maxDescription bounds the description in a database.
const maxDescription = 1 << 20

// Describe reads the properties of a conversation. Only the table of steps is required.
func (d Database) Describe(ctx context.Context, cascade string) (about Description, err error) {
	err = d.read(ctx, cascade, func(db *sql.DB) error {
		if err := db.QueryRowContext(ctx, `SELECT coalesce(max(idx) + 1, 0) FROM steps`).Scan(&about.Steps); err != nil {
			return err
		}
		var data []byte
		err := db.QueryRowContext(ctx, `SELECT data FROM trajectory_metadata_blob WHERE length(data) <= ? LIMIT 1`, maxDescription).Scan(&data)
		var metadata cortexpb.CortexTrajectoryMetadata
		if err == nil {
			err = proto.Unmarshal(data, &metadata)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			about.Degraded = append(about.Degraded, "the workspaces in a database of a conversation cannot be read")
		}
		for _, w := range metadata.GetWorkspaces() {
			about.Workspaces = append(about.Workspaces, w.GetWorkspaceFolderAbsoluteUri())
		}
		if t := metadata.GetCreatedAt(); t.IsValid() && t.GetSeconds() > 0 {
			about.Created = t.AsTime()
		}
		return ctx.Err()
	})
	return about, err
}

// query reads rows up to the first gap, because a missing row is not written yet.
func query(ctx context.Context, db *sql.DB, offset int) (steps []*geminicoder.Step, err error) {
	metadata := "metadata"
	var has bool
	if err := db.QueryRowContext(ctx, `SELECT count(*) > 0 FROM pragma_table_info('steps') WHERE name = 'metadata'`).Scan(&has); err != nil {
		return nil, err
	}
	if !has {
		metadata = "NULL"
	}
	rows, err := db.QueryContext(ctx, `SELECT idx, coalesce(step_type, 0), coalesce(status, 0), step_payload, `+metadata+` FROM steps
		WHERE idx >= ? ORDER BY idx LIMIT ?`, offset, maxRows)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for size := 0; size < maxBytes && rows.Next(); {
		var index int
		var kind, status int32
		var payload, metadata []byte
		if err := rows.Scan(&index, &kind, &status, &payload, &metadata); err != nil {
			return nil, err
		}
		if index != offset+len(steps) {
			break
		}
		step, err := decodeStep(kind, status, payload, metadata)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", index, err)
		}
		steps = append(steps, step)
		size += len(payload) + len(metadata)
	}
	return steps, rows.Err()
}

// decodeStep decodes a row. The payload has the type, the status and the metadata as well; the
// columns replace the ones that are missing.
func decodeStep(kind, status int32, payload, metadata []byte) (*geminicoder.Step, error) {
	step := &geminicoder.Step{}
	if err := proto.Unmarshal(payload, step); err != nil {
		return nil, err
	}
	if step.Type == 0 {
		step.Type = cortexpb.CortexStepType(kind)
	}
	if step.Status == 0 {
		step.Status = cortexpb.CortexStepStatus(status)
	}
	if step.Metadata == nil && len(metadata) > 0 {
		m := &cortexpb.CortexStepMetadata{}
		if proto.Unmarshal(metadata, m) == nil { // without it, times and tokens are unknown
			step.Metadata = m
		}
	}
	return step, nil
}

// read opens the database of a conversation for one reading.
func (d Database) read(ctx context.Context, cascade string, use func(*sql.DB) error) error {
	if cascade == "" || strings.ContainsAny(cascade, `/\`) || !filepath.IsLocal(cascade) {
		return perigee.Errorf(perigee.ClassInvalid, "%q is not the ID of a conversation", cascade)
	}
	path := filepath.Join(d.Dir, cascade+".db")
	if abandoned(path) {
		copied, remove, err := snapshot(path)
		if err != nil {
			return perigee.Errorf(perigee.ClassUnavailable, "the database of conversation %s cannot be read: %w", cascade, err)
		}
		defer remove()
		path = copied
	}
	still, err := inspect(path)
	if err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "the database of conversation %s cannot be read: %w", cascade, err)
	}
	options := url.Values{"mode": {"ro"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTime.Milliseconds()), "query_only(1)", "trusted_schema(0)",
	}}
	if still != nil {
		// otherwise SQLite would leave a log and an index next to the database
		options.Set("immutable", "1")
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: options.Encode()}).String())
	if err != nil {
		return err
	}
	err = errors.Join(use(db), db.Close())
	if err == nil && still != nil {
		err = still.unchanged(path)
	}
	if err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "the database of conversation %s cannot be read: %w", cascade, err)
	}
	return nil
}

// abandoned reports whether a database has a log without an index, because the program that wrote
// it was killed. SQLite would create an index, and leave it behind.
func abandoned(path string) bool {
	_, log := os.Stat(path + "-wal")
	_, index := os.Stat(path + "-shm")
	return log == nil && errors.Is(index, fs.ErrNotExist)
}

// maxSnapshot bounds the files that are copied.
const maxSnapshot = 256 << 20

var errWritten = errors.New("it is being written to")

// snapshot copies a database and its log into a directory that only this user can read.
func snapshot(path string) (copied string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "perigee-conversation-") // 0700
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	copied = filepath.Join(dir, filepath.Base(path))
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(path+suffix, copied+suffix); err != nil {
			remove()
			return "", nil, err
		}
	}
	if !abandoned(path) {
		remove()
		return "", nil, errWritten
	}
	return copied, remove, nil
}

// copyFile copies a file that does not change during the copy.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	before, err := in.Stat()
	if err != nil {
		return err
	}
	if before.Size() > maxSnapshot {
		return fmt.Errorf("it has %d bytes, more than %d", before.Size(), maxSnapshot)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, io.LimitReader(in, maxSnapshot)); err == nil {
		var after fs.FileInfo
		if after, err = in.Stat(); err == nil && (after.Size() != before.Size() || after.ModTime() != before.ModTime()) {
			err = errWritten
		}
	}
	return errors.Join(err, out.Close())
}

// A stillFile is a database that no program has open: it is in WAL mode, and there is no log.
type stillFile struct {
	size     int64
	modified time.Time
}

// inspect returns nil if the database has to be locked while it is read.
func inspect(path string) (*stillFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var header [20]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return nil, err
	}
	const walVersion = 2
	if _, err := os.Stat(path + "-wal"); header[18] != walVersion || !errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &stillFile{info.Size(), info.ModTime()}, nil
}

// unchanged returns an error if a program has opened the database since: the rows read may be
// inconsistent.
func (s *stillFile) unchanged(path string) error {
	now, err := inspect(path)
	if err == nil && (now == nil || *now != *s) {
		err = errWritten
	}
	return err
}

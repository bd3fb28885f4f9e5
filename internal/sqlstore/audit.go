package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"perigee"
)

var (
	_ perigee.AuditStore  = (*Store)(nil)
	_ perigee.AuditReader = (*Store)(nil)
)

const (
	auditColumns = `id, time_us, action, actor, source, object, detail, result, call_id`
	insertAudit  = `INSERT INTO audit (` + auditColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
)

// auditReading are the actions that change nothing. There can be many of them.
var auditReading = []string{perigee.AuditTraceList, perigee.AuditTraceRead, perigee.AuditAdminRefused}

// SaveAudit adds an entry, whose ID must be new. An entry about a change is on the disk when it returns.
func (s *Store) SaveAudit(ctx context.Context, e perigee.AuditEntry) error {
	if err := s.writable("save an audit entry"); err != nil {
		return err
	}
	if e.ID == "" {
		return perigee.Errorf(perigee.ClassInternal, "save an audit entry: it has no id")
	}
	text := s.engine.text
	args := []any{e.ID, e.Time.UnixMicro(), text(e.Action), text(e.Actor), text(e.From), text(e.Object), text(e.Detail), text(e.Result), text(e.Call)}
	insert := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, insertAudit, args...)
		return err
	}
	if slices.Contains(auditReading, e.Action) {
		return s.explain("save an audit entry in", s.transact(ctx, insert))
	}
	return s.explain("save an audit entry in", s.bounded(ctx, func(ctx context.Context) error {
		return s.engine.durably(ctx, s.write, func(tx *sql.Tx) error { return insert(ctx, tx) })
	}))
}

// AuditEntries returns entries, the newest first. A Before that names no entry is of perigee.ClassNotFound.
func (s *Store) AuditEntries(ctx context.Context, q perigee.AuditQuery) ([]perigee.AuditEntry, error) {
	entries, err := s.auditEntries(ctx, q)
	return entries, s.explain("read audit entries from", err)
}

func (s *Store) auditEntries(ctx context.Context, q perigee.AuditQuery) (entries []perigee.AuditEntry, err error) {
	var where conditions
	if !q.Since.IsZero() {
		where.add("time_us >= ", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		where.add("time_us < ", q.Until.UnixMicro())
	}
	where.match(s.engine.text(q.Action), "action")
	where.match(s.engine.text(q.Actor), "actor")
	if q.Before != "" {
		before, id := int64(0), s.engine.text(q.Before)
		err := s.one(ctx, `SELECT time_us FROM audit WHERE id = $1`, []any{id}, &before)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, perigee.Errorf(perigee.ClassNotFound, "there is no audit entry %s", perigee.Clip(q.Before, 100))
		}
		if err != nil {
			return nil, err
		}
		where.add("(time_us, id) < ", before, id)
	}
	query := `SELECT ` + auditColumns + ` FROM audit` + where.String() + ` ORDER BY time_us DESC, id DESC LIMIT ` +
		where.arg(cmp.Or(q.Limit, perigee.AuditDefaultRows))
	err = s.each(ctx, query, where.args, func(rows *sql.Rows) error {
		var e perigee.AuditEntry
		var micros int64
		err := rows.Scan(&e.ID, &micros, &e.Action, &e.Actor, &e.From, &e.Object, &e.Detail, &e.Result, &e.Call)
		e.Time = time.UnixMicro(micros).UTC()
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// auditTrimEvery is how often the audit log is checked against its bounds. Counting it reads up to AuditMaxStored rows.
const auditTrimEvery = time.Hour

// An auditBound is how many entries of some actions, or of all, are kept.
type auditBound struct {
	condition string
	keep      int
}

var auditBounds = []auditBound{
	{`action IN ('` + strings.Join(auditReading, `', '`) + `')`, perigee.AuditMaxStoredReading},
	{`1 = 1`, perigee.AuditMaxStored},
}

// boundAudit removes some of the entries that are too old or too many, and says whether there may be more.
func (s *Store) boundAudit(ctx context.Context) (more bool, err error) {
	if !s.auditDue() {
		return false, nil
	}
	removed, err := s.upkeep(ctx, func(ctx context.Context, tx bulkTx) (int, error) { return s.trimAudit(ctx, tx, auditBounds) })
	return removed == upkeepRows, err
}

// auditDue says whether the bounds have not been checked for auditTrimEvery.
func (s *Store) auditDue() bool {
	now, last := s.now().UnixMicro(), s.auditTrimmed.Load()
	return last == 0 || now-last >= auditTrimEvery.Microseconds() || now < last
}

// trimAudit removes some of the entries that are too old or too many, and returns how many.
func (s *Store) trimAudit(ctx context.Context, tx bulkTx, bounds []auditBound) (removed int, err error) {
	now := s.now()
	if !s.auditDue() {
		return 0, nil
	}
	removed, err = s.removeAudit(ctx, tx, `time_us < $1`, now.Add(-perigee.AuditMaxAge).UnixMicro(), "")
	for _, bound := range bounds {
		if err != nil || removed > 0 {
			break
		}
		var newest int64 // of those to remove
		var id string
		err = tx.query(ctx, `SELECT time_us, id FROM audit WHERE `+bound.condition+` ORDER BY time_us DESC, id DESC LIMIT 1 OFFSET $1`,
			[]any{bound.keep}, func(row scanner) error { return row.Scan(&newest, &id) })
		if err == nil && id != "" {
			removed, err = s.removeAudit(ctx, tx, bound.condition+` AND (time_us, id) <= ($1, $2)`, newest, id)
		}
	}
	if err == nil && removed == 0 {
		s.auditTrimmed.Store(now.UnixMicro())
	}
	return removed, err
}

// removeAudit removes the oldest entries that a condition on a time and an id is true of, at most upkeepRows.
func (s *Store) removeAudit(ctx context.Context, tx bulkTx, condition string, at int64, id string) (int, error) {
	args, limit := []any{at}, "$2"
	if id != "" {
		args, limit = append(args, id), "$3"
	}
	var ids []string
	err := tx.query(ctx, `SELECT id FROM audit WHERE `+condition+` ORDER BY time_us, id LIMIT `+limit, append(args, upkeepRows), func(row scanner) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err == nil {
		err = tx.each(ctx, forEach(`DELETE FROM audit WHERE id = $1`, ids))
	}
	return len(ids), err
}

package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

var (
	_ perigee.AuditStore  = (*Store)(nil)
	_ perigee.AuditReader = (*Store)(nil)
)

const auditColumns = `id, time_us, action, actor, source, object, detail, result, call_id`

var insertAudit = engine.Insert("audit", auditColumns)

// auditReading are the actions that change nothing. There can be many of them.
var auditReading = []string{perigee.AuditTraceList, perigee.AuditTraceRead, perigee.AuditAdminRefused}

// SaveAudit adds an entry with a new ID. An entry about a change is on the disk when it returns.
func (s *Store) SaveAudit(ctx context.Context, e perigee.AuditEntry) error {
	if e.ID == "" {
		return perigee.Errorf(perigee.ClassInternal, "save an audit entry: it has no id")
	}
	transact := s.db.TransactDurably
	if slices.Contains(auditReading, e.Action) {
		transact = s.db.Transact
	}
	return transact(ctx, "save an audit entry in", func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Exec(ctx, insertAudit, e.ID, e.Time.UnixMicro(), e.Action, e.Actor, e.From, e.Object, e.Detail, e.Result, e.Call)
		return err
	})
}

// AuditEntries returns entries, the newest first. A Before that names no entry is of
// perigee.ClassNotFound.
func (s *Store) AuditEntries(ctx context.Context, q perigee.AuditQuery) (entries []perigee.AuditEntry, err error) {
	defer s.db.Explain("read audit entries from", &err)
	var where conditions
	if !q.Since.IsZero() {
		where.add("time_us >= ", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		where.add("time_us < ", q.Until.UnixMicro())
	}
	where.match(q.Action, "action")
	where.match(q.Actor, "actor")
	if err := s.before(ctx, &where, "audit", "audit entry", q.Before); err != nil {
		return nil, err
	}
	query := `SELECT ` + auditColumns + ` FROM audit` + where.String() + newestFirst +
		where.arg(cmp.Or(q.Limit, perigee.AuditDefaultRows))
	return engine.List(ctx, s.db, query, where.args, func(e *perigee.AuditEntry) []any {
		return []any{&e.ID, engine.Micros(&e.Time), &e.Action, &e.Actor, &e.From, &e.Object, &e.Detail, &e.Result, &e.Call}
	})
}

// auditTrimEvery is how often the audit log is checked against its bounds. Counting it reads up to
// AuditMaxStored rows.
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

// boundAudit removes some of the entries that are too old or too many, and reports whether there
// may be more.
func (s *Store) boundAudit(ctx context.Context) (more bool, err error) {
	if !s.auditDue() {
		return false, nil
	}
	removed, err := s.upkeep(ctx, func(ctx context.Context, tx engine.Tx) (int, error) { return s.trimAudit(ctx, tx, auditBounds) })
	return removed == upkeepRows, err
}

// auditDue reports whether the bounds have not been checked for auditTrimEvery.
func (s *Store) auditDue() bool {
	now, last := s.now().UnixMicro(), s.auditTrimmed.Load()
	return last == 0 || now-last >= auditTrimEvery.Microseconds() || now < last
}

// trimAudit removes some of the entries that are too old or too many, and returns how many.
func (s *Store) trimAudit(ctx context.Context, tx engine.Tx, bounds []auditBound) (removed int, err error) {
	now := s.now()
	if !s.auditDue() {
		return 0, nil
	}
	removed, err = s.removeAudit(ctx, tx, `time_us < $1`, now.Add(-perigee.AuditMaxAge).UnixMicro())
	for _, bound := range bounds {
		if err != nil || removed > 0 {
			break
		}
		var newest int64 // of those to remove
		var id string
		query := `SELECT time_us, id FROM audit WHERE ` + bound.condition + newestFirst + `1 OFFSET $1`
		_, err = engine.One(ctx, tx, query, []any{bound.keep}, &newest, &id)
		if err == nil && id != "" {
			removed, err = s.removeAudit(ctx, tx, bound.condition+` AND (time_us, id) <= ($1, $2)`, newest, id)
		}
	}
	if err == nil && removed == 0 {
		s.auditTrimmed.Store(now.UnixMicro())
	}
	return removed, err
}

// removeAudit removes the oldest entries that a condition is true of, at most upkeepRows.
func (s *Store) removeAudit(ctx context.Context, tx engine.Tx, condition string, args ...any) (int, error) {
	oldest := fmt.Sprintf(`SELECT id FROM audit WHERE %s ORDER BY time_us, id LIMIT $%d`, condition, len(args)+1)
	removed, err := tx.Exec(ctx, pickedRows(oldest)+`DELETE FROM audit WHERE id IN (SELECT id FROM picked)`, append(args, upkeepRows)...)
	return int(removed), err
}

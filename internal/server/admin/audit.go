package admin

import (
	"context"
	"net/http"
	"slices"

	"perigee"
	"perigee/internal/server/mount"
)

// An AuditLog records administrative acts.
type AuditLog interface {
	// Record writes the log line and the row of an act. It returns an error if the row was not
	// written.
	Record(ctx context.Context, e perigee.AuditEntry) error
	// Refused writes the row of an administrative request that was refused.
	Refused(ctx context.Context, e perigee.AuditEntry)
}

// audit records an act that ended with err. If the row cannot be stored the act continues: its log
// line has been written, and traces must stay readable to diagnose the store.
func (a *API) audit(r *http.Request, e perigee.AuditEntry, err error) {
	if err != nil {
		e.Detail, e.Result = "", string(perigee.AsError(err).Class)
	}
	_ = a.Audit.Record(r.Context(), e)
}

// auditEntries answers GET /v1/audit?since=&until=&action=&actor=&limit=&before=: the newest
// entries first.
func (a *API) auditEntries(r *http.Request) ([]perigee.AuditEntry, error) {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "since", "until", "action", "actor", "limit", "before"); err != nil {
		return nil, err
	}
	q := perigee.AuditQuery{Action: query.Get("action"), Actor: query.Get("actor"), Before: query.Get("before")}
	var err error
	if q.Since, q.Until, err = mount.TimeRange(query); err != nil {
		return nil, err
	}
	if q.Limit, err = mount.Limit(query, 0, perigee.AuditMaxRows,
		"page with before=ID, the last entry of the page before"); err != nil {
		return nil, err
	}
	return a.Acts.AuditEntries(r.Context(), q)
}

// commandActs are the acts that commands do themselves while a daemon runs.
var commandActs = []string{perigee.AuditSignInStarted, perigee.AuditSignInFinished, perigee.AuditSignInFailed,
	perigee.AuditAccountExport}

// recordAct answers POST /v1/audit: {"action", "object", "detail", "result"}, from commands on this
// machine. Any answer other than 200 means that the act was not recorded.
func (a *API) recordAct(r *http.Request) (none struct{}, err error) {
	if !mount.CallOf(r).Trusted {
		return none, perigee.Errorf(perigee.ClassForbidden, "entries come from commands through the socket only").
			WithHint("use the perigee command")
	}
	var e perigee.AuditEntry
	if err := readCommand(r, map[string]any{"action": &e.Action, "object": &e.Object, "detail": &e.Detail,
		"result": &e.Result}); err != nil {
		return none, err
	}
	if !slices.Contains(commandActs, e.Action) {
		return none, perigee.Errorf(perigee.ClassInvalid, "action %q is not one that commands record", mount.Shorten(e.Action))
	}
	return none, a.Audit.Record(r.Context(), e)
}

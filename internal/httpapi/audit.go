package httpapi

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"

	"perigee"
)

// An AuditLog records administrative acts.
type AuditLog interface {
	// Record writes the log line and the row of an act. Its error says that there is no row.
	Record(ctx context.Context, e perigee.AuditEntry) error
	// Refused writes the row of an administrative request that was refused.
	Refused(ctx context.Context, e perigee.AuditEntry)
}

// auditOwner names the actor of an administrative request for whatever it does, or records that it was refused.
func (c *call) auditOwner(refused error) {
	actor := perigee.Actor{Kind: perigee.ActorSocket, Call: c.id}
	if !c.trusted {
		actor.Kind, actor.From = perigee.ActorToken, c.r.RemoteAddr
		if host, _, err := net.SplitHostPort(c.r.RemoteAddr); err == nil {
			actor.From = host
		}
	}
	c.r = c.r.WithContext(perigee.WithActor(c.r.Context(), actor))
	if refused == nil || c.opts.Audit == nil {
		return
	}
	e := perigee.AuditEntry{Object: c.r.Method + " " + c.path, Result: string(perigee.AsError(refused).Class)}
	if c.key != nil {
		e.Detail = "with key " + c.key.Name
	}
	c.opts.Audit.Refused(c.r.Context(), e)
}

// audit records an act that ended with err. An act whose row cannot be stored goes on: its log line has been written, and
// reading traces is how trouble with the store is found.
func (c *call) audit(e perigee.AuditEntry, err error) {
	if c.opts.Audit == nil {
		return
	}
	if err != nil {
		e.Detail, e.Result = "", string(perigee.AsError(err).Class)
	}
	_ = c.opts.Audit.Record(c.r.Context(), e)
}

// traceFilter is what a listing of traces was asked for. key names a key, but a client may have sent the key itself.
func (c *call) traceFilter() string {
	query := c.r.URL.Query()
	for i, value := range query["key"] {
		if value != "" && !slices.ContainsFunc(c.state.keys, func(k *guardedKey) bool { return k.Name == value }) {
			query["key"][i] = "[redacted]"
		}
	}
	text, err := url.QueryUnescape(query.Encode())
	if err != nil {
		return query.Encode()
	}
	return text
}

// auditEntries answers GET /v1/audit?since=&until=&action=&actor=&limit=&before=: the newest entries first.
func (c *call) auditEntries() error {
	if c.opts.Acts == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "there is no audit log here")
	}
	query := c.r.URL.Query()
	if err := knownParameters(query, "since", "until", "action", "actor", "limit", "before"); err != nil {
		return err
	}
	q := perigee.AuditQuery{Action: query.Get("action"), Actor: query.Get("actor"), Before: query.Get("before")}
	var err error
	if q.Since, err = timeParameter(query, "since"); err != nil {
		return err
	}
	if q.Until, err = timeParameter(query, "until"); err != nil {
		return err
	}
	if text := query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > perigee.AuditMaxRows {
			return perigee.Errorf(perigee.ClassInvalid, "limit %q is not a number from 1 to %d", shorten(text), perigee.AuditMaxRows).
				WithNext("page with before=ID, the last entry of the page before")
		}
	}
	rows, err := c.opts.Acts.AuditEntries(c.r.Context(), q)
	if err != nil {
		return err
	}
	return writeList(c, rows)
}

// commandActs are the acts that commands do themselves while a daemon runs.
var commandActs = []string{perigee.AuditSignInStarted, perigee.AuditSignInFinished, perigee.AuditSignInFailed, perigee.AuditAccountExport}

// recordAct answers POST /v1/audit: {"action", "object", "detail", "result"}, from commands on this machine. An answer other
// than 200 says that the act is not recorded.
func (c *call) recordAct() error {
	if c.opts.Audit == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "there is no audit log here")
	}
	if !c.trusted {
		return perigee.Errorf(perigee.ClassForbidden, "entries come from commands through the socket only").WithNext("use the perigee command")
	}
	var e perigee.AuditEntry
	if err := c.readCommand(map[string]any{"action": &e.Action, "object": &e.Object, "detail": &e.Detail, "result": &e.Result}); err != nil {
		return err
	}
	if !slices.Contains(commandActs, e.Action) {
		return perigee.Errorf(perigee.ClassInvalid, "action %q is not one that commands record", shorten(e.Action))
	}
	if err := c.opts.Audit.Record(c.r.Context(), e); err != nil {
		return err
	}
	return c.writeValue(struct{}{})
}

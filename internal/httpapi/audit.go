package httpapi

import (
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

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
		actor.Kind, actor.From = c.offered(), c.r.RemoteAddr
		if host, _, err := net.SplitHostPort(c.r.RemoteAddr); err == nil {
			actor.From = host
		}
	}
	c.r = c.r.WithContext(perigee.WithActor(c.r.Context(), actor))
	if refused == nil || c.opts.Audit == nil {
		return
	}
	e := perigee.AuditEntry{Object: c.r.Method + " " + c.path, Result: string(perigee.AsError(refused).Class)}
	c.opts.Audit.Refused(c.r.Context(), e)
}

// offered is the actor of an administrative request over TCP: by what it offers, which need not be good.
func (c *call) offered() string {
	switch {
	case c.key != nil:
		return perigee.ActorKey + " " + c.key.Name
	case len(presented(c.r)) == 0:
		return perigee.ActorNone
	}
	return perigee.ActorToken
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

// TraceFilter is what a listing of traces was asked for, as the audit log has it. key is the name of a key, but may be the key
// itself: one that is not among the names is not kept.
func TraceFilter(query url.Values, keys []string) string {
	query = maps.Clone(query)
	for i, value := range query["key"] {
		if value != "" && !slices.Contains(keys, value) {
			query["key"] = slices.Clone(query["key"])
			query["key"][i] = "[redacted]"
		}
	}
	if since, err := time.Parse(time.RFC3339, query.Get("since")); err == nil {
		query.Set("since", since.UTC().Format(time.RFC3339)) // without the fractions of a second that "2d" has
	}
	text, err := url.QueryUnescape(query.Encode())
	if err != nil {
		return query.Encode()
	}
	return text
}

// TracesRead is the detail of reading so many traces.
func TracesRead(n int) string {
	if n == 1 {
		return "1 call"
	}
	return strconv.Itoa(n) + " calls"
}

// keyNames are the names of the keys in force.
func (c *call) keyNames() (list []string) {
	for _, k := range c.state.keys {
		list = append(list, k.Name)
	}
	return list
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

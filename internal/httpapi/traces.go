package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"perigee"
)

// traceRows is how many traces a listing has unless it is asked for another number, and how many at most.
const (
	traceRows    = 100
	maxTraceRows = 1000
	maxID        = 100 // of a call, in bytes; ours are shorter
)

// traces answers GET /v1/traces?limit=&before=&since=&errors=&model=&client=&account=&key=: the newest calls first. The last four
// are patterns; key is one for the names of clients' keys, and not a key.
func (c *call) traces() error {
	rows, err := c.listTraces()
	c.audit(perigee.AuditEntry{Action: perigee.AuditTraceList, Object: TraceFilter(c.r.URL.Query(), c.keyNames()), Detail: TracesRead(len(rows))}, err)
	if err != nil {
		return err
	}
	return writeList(c, rows)
}

func (c *call) listTraces() ([]perigee.TraceRow, error) {
	query := c.r.URL.Query()
	if err := knownParameters(query, "limit", "before", "since", "errors", "model", "client", "account", "key"); err != nil {
		return nil, err
	}
	q := perigee.CallQuery{
		Limit: traceRows,
		Model: query.Get("model"), Client: query.Get("client"), Account: query.Get("account"), Key: query.Get("key"),
	}
	var err error
	if q.Errors, err = boolParameter(query, "errors"); err != nil {
		return nil, err
	}
	if q.Since, err = timeParameter(query, "since"); err != nil {
		return nil, err
	}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > maxTraceRows {
			return nil, perigee.Errorf(perigee.ClassInvalid, "limit %q is not a number from 1 to %d", shorten(text), maxTraceRows).
				WithNext("page with before=ID, the last call of the page before")
		}
		q.Limit = limit
	}
	if before := query.Get("before"); before != "" {
		found, err := c.findCall(before)
		if err != nil {
			return nil, err
		}
		q.Before = found.ID
	}
	calls, err := c.readCalls(q)
	if err != nil {
		return nil, err
	}
	rows := make([]perigee.TraceRow, len(calls))
	for i := range calls {
		rows[i] = TraceRow(&calls[i])
	}
	return rows, nil
}

// trace answers GET /v1/traces/{id}.
func (c *call) trace() error {
	if err := knownParameters(c.r.URL.Query()); err != nil {
		return err
	}
	found, err := c.findCall(c.rest)
	id := c.rest
	if err == nil {
		id = found.ID
	}
	c.audit(perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: id}, err)
	if err != nil {
		return err
	}
	return c.writeValue(Trace(found))
}

func (c *call) findCall(name string) (*perigee.Call, error) {
	if c.opts.Calls == nil {
		return nil, perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	return FindCall(c.r.Context(), c.opts.Calls, name)
}

// LastCall is the name of the newest call, whatever its id.
const LastCall = "last"

// FindCall returns the call of a name: its id, the beginning of the id where no other call's begins so, or LastCall. A name
// that no call has is of ClassNotFound; one that several have is of ClassInvalid, and the error lists them.
func FindCall(ctx context.Context, calls perigee.CallReader, name string) (*perigee.Call, error) {
	if name == LastCall {
		newest, err := calls.Calls(ctx, perigee.CallQuery{Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(newest) == 0 {
			return nil, perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet")
		}
		return &newest[0], nil
	}
	missing := perigee.Errorf(perigee.ClassNotFound, "there is no call %q", shorten(name)).
		WithNext("the header x-perigee-call of an answer has its id, and GET /v1/traces lists the last ones")
	if name == "" || len(name) > maxID {
		return nil, missing
	}
	for _, q := range []perigee.CallQuery{{ID: name}, {Prefix: name, Limit: maxCandidates + 1}} {
		found, err := calls.Calls(ctx, q)
		switch {
		case err != nil:
			return nil, err
		case len(found) == 1:
			return &found[0], nil
		case len(found) > 1:
			return nil, ambiguous(name, found)
		}
	}
	return nil, missing
}

// maxCandidates is how many of the calls that a name may mean are listed.
const maxCandidates = 5

func ambiguous(name string, found []perigee.Call) error {
	var ids []string
	for _, c := range found[:min(len(found), maxCandidates)] {
		ids = append(ids, c.ID)
	}
	if len(found) > maxCandidates {
		ids = append(ids, "and more")
	}
	return perigee.Errorf(perigee.ClassInvalid, "several calls begin with %q: %s", shorten(name), strings.Join(ids, ", ")).
		WithNext("write more of the id")
}

// TraceRow is a call in a listing, with the status that its client got.
func TraceRow(c *perigee.Call) perigee.TraceRow {
	row := c.TraceRow()
	row.Status = toldStatus(c, row.Status)
	return row
}

// Trace is a call in full, with the status that its client got.
func Trace(c *perigee.Call) perigee.Trace {
	t := c.Trace()
	t.Status = toldStatus(c, t.Status)
	return t
}

// toldStatus is what a client got for a call of which kept is recorded, which may be what the provider said. The record does
// not have it: refusals get their status here, on their way out.
func toldStatus(c *perigee.Call, kept int) int {
	begun := c.Stream && c.FirstByte > 0
	if c.Class == "" || begun || c.Outcome != perigee.OutcomeFailed {
		return kept
	}
	if c.Upstream == "" && c.Status == http.StatusUnauthorized {
		return c.Status // the client's own key: a provider's 401 is about perigee's credentials, and has an upstream
	}
	if c.Upstream == "" && c.Class == perigee.ClassCapacity && c.Status == http.StatusServiceUnavailable {
		return c.Status // limits.memory of perigee itself, which has the same status in every dialect
	}
	return statusOf(c.Dialect, &perigee.Error{Class: c.Class, Status: c.Status})
}

func (c *call) readCalls(q perigee.CallQuery) ([]perigee.Call, error) {
	if c.opts.Calls == nil {
		return nil, perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	return c.opts.Calls.Calls(c.r.Context(), q)
}

package httpapi

import (
	"strconv"

	"perigee"
)

// traceRows is how many traces a listing has unless it is asked for another number, and how many at most.
const (
	traceRows    = 100
	maxTraceRows = 1000
	maxID        = 100 // of a call, in bytes; ours are shorter
)

// traces answers GET /v1/traces?limit=&before=: the newest calls first.
func (c *call) traces() error {
	query := c.r.URL.Query()
	if err := knownParameters(query, "limit", "before"); err != nil {
		return err
	}
	q := perigee.CallQuery{Before: query.Get("before"), Limit: traceRows}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > maxTraceRows {
			return perigee.Errorf(perigee.ClassInvalid, "limit %q is not a number from 1 to %d", shorten(text), maxTraceRows).
				WithNext("page with before=ID, the last call of the page before")
		}
		q.Limit = limit
	}
	if len(q.Before) > maxID {
		return perigee.Errorf(perigee.ClassNotFound, "there is no call %q", shorten(q.Before))
	}
	calls, err := c.readCalls(q)
	if err != nil {
		return err
	}
	rows := make([]perigee.TraceRow, len(calls))
	for i := range calls {
		rows[i] = TraceRow(&calls[i])
	}
	return writeList(c, rows)
}

// trace answers GET /v1/traces/{id}.
func (c *call) trace() error {
	calls, err := c.readCalls(perigee.CallQuery{ID: c.rest})
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		return perigee.Errorf(perigee.ClassNotFound, "there is no call %q", shorten(c.rest)).
			WithNext("the header x-perigee-call of an answer has its id, and GET /v1/traces lists the last ones")
	}
	return c.writeValue(Trace(&calls[0]))
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
	return statusOf(c.Dialect, &perigee.Error{Class: c.Class, Status: c.Status})
}

func (c *call) readCalls(q perigee.CallQuery) ([]perigee.Call, error) {
	if c.opts.Calls == nil {
		return nil, perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	return c.opts.Calls.Calls(c.r.Context(), q)
}

// Package backend answers what MCP clients ask of perigee, from the interfaces that the daemon and
// commands without one have.
package backend

import (
	"context"
	"strings"

	"perigee"
	"perigee/internal/lib/match"
	"perigee/internal/mcp/ask"
	"perigee/internal/mcp/mcpserver"
)

// A Backend is a mcpserver.Backend.
type Backend struct {
	ask.Asker
	// Open returns the control of perigee, and what is to be called after its use.
	Open func(ctx context.Context) (control perigee.Control, done func(), err error)
	// Spent reads what was spent.
	Spent func(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error)
	// Failed returns the last call with an error that a key has made; all says that the key does
	// not matter.
	Failed func(ctx context.Context, key string, all bool) (trace perigee.Trace, found bool, err error)
}

var _ mcpserver.Backend = (*Backend)(nil)

// Models lists the models.
func (b *Backend) Models(ctx context.Context, _ mcpserver.Caller) ([]perigee.ModelRow, error) {
	control, done, err := b.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := control.Models(ctx, "")
	return list.Rows, err
}

// Quota returns what is left of the models that match a pattern; empty: of all. Only a trusted
// caller has the provider asked anew.
func (b *Backend) Quota(ctx context.Context, c mcpserver.Caller, model string) ([]perigee.QuotaRow, error) {
	control, done, err := b.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := control.Quota(ctx, c.Trusted)
	if err != nil {
		return nil, err
	}
	var rows []perigee.QuotaRow
	for _, row := range list.Rows {
		if model == "" || match.Pattern(strings.ToLower(model), strings.ToLower(row.Model)) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Usage returns what was spent: by the caller's key, unless it is trusted.
func (b *Backend) Usage(ctx context.Context, c mcpserver.Caller, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	if !c.Trusted {
		q.Key = c.Key
	}
	return b.Spent(ctx, q)
}

// LastError returns the last call of the caller's key that has failed; a trusted caller gets that
// of any key.
func (b *Backend) LastError(ctx context.Context, c mcpserver.Caller) (perigee.Trace, bool, error) {
	return b.Failed(ctx, c.Key, c.Trusted)
}

// lookBack is how many failed calls are searched for one of a key.
const lookBack = 100

// LastFailure finds the last failed call in a store of calls, as Backend.Failed does.
func LastFailure(ctx context.Context, calls perigee.CallReader, key string, all bool) (perigee.Trace, bool, error) {
	query := perigee.CallQuery{Errors: true, Sent: true, Limit: 1}
	if !all { // the name of a key is a pattern in a query, and none cannot be queried
		query.Key, query.Limit = key, lookBack
	}
	found, err := calls.Calls(ctx, query)
	if err != nil {
		return perigee.Trace{}, false, err
	}
	for i := range found {
		if all || found[i].Client.Key == key {
			return found[i].Trace(), true, nil
		}
	}
	return perigee.Trace{}, false, nil
}

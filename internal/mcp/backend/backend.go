// Package backend implements the queries of MCP clients about perigee, with the interfaces that
// the daemon and commands without one have.
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
	// Open returns the control of perigee, and a function that the caller must call after its use.
	Open func(ctx context.Context) (control perigee.Control, done func(), err error)
	// Spent returns the recorded usage.
	Spent func(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error)
	// Failed returns the last failed call of a key, or of any key if all is set.
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

// Quota returns the remaining quota of the models that match a pattern, or of all if it is empty.
// The provider is queried again only for a trusted caller.
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

// Usage returns the usage of the caller's key, or of all keys if the caller is trusted.
func (b *Backend) Usage(ctx context.Context, c mcpserver.Caller, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	if !c.Trusted {
		q.Key = c.Key
	}
	return b.Spent(ctx, q)
}

// LastError returns the last failed call of the caller's key, or of any key if the caller is
// trusted.
func (b *Backend) LastError(ctx context.Context, c mcpserver.Caller) (perigee.Trace, bool, error) {
	return b.Failed(ctx, c.Key, c.Trusted)
}

// lookBack is the number of failed calls that are searched for one of a key.
const lookBack = 100

// LastFailure finds the last failed call in a store of calls, as Backend.Failed does.
func LastFailure(ctx context.Context, calls perigee.CallReader, key string, all bool) (perigee.Trace, bool, error) {
	query := perigee.CallQuery{Errors: true, Sent: true, Limit: 1}
	if !all { // the name of a key is a pattern in a query, and a missing key cannot be queried
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

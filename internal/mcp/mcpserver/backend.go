package mcpserver

import (
	"context"

	"perigee"
	"perigee/internal/mcp/ask"
)

// A Backend answers the calls that do not concern files, in a daemon or without one. Its methods
// do not restrict their results to a key: the tools do that.
type Backend interface {
	ask.Asker
	// Open returns the control of perigee, and a function that the caller must call after its use.
	Open(ctx context.Context) (control perigee.Control, done func(), err error)
	Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error)
	// LastFailure returns the last failed call of a key, or of any key if all is set.
	LastFailure(ctx context.Context, key string, all bool) (trace perigee.Trace, found bool, err error)
}

// lookBack is the number of failed calls that are searched for one of a key.
const lookBack = 100

// LastFailure finds the last failed call in a store of calls, for Backend.LastFailure.
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

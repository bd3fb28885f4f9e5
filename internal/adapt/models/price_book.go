package models

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"perigee"
)

// A PriceBook holds the prices in force. They may be replaced while it is used.
type PriceBook struct {
	Now     func() time.Time
	current atomic.Pointer[edition]
}

type edition struct {
	table *PriceTable
	free  []string // upstreams with tokens that cost nothing
	local []string // upstreams with tokens that cost nothing unless the configuration has a price
}

// NewPriceBook returns a PriceBook with time.Now as its clock. The tokens of the upstreams in free
// cost nothing.
func NewPriceBook(t *PriceTable, free ...string) *PriceBook {
	b := &PriceBook{Now: time.Now}
	b.current.Store(&edition{table: t, free: free})
	return b
}

// AddLocal adds upstreams of this machine. Their tokens cost nothing, unless the configuration has a
// price for the model.
func (b *PriceBook) AddLocal(upstreams ...string) *PriceBook {
	e := *b.current.Load()
	e.local = append(slices.Clone(e.local), upstreams...)
	b.current.Store(&e)
	return b
}

// Become puts the prices of another PriceBook in force. They hold for earlier calls as well.
func (b *PriceBook) Become(other *PriceBook) { b.current.Store(other.current.Load()) }

// Date returns the date of the list prices.
func (b *PriceBook) Date() string { return b.current.Load().table.Date }

// CallCost returns the cost of a call; it is unknown while the call is open.
func (b *PriceBook) CallCost(c *perigee.Call) perigee.Cost {
	switch {
	case c.Outcome == perigee.OutcomeOpen:
		return perigee.Cost{}
	case c.Usage.Charged.Known:
		return c.Usage.Charged
	}
	long := perigee.Usage{}
	if c.Usage.Input > perigee.LongPrompt {
		long = c.Usage
	}
	return b.current.Load().listPrice(cmp.Or(c.Model, c.ModelAsked), c.Upstream, c.Time, c.Usage, long)
}

// listPrice returns the cost of tokens of a model of an upstream; long is the part of them from calls
// with long prompts.
func (e *edition) listPrice(model, upstream string, at time.Time, all, long perigee.Usage) perigee.Cost {
	table := e.table
	switch {
	case slices.Contains(e.free, upstream):
		return perigee.USD(0)
	case slices.Contains(e.local, upstream):
		if table = (&PriceTable{own: table.own}); !table.has(model, at) {
			return perigee.USD(0)
		}
	}
	return table.sum(model, at, all, long)
}

// A CallStore stores calls without their costs.
type CallStore interface {
	perigee.UsagePartReader
	perigee.CallReader
}

// A PricedCalls reads calls and sums of calls with their costs.
type PricedCalls struct {
	store CallStore
	book  *PriceBook
}

// Reader returns a reader of the calls of a store, with their costs.
func (b *PriceBook) Reader(store CallStore) PricedCalls { return PricedCalls{store, b} }

// Calls returns the selected calls.
func (r PricedCalls) Calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	calls, err := r.store.Calls(ctx, q)
	for i := range calls {
		calls[i].Cost = r.book.CallCost(&calls[i])
	}
	return calls, err
}

// Usage returns the sums of the selected calls. It reads the store once for each period in which
// prices do not change, which is mostly once.
func (r PricedCalls) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	now := r.book.current.Load()
	groups := map[[2]string]*perigee.UsageRow{}
	for _, period := range now.table.periods(q, r.book.Now()) {
		parts, err := r.store.UsageParts(ctx, period)
		if err != nil {
			return nil, err
		}
		for i := range parts {
			p := &parts[i]
			name := [2]string{p.Group, p.Each}
			if groups[name] == nil {
				groups[name] = &perigee.UsageRow{Group: p.Group, Each: p.Each}
			}
			price := now.cost(p, period.Since)
			if !price.Known {
				p.UnpricedCalls = p.Calls - p.ChargedCalls
			}
			p.CostUSD = p.Charged.Charged.Plus(price)
			groups[name].Add(p.UsageRow)
		}
	}
	var rows []perigee.UsageRow
	for _, row := range groups {
		rows = append(rows, *row)
	}
	perigee.SortUsage(rows, q)
	return rows, nil
}

// cost returns the list price of the calls of a part that the provider has reported no cost of.
func (e *edition) cost(p *perigee.UsagePart, at time.Time) perigee.Cost {
	rest, long := p.UsageRow.Usage(), p.Long
	rest.Input, rest.Cached = rest.Input-p.Charged.Input, rest.Cached-p.Charged.Cached
	rest.Written, rest.Output = rest.Written-p.Charged.Written, rest.Output-p.Charged.Output
	rest.Thinking, rest.WrittenHour = min(rest.Thinking, rest.Output), p.WrittenHour
	return e.listPrice(p.Model, p.Upstream, at, rest, long)
}

// periods divides a query at the times at which a price has changed.
func (t *PriceTable) periods(q perigee.UsageQuery, now time.Time) (list []perigee.UsageQuery) {
	for _, change := range t.changes {
		if change.After(q.Since) && (q.Until.IsZero() || change.Before(q.Until)) && !change.After(now) {
			first := q
			first.Until = change
			list, q.Since = append(list, first), change
		}
	}
	return append(list, q)
}

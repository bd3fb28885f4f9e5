package perigee

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// LongPrompt is the number of input tokens above which providers charge the prices of long prompts.
const LongPrompt = 200_000

// A Cost is an amount in US dollars. The zero value is an unknown cost, which is not the same as
// none.
type Cost struct {
	USD   float64
	Known bool
}

// USD is a known cost.
func USD(amount float64) Cost { return Cost{amount, true} }

// Plus is what both cost together. What is unknown adds nothing: the sum is known if one of them
// is.
func (c Cost) Plus(more Cost) Cost { return Cost{c.USD + more.USD, c.Known || more.Known} }

// String writes a cost for people: $12.34, $0.0021 or -. It is $0.00 only if it is nothing.
func (c Cost) String() string {
	switch {
	case !c.Known:
		return "-"
	case c.USD == 0 || c.USD >= 1:
		return fmt.Sprintf("$%.2f", c.USD)
	case c.USD < 0.00005:
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.4f", c.USD)
}

// costDigits is the precision of costs in JSON. A token costs at least some billionths of a dollar.
const costDigits = 9

// MarshalJSON writes the number of dollars, or null if it is unknown.
func (c Cost) MarshalJSON() ([]byte, error) {
	if !c.Known {
		return []byte("null"), nil
	}
	text := strconv.AppendFloat(nil, c.USD, 'f', costDigits, 64)
	return bytes.TrimSuffix(bytes.TrimRight(text, "0"), []byte(".")), nil
}

// UnmarshalJSON reads what MarshalJSON has written.
func (c *Cost) UnmarshalJSON(data []byte) error {
	*c = Cost{}
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	c.Known = true
	return json.Unmarshal(data, &c.USD)
}

// Spent is what calls have cost. What has no price adds no dollars.
type Spent struct {
	Tokens int64
	USD    float64
}

// Plus is what both have cost together.
func (s Spent) Plus(more Spent) Spent { return Spent{s.Tokens + more.Tokens, s.USD + more.USD} }

// Minus is the difference.
func (s Spent) Minus(less Spent) Spent { return Spent{s.Tokens - less.Tokens, s.USD - less.USD} }

// A UsagePart is what one group spent on one model of one upstream. All calls in it have the same
// price, apart from those with long prompts.
type UsagePart struct {
	UsageRow
	Model, Upstream string
	Long            Usage // input, cached and output tokens of the calls with more than LongPrompt input tokens
}

// A UsagePartReader sums up calls as a UsageReader does, apart for each model and upstream, in no
// particular order.
type UsagePartReader interface {
	UsageParts(ctx context.Context, q UsageQuery) ([]UsagePart, error)
}

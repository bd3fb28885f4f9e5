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
// zero.
type Cost struct {
	USD   float64
	Known bool
}

// USD returns a known cost.
func USD(amount float64) Cost { return Cost{amount, true} }

// Plus returns the sum. An unknown cost adds nothing; the sum is known if either cost is.
func (c Cost) Plus(more Cost) Cost { return Cost{c.USD + more.USD, c.Known || more.Known} }

// String formats a cost for people: $12.34, $0.0021, or - if it is unknown. It is $0.00 only if the
// cost is zero.
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

// MarshalJSON returns the number of dollars, or null if the cost is unknown.
func (c Cost) MarshalJSON() ([]byte, error) {
	if !c.Known {
		return []byte("null"), nil
	}
	text := strconv.AppendFloat(nil, c.USD, 'f', costDigits, 64)
	return bytes.TrimSuffix(bytes.TrimRight(text, "0"), []byte(".")), nil
}

// UnmarshalJSON reads the format of MarshalJSON.
func (c *Cost) UnmarshalJSON(data []byte) error {
	*c = Cost{}
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	c.Known = true
	return json.Unmarshal(data, &c.USD)
}

// Spent is the tokens and the cost of calls. Calls without a price add no dollars.
type Spent struct {
	Tokens int64
	USD    float64
}

// Plus returns the sum.
func (s Spent) Plus(more Spent) Spent { return Spent{s.Tokens + more.Tokens, s.USD + more.USD} }

// Minus returns the difference.
func (s Spent) Minus(less Spent) Spent { return Spent{s.Tokens - less.Tokens, s.USD - less.USD} }

// A UsagePart is the usage of one group for one model of one upstream. All its calls have the same
// price, except for calls with long prompts.
type UsagePart struct {
	UsageRow
	Model, Upstream string

	// Charged has the tokens of the calls that the provider has reported a cost of, and that cost.
	Charged      Usage
	ChargedCalls int64
	// WrittenHour and Long are of all other calls: the tokens that were written to a cache for an hour,
	// and the tokens of the calls with more than LongPrompt input tokens. Written of these does not
	// include WrittenHour.
	WrittenHour int64
	Long        Usage
}

// A UsagePartReader sums up calls like a UsageReader, separately for each model and upstream, in no
// particular order.
type UsagePartReader interface {
	UsageParts(ctx context.Context, q UsageQuery) ([]UsagePart, error)
}

package perigee

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"
)

// RequestID returns the id of a call in the form in which the official libraries of OpenAI and
// Anthropic show it with an error.
func RequestID(call string) string { return "req_" + call }

// An Outcome says how a call ended.
type Outcome string

// The outcomes. A call is open from its first moment; whatever is still open when the daemon starts
// anew was cut off by its end.
const (
	OutcomeOpen     Outcome = "open"
	OutcomeDone     Outcome = "done"
	OutcomeFailed   Outcome = "failed"   // an error instead of an answer
	OutcomeCutOff   Outcome = "cut_off"  // an answer that had begun and did not reach its end
	OutcomeCanceled Outcome = "canceled" // the client went away
)

// The operations of a Call.
const (
	OperationGenerate = "generate"
	OperationCount    = "count"
	OperationEmbed    = "embed"
	OperationInfo     = "info" // a question of a language server about its account or its models; it spends no tokens
)

// LanguageServerClient is the name of the client in the records of calls that a language server
// makes itself, such as summaries of conversations. Their tokens count for the account, and for no
// key.
const LanguageServerClient = "language-server"

// A Call is the record of one request: client, model, upstream, outcome and usage.
type Call struct {
	ID           string
	Time         time.Time
	Operation    string
	Dialect      Dialect
	Stream       bool
	Client       Client
	ModelAsked   string
	Model        string // what really answered
	Upstream     string
	Account      string
	Outcome      Outcome
	Class        Class         // of the error, if there was one
	Status       int           // the HTTP status that the provider gave with the error, if it gave one
	ClientStatus int           // the HTTP status that the client got; 0: none yet, or the row is from before it was stored
	Error        string        // the error's message, free of secrets
	Finish       string        // the provider's word for why it stopped
	FirstByte    time.Duration // from the request to the first event; 0: there was none
	Duration     time.Duration
	Usage        Usage
	Cost         Cost  // at list price; it is not stored
	BytesIn      int64 // of the request's body
	Notes        []string
	Attempts     []Attempt
	ReplayOf     string // the ID of the call that this one repeats; empty: a client has sent it
	Bodies       bool   // there is a trace directory with them; readers of calls set it, and it is not stored
}

// A CallStore keeps calls. SaveCalls writes each call under its ID, replacing what was said of it
// before; either all of them are kept or none.
type CallStore interface {
	SaveCalls(ctx context.Context, calls []Call) error
}

// A CallQuery picks calls. The zero value asks for the newest ones.
type CallQuery struct {
	ID     string // only this call; empty: all
	Prefix string // only calls whose ID begins with it
	Before string // only calls older than the one with this ID; empty: from the newest on
	Limit  int    // at most so many; 0: 100

	Since  time.Time // only calls from then on
	Errors bool      // only calls that failed or were cut off
	// Sent leaves out replays and, unless Client is set, calls that a language server makes itself.
	Sent bool

	// Patterns in which * stands for any characters and ? for one, without regard to case. Empty:
	// all.
	Model   string // of the model that was asked or that answered
	Client  string // of the client's name
	Account string
	Key     string // of the name of the client's key
}

// SetClientStatus sets the status that the client got, from how the call has ended.
func (c *Call) SetClientStatus() { c.ClientStatus = c.clientStatus() }

// A CallReader returns calls, the newest first. A Before that names no call is of ClassNotFound; an
// ID that names none gives no calls.
type CallReader interface {
	Calls(ctx context.Context, q CallQuery) ([]Call, error)
}

// The ways to group usage.
const (
	ByModel    = "model"
	ByAccount  = "account"
	ByKey      = "key"
	ByClient   = "client"
	ByUpstream = "upstream"
	BySession  = "session" // known of calls that are kept only: daily sums have no sessions
	ByDay      = "day"
)

// UsageGroups are all ways to group usage.
var UsageGroups = []string{ByModel, ByAccount, ByKey, ByClient, ByUpstream, BySession, ByDay}

// A UsageQuery asks what was spent. The zero value asks for all time, by model.
type UsageQuery struct {
	By    string
	Each  string // a second way to group: one row for each group and value of it; empty: none
	Since time.Time
	Until time.Time
	Key   string // only calls made with this key; empty: all
}

// A UsageRow is what one group spent.
type UsageRow struct {
	Group          string `json:"group"`
	Each           string `json:"each,omitempty"` // the value of UsageQuery.Each
	Calls          int64  `json:"calls"`
	InputTokens    int64  `json:"input_tokens"`
	CachedTokens   int64  `json:"cached_tokens"`
	OutputTokens   int64  `json:"output_tokens"`
	ThinkingTokens int64  `json:"thinking_tokens"`
	Errors         int64  `json:"errors"`
	CostUSD        Cost   `json:"cost_usd,omitzero"` // at list price, of the calls whose model has a price; unknown: none has
	UnpricedCalls  int64  `json:"unpriced_calls"`    // calls with tokens whose model has no price
}

// Spent is what the group has cost.
func (r UsageRow) Spent() Spent { return Spent{r.Usage().Total(), r.CostUSD.USD} }

// Add adds what another row spent.
func (r *UsageRow) Add(more UsageRow) {
	r.Calls += more.Calls
	r.InputTokens += more.InputTokens
	r.CachedTokens += more.CachedTokens
	r.OutputTokens += more.OutputTokens
	r.ThinkingTokens += more.ThinkingTokens
	r.Errors += more.Errors
	r.CostUSD = r.CostUSD.Plus(more.CostUSD)
	r.UnpricedCalls += more.UnpricedCalls
}

// Usage is the number of tokens.
func (r UsageRow) Usage() Usage {
	return Usage{Input: r.InputTokens, Cached: r.CachedTokens, Output: r.OutputTokens, Thinking: r.ThinkingTokens}
}

// SortUsage puts the rows of a query in order: days by date, and other groups with the most tokens
// first. Within a group that is divided by Each, rows are in the same order.
func SortUsage(rows []UsageRow, q UsageQuery) {
	tokens := map[string]int64{} // of groups
	for i := range rows {
		tokens[rows[i].Group] += rows[i].Usage().Total()
	}
	slices.SortFunc(rows, func(a, b UsageRow) int {
		order := cmp.Compare(a.Group, b.Group)
		if q.By != ByDay {
			order = cmp.Or(cmp.Compare(tokens[b.Group], tokens[a.Group]), order)
		}
		if order == 0 && q.Each != ByDay {
			order = cmp.Compare(b.Usage().Total(), a.Usage().Total())
		}
		return cmp.Or(order, cmp.Compare(a.Each, b.Each))
	})
}

// A UsageReader sums up calls, in the order of SortUsage.
type UsageReader interface {
	Usage(ctx context.Context, q UsageQuery) ([]UsageRow, error)
}

// NewCallID names a call that begins now: ten digits of when it came, in milliseconds, and ten of
// chance. Names that grow put the rows of calls that came together side by side in the store; names
// by chance alone would change a page of its index for each.
func NewCallID(now time.Time) string {
	var chance [8]byte
	_, _ = rand.Read(chance[:]) // never fails
	id := make([]byte, 0, 20)
	id = appendDigits(id, uint64(now.UnixMilli()))
	return string(appendDigits(id, binary.LittleEndian.Uint64(chance[:])))
}

// appendDigits appends the lowest fifty bits of n, five in a digit. The digits sort as their values
// do, and none of them looks like another.
func appendDigits(dst []byte, n uint64) []byte {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	for shift := 45; shift >= 0; shift -= 5 {
		dst = append(dst, digits[n>>shift&31])
	}
	return dst
}

// An Attempt is one try at a call: the upstream and account, why they were chosen, and how it
// ended.
type Attempt struct {
	Upstream string        `json:"upstream"`
	Account  string        `json:"account,omitempty"`
	Endpoint string        `json:"endpoint,omitempty"` // of the provider; empty: nothing was sent
	Why      string        `json:"why,omitempty"`      // why this one was chosen
	Class    Class         `json:"class,omitempty"`    // of what went wrong; empty: it answered
	Error    string        `json:"error,omitempty"`
	Took     time.Duration `json:"took_ns"`
}

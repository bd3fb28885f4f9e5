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

// An Outcome is how a call ended.
type Outcome string

// The outcomes. A call is open until it ends. Calls that are still open when the daemon starts were
// cut off when it last ended.
const (
	OutcomeOpen     Outcome = "open"
	OutcomeDone     Outcome = "done"
	OutcomeFailed   Outcome = "failed"   // an error instead of an answer
	OutcomeCutOff   Outcome = "cut_off"  // the answer had begun and did not complete
	OutcomeCanceled Outcome = "canceled" // the client went away
)

// The operations of a Call.
const (
	OperationGenerate = "generate"
	OperationCount    = "count"
	OperationEmbed    = "embed"
	OperationInfo     = "info" // a request of a language server that uses no tokens
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
	Model        string // the model that answered
	Upstream     string
	Account      string
	Outcome      Outcome
	Class        Class         // of the error, if there was one
	Status       int           // the provider's HTTP status; 0 if it gave none
	ClientStatus int           // the HTTP status that the client got; 0 if unknown
	Error        string        // the error's message, free of secrets
	Finish       string        // the provider's finish reason
	FirstByte    time.Duration // from the request to the first event; 0 if there was none
	Duration     time.Duration
	Usage        Usage
	Cost         Cost  // Usage.Charged, or at list price; it is not stored
	BytesIn      int64 // of the request's body
	Notes        []string
	Attempts     []Attempt
	ReplayOf     string // the ID of the call that this one repeats; empty if a client sent it
	Bodies       bool   // there is a trace directory; not stored, but set by readers
}

// A CallStore keeps calls. SaveCalls writes each call under its ID and replaces an earlier row with
// the same ID. Either all calls are written or none.
type CallStore interface {
	SaveCalls(ctx context.Context, calls []Call) error
}

// A CallQuery selects calls. The zero value selects the newest ones.
type CallQuery struct {
	ID     string // only this call; empty means all
	Prefix string // only calls with an ID that begins with it
	Before string // only calls older than the one with this ID; empty means from the newest on
	Limit  int    // the maximum number; 0 means 100

	Since  time.Time // only calls from then on
	Errors bool      // only calls that failed or were cut off
	// Sent leaves out replays and, unless Client is set, calls that a language server makes itself.
	Sent bool

	// Patterns in which * matches any characters and ? matches one, ignoring case. An empty pattern
	// matches all calls.
	Model   string // of the model that was asked or that answered
	Client  string // of the client's name
	Account string
	Key     string // of the name of the client's key
}

// A CallReader returns calls, the newest first. If Before is not the ID of a call, the error is of
// ClassNotFound. For an unknown ID the list is empty.
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
	BySession  = "session" // only for calls that are still stored: daily sums have no sessions
	ByAgent    = "agent"   // like BySession
	ByDay      = "day"
)

// UsageGroups are all ways to group usage.
var UsageGroups = []string{ByModel, ByAccount, ByKey, ByClient, ByUpstream, BySession, ByAgent, ByDay}

// A UsageQuery selects and groups usage. The zero value is all usage, by model.
type UsageQuery struct {
	By    string
	Each  string // a second way to group, within each group; empty if there is none
	Since time.Time
	Until time.Time
	Key   string // only calls made with this key; empty means all
}

// A UsageRow is the usage of one group.
type UsageRow struct {
	Group          string `json:"group"`
	Each           string `json:"each,omitempty"` // the value of UsageQuery.Each
	Calls          int64  `json:"calls"`
	InputTokens    int64  `json:"input_tokens"`
	CachedTokens   int64  `json:"cached_tokens"`
	WrittenTokens  int64  `json:"cache_write_tokens"`
	OutputTokens   int64  `json:"output_tokens"`
	ThinkingTokens int64  `json:"thinking_tokens"`
	Errors         int64  `json:"errors"`
	// CostUSD is the cost of the calls that the provider has reported a cost of, and the list price of
	// the other calls to models with a price; unknown if there are none.
	CostUSD       Cost  `json:"cost_usd,omitzero"`
	UnpricedCalls int64 `json:"unpriced_calls"` // calls with tokens to models without a price
}

// Spent returns the tokens and the cost of the group.
func (r UsageRow) Spent() Spent { return Spent{r.Usage().Total(), r.CostUSD.USD} }

// CostText is the cost, with ≥ before it if the price of some calls is unknown.
func (r UsageRow) CostText() string {
	if r.CostUSD.Known && r.UnpricedCalls > 0 {
		return "≥" + r.CostUSD.String()
	}
	return r.CostUSD.String()
}

// Add adds the counts and the cost of another row.
func (r *UsageRow) Add(more UsageRow) {
	r.Calls += more.Calls
	r.InputTokens += more.InputTokens
	r.CachedTokens += more.CachedTokens
	r.WrittenTokens += more.WrittenTokens
	r.OutputTokens += more.OutputTokens
	r.ThinkingTokens += more.ThinkingTokens
	r.Errors += more.Errors
	r.CostUSD = r.CostUSD.Plus(more.CostUSD)
	r.UnpricedCalls += more.UnpricedCalls
}

// Usage returns the tokens of the row.
func (r UsageRow) Usage() Usage {
	return Usage{Input: r.InputTokens, Cached: r.CachedTokens, Written: r.WrittenTokens, Output: r.OutputTokens, Thinking: r.ThinkingTokens}
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

// NewCallID returns an ID for a call that begins at now: ten digits for the time in milliseconds,
// and ten random ones. IDs that increase keep calls of the same time on the same pages of the
// store's index; random IDs alone would change a page for each call.
func NewCallID(now time.Time) string {
	var chance [8]byte
	_, _ = rand.Read(chance[:]) // never fails
	id := make([]byte, 0, 20)
	id = appendDigits(id, uint64(now.UnixMilli()))
	return string(appendDigits(id, binary.LittleEndian.Uint64(chance[:])))
}

// appendDigits appends the lowest fifty bits of n, five in a digit. The digits sort by value, and
// none is easily mistaken for another.
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
	Endpoint string        `json:"endpoint,omitempty"` // of the provider; empty if nothing was sent
	Why      string        `json:"why,omitempty"`      // why this one was chosen
	Class    Class         `json:"class,omitempty"`    // of the error; empty if it answered
	Error    string        `json:"error,omitempty"`
	Took     time.Duration `json:"took_ns"`
}

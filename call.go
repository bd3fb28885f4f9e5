package perigee

import (
	"context"
	"time"
)

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
)

// A Call is the record of one request: who asked what of whom, and what came of it.
type Call struct {
	ID         string
	Time       time.Time
	Operation  string
	Dialect    Dialect
	Stream     bool
	Client     Client
	ModelAsked string
	Model      string // what really answered
	Upstream   string
	Account    string
	Outcome    Outcome
	Class      Class         // of the error, if there was one
	Status     int           // the HTTP status that the provider gave with the error, if it gave one
	Error      string        // the error's message, free of secrets
	Finish     string        // the provider's word for why it stopped
	FirstByte  time.Duration // from the request to the first event; 0: there was none
	Duration   time.Duration
	Usage      Usage
	BytesIn    int64 // of the request's body
	Notes      []string
	Steps      []Step
}

// A CallStore keeps calls. SaveCalls writes each call under its ID, replacing what was said of it before;
// either all of them are kept or none.
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

	// Patterns in which * stands for any characters and ? for one, without regard to case. Empty: all.
	Model   string // of the model that was asked or that answered
	Client  string // of the client's name
	Account string
	Key     string // of the name of the client's key
}

// A CallReader returns calls, the newest first. A Before that names no call is of ClassNotFound; an ID that names none gives
// no calls.
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
	ByDay      = "day"
)

// UsageGroups are all ways to group usage.
var UsageGroups = []string{ByModel, ByAccount, ByKey, ByClient, ByUpstream, ByDay}

// A UsageQuery asks what was spent. The zero value asks for all time, by model.
type UsageQuery struct {
	By    string
	Since time.Time
	Until time.Time
	Key   string // only calls made with this key; empty: all
}

// A UsageRow is what one group spent.
type UsageRow struct {
	Group          string `json:"group"`
	Calls          int64  `json:"calls"`
	InputTokens    int64  `json:"input_tokens"`
	CachedTokens   int64  `json:"cached_tokens"`
	OutputTokens   int64  `json:"output_tokens"`
	ThinkingTokens int64  `json:"thinking_tokens"`
	Errors         int64  `json:"errors"`
}

// A UsageReader sums up calls, groups with the most tokens first, days in order.
type UsageReader interface {
	Usage(ctx context.Context, q UsageQuery) ([]UsageRow, error)
}

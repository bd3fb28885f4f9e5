package perigee

import "time"

// A TraceRow is a call in a listing of traces. Names and units are part of the contract.
type TraceRow struct {
	ID           string    `json:"id"`
	Time         time.Time `json:"time"`
	Dialect      Dialect   `json:"dialect"`
	Model        string    `json:"model"` // the model that answered, or the requested one
	ModelAsked   string    `json:"model_asked"`
	Upstream     string    `json:"upstream"`
	Account      string    `json:"account"`
	Status       int       `json:"status"` // the client's, or the provider's; 0 if there is neither
	Class        Class     `json:"class"`
	FirstByteMS  float64   `json:"first_byte_ms"`
	DurationMS   float64   `json:"duration_ms"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	CostUSD      Cost      `json:"cost_usd,omitzero"` // that the provider reports, or at list price
	Outcome      Outcome   `json:"outcome"`
	ClientName   string    `json:"client"`
	Key          string    `json:"key"` // its name
	Session      string    `json:"session"`
	Agent        string    `json:"agent"`
	ParentAgent  string    `json:"parent_agent"`
	// Bodies is set if the bodies of the call are in its trace directory, so that it can be sent
	// again.
	Bodies   bool   `json:"bodies"`
	Charged  bool   `json:"charged,omitempty"`   // CostUSD is the provider's
	ReplayOf string `json:"replay_of,omitempty"` // the ID of the call that this one repeats
}

// A Trace is the full record of a call.
type Trace struct {
	TraceRow
	Operation      string    `json:"operation"`
	Stream         bool      `json:"stream"`
	Error          string    `json:"error"`
	Finish         string    `json:"finish"`
	CachedTokens   int64     `json:"cached_tokens"`
	WrittenTokens  int64     `json:"cache_write_tokens"`
	ThinkingTokens int64     `json:"thinking_tokens"`
	BytesIn        int64     `json:"bytes_in"`
	ClientVersion  string    `json:"client_version"`
	Notes          []string  `json:"notes"`
	Attempts       []Attempt `json:"steps"`
}

// TraceRow returns the call as a row of a listing.
func (c *Call) TraceRow() TraceRow {
	row := TraceRow{
		ID: c.ID, Time: c.Time, Dialect: c.Dialect, Model: c.Model, ModelAsked: c.ModelAsked, Upstream: c.Upstream, Account: c.Account,
		Status: c.ClientStatus, Class: c.Class, FirstByteMS: milliseconds(c.FirstByte), DurationMS: milliseconds(c.Duration),
		InputTokens: c.Usage.Input, OutputTokens: c.Usage.Output, CostUSD: c.Cost, Outcome: c.Outcome,
		ClientName: c.Client.Name, Key: c.Client.Key, Session: c.Client.Session,
		Agent: c.Client.Agent, ParentAgent: c.Client.ParentAgent, Charged: c.Usage.Charged.Known, Bodies: c.Bodies, ReplayOf: c.ReplayOf,
	}
	if row.Model == "" {
		row.Model = c.ModelAsked
	}
	if row.Status == 0 {
		row.Status = c.StatusOfOutcome() // the row is older than the field
	}
	return row
}

// Trace returns the full record of the call.
func (c *Call) Trace() Trace {
	t := Trace{
		TraceRow: c.TraceRow(), Operation: c.Operation, Stream: c.Stream,
		Error: c.Error, Finish: c.Finish,
		CachedTokens: c.Usage.Cached, WrittenTokens: c.Usage.Written, ThinkingTokens: c.Usage.Thinking, BytesIn: c.BytesIn,
		ClientVersion: c.Client.Version,
		Notes:         c.Notes, Attempts: c.Attempts,
	}
	if t.Notes == nil {
		t.Notes = []string{}
	}
	if t.Attempts == nil {
		t.Attempts = []Attempt{}
	}
	return t
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

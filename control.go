package perigee

import (
	"context"
	"net"
	"net/url"
	"slices"
	"time"
)

// A Control is how the owner acts on a perigee, running or not. Commands and the admin routes use
// it. Errors are of ClassNotFound for an account or an upstream that does not exist, and of
// ClassInvalid for input that makes no sense; no result holds a token.
type Control struct {
	AccountControl
	RoutingControl
	QuotaControl
}

// An AccountControl lists and changes accounts.
type AccountControl interface {
	// Accounts lists the accounts by upstream in the order in which they are used, with their
	// cooldowns.
	Accounts(ctx context.Context) ([]AccountRow, error)
	// ImportAccounts adds accounts, and gives existing ones a new refresh token. It changes nothing
	// unless it can add all of them, or the usable ones where Partial is set.
	ImportAccounts(ctx context.Context, in AccountImport) ([]ImportedRow, error)
	// EnableAccount sets whether an account may be used. Enabling one that the provider has stopped
	// means trying it again; a signed-out account stays signed out.
	EnableAccount(ctx context.Context, name AccountName, enabled bool) (AccountRow, error)
	// RemoveAccount deletes an account and its refresh token. The provider is not told.
	RemoveAccount(ctx context.Context, name AccountName) error
	// UseAccount makes an account the preferred one of its upstream, and ends its cooldowns.
	UseAccount(ctx context.Context, name AccountName) error
}

// A RoutingControl shows where calls go.
type RoutingControl interface {
	// ExplainAccounts reports for each account whether it would be taken for a model now, in the
	// order in which they would be chosen. Without a model it is about calls that name none.
	ExplainAccounts(ctx context.Context, model string) ([]ChoiceRow, error)
	// ExplainRoute says which upstream would answer a call for a model now, and why the rest would
	// not. It makes no call.
	ExplainRoute(ctx context.Context, model string) (RouteExplanation, error)
	// Models lists the models of one upstream, or without a name of all. When no upstream can be
	// asked, that is the error.
	Models(ctx context.Context, upstream string) (ModelList, error)
}

// A QuotaControl asks the provider what the accounts have left. It costs no tokens.
type QuotaControl interface {
	// Quota returns readings of a moment ago at most, or if fresh is true asks again.
	Quota(ctx context.Context, fresh bool) (QuotaList, error)
}

// A DaemonStatus is what a running daemon works with. It holds no secret.
type DaemonStatus struct {
	Version       string   `json:"version"`
	Listen        string   `json:"listen"`        // the address that clients use
	Configuration string   `json:"configuration"` // the file; empty: there is none
	DataDir       string   `json:"data_dir"`
	Upstreams     []string `json:"upstreams"` // each with what is known of it: "studio (gemini, 2 keys)"
	Simulated     bool     `json:"simulated"` // the built-in simulator answers, because nothing else is configured
	Stopping      bool     `json:"stopping"`  // it waits for open calls, and then ends
	// Listeners are all addresses that it listens on, also that of the intercepting proxy.
	Listeners []string `json:"listeners"`
	// ShutdownDelayMS and DrainMS are limits.shutdown_delay and limits.drain, which it takes at
	// most from the first signal on until it cuts off open calls.
	ShutdownDelayMS float64 `json:"shutdown_delay_ms"`
	DrainMS         float64 `json:"drain_ms"`
	// Variables are the environment variables that secrets of the configuration were read from. In
	// another shell they may not be set.
	Variables []string `json:"variables"`
	// Refused is why a change of the file was refused, so that the daemon runs with what was there
	// before; empty: it was not. Pending are the changed settings that need a restart and are not
	// in effect.
	Refused string   `json:"refused,omitempty"`
	Pending []string `json:"pending,omitempty"`
	// Keys are what keeps API keys of upstreams from being used, as far as calls have shown it.
	Keys []KeyTrouble `json:"keys,omitempty"`
}

// A KeyTrouble is why API keys of an upstream are not used.
type KeyTrouble struct {
	Upstream string    `json:"upstream"`
	Model    string    `json:"model,omitempty"` // that all of them are limited for; empty: they are refused for every model
	Why      string    `json:"why"`
	Until    time.Time `json:"until,omitzero"`
}

// StopTime returns how long the daemon waits at most before it cuts off open calls; 0: that is not
// known, or it does not wait.
func (s *DaemonStatus) StopTime() time.Duration {
	return time.Duration((s.ShutdownDelayMS + s.DrainMS) * float64(time.Millisecond))
}

// ListensAt reports whether the daemon listens at the port of an address. Addresses without a port
// are not compared.
func (s *DaemonStatus) ListensAt(address string) bool {
	at, err := url.Parse(s.Listen)
	_, port, unknown := net.SplitHostPort(address)
	return err != nil || unknown != nil || at.Port() == "" || at.Port() == port
}

// Holds reports whether a port is taken by the daemon, so that it is free when the daemon has
// ended.
func (s *DaemonStatus) Holds(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err != nil || slices.ContainsFunc(s.Listeners, func(own string) bool {
		_, taken, err := net.SplitHostPort(own)
		return err == nil && taken == port
	})
}

// ReplaceCommand returns the command that starts the daemon again where clients find it. listen is
// the address of the configuration. A nil status is that of a daemon of which no more is known.
func (s *DaemonStatus) ReplaceCommand(listen string) string {
	const replace = "perigee serve --replace"
	if s == nil || s.ListensAt(listen) {
		return replace
	}
	at, _ := url.Parse(s.Listen) // as ListensAt has
	return replace + " --listen " + at.Host
}

// A LangserverRow is a language server that a daemon supervises. It has one for each upstream of
// that kind.
type LangserverRow struct {
	Upstream  string    `json:"upstream"`
	State     string    `json:"state"`      // stopped, starting, ready, restarting, failed
	PID       int       `json:"pid"`        // 0: no process
	HTTPPort  int       `json:"http_port"`  // 0: no process, or not known yet
	HTTPSPort int       `json:"https_port"` // …
	Version   string    `json:"version"`    // of the IDE that it is from; empty: unknown
	Profile   string    `json:"profile"`    // classic, hub
	Account   string    `json:"account"`    // that it is signed in with
	Restarts  int       `json:"restarts"`
	Since     time.Time `json:"since"`     // of the state
	LastExit  string    `json:"last_exit"` // why the last process ended; empty: none has
	Memory    int64     `json:"memory"`    // bytes
}

// An AccountName says which account. The upstream may be left out where only one has the email.
type AccountName struct {
	Email    string `json:"email"`
	Upstream string `json:"upstream,omitempty"`
}

// An AccountRow is an account in a listing.
type AccountRow struct {
	Email     string     `json:"email"`
	Upstream  string     `json:"upstream"`
	Enabled   bool       `json:"enabled"`
	Preferred bool       `json:"preferred"`  // it is chosen first
	ProjectID string     `json:"project_id"` // empty: not asked for yet
	State     string     `json:"state"`
	Reason    string     `json:"reason,omitempty"`   // why it is in that state
	Unopened  bool       `json:"unopened,omitempty"` // its refresh token is stored, but cannot be decrypted here; Reason says why
	Cooldowns []Cooldown `json:"cooldowns"`
}

// An AccountImport is accounts to be added. The document is in any of the JSON formats in which
// accounts travel, tokens in clear.
type AccountImport struct {
	Upstream string // empty: the only one that has accounts
	Document []byte
	Partial  bool // add the usable ones and skip the rest
}

// The results of an ImportedRow.
const (
	ImportAdded   = "added"
	ImportRenewed = "renewed" // it was there, and has a new refresh token
	ImportSkipped = "skipped"
)

// An ImportedRow says what became of an account of an AccountImport, or of an entry that is of no
// use.
type ImportedRow struct {
	Email    string `json:"email"`
	Upstream string `json:"upstream"`
	Result   string `json:"result"`
	Where    string `json:"where,omitempty"` // of an entry that was skipped: "account 3"
	Why      string `json:"why,omitempty"`   // it was skipped
}

// A ChoiceRow says whether an account would be taken right now, and why or why not.
type ChoiceRow struct {
	Email    string    `json:"email"`
	Upstream string    `json:"upstream"`
	Pool     string    `json:"pool"`
	Usable   bool      `json:"usable"`
	Chosen   bool      `json:"chosen"` // the next call gets this one
	Why      string    `json:"why"`
	Until    time.Time `json:"until,omitzero"` // when that changes by itself, if it does
}

// A RouteExplanation says which upstream would answer a call for a model now.
type RouteExplanation struct {
	Model      string           `json:"model"`      // as the client names it
	Dialect    string           `json:"dialect"`    // of the call; empty: any
	Upstream   string           `json:"upstream"`   // that would answer; empty: none would
	Name       string           `json:"name"`       // under which it is asked for the model
	Candidates []RouteCandidate `json:"candidates"` // all upstreams, in the order in which they would be tried
	// Steps say how the name of the model led to the candidates, a sentence for each.
	Steps []string `json:"steps,omitempty"`
}

// A RouteCandidate is an upstream as a call would find it now.
type RouteCandidate struct {
	Upstream string    `json:"upstream"`
	Name     string    `json:"name"` // under which it is asked for the model
	Usable   bool      `json:"usable"`
	Reason   string    `json:"reason"` // why it cannot be used, or what it would use
	Until    time.Time `json:"until,omitzero"`
}

// A ModelList is what can be asked. Problems are about the upstreams that could not say what they
// have.
type ModelList struct {
	Rows     []ModelRow `json:"rows"`
	Problems []Problem  `json:"problems"`
}

// A ModelRow is a model in a listing. Zero limits are unknown limits.
type ModelRow struct {
	ID       string `json:"id"`
	Upstream string `json:"upstream"`
	Context  int64  `json:"context"`
	Output   int64  `json:"output"`
	Thinking bool   `json:"thinking"`
	AliasOf  string `json:"alias_of,omitempty"` // the model that answers under this name
	Default  bool   `json:"default,omitempty"`  // it answers requests that name no model
}

// A Problem says why an upstream, or an account of it, could not be asked.
type Problem struct {
	Email    string `json:"email,omitempty"` // empty: it is about the upstream
	Upstream string `json:"upstream"`
	Why      string `json:"why"`
}

// String names the account, for where there is one line for it.
func (p Problem) String() string { return p.Email + ": " + p.Why }

// A QuotaList is what accounts have left. Problems are about the accounts that could not be asked.
type QuotaList struct {
	Rows     []QuotaRow `json:"rows"`
	Problems []Problem  `json:"problems"`
}

// A QuotaRow is what an account has left of a model in one of the provider's pools. Remaining is of
// the window that is the scarcest, and ResetsAt is when that one is whole again.
type QuotaRow struct {
	Account   string    `json:"account"`
	Upstream  string    `json:"upstream"`
	Model     string    `json:"model"`
	Group     string    `json:"group,omitempty"` // of the models that the provider counts together: gemini, claude, image, other
	Pool      string    `json:"pool"`
	Remaining float64   `json:"remaining"`
	ResetsAt  time.Time `json:"resets_at,omitzero"`
	// RunsOutAt is the time at the rate of the last hour, or where that is unknown since a window
	// began; zero: not before the reset, already used up, or unknown.
	RunsOutAt time.Time     `json:"runs_out_at,omitzero"`
	Windows   []QuotaWindow `json:"windows,omitempty"`
}

// A QuotaWindow is one of the windows in which the provider counts. A call is refused when any of
// them is used up.
type QuotaWindow struct {
	Window    string        `json:"window"` // 5h, weekly
	Length    time.Duration `json:"-"`      // 0: unknown
	Remaining float64       `json:"remaining"`
	ResetsAt  time.Time     `json:"resets_at,omitzero"`
}

// RunsOut is when the window will be used up if it is used on as it was since it began; zero when
// it will not be before it is whole again, when it is already, or when there is no telling, as in
// its first moments.
func (w QuotaWindow) RunsOut(now time.Time) time.Time {
	left := w.ResetsAt.Sub(now)
	passed, used := w.Length-left, 1-w.Remaining
	if w.Length == 0 || w.ResetsAt.IsZero() || w.Remaining <= 0 || left <= 0 || passed < w.Length/50 || used <= 0 {
		return time.Time{}
	}
	end := time.Duration(float64(passed) / used * w.Remaining)
	if end >= left || end < 0 {
		return time.Time{}
	}
	return now.Add(end)
}

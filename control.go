package perigee

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A Control is the administrative interface of a perigee, whether its daemon runs or not. Commands
// and the admin routes use it. Errors are of ClassNotFound for an account or an upstream that does
// not exist, and of ClassInvalid for invalid input. No result holds a token.
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
	// EnableAccount sets whether an account may be used. Enabling an account that the provider has
	// blocked makes it usable again; a signed-out account stays signed out.
	EnableAccount(ctx context.Context, name AccountName, enabled bool) (AccountRow, error)
	// RemoveAccount deletes an account and its refresh token. The token is not revoked at the
	// provider.
	RemoveAccount(ctx context.Context, name AccountName) error
	// UseAccount makes an account the preferred one of its upstream, and ends its cooldowns.
	UseAccount(ctx context.Context, name AccountName) error
}

// A RoutingControl shows where calls go.
type RoutingControl interface {
	// ExplainAccounts reports for each account whether it would be taken for a model now, in the
	// order in which they would be chosen. An empty model means calls that do not name one.
	ExplainAccounts(ctx context.Context, model string) ([]ChoiceRow, error)
	// ExplainRoute returns which upstream would answer a call now, and why the remaining ones would
	// not. It makes no call.
	ExplainRoute(ctx context.Context, q RouteQuestion) (RouteExplanation, error)
	// Models lists the models of one upstream, or of all if the name is empty, from recent lists. It
	// fails only if no upstream can be asked. If fresh is true, it asks the providers again, and
	// each error is a problem; it also tests without cost whether the one upstream would answer calls.
	Models(ctx context.Context, upstream string, fresh bool) (ModelList, error)
}

// A QuotaControl asks providers for the remaining quota of accounts. That uses no tokens.
type QuotaControl interface {
	// Quota returns recent readings, or asks the provider again if fresh is true.
	Quota(ctx context.Context, fresh bool) (QuotaList, error)
}

// A DaemonStatus describes a running daemon. It does not contain secrets.
type DaemonStatus struct {
	Version       string   `json:"version"`
	Listen        string   `json:"listen"`        // the address that clients use
	Configuration string   `json:"configuration"` // the file; empty if there is none
	DataDir       string   `json:"data_dir"`
	Upstreams     []string `json:"upstreams"` // with a description: "studio (gemini, 2 keys)"
	Simulated     bool     `json:"simulated"` // the built-in simulator answers
	Stopping      bool     `json:"stopping"`  // it waits for open calls, and then ends
	// Listeners are all addresses that the daemon listens on, including the intercepting proxy's.
	Listeners []string `json:"listeners"`
	// ShutdownDelayMS and DrainMS are limits.shutdown_delay and limits.drain. Their sum is the
	// longest time between the first signal and the end of open calls.
	ShutdownDelayMS float64 `json:"shutdown_delay_ms"`
	DrainMS         float64 `json:"drain_ms"`
	// Variables are the environment variables that secrets of the configuration were read from. In
	// another shell they may not be set.
	Variables []string `json:"variables"`
	// Refused is why a change of the file was refused, in which case the previous configuration is
	// in effect; empty if none was refused. Pending are the changed settings that need a restart
	// and are not in effect.
	Refused string   `json:"refused,omitempty"`
	Pending []string `json:"pending,omitempty"`
	// Keys are the reasons why API keys of upstreams are not used, as far as calls have shown them.
	Keys []KeyProblem `json:"keys,omitempty"`
}

// A KeyProblem is the reason why API keys of an upstream are not used.
type KeyProblem struct {
	Upstream string `json:"upstream"`
	// Model is the model for which all keys are limited. It is empty if the provider refuses a key.
	Model string    `json:"model,omitempty"`
	Why   string    `json:"why"`
	Until time.Time `json:"until,omitzero"`
}

// StopTime returns the longest time that the daemon waits before it cuts off open calls. It is 0 if
// the daemon does not wait, or if that is unknown.
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
// the address of the configuration. The status may be nil if nothing is known about the daemon.
func (s *DaemonStatus) ReplaceCommand(listen string) string {
	const replace = "perigee serve --replace"
	if s == nil || s.ListensAt(listen) {
		return replace
	}
	at, _ := url.Parse(s.Listen) // it parses: ListensAt has checked it
	return replace + " --listen " + at.Host
}

// A LangserverRow is a language server that a daemon supervises. It has one for each upstream of
// that kind.
type LangserverRow struct {
	Upstream  string    `json:"upstream"`
	State     string    `json:"state"`      // stopped, starting, ready, restarting, failed
	PID       int       `json:"pid"`        // 0 if there is no process
	HTTPPort  int       `json:"http_port"`  // 0 if there is no process or it is not known yet
	HTTPSPort int       `json:"https_port"` // as HTTPPort
	Version   string    `json:"version"`    // of the IDE that it is from; empty if unknown
	Profile   string    `json:"profile"`    // classic, hub
	Account   string    `json:"account"`    // that it is signed in with
	Restarts  int       `json:"restarts"`
	Since     time.Time `json:"since"`     // of the state
	LastExit  string    `json:"last_exit"` // why the last process ended; empty if none has ended
	Memory    int64     `json:"memory"`    // bytes
}

// An AccountName identifies an account. Upstream may be empty if only one upstream has the email.
type AccountName struct {
	Email    string `json:"email"`
	Upstream string `json:"upstream,omitempty"`
}

// An AccountRow is an account in a listing.
type AccountRow struct {
	Email     string `json:"email"`
	Upstream  string `json:"upstream"`
	Enabled   bool   `json:"enabled"`
	Preferred bool   `json:"preferred"`  // it is chosen first
	ProjectID string `json:"project_id"` // empty if not requested yet
	State     string `json:"state"`
	Reason    string `json:"reason,omitempty"` // why it is in that state
	// Unopened is set if the stored refresh token cannot be decrypted here; see Reason.
	Unopened  bool       `json:"unopened,omitempty"`
	Cooldowns []Cooldown `json:"cooldowns"`
}

// An AccountImport is a list of accounts to be added. Document is in any of the supported JSON
// formats, with the tokens in plain text.
type AccountImport struct {
	Upstream string // empty means the only one that has accounts
	Document []byte
	Partial  bool // add the usable ones and skip the rest
}

// The results of an ImportedRow.
const (
	ImportAdded   = "added"
	ImportRenewed = "renewed" // it existed, and has a new refresh token
	ImportSkipped = "skipped"
)

// An ImportedRow is the result for one account of an AccountImport, or for an entry that cannot be
// used.
type ImportedRow struct {
	Email    string `json:"email"`
	Upstream string `json:"upstream"`
	Result   string `json:"result"`
	Where    string `json:"where,omitempty"` // of an entry that was skipped: "account 3"
	Why      string `json:"why,omitempty"`   // it was skipped
}

// A ChoiceRow is whether an account would be chosen now, and why.
type ChoiceRow struct {
	Email    string    `json:"email"`
	Upstream string    `json:"upstream"`
	Pool     string    `json:"pool"`
	Usable   bool      `json:"usable"`
	Chosen   bool      `json:"chosen"` // the next call gets this one
	Why      string    `json:"why"`
	Until    time.Time `json:"until,omitzero"` // when that changes by itself, if it does
}

// A RouteQuestion describes calls for ExplainRoute: the model as clients name it, and the features
// that conditions of routes depend on. Fields that are not set are left open.
type RouteQuestion struct {
	Model         string
	Agent         string // main or sub
	InputTokens   *int64
	Images, Tools *bool
}

// A RouteExplanation is the routing decision for a call for a model made now.
type RouteExplanation struct {
	Model    string `json:"model"`    // as the client names it
	Dialect  string `json:"dialect"`  // of the call; empty means any
	Upstream string `json:"upstream"` // that would answer; empty if none would
	Name     string `json:"name"`     // under which it is asked for the model
	// Local means that the upstream is a server of models on the machine of the daemon: its calls
	// cost nothing unless they have a price in the configuration.
	Local bool `json:"local,omitempty"`
	// Candidates are all upstreams, in the order in which they would be tried.
	Candidates []RouteCandidate `json:"candidates"`
	// Conditions are the routes that come before the one that was applied, and apply instead if the
	// request fulfils their conditions.
	Conditions []RouteCondition `json:"conditions,omitempty"`
	// Steps are sentences that explain how the name of the model led to the candidates.
	Steps []string `json:"steps,omitempty"`
}

// A RouteCondition is a route with a condition that a question has left open.
type RouteCondition struct {
	When  string   `json:"when"`            // as in the configuration, such as "agent: sub, tools: false"
	To    []string `json:"to,omitempty"`    // its upstreams; empty if its model determines them
	Model string   `json:"model,omitempty"` // the model that answers; empty if it is the requested one
}

// Destination describes where the route leads: "studio", "gemini-3-flash" or "gemini-3-flash at
// studio".
func (c RouteCondition) Destination() string {
	to := strings.Join(c.To, ", ")
	switch {
	case c.Model == "":
		return to
	case to == "":
		return c.Model
	}
	return c.Model + " at " + to
}

// A RouteCandidate is the state of an upstream for a call made now.
type RouteCandidate struct {
	Upstream string    `json:"upstream"`
	Name     string    `json:"name"` // under which it is asked for the model
	Usable   bool      `json:"usable"`
	Reason   string    `json:"reason"` // why it cannot be used, or what it would use
	Until    time.Time `json:"until,omitzero"`
}

// A ModelList is a list of models. Problems are the upstreams that could not list theirs.
type ModelList struct {
	Rows     []ModelRow `json:"rows"`
	Problems []Problem  `json:"problems"`
}

// A ModelRow is a model in a listing. Zero limits are unknown limits. Thinking is false also if it is
// unknown.
type ModelRow struct {
	ID       string `json:"id"`
	Upstream string `json:"upstream"`
	Context  int64  `json:"context"`
	Output   int64  `json:"output"`
	Thinking bool   `json:"thinking"`
	Vision   *bool  `json:"vision,omitempty"`   // whether it takes images; left out if unknown
	Tools    *bool  `json:"tools,omitempty"`    // whether it calls functions; left out if unknown
	AliasOf  string `json:"alias_of,omitempty"` // the model that answers under this name
	Default  bool   `json:"default,omitempty"`  // it answers requests that name no model
}

// A Problem is the reason why an upstream, or one of its accounts, could not be asked.
type Problem struct {
	Email    string `json:"email,omitempty"` // empty if the problem concerns the upstream
	Upstream string `json:"upstream"`
	Why      string `json:"why"`

	// These are of the error, in fresh lists of models: its class, and as in Error.
	Class   Class  `json:"class,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Fix     string `json:"fix,omitempty"`
	Setting string `json:"setting,omitempty"`
}

// ProblemOf returns the problem of an upstream with an error.
func ProblemOf(upstream string, err error) Problem {
	e := AsError(err)
	return Problem{Upstream: upstream, Why: e.Message, Class: e.Class, Hint: e.Hint, Fix: e.Fix, Setting: e.Setting}
}

// Err returns the error that the problem was made of.
func (p Problem) Err() *Error {
	return &Error{Class: p.Class, Message: p.Why, Hint: p.Hint, Fix: p.Fix, Setting: p.Setting}
}

// String returns the account and the reason in one line.
func (p Problem) String() string { return p.Email + ": " + p.Why }

// A QuotaList is the remaining quota of accounts. Problems are the accounts that could not be
// asked.
type QuotaList struct {
	Rows     []QuotaRow `json:"rows"`
	Problems []Problem  `json:"problems"`
}

// A QuotaRow is the remaining quota of an account for a model in one of the provider's pools.
// Remaining is the fraction left in the scarcest window, and ResetsAt is when that window resets.
type QuotaRow struct {
	Account  string `json:"account"`
	Upstream string `json:"upstream"`
	Model    string `json:"model"`
	// Group names the models that the provider counts together: gemini, claude, image, other.
	Group     string    `json:"group,omitempty"`
	Pool      string    `json:"pool"`
	Remaining float64   `json:"remaining"`
	ResetsAt  time.Time `json:"resets_at,omitzero"`
	// RunsOutAt is when the quota will be used up at the rate of the last hour, or, where that is
	// unknown, at the rate since a window began. It is zero if the quota lasts until the reset, is
	// already used up, or if the rate is unknown.
	RunsOutAt time.Time     `json:"runs_out_at,omitzero"`
	Windows   []QuotaWindow `json:"windows,omitempty"`
}

// A QuotaWindow is one of the windows in which the provider counts. A call is refused when any of
// them is used up.
type QuotaWindow struct {
	Window    string        `json:"window"` // 5h, weekly
	Length    time.Duration `json:"-"`      // 0 if unknown
	Remaining float64       `json:"remaining"`
	ResetsAt  time.Time     `json:"resets_at,omitzero"`
}

// RunsOut returns when the window will be used up at the average rate since it began. It returns
// the zero time if the window resets before that, is already used up, or is too young to estimate.
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

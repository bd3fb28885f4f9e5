package perigee

import (
	"context"
	"time"
)

// Actions of the audit log.
const (
	AuditSignInStarted   = "sign_in.started"
	AuditSignInFinished  = "sign_in.finished"
	AuditSignInFailed    = "sign_in.failed"
	AuditAccountImport   = "account.import"
	AuditAccountExport   = "account.export"
	AuditAccountEnable   = "account.enable"
	AuditAccountDisable  = "account.disable"
	AuditAccountUse      = "account.use"
	AuditAccountRemove   = "account.remove"
	AuditTraceList       = "trace.list"
	AuditTraceRead       = "trace.read"
	AuditTraceReplay     = "trace.replay"
	AuditDashboardSignIn = "dashboard.sign_in"
	AuditConfigReload    = "config.reload"
	AuditStoreCompact    = "store.compact"
	AuditAdminRefused    = "admin.refused"
)

// AuditActions lists all actions.
var AuditActions = []string{AuditAccountImport, AuditAccountExport, AuditAccountEnable, AuditAccountDisable, AuditAccountUse,
	AuditAccountRemove, AuditSignInStarted, AuditSignInFinished, AuditSignInFailed, AuditTraceList, AuditTraceRead, AuditTraceReplay,
	AuditDashboardSignIn, AuditConfigReload, AuditStoreCompact, AuditAdminRefused}

// AuditResultOK is the Result of an act that succeeded. Any other Result is a Class.
const AuditResultOK = "ok"

// Bounds of the audit log.
const (
	AuditMaxText     = 500 // bytes of an object or a detail
	AuditDefaultRows = 100
	AuditMaxRows     = 1000 // of one page
	AuditMaxAge      = 365 * 24 * time.Hour
	AuditMaxStored   = 100_000
	// AuditMaxStoredReading bounds trace reads and refused requests, so that they cannot displace
	// entries about changes.
	AuditMaxStoredReading = AuditMaxStored / 2
)

// The kinds of an Actor.
const (
	ActorSocket  = "socket"  // a command or a program, through the Unix socket of the daemon
	ActorToken   = "token"   // a request with the admin token, or a refused one with a wrong token
	ActorKey     = "key"     // a refused request with a client's key, and its name: "key laptop"
	ActorNone    = "none"    // a refused request without a token or key
	ActorCookie  = "cookie"  // the dashboard
	ActorOffline = "offline" // a command that worked on the database without a daemon
	ActorFile    = "file"    // an edit of the configuration file
)

// An AuditEntry is one administrative act. No field holds a secret, and none holds a control
// character.
type AuditEntry struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Action string    `json:"action"`
	Actor  string    `json:"actor"`
	From   string    `json:"from"`   // remote address, or user of the system for a command
	Object string    `json:"object"` // accounts, id of a call, file, path of a request
	Detail string    `json:"detail"`
	Result string    `json:"result"` // AuditResultOK or a Class
	Call   string    `json:"call"`   // x-perigee-call of the request; empty if there was none
}

// An AuditQuery chooses entries, newest first.
type AuditQuery struct {
	Since, Until  time.Time // zero means no bound
	Action, Actor string    // patterns with * and ?; empty means all
	Before        string    // only entries older than the one with this ID
	Limit         int       // 0 means AuditDefaultRows
}

// An AuditStore keeps the audit log.
type AuditStore interface {
	SaveAudit(ctx context.Context, e AuditEntry) error
}

// An AuditReader reads the audit log.
type AuditReader interface {
	AuditEntries(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
}

// An Actor is the origin of an administrative act.
type Actor struct{ Kind, From, Call string }

type actorKey struct{}

// WithActor returns a context for acts of this actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of a context, or the zero Actor if it has none.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

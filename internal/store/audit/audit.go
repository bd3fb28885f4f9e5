// Package audit records administrative acts: each is one log line and one row in a store. Texts are
// cleaned before they are stored: configured secrets and texts that look like credentials are
// replaced by [redacted], control characters are escaped, long texts are cut.
//
// The daemon records the acts that it is asked for; commands without a daemon record their own.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"perigee"
)

// saveTime bounds one row: an act never waits longer for its entry.
const saveTime = 5 * time.Second

// refusedPerMinute is how many refused requests are recorded one by one. The next entry has the
// number of further ones.
const refusedPerMinute = 10

// Options set where entries are written. Store is required.
type Options struct {
	Store  perigee.AuditStore
	Logger *slog.Logger     // nil discards all records
	Now    func() time.Time // time.Now if nil
	Actor  perigee.Actor    // of contexts without one
	// Redact replaces the known secrets; nil if there are none.
	Redact func(text string) string
}

// A Log records acts. It is safe for concurrent use.
type Log struct {
	opts Options

	mu      sync.Mutex
	minute  time.Time // when the current minute of refusals began
	refused int       // entries in it
	skipped int       // refusals without an entry since the last one that has one
}

// New returns a log.
func New(opts Options) *Log {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Redact == nil {
		opts.Redact = func(text string) string { return text }
	}
	return &Log{opts: opts}
}

// messages are the log lines of the actions.
var messages = map[string]string{
	perigee.AuditSignInStarted:   "sign-in started",
	perigee.AuditSignInFinished:  "sign-in finished",
	perigee.AuditSignInFailed:    "sign-in failed",
	perigee.AuditAccountImport:   "account import",
	perigee.AuditAccountExport:   "account export",
	perigee.AuditAccountEnable:   "account enable",
	perigee.AuditAccountDisable:  "account disable",
	perigee.AuditAccountUse:      "account use",
	perigee.AuditAccountRemove:   "account removal",
	perigee.AuditTraceList:       "trace list read",
	perigee.AuditTraceRead:       "trace read",
	perigee.AuditTraceReplay:     "trace replay",
	perigee.AuditDashboardSignIn: "dashboard sign-in",
	perigee.AuditConfigReload:    "configuration reloaded",
	perigee.AuditStoreCompact:    "store compaction",
	perigee.AuditAdminRefused:    "admin request refused",
}

// Record writes the log line and the row of an act. The caller sets its Action, Object, Detail and
// Result. An error means that the row is not stored; a warning about it is in the log. A caller
// that must not act without a record checks it before it acts. All other callers ignore it: owners
// have to be able to act on accounts while the store fails, and the log line has been written.
func (l *Log) Record(ctx context.Context, e perigee.AuditEntry) error {
	e = l.complete(ctx, e)
	attrs := []any{"action", e.Action, "actor", e.Actor, "object", e.Object, "result", e.Result}
	for _, more := range [][2]string{{"from", e.From}, {"detail", e.Detail}, {"call", e.Call}} {
		if more[1] != "" {
			attrs = append(attrs, more[0], more[1])
		}
	}
	l.opts.Logger.InfoContext(ctx, cmp.Or(messages[e.Action], "administrative action"), attrs...)
	return l.save(ctx, e)
}

// Save writes the row of an act that has a log line of its own.
func (l *Log) Save(ctx context.Context, e perigee.AuditEntry) error {
	return l.save(ctx, l.complete(ctx, e))
}

// Refused writes the row of an administrative request that was refused; the server logs refusals
// itself. At most refusedPerMinute rows are written in a minute, and the first one after that has
// the number of the omitted ones.
func (l *Log) Refused(ctx context.Context, e perigee.AuditEntry) {
	e.Action = perigee.AuditAdminRefused
	l.mu.Lock()
	if now := l.opts.Now(); now.Sub(l.minute) >= time.Minute || now.Before(l.minute) {
		l.minute, l.refused = now, 0
	}
	if l.refused++; l.refused > refusedPerMinute {
		l.skipped++
		l.mu.Unlock()
		return
	}
	if l.skipped > 0 {
		e.Detail = strings.TrimPrefix(fmt.Sprintf("%s; %d more before this one", e.Detail, l.skipped), "; ")
		l.skipped = 0
	}
	l.mu.Unlock()
	_ = l.Save(ctx, e)
}

func (l *Log) complete(ctx context.Context, e perigee.AuditEntry) perigee.AuditEntry {
	actor := perigee.ActorOf(ctx)
	if actor.Kind == "" {
		actor = l.opts.Actor
	}
	now := l.opts.Now().UTC()
	e.ID, e.Time = fmt.Sprintf("%012x%s", now.UnixMilli(), strings.ToLower(rand.Text()[:12])), now
	e.Actor, e.From, e.Call = cmp.Or(e.Actor, actor.Kind), l.clean(cmp.Or(e.From, actor.From)), actor.Call
	e.Object, e.Detail = l.clean(e.Object), l.clean(e.Detail)
	e.Result = cmp.Or(e.Result, perigee.AuditResultOK)
	return e
}

// clean replaces the secrets that are known first: a secret that is cut in two would not be found.
func (l *Log) clean(text string) string { return clean(l.opts.Redact(text)) }

// save writes a row, also for a client that has left.
func (l *Log) save(ctx context.Context, e perigee.AuditEntry) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	err := l.opts.Store.SaveAudit(bounded, e)
	if err != nil {
		l.opts.Logger.WarnContext(ctx, "audit entry not stored", "action", e.Action, "actor", e.Actor, "object", e.Object, "error", err)
	}
	return err
}

// ResultOf returns the Result of an act that ended with err.
func ResultOf(err error) string {
	if err == nil {
		return perigee.AuditResultOK
	}
	return string(perigee.AsError(err).Class)
}

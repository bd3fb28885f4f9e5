package daemon

import (
	"context"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/daemon/remote"
	"perigee/internal/lib/redact"
	"perigee/internal/store/audit"
	"perigee/internal/store/datadir"
)

// auditReload records that a changed configuration was applied, with the names of the changed
// settings and of those that need a restart. The caller writes the log line.
func (d *Daemon) auditReload(path, changed, pending string) {
	e := perigee.AuditEntry{Action: perigee.AuditConfigReload, Actor: perigee.ActorFile, Object: path}
	if changed != "" {
		e.Detail = "changed: " + changed
	}
	if pending != "" {
		e.Detail = strings.TrimPrefix(e.Detail+"; not in effect before a restart: "+pending, "; ")
	}
	_ = d.audit.Save(d.base, e)
}

// auditRefusedReload records that a changed configuration was refused. The log has the reason.
func (d *Daemon) auditRefusedReload(path string) {
	_ = d.audit.Save(d.base, perigee.AuditEntry{Action: perigee.AuditConfigReload, Actor: perigee.ActorFile, Object: path,
		Detail: "refused: the previous configuration stays in force", Result: string(perigee.ClassInvalid)})
}

// redact replaces the secrets of the configuration in force, the admin token, and all other known
// secrets.
func (d *Daemon) redact(text string) string {
	return d.observers.Redact(d.admin.Redact(d.redactor.Load().Text(text)))
}

// redactNow is redact, also with a token that was put there since the last request with one.
func (d *Daemon) redactNow(text string) string { d.admin.Reload(); return d.redact(text) }

// RecordAct records an act of a command: through the running daemon, which then logs it, or in the
// database itself. An error means that the act is not recorded.
func RecordAct(ctx context.Context, opts Options, e perigee.AuditEntry) error {
	opts = opts.complete()
	if client, err := Reach(ctx, opts.Loaded.Config); err == nil {
		body := map[string]string{"action": e.Action, "object": e.Object, "detail": e.Detail, "result": e.Result}
		if _, err := remote.Ask[struct{}](ctx, client, http.MethodPost, remote.AuditPath, body); err == nil {
			return nil
		}
	}
	return RecordOffline(ctx, opts, e)
}

// RecordOffline records an act of a command that worked on the database without a daemon.
func RecordOffline(ctx context.Context, opts Options, e perigee.AuditEntry) error {
	opts = opts.complete()
	return offlineLog(opts, offlineAudit{opts: opts}).Record(ctx, e)
}

func offlineLog(opts Options, store perigee.AuditStore) *audit.Log {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	log := audit.Options{Store: store, Logger: opts.Logger, Now: opts.Now, Actor: perigee.Actor{Kind: perigee.ActorOffline, From: name}}
	if opts.Loaded != nil {
		cfg := opts.Loaded.Config
		admin, secrets := datadir.NewAdminToken(cfg.DataDir), redact.New(cfg.Secrets()...)
		admin.Reload()
		log.Redact = func(text string) string { return admin.Redact(secrets.Text(text)) }
	}
	return audit.New(log)
}

// An offlineAudit writes entries without a daemon. It opens the database for each unless an
// offlineControl has done so.
type offlineAudit struct {
	opts    Options
	offline *offlineControl // may be nil
}

func (a offlineAudit) SaveAudit(ctx context.Context, e perigee.AuditEntry) error {
	if a.offline != nil && a.offline.store != nil {
		return a.offline.store.SaveAudit(ctx, e)
	}
	store, err := openStore(ctx, a.opts)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return store.SaveAudit(ctx, e)
}

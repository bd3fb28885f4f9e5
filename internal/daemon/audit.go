package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/audit"
	"perigee/internal/sqlstore"
)

// An auditedControl records every act that changes something, whether it succeeds or not.
type auditedControl struct {
	perigee.Control
	log *audit.Log
}

// done records an act that ended with err. When the row cannot be stored the act stands: undoing it could fail as well, and
// the log has its line.
func (c auditedControl) done(ctx context.Context, action, object, detail string, err error) {
	_ = c.log.Record(ctx, perigee.AuditEntry{Action: action, Object: object, Detail: detail, Result: audit.ResultOf(err)})
}

func (c auditedControl) ImportAccounts(ctx context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	rows, err := c.Control.ImportAccounts(ctx, in)
	var emails []string
	upstream, skipped := in.Upstream, 0
	for _, row := range rows {
		if upstream = row.Upstream; row.Result == perigee.ImportSkipped {
			skipped++
			continue
		}
		emails = append(emails, row.Email)
	}
	detail := ofUpstream(upstream)
	if skipped > 0 {
		detail += ", " + strconv.Itoa(skipped) + " skipped"
	}
	c.done(ctx, perigee.AuditAccountImport, strings.Join(emails, ", "), detail, err)
	return rows, err
}

func (c auditedControl) EnableAccount(ctx context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	row, err := c.Control.EnableAccount(ctx, name, enabled)
	action := perigee.AuditAccountDisable
	if enabled {
		action = perigee.AuditAccountEnable
	}
	c.done(ctx, action, name.Email, ofUpstream(name.Upstream), err)
	return row, err
}

func (c auditedControl) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	err := c.Control.RemoveAccount(ctx, name)
	c.done(ctx, perigee.AuditAccountRemove, name.Email, ofUpstream(name.Upstream), err)
	return err
}

func (c auditedControl) UseAccount(ctx context.Context, name perigee.AccountName) error {
	err := c.Control.UseAccount(ctx, name)
	c.done(ctx, perigee.AuditAccountUse, name.Email, ofUpstream(name.Upstream), err)
	return err
}

func ofUpstream(name string) string {
	if name == "" {
		return ""
	}
	return "upstream " + name
}

// auditReload records that a changed configuration was taken, with the names of what changed and of what needs a restart. Its log
// line is the caller's.
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

// auditRefusedReload records that one was not. Why is in the log, which the caller has written to.
func (d *Daemon) auditRefusedReload(path string) {
	_ = d.audit.Save(d.base, perigee.AuditEntry{Action: perigee.AuditConfigReload, Actor: perigee.ActorFile, Object: path,
		Detail: "refused: the previous configuration stays in force", Result: string(perigee.ClassInvalid)})
}

// redact replaces the secrets of the configuration in force and the admin token.
func (d *Daemon) redact(text string) string { return d.admin.redact(d.redactor.Load().Redact(text)) }

// redactNow is redact, also with a token that was put there since the last request with one.
func (d *Daemon) redactNow(text string) string {
	d.admin.look()
	return d.redact(text)
}

// RecordAct records an act of a command: through the running daemon, whose log then has a line, or in the database itself. The
// error says that the act is not recorded.
func RecordAct(ctx context.Context, opts Options, e perigee.AuditEntry) error {
	opts = opts.complete()
	cfg := opts.Loaded.Config
	if reach(ctx, cfg) == nil {
		body, err := json.Marshal(map[string]string{"action": e.Action, "object": e.Object, "detail": e.Detail, "result": e.Result})
		if err == nil {
			err = newRemote(cfg).ask(ctx, http.MethodPost, auditPath, body, &struct{}{})
		}
		if err == nil {
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
		admin, secrets := adminTokenOf(cfg), perigee.NewRedactor(cfg.Secrets()...)
		admin.look()
		log.Redact = func(text string) string { return admin.redact(secrets.Redact(text)) }
	}
	return audit.New(log)
}

// An offlineAudit writes entries without a daemon. It opens the database for each unless a back door has done so.
type offlineAudit struct {
	opts Options
	back *backDoor // may be nil
}

func (a offlineAudit) SaveAudit(ctx context.Context, e perigee.AuditEntry) error {
	if a.back != nil && a.back.store != nil {
		return a.back.store.SaveAudit(ctx, e)
	}
	cfg := a.opts.Loaded.Config
	if err := ownDir(cfg.DataDir, a.opts.Logger); err != nil {
		return noDataDir(err)
	}
	options := StoreOptions(cfg)
	options.Now, options.Logger = a.opts.Now, a.opts.Logger
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return store.SaveAudit(ctx, e)
}

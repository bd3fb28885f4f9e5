package main

import (
	"context"
	"flag"
	"net/url"
	"strconv"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/sqlstore"
)

var auditCommand = command{
	name:    "audit",
	summary: "show administrative acts",
	run:     auditLog,
	usage: `usage: perigee audit [--since TIME] [--action A] [--actor A] [--limit N]
         [--json]

  perigee audit
  perigee audit --since 2d --action 'account.*'
  perigee audit --actor token --json

Lists who did what, newest first: sign-ins, changes of accounts, exports,
reading of traces, reloads of the configuration, compaction of the store and
refused requests to admin paths. Works with and without a running daemon.
Entries are kept for a year, at most 100,000 of them.

  --since TIME     only from then on: a day (UTC), today, yesterday, a time as
                   RFC 3339, or an age: 90m, 1h, 2d, 1w
  --action A       only these: account.import, account.export, account.enable,
                   account.disable, account.use, account.remove,
                   sign_in.started, sign_in.finished, sign_in.failed,
                   trace.list, trace.read, config.reload, store.compact,
                   admin.refused; * stands for any characters, ? for one
  --actor A        only by these: socket (a command, through the daemon), token
                   (the admin token, or a wrong one), key NAME or none (refused
                   requests with the key of a client, or without any), offline
                   (a command without a daemon), file (an edit of the
                   configuration)
  --limit N        at most N of them, up to 1000 (default 100; with --since all)
  --json           a JSON array
  --config FILE    the configuration
`,
}

func auditLog(ctx context.Context, env *environment, args []string) error {
	src := config.Sources{Spare: noSecrets}
	var q perigee.AuditQuery
	set := flags(env, &src.Path)
	asJSON := set.Bool("json", false, "")
	since := set.String("since", "", "")
	limit := set.Int("limit", perigee.AuditDefaultRows, "")
	set.StringVar(&q.Action, "action", "", "")
	set.StringVar(&q.Actor, "actor", "", "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	if *limit < 1 || *limit > perigee.AuditMaxRows {
		return usagef("audit: --limit takes a number from 1 to %d", perigee.AuditMaxRows)
	}
	var err error
	if q.Since, _, err = period("audit", *since, "", time.Now()); err != nil {
		return err
	}
	given := false
	set.Visit(func(f *flag.Flag) { given = given || f.Name == "limit" })
	if *since != "" && !given {
		*limit = perigee.AuditMaxStored
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	rows, err := readAudit(ctx, env, loaded.Config, q, *limit)
	if err != nil {
		return err
	}
	zone := zoneNow()
	return list(env, *asJSON, rows,
		column[perigee.AuditEntry]{"TIME (" + zone.String() + ")", func(e perigee.AuditEntry) any { return e.Time.In(zone).Format(time.DateTime) }},
		column[perigee.AuditEntry]{"ACTION", func(e perigee.AuditEntry) any { return e.Action }},
		column[perigee.AuditEntry]{"ACTOR", func(e perigee.AuditEntry) any { return e.Actor }},
		column[perigee.AuditEntry]{"FROM", func(e perigee.AuditEntry) any { return orDash(e.From) }},
		column[perigee.AuditEntry]{"OBJECT", func(e perigee.AuditEntry) any { return orDash(e.Object) }},
		column[perigee.AuditEntry]{"RESULT", func(e perigee.AuditEntry) any { return e.Result }},
		column[perigee.AuditEntry]{"DETAIL", func(e perigee.AuditEntry) any { return orDash(e.Detail) }},
	)
}

// readAudit reads up to limit entries, page by page.
func readAudit(ctx context.Context, env *environment, cfg *config.Config, q perigee.AuditQuery, limit int) (rows []perigee.AuditEntry, err error) {
	for len(rows) < limit {
		q.Limit = min(limit-len(rows), perigee.AuditMaxRows)
		page, err := readRecorded(ctx, env, cfg, "/v1/audit?"+auditParameters(q).Encode(), func(store *sqlstore.Store) ([]perigee.AuditEntry, error) {
			return store.AuditEntries(ctx, q)
		})
		if err != nil {
			return nil, err
		}
		if rows = append(rows, page...); len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	return rows, nil
}

// auditParameters are a query as the daemon takes it.
func auditParameters(q perigee.AuditQuery) url.Values {
	query := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	for name, value := range map[string]string{"before": q.Before, "action": q.Action, "actor": q.Actor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if !q.Since.IsZero() {
		query.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	return query
}

// recordReading records that traces were read without a daemon. Where that fails a warning says so, and they are shown: a
// database that cannot be written to can still be read.
func recordReading(ctx context.Context, env *environment, loaded *config.Loaded, e perigee.AuditEntry, err error) {
	if err != nil {
		e.Detail, e.Result = "", string(perigee.AsError(err).Class)
	}
	_ = daemon.RecordOffline(ctx, daemonOptions(env, loaded), e)
}

func keyNames(cfg *config.Config) (names []string) {
	for _, k := range cfg.Keys {
		names = append(names, k.Name)
	}
	return names
}

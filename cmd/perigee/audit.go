package main

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/match"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
)

func auditLog(ctx context.Context, env *cli.Env, args []string) error {
	var q perigee.AuditQuery
	since := env.Flags.String("since", "", "")
	limit := env.Flags.Int("limit", perigee.AuditDefaultRows, "")
	env.Flags.StringVar(&q.Action, "action", "", "")
	env.Flags.StringVar(&q.Actor, "actor", "", "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	if *limit < 1 || *limit > perigee.AuditMaxRows {
		return cli.Usagef("audit: --limit expects a number from 1 to %d", perigee.AuditMaxRows)
	}
	known := func(action string) bool { return match.Pattern(q.Action, action) }
	if q.Action != "" && !slices.ContainsFunc(perigee.AuditActions, known) {
		return cli.Usagef("audit: there is no action %q; the actions are %s", q.Action, strings.Join(perigee.AuditActions, ", "))
	}
	var err error
	if q.Since, _, err = cli.ParsePeriod("audit", *since, "", time.Now()); err != nil {
		return err
	}
	given := false
	env.Flags.Visit(func(f *flag.Flag) { given = given || f.Name == "limit" })
	if *since != "" && !given {
		*limit = perigee.AuditMaxStored
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	rows, err := readAudit(ctx, env, loaded.Config, q, *limit)
	if err != nil {
		return err
	}
	zone := command.Zone()
	heads := []string{"TIME (" + zone.String() + ")", "ACTION", "ACTOR", "FROM", "OBJECT", "RESULT", "DETAIL"}
	return cli.List(env, rows, heads, func(e perigee.AuditEntry) []any {
		return []any{e.Time.In(zone).Format(time.DateTime), e.Action, e.Actor, command.OrDash(e.From), command.OrDash(e.Object), e.Result, command.OrDash(e.Detail)}
	})
}

// readAudit reads up to limit entries, page by page.
func readAudit(
	ctx context.Context, env *cli.Env, cfg *config.Config, q perigee.AuditQuery, limit int,
) (rows []perigee.AuditEntry, err error) {
	for len(rows) < limit {
		q.Limit = min(limit-len(rows), perigee.AuditMaxRows)
		query := command.Parameters(map[string]string{
			"limit": strconv.Itoa(q.Limit), "before": q.Before, "action": q.Action, "actor": q.Actor, "since": command.Timestamp(q.Since),
		})
		page, err := command.Recorded[[]perigee.AuditEntry]{What: "actions", Path: "/v1/audit?" + query.Encode(),
			Read: func(store *sqlstore.Store) ([]perigee.AuditEntry, error) { return store.AuditEntries(ctx, q) }}.Get(ctx, env, cfg)
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

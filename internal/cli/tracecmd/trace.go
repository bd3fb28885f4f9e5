// Package tracecmd is perigee trace.
package tracecmd

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
	"perigee/internal/server/admin"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
)

// Run lists, shows, follows and repeats calls.
func Run(ctx context.Context, env *cli.Env, args []string) error {
	word, err := env.Subcommand(args)
	if err != nil {
		return err
	}
	run := map[string]func(context.Context, *cli.Env, []string) error{
		"list": listTraces, "show": showTrace, "tail": tailCalls, "replay": replayCall, "compare": compareCalls, "shrink": shrinkCall,
		"bundle": bundleCall,
	}[word]
	return run(ctx, env, args[1:])
}

// Subcommands are the subcommands of perigee trace.
var Subcommands = []string{"list", "show ID", "tail", "replay ID", "compare", "shrink ID", "bundle ID"}

func listTraces(ctx context.Context, env *cli.Env, args []string) error {
	var q perigee.CallQuery
	env.Flags.IntVar(&q.Limit, "limit", 20, "")
	env.Flags.StringVar(&q.Before, "before", "", "")
	env.Flags.BoolVar(&q.Errors, "errors", false, "")
	env.Flags.StringVar(&q.Model, "model", "", "")
	env.Flags.StringVar(&q.Client, "client", "", "")
	env.Flags.StringVar(&q.Account, "account", "", "")
	env.Flags.StringVar(&q.Key, "key", "", "")
	since, replays := env.Flags.String("since", "", ""), env.Flags.Bool("replays", false, "")
	env.DefineCSV()
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	if q.Limit < 1 || q.Limit > 1000 {
		return cli.Usagef("trace: --limit expects a number from 1 to 1000")
	}
	q.Sent = !*replays
	var err error
	if q.Since, _, err = cli.ParsePeriod("trace", *since, "", time.Now()); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	rows, err := readTraces(ctx, env, loaded, q)
	if err != nil {
		return noCall(err, q.Before)
	}
	return command.PrintTraces(env, rows)
}

func readTraces(ctx context.Context, env *cli.Env, loaded *config.Loaded, q perigee.CallQuery) ([]perigee.TraceRow, error) {
	values := map[string]string{"limit": strconv.Itoa(q.Limit), "before": q.Before, "model": q.Model, "client": q.Client,
		"account": q.Account, "key": q.Key, "since": command.Timestamp(q.Since)}
	if q.Errors {
		values["errors"] = "true"
	}
	if !q.Sent {
		values["replays"] = "true"
	}
	query := command.Parameters(values)
	var keys []string
	for _, k := range loaded.Config.Keys {
		keys = append(keys, k.Name)
	}
	read := func(store *sqlstore.Store) (rows []perigee.TraceRow, err error) {
		priced := loaded.Config.PriceBook().Reader(store)
		calls, err := storedCalls(ctx, trace.Reader{CallReader: priced, Dir: func() string { return tracesDir(loaded.Config) }}, q)
		for i := range calls {
			rows = append(rows, calls[i].TraceRow())
		}
		recordReading(ctx, env, loaded, perigee.AuditEntry{
			Action: perigee.AuditTraceList, Object: admin.TraceFilter(query, keys), Detail: admin.TracesRead(len(rows)),
		}, err)
		return rows, err
	}
	return command.Recorded[[]perigee.TraceRow]{What: "calls", Path: "/v1/traces?" + query.Encode(), Read: read}.Get(ctx, env, loaded.Config)
}

func storedCalls(ctx context.Context, store perigee.CallReader, q perigee.CallQuery) ([]perigee.Call, error) {
	if q.Before != "" {
		before, err := admin.FindCall(ctx, store, q.Before)
		if err != nil {
			return nil, err
		}
		q.Before = before.ID
	}
	return store.Calls(ctx, q)
}

// recordReading records in the audit log that traces were read without a daemon. If that fails, a
// warning is printed and the traces are shown: a database that cannot be written can still be read.
func recordReading(ctx context.Context, env *cli.Env, loaded *config.Loaded, e perigee.AuditEntry, err error) {
	if err != nil {
		e.Detail, e.Result = "", string(perigee.AsError(err).Class)
	}
	_ = daemon.RecordOffline(ctx, command.DaemonOptions(env, loaded), e)
}

func showTrace(ctx context.Context, env *cli.Env, args []string) error {
	id, err := oneCall(env, "show", args)
	if err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	read := func(store *sqlstore.Store) (t perigee.Trace, err error) {
		found, err := admin.FindCall(ctx, loaded.Config.PriceBook().Reader(store), id)
		if err == nil {
			t = found.Trace()
		}
		recordReading(ctx, env, loaded, perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: cmp.Or(t.ID, id)}, err)
		return t, err
	}
	t, err := command.Recorded[perigee.Trace]{Path: "/v1/traces/" + url.PathEscape(id), Read: read}.Get(ctx, env, loaded.Config)
	if err == nil && t.ID == "" { // there is no store yet
		err = perigee.Errorf(perigee.ClassNotFound, "there is no call %q", terminal.Printable(id))
	}
	if err != nil {
		return noCall(err, id)
	}
	return printCall(ctx, env, loaded.Config, &t)
}

// noCall adds advice to the error about a call that does not exist. An id that several calls share
// is a usage error.
func noCall(err error, id string) error {
	e, ok := errors.AsType[*perigee.Error](err)
	switch {
	case ok && e.Class == perigee.ClassNotFound && id == admin.LastCall:
		return perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet")
	case ok && e.Class == perigee.ClassNotFound:
		return perigee.Errorf(perigee.ClassNotFound, "there is no call %q", terminal.Printable(id)).WithHint("perigee trace list shows recent calls")
	}
	return command.Misused(err)
}

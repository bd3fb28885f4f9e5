package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
)

func store(ctx context.Context, env *cli.Env, args []string) error {
	rest, err := env.Parse(args, 1)
	if err != nil {
		return err
	}
	if len(rest) == 1 && rest[0] != "compact" {
		return cli.Usagef("store: %q is not an action; use perigee store, or perigee store compact", rest[0])
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	if len(rest) == 1 {
		done, err := daemon.CompactStore(ctx, loaded.Config)
		if err != nil {
			return nothingStored(err)
		}
		return printCompacted(env, done)
	}
	report, err := daemon.StoreReport(ctx, loaded.Config)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		if env.Remark("%v", nothingStored(err)); env.JSON {
			return printStore(env, perigee.StoreReport{Rows: []perigee.StoreRow{}})
		}
		return nil
	}
	if err != nil {
		return err
	}
	return printStore(env, report)
}

func printStore(env *cli.Env, report perigee.StoreReport) error {
	if env.JSON {
		return cli.WriteJSON(env, report)
	}
	rows := append(report.Rows, perigee.StoreRow{What: "database", Bytes: report.Bytes - report.Log})
	if report.Log > 0 {
		rows = append(rows, perigee.StoreRow{What: "write-ahead log", Bytes: report.Log})
	}
	if report.Engine == "sqlite" {
		rows = append(rows, perigee.StoreRow{What: "free in the database", Bytes: report.Free})
	}
	return cli.List(env, rows, []string{"WHAT", "COUNT", "ON DISK", "LIMIT", "KEPT FOR"}, func(r perigee.StoreRow) []any {
		var count any = r.Count
		if strings.Contains(r.What, "database") || r.What == "write-ahead log" {
			count = ""
		}
		var limits []string
		if r.MaxBytes > 0 {
			limits = append(limits, terminal.Size(r.Counted)+" of "+terminal.Size(r.MaxBytes))
		}
		if r.MaxCount > 0 {
			limits = append(limits, fmt.Sprint(r.MaxCount))
		}
		return []any{r.What, count, terminal.Size(r.Bytes), strings.Join(limits, ", "), terminal.Age(time.Duration(r.Keep) * time.Second)}
	})
}

func printCompacted(env *cli.Env, done perigee.StoreCompacted) error {
	if env.JSON {
		return cli.WriteJSON(env, done)
	}
	fmt.Fprintf(env.Stdout, "%s: %s before, %s after, %s freed\n",
		terminal.Printable(done.Database), terminal.Size(done.Before), terminal.Size(done.After), terminal.Size(done.Freed))
	if done.Note != "" {
		env.Remark("%s", done.Note)
	}
	return nil
}

// nothingStored replaces the error about a database that does not exist.
func nothingStored(err error) error {
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		return perigee.Errorf(perigee.ClassNotFound, "nothing is stored yet").WithHint("start `perigee serve` once")
	}
	return err
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
)

var storeCommand = command{
	name:    "store",
	summary: "show what is stored, and compact the database",
	run:     store,
	usage: `usage: perigee store [--json]
       perigee store compact [--json]

  perigee store
  perigee store compact

Shows what perigee keeps, how much it takes on disk, and what limits it. Works
with and without a running daemon.

  compact          give the free space of the database back to the file system.
                   A running daemon does it itself and answers calls meanwhile

  --json           a JSON object
  --config FILE    the configuration
`,
}

func store(ctx context.Context, env *environment, args []string) error {
	src := config.Sources{Spare: noSecrets}
	set := flags(env, &src.Path)
	asJSON := set.Bool("json", false, "")
	rest, err := parseAround(env, set, args)
	if err != nil {
		return err
	}
	act := showStore
	switch {
	case len(rest) == 1 && rest[0] == "compact":
		act = compactStore
	case len(rest) > 1:
		return usagef("store: unexpected argument %q", rest[1])
	case len(rest) == 1:
		return usagef("store: %q is not an action; use perigee store, or perigee store compact", rest[0])
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	return act(ctx, env, loaded.Config, *asJSON)
}

func showStore(ctx context.Context, env *environment, cfg *config.Config, asJSON bool) error {
	report, err := daemon.StoreReport(ctx, cfg)
	if err != nil {
		return nothingStored(err)
	}
	if asJSON {
		return writeObject(env, report)
	}
	rows := append(report.Rows, perigee.StoreRow{What: "database", Bytes: report.Bytes - report.Log})
	if report.Log > 0 {
		rows = append(rows, perigee.StoreRow{What: "database log", Bytes: report.Log})
	}
	if report.Engine == "sqlite" {
		rows = append(rows, perigee.StoreRow{What: "free in the database", Bytes: report.Free})
	}
	return list(env, false, rows,
		column[perigee.StoreRow]{"WHAT", func(r perigee.StoreRow) any { return r.What }},
		column[perigee.StoreRow]{"COUNT", func(r perigee.StoreRow) any {
			if strings.Contains(r.What, "database") {
				return ""
			}
			return r.Count
		}},
		column[perigee.StoreRow]{"ON DISK", func(r perigee.StoreRow) any { return sizeText(r.Bytes) }},
		column[perigee.StoreRow]{"LIMIT", limitText},
		column[perigee.StoreRow]{"KEPT FOR", keepText},
	)
}

func compactStore(ctx context.Context, env *environment, cfg *config.Config, asJSON bool) error {
	done, err := daemon.CompactStore(ctx, cfg)
	if err != nil {
		return nothingStored(err)
	}
	if asJSON {
		return writeObject(env, done)
	}
	fmt.Fprintf(env.stdout, "%s: %s before, %s after, %s freed\n",
		printable(done.Database), sizeText(done.Before), sizeText(done.After), sizeText(done.Freed))
	if done.Note != "" {
		env.say("%s", done.Note)
	}
	return nil
}

// nothingStored is the error about a database that is not there.
func nothingStored(err error) error {
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		return perigee.Errorf(perigee.ClassNotFound, "nothing is stored yet").WithNext("start `perigee serve` once")
	}
	return err
}

func writeObject(env *environment, v any) error {
	out := json.NewEncoder(env.stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// limitText is what bounds a row: bytes with what counts for them, or a number.
func limitText(r perigee.StoreRow) any {
	var limits []string
	if r.MaxBytes > 0 {
		limits = append(limits, sizeText(r.Counted)+" of "+sizeText(r.MaxBytes))
	}
	if r.MaxCount > 0 {
		limits = append(limits, fmt.Sprintf("%d", r.MaxCount))
	}
	return strings.Join(limits, ", ")
}

func keepText(r perigee.StoreRow) any {
	age := time.Duration(r.Keep) * time.Second
	switch {
	case age == 0:
		return ""
	case age%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", age/(24*time.Hour))
	}
	return strings.TrimSuffix(strings.TrimSuffix(age.String(), "0s"), "0m")
}

// sizeText writes bytes for people.
func sizeText(n int64) string {
	size, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, larger
	}
	if unit == "B" || size >= 100 || size == float64(int64(size)) {
		return fmt.Sprintf("%.0f %s", size, unit)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
)

var modelsCommand = command{
	name:    "models",
	summary: "list what can be asked",
	run:     models,
	usage: `  perigee models
  perigee models --upstream studio --json

Asks the configured upstreams which models they have. No daemon is needed.

  --upstream NAME  only the models of this upstream
  --json           a JSON array: id, upstream, context, output, thinking
  --config FILE    the configuration
`,
}

// A modelRow is a model in a listing.
type modelRow struct {
	ID       string `json:"id"`
	Upstream string `json:"upstream"`
	Context  int64  `json:"context"`
	Output   int64  `json:"output"`
	Thinking bool   `json:"thinking"`
}

func models(ctx context.Context, env *environment, args []string) error {
	var src config.Sources
	set := flags(env, &src.Path)
	upstream := set.String("upstream", "", "")
	asJSON := set.Bool("json", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	if err := knownUpstream(loaded.Config, *upstream); err != nil {
		return err
	}
	if line := sourceOfAnswers(loaded, false); line != "" {
		env.say("%s", line)
	}
	if *upstream != "" {
		only := *loaded.Config
		only.Upstreams = slices.DeleteFunc(slices.Clone(only.Upstreams), func(u config.Upstream) bool { return u.Name != *upstream })
		only.Models.Routes = nil
		loaded.Config = &only
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	options := daemonOptions(env, loaded)
	var warned warnings
	options.Logger = slog.New(&sayHandler{say: warned.add})
	found, err := daemon.Models(ctx, options)
	warned.sayBeside(env, err)
	if err != nil {
		return misused(notSignedIn(ctx, options, err))
	}
	rows := []modelRow{}
	for _, m := range found {
		if *upstream == "" || m.Upstream == *upstream {
			rows = append(rows, modelRow{m.ID, m.Upstream, m.Context, m.Output, m.Thinking})
		}
	}
	return list(env, *asJSON, rows,
		column[modelRow]{"MODEL", func(r modelRow) any { return r.ID }},
		column[modelRow]{"UPSTREAM", func(r modelRow) any { return r.Upstream }},
		column[modelRow]{"CONTEXT", func(r modelRow) any { return orUnknown(r.Context) }},
		column[modelRow]{"OUTPUT", func(r modelRow) any { return orUnknown(r.Output) }},
		column[modelRow]{"THINKING", func(r modelRow) any { return yesNo(r.Thinking) }},
	)
}

// Warnings are what was logged while models were asked for, which goes on for several upstreams at once.
type warnings struct {
	mu   sync.Mutex
	list []warning
}

type warning struct {
	line  string
	cause error // may be nil
}

func (w *warnings) add(line string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, warning{line, cause})
}

// sayBeside says all of it but what err will say, and nothing twice.
func (w *warnings) sayBeside(env *environment, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := map[string]bool{}
	for _, one := range w.list {
		if !said[one.line] && (one.cause == nil || err == nil || !errors.Is(err, one.cause) && err.Error() != one.cause.Error()) {
			env.say("%s", one.line)
		}
		said[one.line] = true
	}
}

// notSignedIn says of an error that it is about accounts, if nobody could be asked because there is none to ask with.
func notSignedIn(ctx context.Context, options daemon.Options, err error) error {
	for _, u := range options.Loaded.Config.Upstreams {
		if u.Kind != config.KindAntigravity {
			return err
		}
	}
	handle, failed := daemon.Connect(ctx, options)
	if failed != nil {
		return err
	}
	defer handle.Close()
	rows, failed := handle.Accounts(ctx)
	usable := func(row perigee.AccountRow) bool { return row.Enabled && perigee.UsableState(row.State) }
	if failed != nil || len(options.Loaded.Config.Upstreams) == 0 || slices.ContainsFunc(rows, usable) {
		return err
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "%w", err)
}

func orUnknown(n int64) any {
	if n == 0 {
		return "-"
	}
	return amount(n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Package completioncmd is `perigee completion`: the scripts of shells, and the words that they
// offer.
package completioncmd

import (
	"context"
	"embed"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/server/connect"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
)

// scripts has a file for each shell. A script calls perigee completion candidates, with the current
// word after a colon first, because some shells do not pass empty words on.
//
//go:embed scripts/*
var scripts embed.FS

// Subcommands are the shells that there is a script for.
var Subcommands = []string{"bash", "zsh", "fish", "powershell"}

// candidates is the subcommand that scripts call. It is not in the help.
const candidates = "candidates"

// patience is the longest time after the Tab key.
const patience = time.Second

// Run is the command.
func Run(ctx context.Context, env *cli.Env, args []string) error {
	if len(args) > 1 && args[0] == candidates {
		return complete(ctx, env, args[1:])
	}
	shell, err := env.Subcommand(args)
	if err != nil {
		return err
	}
	if _, err := env.Parse(args[1:], 0); err != nil {
		return err
	}
	script, err := scripts.ReadFile("scripts/" + shell)
	if err == nil {
		_, err = env.Stdout.Write(script)
	}
	return err
}

// complete prints the candidates for the first word, which begins with a colon. The further words
// are those before it.
func complete(ctx context.Context, env *cli.Env, words []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	env.Stderr = io.Discard // it would be in the middle of the line that is being typed
	c := Completer{Program: env.Program, Values: func(ctx context.Context, of, file string) []string {
		env.Config = file
		return values(ctx, env, of)
	}}
	return c.Complete(ctx, words[1:], strings.TrimPrefix(words[0], ":")).Write(env.Stdout)
}

// values returns the values of a flag or an argument. They come from the configuration and from a
// running daemon or the store; no provider is called, except by a daemon that has not listed its
// models yet.
func values(ctx context.Context, env *cli.Env, of string) []string {
	switch of {
	case "--action":
		return perigee.AuditActions
	case "--by", "--each":
		return perigee.UsageGroups
	case "CLIENT":
		return connect.Names()
	case "PROFILE":
		return simulator.Profiles()
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return nil
	}
	switch of {
	case "ID", "--before":
		return append(newest(ctx, loaded.Config), "last")
	case "--upstream":
		return upstreams(loaded.Config)
	case "--key":
		return keys(loaded.Config)
	case "EMAIL", "--email", "--account":
		return accounts(ctx, env, loaded)
	case "MODEL", "--model", "--models":
		return models(ctx, env, loaded)
	}
	return nil
}

// newestCalls is how many calls are offered.
const newestCalls = 10

// newest returns the IDs of the newest calls that are stored. The daemon is not asked for them:
// each listing of calls would be in the audit log.
func newest(ctx context.Context, cfg *config.Config) (list []string) {
	options := daemon.StoreOptions(cfg)
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return nil
	}
	defer store.Close()
	calls, _ := store.Calls(ctx, perigee.CallQuery{Limit: newestCalls}) // without an answer, nothing is offered
	for _, c := range calls {
		list = append(list, c.ID)
	}
	return list
}

func upstreams(cfg *config.Config) (list []string) {
	for _, u := range cfg.Upstreams {
		list = append(list, u.Name)
	}
	return list
}

func keys(cfg *config.Config) (list []string) {
	for _, k := range cfg.Keys {
		list = append(list, k.Name)
	}
	return list
}

func accounts(ctx context.Context, env *cli.Env, loaded *config.Loaded) (list []string) {
	handle, err := command.Connect(ctx, env, loaded, command.NoSecrets)
	if err != nil {
		return nil
	}
	defer handle.Close()
	rows, _ := handle.Accounts(ctx) // without an answer, nothing is offered
	for _, row := range rows {
		list = append(list, row.Email)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// models returns the models of a running daemon, and the aliases of the configuration.
func models(ctx context.Context, env *cli.Env, loaded *config.Loaded) []string {
	list := slices.DeleteFunc(slices.Collect(maps.Keys(loaded.Config.Models.Aliases)), func(alias string) bool {
		return strings.ContainsAny(alias, "*?")
	})
	if daemon.Running(ctx, loaded.Config) {
		if handle, err := daemon.Connect(ctx, command.DaemonOptions(env, loaded)); err == nil {
			defer handle.Close()
			found, _ := handle.Models(ctx, "", false)
			for _, row := range found.Rows {
				list = append(list, row.ID)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

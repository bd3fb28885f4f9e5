package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
)

var configCommand = command{
	name:    "config",
	summary: "create, check and show the configuration",
	run:     configure,
	usage: `usage: perigee config show|check [--json]
       perigee config schema|init

  perigee config show
  perigee config check --config team.yaml
  perigee config schema > perigee.schema.json
  perigee config init

  show             every effective value and where it comes from, without
                   secrets; works for an invalid configuration, too
  check            report all problems at once
  schema           print the JSON Schema of the file, for editors
  init             write a file that explains every key, unless there is one

  --config FILE    the configuration
  --json           for show and check: a JSON array of values or of problems
`,
}

func configure(ctx context.Context, env *environment, args []string) error {
	if len(args) == 0 {
		return usagef("config: use show, check, schema or init; perigee help config tells more")
	}
	what := args[0]
	src := config.Sources{Models: simulator.Models()}
	if what == "show" {
		src.Spare = noSecrets
	}
	set := flags(env, &src.Path)
	asJSON := set.Bool("json", false, "")
	switch what {
	case "show", "check", "schema", "init":
		args = args[1:]
	case "-h", "-help", "--help":
	default:
		return usagef("config: no %q; use show, check, schema or init", what)
	}
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	if what == "schema" {
		_, err := fmt.Fprintf(env.stdout, "%s\n", config.Schema())
		return err
	}
	if what == "init" {
		return initConfig(env, src)
	}
	if what == "show" {
		return showConfig(env, src, *asJSON)
	}
	loaded, err := config.Inspect(src)
	if err != nil {
		loaded, err = inspectWithDaemon(ctx, env, src, loaded, err)
	}
	if loaded != nil {
		for _, warning := range loaded.Warnings {
			env.say("%s", warning)
		}
	}
	if *asJSON {
		return errors.Join(list(env, true, problemRows(loaded, err)), err)
	}
	if err != nil {
		return err
	}
	where := loaded.Path
	if where == "" {
		where = "there is no file at " + loaded.Searched + "; these are the defaults"
	}
	if line := sourceOfAnswers(loaded, false); line != "" {
		env.say("%s", line)
	}
	_, err = fmt.Fprintf(env.stdout, "ok: %s\n", where)
	return err
}

// inspectWithDaemon inspects a configuration again where all that is wrong may be that this shell lacks variables which the
// daemon that runs with the same file has: then it says so. Otherwise it returns what was found before.
func inspectWithDaemon(ctx context.Context, env *environment, src config.Sources, loaded *config.Loaded, problems error) (*config.Loaded, error) {
	sparing := src
	sparing.Spare = noSecrets
	usable, err := config.Load(sparing)
	if err != nil {
		return loaded, problems
	}
	status, err := daemon.Status(ctx, usable.Config)
	if path, failed := filepath.Abs(usable.Path); err != nil || failed != nil || path != status.Configuration {
		return loaded, problems
	}
	var borrowed []string
	src.Environ = os.Environ
	src.Env = func(name string) (string, bool) {
		value, ok := os.LookupEnv(name)
		if value == "" && slices.Contains(status.Variables, name) {
			borrowed = append(borrowed, name)
			return rand.Text(), true
		}
		return value, ok
	}
	again, err := config.Inspect(src)
	if err != nil {
		return loaded, problems
	}
	slices.Sort(borrowed)
	for _, name := range slices.Compact(borrowed) {
		env.say("%s is not set in this shell; the running daemon has it", name)
	}
	return again, nil
}

// showConfig lists what is in force, and what would be but for its problems, which are the error then.
func showConfig(env *environment, src config.Sources, asJSON bool) error {
	loaded, problems := config.Inspect(src)
	if loaded == nil {
		return problems
	}
	for _, warning := range loaded.Warnings {
		env.say("%s", warning)
	}
	if loaded.KeyVariable != "" {
		env.say("%s", sourceOfAnswers(loaded, false))
	}
	if asJSON {
		return errors.Join(list(env, true, typedValues(loaded.Values())), problems)
	}
	err := list(env, false, shownValues(loaded.Values()),
		column[config.Value]{"KEY", func(v config.Value) any { return v.Key }},
		column[config.Value]{"VALUE", func(v config.Value) any { return v.Value }},
		column[config.Value]{"ORIGIN", func(v config.Value) any {
			if v.Unused {
				return v.Origin + " (not in this version)"
			}
			return v.Origin
		}},
	)
	return errors.Join(err, problems)
}

// shownValues are the values for people: a client key is one row, and what this version does nothing with is left out unless
// it is set.
func shownValues(values []config.Value) []config.Value {
	var rows []config.Value
	for _, v := range values {
		item, name, inKey := strings.Cut(v.Key, "].")
		inKey = inKey && strings.HasPrefix(item, "keys[")
		last := len(rows) - 1
		switch {
		case v.Unused && v.Origin == "default":
		case inKey && name == "name":
			v.Key = item + "]"
			rows = append(rows, v)
		case inKey && v.Origin == "default":
		case inKey && last >= 0 && rows[last].Key == item+"]":
			name, _, inList := strings.Cut(name, "[")
			if inList && strings.Contains(rows[last].Value, ", "+name+": ") {
				rows[last].Value += " " + v.Value
			} else {
				rows[last].Value += ", " + name + ": " + v.Value
			}
		default:
			rows = append(rows, v)
		}
	}
	return rows
}

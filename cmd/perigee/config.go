package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/cli/importcmd"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
)

func configure(ctx context.Context, env *cli.Env, args []string) error {
	word, err := env.Subcommand(args)
	if err != nil {
		return err
	}
	var write bool
	files := 0
	if word == "import" {
		env.Flags.BoolVar(&write, "write", false, "")
		files = 1
	}
	names, err := env.Parse(args[1:], files)
	if err != nil {
		return err
	}
	src := config.Sources{Path: env.Config, Models: simulator.Models(), AnswersOllama: command.AnswersOllama}
	switch word {
	case "schema":
		_, err := fmt.Fprintf(env.Stdout, "%s\n", config.Schema())
		return err
	case "init":
		return initConfig(env, src)
	case "import":
		if len(names) == 0 {
			return cli.Usagef("config import: name the configuration file of LiteLLM, claude-code-router or CLIProxyAPI")
		}
		return importConfig(env, src, names[0], write)
	case "show":
		return showConfig(env, src)
	}
	return checkConfig(ctx, env, src)
}

func checkConfig(ctx context.Context, env *cli.Env, src config.Sources) error {
	loaded, borrowed, err := command.Inspect(ctx, env, src)
	for _, name := range borrowed {
		env.Remark("%s is not set in this shell; the running daemon has it", name)
	}
	if loaded != nil {
		for _, warning := range loaded.Warnings {
			env.Remark("warning: %s", warning)
		}
	}
	if env.JSON {
		return errors.Join(cli.List(env, problemRows(loaded, err), nil, nil), err)
	}
	if err != nil {
		return err
	}
	where := cmp.Or(loaded.Path, "no file at "+loaded.Searched+"; the defaults apply")
	remarkSources(env, loaded)
	_, err = fmt.Fprintf(env.Stdout, "ok: %s\n", where)
	return err
}

// remarkSources prints what answers if the file has no upstreams.
func remarkSources(env *cli.Env, loaded *config.Loaded) {
	for _, line := range []string{answersFrom(loaded, false), passedOver(loaded)} {
		if line != "" {
			env.Remark("%s", line)
		}
	}
}

// A problemRow is a problem of the configuration for programs. Line and Column are 0 if it is not
// in the file.
type problemRow struct {
	// Source is the file, "environment PERIGEE_LISTEN" or "flag --listen".
	Source   string `json:"source,omitempty"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Message  string `json:"message"`
	Hint     string `json:"hint"`
	Severity string `json:"severity"` // error prevents a start, warning does not
}

func problemRows(loaded *config.Loaded, err error) (rows []problemRow) {
	add := func(list []config.Problem, severity string) {
		for _, p := range list {
			rows = append(rows, problemRow{p.Source, p.Line, p.Column, p.Message, p.Hint, severity})
		}
	}
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		add(problems.List, "error")
	} else if err != nil {
		rows = append(rows, problemRow{Message: err.Error(), Severity: "error"})
	}
	if loaded != nil {
		add(loaded.Warnings, "warning")
	}
	return rows
}

// showConfig lists all values. Those of an invalid configuration are listed, too, and its problems
// are returned.
func showConfig(env *cli.Env, src config.Sources) error {
	src.Spare = command.NoSecrets
	loaded, problems := config.Inspect(src)
	if loaded == nil {
		return problems
	}
	for _, warning := range loaded.Warnings {
		env.Remark("warning: %s", warning)
	}
	if loaded.Path == "" {
		remarkSources(env, loaded)
	}
	values := loaded.Values()
	if !env.JSON {
		values = condensed(values)
	}
	err := cli.List(env, values, []string{"KEY", "VALUE", "ORIGIN"}, func(v config.Value) []any {
		return []any{v.Key, v.Value, v.Origin}
	})
	return errors.Join(err, problems)
}

// condensed makes one row of each client key, without defaults.
func condensed(values []config.Value) (rows []config.Value) {
	for _, v := range values {
		item, name, inKey := strings.Cut(v.Key, "].")
		inKey = inKey && strings.HasPrefix(item, "keys[")
		last := len(rows) - 1
		switch {
		case v.Default() && inKey && name != "name":
		case inKey && name == "name":
			v.Key = item + "]"
			rows = append(rows, v)
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

// initConfig writes a file with the upstreams that are found on this machine.
func initConfig(env *cli.Env, src config.Sources) error {
	google := command.FindGoogleLogin()
	cloud, err := google.Upstream()
	if err != nil {
		return fmt.Errorf("config init: %w", err)
	}
	found := config.Surroundings(src)
	if err := writeConfig(env, src, config.Example(found.Environment, cloud), "init"); err != nil {
		return err
	}
	upstreams := environmentUpstreams(found)
	if cloud != nil {
		upstreams = append(upstreams, "cloud (your Google Cloud login)")
	}
	if len(upstreams) > 0 {
		env.Remark("upstreams in the file: %s", strings.Join(upstreams, ", "))
	} else {
		env.Remark("there is no upstream in the file, because no API key, Ollama server or Google Cloud login was found")
	}
	if line := passedOver(found); line != "" {
		env.Remark("%s", line)
	}
	for _, warning := range found.Warnings {
		env.Remark("warning: %s", warning)
	}
	switch {
	case google.Err != nil:
		env.Remark("%v", google.Err)
	case google.Found && google.Project == "":
		env.Remark("the Google Cloud login names no project: set project of the upstream cloud, or run gcloud auth application-default set-quota-project PROJECT")
	}
	return nil
}

// writeConfig writes a configuration file to the first place where it is searched for, unless there
// is one in any. word is the subcommand.
func writeConfig(env *cli.Env, src config.Sources, text []byte, word string) error {
	paths := config.Files(src)
	if len(paths) == 0 {
		return fmt.Errorf("config %s: there is no home directory to put the file in; name one with --config FILE", word)
	}
	exists := func(path string) error {
		return fmt.Errorf("config %s: %s already exists and was left unchanged; perigee config show lists its values", word, path)
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return exists(path)
		}
	}
	path := paths[0]
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("config %s: %w", word, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // it was created in the meantime
		return exists(path)
	}
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("config %s: %w", word, err)
	}
	env.Remark("edit the file, then run perigee config check")
	_, err = fmt.Fprintln(env.Stdout, path)
	return err
}

// maxImport is the largest size of a file to import.
const maxImport = 1 << 20

// importConfig prints or writes the configuration of perigee for the one of another gateway.
func importConfig(env *cli.Env, src config.Sources, path string, write bool) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("config import: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxImport+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("config import: %w", err)
	}
	if len(text) > maxImport {
		return fmt.Errorf("config import: %s is larger than 1MiB", path)
	}
	converted, notes, err := importcmd.Convert(text)
	for _, note := range notes {
		env.Remark("%s", note)
	}
	if err != nil {
		return fmt.Errorf("config import: %s: %w", path, err)
	}
	if write {
		return writeConfig(env, src, converted, "import")
	}
	_, err = env.Stdout.Write(converted)
	return err
}

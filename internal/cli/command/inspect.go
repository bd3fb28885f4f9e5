package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// Inspect reads a configuration as config.Inspect does. If its only problems are environment
// variables that this shell lacks and the daemon running with the same file has, it returns these
// variables and no problems.
func Inspect(ctx context.Context, env *cli.Env, src config.Sources) (loaded *config.Loaded, borrowed []string, problems error) {
	if loaded, problems = config.Inspect(src); problems == nil {
		return loaded, nil, nil
	}
	usable, err := Load(env, NoSecrets)
	if err != nil {
		return loaded, nil, problems
	}
	status, err := daemon.Status(ctx, usable.Config)
	if err != nil || !RunsWith(usable, status) {
		return loaded, nil, problems
	}
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
		return loaded, nil, problems
	}
	slices.Sort(borrowed)
	return again, slices.Compact(borrowed), nil
}

// Salvage is Inspect for commands that work with an invalid configuration as well. The result is
// never nil. If the data directory or the address could not be read, they are from the environment,
// or the preset ones.
func Salvage(ctx context.Context, env *cli.Env, src config.Sources) (loaded *config.Loaded, borrowed []string, problems error) {
	loaded, borrowed, problems = Inspect(ctx, env, src)
	if loaded == nil {
		return defaults(), borrowed, problems
	}
	if cfg := loaded.Config; cfg.DataDir == "" || cfg.Listen == "" {
		preset := defaults().Config
		cfg.DataDir, cfg.Listen = cmp.Or(cfg.DataDir, preset.DataDir), cmp.Or(cfg.Listen, preset.Listen)
	}
	return loaded, borrowed, problems
}

// defaults returns the configuration of the environment alone, or the preset one if that has
// problems, too.
func defaults() *config.Loaded {
	src := config.Sources{ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist }, Spare: NoSecrets}
	for _, isUsed := range []func(name string) bool{
		func(name string) bool { return name != config.EnvFile },
		func(name string) bool { return !strings.HasPrefix(name, "PERIGEE_") },
	} {
		src.Env = func(name string) (string, bool) {
			if !isUsed(name) {
				return "", false
			}
			return os.LookupEnv(name)
		}
		if loaded, err := config.Load(src); err == nil {
			return loaded
		}
	}
	return &config.Loaded{Config: &config.Config{}}
}

// SalvageRunning is Salvage for commands about the running daemon. Problems are warnings if a daemon
// runs with the file, and otherwise the error.
func SalvageRunning(ctx context.Context, env *cli.Env) (*config.Loaded, error) {
	loaded, _, problems := Salvage(ctx, env, config.Sources{Path: env.Config, Spare: NoSecrets})
	if problems == nil {
		return loaded, nil
	}
	if !runsAnyway(ctx, loaded, problems) {
		other := FindElsewhere(ctx, loaded.Config)
		if other == nil {
			return nil, problems
		}
		cfg, found := *loaded.Config, *loaded // the data directory was a part of the file that cannot be read
		cfg.DataDir, found.Config = other.Dir, &cfg
		if loaded = &found; !runsAnyway(ctx, loaded, problems) {
			return nil, problems
		}
	}
	Warn(env, problems)
	return loaded, nil
}

// Warn prints the problems of a configuration that does not matter now, if there are any.
func Warn(env *cli.Env, problems error) {
	if problems == nil {
		return
	}
	for line := range strings.SplitSeq(problems.Error(), "\n") {
		env.Remark("warning: %s", terminal.Printable(line))
	}
}

// AwaitWhole is config.AwaitWhole for the start of a daemon, which it reports to the user.
func AwaitWhole(ctx context.Context, env *cli.Env, src config.Sources, loaded *config.Loaded) (*config.Loaded, error) {
	before := config.ReadMark(daemon.MarkPath(loaded.Config))
	return config.AwaitWhole(ctx, src, loaded, before, func(lost string, wait time.Duration) {
		env.Remark("%s has no %s any more; perigee waits until it has not changed for %s, in case it is being written", cmp.Or(loaded.Path, loaded.Searched), lost, wait)
	})
}

// runsAnyway reports whether a daemon runs with the file of an invalid configuration, which it has
// read when the file was valid. loaded and problems are from Salvage. A daemon that runs with
// another file does not count: the data directory may not be the file's.
func runsAnyway(ctx context.Context, loaded *config.Loaded, problems error) bool {
	status, err := daemon.Status(ctx, loaded.Config)
	if err != nil || status.Configuration == "" {
		return false
	}
	files := []string{loaded.Path}
	if list, ok := errors.AsType[*config.Problems](problems); ok {
		for _, p := range list.List {
			files = append(files, p.Source)
		}
	}
	return slices.ContainsFunc(files, func(file string) bool {
		path, err := filepath.Abs(file)
		return err == nil && path == status.Configuration
	})
}

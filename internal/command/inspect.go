package command

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"

	"perigee/internal/cli"
	"perigee/internal/config"
	"perigee/internal/daemon"
)

// Inspect reads a configuration as config.Inspect does. If its only problems are environment variables that this shell lacks and the
// daemon running with the same file has, it returns these variables and no problems.
func Inspect(ctx context.Context, env *cli.Env, src config.Sources) (loaded *config.Loaded, borrowed []string, problems error) {
	if loaded, problems = config.Inspect(src); problems == nil {
		return loaded, nil, nil
	}
	usable, err := Load(env, NoSecrets)
	if err != nil {
		return loaded, nil, problems
	}
	status, err := daemon.Status(ctx, usable.Config)
	if path, failed := filepath.Abs(usable.Path); err != nil || failed != nil || path != status.Configuration {
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

//go:build !windows

package main

import (
	"context"

	"perigee/internal/cli"
)

// supervised runs the program. Only Windows has a protocol for services.
func supervised(ctx context.Context, env *cli.Env, run func(ctx context.Context, env *cli.Env) int) int {
	return run(ctx, env)
}

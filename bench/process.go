package main

import (
	"context"

	"perigee/bench/internal/measure"
)

// spawn starts a program and waits for the line on stderr that says where it listens. The process
// ends when ctx does, or by Stop.
func (b *bench) spawn(ctx context.Context, name, program string, args ...string) (*measure.Process, error) {
	return b.spawnWith(ctx, nil, name, program, args...)
}

// spawnWith is spawn with more in the environment.
func (b *bench) spawnWith(ctx context.Context, env []string, name, program string, args ...string) (*measure.Process, error) {
	return b.start(ctx, measure.Command{Name: name, Program: program, Args: args, Home: b.dir, Env: env})
}

func (b *bench) start(ctx context.Context, command measure.Command) (*measure.Process, error) {
	p, err := measure.Start(ctx, command)
	if err == nil {
		b.children = append(b.children, p)
	}
	return p, err
}

func (b *bench) stopAll() {
	for _, p := range b.children {
		p.Stop()
	}
}

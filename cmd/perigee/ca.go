package main

import (
	"context"
	"path/filepath"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/cli/doctor"
	"perigee/internal/cli/trustinstall"
	"perigee/internal/daemon"
	"perigee/internal/intercept/truststore"
	"perigee/internal/lib/netguard"
)

// machine is where commands look for trust stores. Tests replace it.
var machine = truststore.Host

func caCommand(ctx context.Context, env *cli.Env, args []string) error {
	return trustinstall.Command(ctx, env, args, func() (*trustinstall.CA, error) {
		loaded, err := command.Load(env, command.NoSecrets)
		if err != nil {
			return nil, err
		}
		hosts, err := netguard.ParseHosts(loaded.Config.Interception.Hosts)
		if err != nil {
			return nil, cli.Usagef("interception.hosts: %v", err)
		}
		dir, err := filepath.Abs(filepath.Join(loaded.Config.DataDir, "ca"))
		return &trustinstall.CA{Dir: dir, Hosts: hosts, Machine: machine(), Running: daemon.Running(ctx, loaded.Config)}, err
	})
}

func doctorCommand(ctx context.Context, env *cli.Env, args []string) error {
	return doctor.Command(ctx, env, args, machine())
}

package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/netguard"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
	"perigee/internal/store/config"
)

func simulate(ctx context.Context, env *cli.Env, args []string) error {
	// The stand-in of a language server is a process with its own flags and exit codes.
	if len(args) > 0 && args[0] == "langserver" {
		os.Exit(standin.Main(ctx, standin.Command{Args: args[1:], Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr, Getenv: os.Getenv}))
	}
	listen := env.Flags.String("listen", "127.0.0.1:8742", "")
	scriptPath := env.Flags.String("script", "", "")
	profile := env.Flags.String("profile", "openai", "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	if names := simulator.Profiles(); !slices.Contains(names, *profile) {
		return cli.Usagef("simulate: there is no profile %q; profiles are %s", *profile, strings.Join(names, ", "))
	}
	// Every client can change the behaviour of the simulator. A malformed address is reported with
	// the configuration.
	if _, _, err := net.SplitHostPort(*listen); err == nil && !netguard.ListensOnLoopback(*listen) {
		return cli.Usagef("simulate: %s is not a loopback address; use 127.0.0.1:PORT", *listen)
	}
	loaded, err := config.Load(config.Sources{Path: env.Config, Flags: map[string]string{"listen": *listen}, Spare: command.NoSecrets})
	if err != nil {
		return err
	}
	out := newReporter(env, loaded.Config)
	options := simulator.Options{Admin: true, Seed: "perigee", Logger: out.logger, Profile: *profile}
	if *scriptPath != "" {
		if options.Script, err = readScript(*scriptPath); err != nil {
			return err
		}
	}
	sim, err := simulator.New(options)
	if err != nil {
		return cli.Usagef("simulate: %v", err)
	}
	defer sim.Close()
	return serveSimulator(ctx, out, sim, *listen)
}

func readScript(path string) (*simulator.Script, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("simulate: the script %s does not exist; write it first, or leave out --script; "+
			"GET / of the simulator explains scripts", path)
	}
	if err != nil {
		return nil, cli.Usagef("simulate: %v", err)
	}
	defer f.Close()
	script, err := simulator.LoadScript(f)
	if err != nil {
		return nil, cli.Usagef("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "\n"+path+": "))
	}
	return script, nil
}

func serveSimulator(ctx context.Context, out *reporter, sim *simulator.Server, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return cli.ListenError(err, listen)
	}
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second}
	// This line is printed in every log format, because scripts wait for it.
	out.env.Remark("simulating the provider on http://%s (GET / lists directives and faults)", l.Addr())
	for line := range strings.Lines(simulator.Hint) {
		out.report(slog.LevelInfo, strings.TrimSpace(line))
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	_ = sim.Close() // ends calls that hang on purpose
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

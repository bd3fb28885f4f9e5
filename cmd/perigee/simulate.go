package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/httpapi"
	"perigee/internal/simulator"
)

var simulateCommand = command{
	name:    "simulate",
	summary: "run the strict simulator alone, for tests of other programs",
	run:     simulate,
	usage: `usage: perigee simulate [--listen ADDR] [--script FILE]

  perigee simulate
  perigee simulate --listen 127.0.0.1:9999 --script faults.yaml
  curl -s http://127.0.0.1:8742/            what the simulator understands

Runs a stand-in for the provider: Google sign-in, the v1internal gateway and the
official v1beta API, with the provider's own rules about what it refuses. GET /
explains how to drive its answers from the prompt.

  --listen ADDR    where to listen, a loopback address (default 127.0.0.1:8742)
  --script FILE    accounts, switches and faults to play
`,
}

func simulate(ctx context.Context, env *environment, args []string) error {
	var configPath string
	set := flags(env, &configPath)
	listen := set.String("listen", "127.0.0.1:8742", "")
	scriptPath := set.String("script", "", "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	// Anybody who reaches it may change what it does. What is no address at all, configurations have words for.
	if _, _, err := net.SplitHostPort(*listen); err == nil && !httpapi.IsLoopback(*listen) {
		return usagef("simulate: %s is not a loopback address; use 127.0.0.1:PORT", *listen)
	}
	loaded, err := config.Load(config.Sources{Path: configPath, Flags: map[string]string{"listen": *listen}, Spare: noSecrets})
	if err != nil {
		return err
	}
	level := &slog.LevelVar{}
	daemon.SetLevel(level, loaded.Config.Log)
	out := newNarrator(env, loaded.Config.LogFormat, level)
	options := simulator.Options{Admin: true, Seed: "perigee", Logger: out.logger}
	if *scriptPath != "" {
		if options.Script, err = readScript(*scriptPath); err != nil {
			return err
		}
	}
	sim, err := simulator.New(options)
	if err != nil {
		return usagef("simulate: %v", err)
	}
	defer sim.Close()
	return serveSimulator(ctx, out, sim, *listen)
}

func readScript(path string) (*simulator.Script, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("simulate: the script %s does not exist; write it first, or leave out --script; GET / of the simulator explains scripts", path)
	}
	if err != nil {
		return nil, usagef("simulate: %v", err)
	}
	defer f.Close()
	script, err := simulator.LoadScript(f)
	if err != nil {
		return nil, usagef("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "\n"+path+": "))
	}
	return script, nil
}

func serveSimulator(ctx context.Context, out *narrator, sim *simulator.Server, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return cannotListen(err, listen)
	}
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second}
	out.env.say("simulating the provider on http://%s (GET / explains)", l.Addr()) // in every format: scripts wait for this line
	for line := range strings.Lines(simulator.Hint) {
		out.tell(slog.LevelInfo, strings.TrimSpace(line))
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

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"
)

const comesAndGoes = "the daemon comes and goes"

// mcpBesideDaemons is perigee mcp while daemons start and end.
func mcpBesideDaemons() client {
	return client{
		name: "mcp daemon", version: "go-sdk", install: headlessInstall, scenarios: []string{comesAndGoes}, together: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
			defer cancel()
			summary, err := asksBesideDaemons(ctx, s)
			if err == nil {
				r.say(c, comesAndGoes, summary)
			}
			r.add(c, comesAndGoes, err)
		},
	}
}

// asksBesideDaemons asks without a break while a daemon starts, is told to end, starts again and is
// killed. No ask may fail, and each is recorded once.
func asksBesideDaemons(ctx context.Context, s *stage) (string, error) {
	const name = "mcp-daemon"
	config := filepath.Join(s.dir, name+".yaml")
	if err := errors.Join(os.WriteFile(config, []byte("limits: {drain: 5s}\n"), 0o600), os.MkdirAll(filepath.Join(s.dir, name), 0o700)); err != nil {
		return "", err
	}
	server := s.mcpCommand(name, "--config", config)
	session, err := server.connect(ctx, mcpModern)
	if err != nil {
		return "", err
	}
	defer session.Close()
	second, err := server.connect(ctx, mcpLegacy) // each client starts a server of its own
	if err != nil {
		return "", err
	}
	defer second.Close()

	asker := &steadyAsker{session: session}
	if err := asker.during(ctx, func() error { return pause(ctx, 500*time.Millisecond) }); err != nil {
		return "", err
	}
	for round := range 2 {
		var daemon *process
		if err := asker.during(ctx, func() (err error) {
			daemon, err = s.launch(ctx, name, s.binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
			return err
		}); err != nil {
			return "", fmt.Errorf("while a daemon starts: %w", err)
		}
		if err := asker.during(ctx, func() error { return second.asksInARow(ctx, "simulator", 3) }); err != nil {
			return "", fmt.Errorf("beside a daemon: %w", err)
		}
		asker.further.Add(3)
		if round == 0 {
			err = asker.during(ctx, func() error { daemon.stop(); return nil })
		} else {
			// A process that is killed takes with it what it is answering, and what it has not
			// written yet.
			err = s.recordedOnce(ctx, name, config, asker.total())
			daemon.end(os.Kill)
		}
		if err != nil {
			return "", fmt.Errorf("while the daemon ends: %w", err)
		}
		if err := asker.during(ctx, func() error { return second.asksInARow(ctx, "simulator", 2) }); err != nil {
			return "", fmt.Errorf("without the daemon: %w", err)
		}
		asker.further.Add(2)
	}
	asked := asker.total()
	if err := s.recordedOnce(ctx, name, config, asked); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d asks were answered, and recorded once each", asked), nil
}

// A steadyAsker asks one thing after the other.
type steadyAsker struct {
	session        *mcpSession
	asked, further atomic.Int64
}

func (a *steadyAsker) total() int { return int(a.asked.Load() + a.further.Load()) }

// during asks without a break until something is over, at least three times.
func (a *steadyAsker) during(ctx context.Context, something func() error) error {
	over := make(chan error, 1)
	go func() { over <- something() }()
	for n := 0; ; n++ {
		if _, err := a.session.asksFor(ctx, "simulator"); err != nil {
			return err
		}
		a.asked.Add(1)
		if n < 2 {
			continue
		}
		select {
		case err := <-over:
			return err
		default:
		}
	}
}

// recordedOnce checks that the store has a number of calls of MCP clients, each with an ID of its
// own.
func (s *stage) recordedOnce(ctx context.Context, name, config string, asked int) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		rows, ids, err := s.recordedAsks(ctx, name, config)
		if err != nil || rows == asked && ids == asked {
			return err
		}
		if rows > asked || pause(limited, 200*time.Millisecond) != nil {
			return fmt.Errorf("%d asks were answered, %d are recorded, with %d IDs", asked, rows, ids)
		}
	}
}

// recordedAsks returns how many calls perigee trace list has, all of which must be successful asks,
// and how many IDs they have.
func (s *stage) recordedAsks(ctx context.Context, name, config string) (rows, ids int, err error) {
	cmd := exec.CommandContext(ctx, s.binary, "trace", "list", "--limit", "1000", "--json", "--config", config)
	cmd.Env = s.env(name)
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("perigee trace list: %w", err)
	}
	var list []struct{ ID, Dialect, Class string }
	if err := json.Unmarshal(out, &list); err != nil {
		return 0, 0, err
	}
	seen := map[string]bool{}
	for _, row := range list {
		if row.Dialect != "mcp" || row.Class != "" {
			return 0, 0, fmt.Errorf("a call that is not one of the asks: %+v", row)
		}
		seen[row.ID] = true
	}
	return len(list), len(seen), nil
}

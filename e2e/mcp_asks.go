package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What may be there after many asks that was not there after a few: connections that are kept for
// the next call, and memory that the runtime has not returned. A leak of one ask in ten would be
// more.
const (
	spareDescriptors = 64
	spareGoroutines  = 110
	spareMemory      = 64 << 20
)

// mcpAsks are 1,000 asks in a row and 20 at once, over each transport. The daemon's language server
// answers.
func mcpAsks() client {
	return client{
		name: "mcp asks", version: "go-sdk", install: headlessInstall, scenarios: []string{mcpHTTP, mcpStdio}, together: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			var together sync.WaitGroup
			for _, scenario := range c.scenarios {
				together.Go(func() {
					summary, err := asksMuch(ctx, s, scenario)
					if err == nil {
						r.say(c, scenario, summary)
					}
					r.add(c, scenario, err)
				})
			}
			together.Wait()
		},
	}
}

// usage is what a process has of the machine.
type usage struct {
	descriptors int
	memory      int // bytes in RAM
}

func usageOf(pid int) (u usage, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return u, err
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return u, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return u, fmt.Errorf("no VmRSS in the status of process %d", pid)
	}
	kilobytes, err := strconv.Atoi(fields[0])
	return usage{len(files), kilobytes << 10}, err
}

// asksMuch compares a process after a few asks with the same after many, and its goroutines with
// those of a process that had few.
func asksMuch(ctx context.Context, s *stage, scenario string) (string, error) {
	few, err := newAskRun(ctx, s, scenario, "few")
	if err != nil {
		return "", err
	}
	if err := few.session.asksAtOnce(ctx, "langserver", 20, 1); err != nil {
		return "", err
	}
	goroutines, err := few.end()
	if err != nil {
		return "", err
	}
	many, err := newAskRun(ctx, s, scenario, "many")
	if err != nil {
		return "", err
	}
	if err := many.session.asksAtOnce(ctx, "langserver", 20, 5); err != nil {
		return "", err
	}
	before, err := usageOf(many.pid)
	if err != nil {
		return "", err
	}
	start := time.Now()
	if err := many.session.asksInARow(ctx, "langserver", 1000); err != nil {
		return "", err
	}
	inARow := time.Since(start)
	if err := many.session.asksAtOnce(ctx, "langserver", 20, 5); err != nil {
		return "", err
	}
	if err := many.asksInSessions(ctx, 50); err != nil {
		return "", err
	}
	after, err := many.settles(ctx, before)
	if err != nil {
		return "", err
	}
	goroutinesAfter, err := many.end()
	if err == nil && goroutinesAfter > goroutines+spareGoroutines {
		err = fmt.Errorf("%d goroutines after all asks, %d after 20", goroutinesAfter, goroutines)
	}
	return fmt.Sprintf("one of 1,000 asks in a row took %s; %d descriptors and %d MiB after 100 asks, %d and %d MiB after all; %d goroutines after 20, %d after all",
		(inARow / 1000).Round(100*time.Microsecond), before.descriptors, before.memory>>20, after.descriptors, after.memory>>20, goroutines, goroutinesAfter), err
}

// An askRun is a daemon with a language server and a session. The process that is watched is the
// one that the client talks to.
type askRun struct {
	daemon  *headless
	server  mcpServer
	session *mcpSession
	pid     int
	said    func() string
}

func newAskRun(ctx context.Context, s *stage, scenario, name string) (*askRun, error) {
	name = "mcp-asks-" + name + "-" + shortScenario[scenario]
	daemon, err := newHeadless(ctx, s, name, headlessConfig(s.key, s.provider.target, "limits: {drain: 2s}", ""))
	if err != nil {
		return nil, err
	}
	a := &askRun{daemon: daemon, pid: daemon.daemon.cmd.Process.Pid, said: daemon.daemon.said}
	a.server = mcpServer{url: daemon.url + "/mcp", key: s.key}
	if scenario == mcpStdio {
		a.server = s.mcpCommand(name, "--config", daemon.config)
	}
	if a.session, err = a.server.connect(ctx, mcpModern); err != nil {
		return nil, err
	}
	if a.session.cmd != nil {
		a.pid, a.said = a.session.cmd.Process.Pid, a.session.stderr.String
	}
	return a, nil
}

// asksInSessions opens sessions over HTTP, five at a time, asks in each, and closes them.
func (a *askRun) asksInSessions(ctx context.Context, n int) error {
	if a.server.url == "" {
		return nil
	}
	var together sync.WaitGroup
	results := make([]error, 5)
	for i := range results {
		together.Go(func() {
			for range n / len(results) {
				session, err := a.server.connect(ctx, mcpLegacy)
				if err == nil && session.ID() == "" {
					err = errors.New("a session without an ID")
				}
				if err == nil {
					err = session.asksInARow(ctx, "langserver", 2)
					err = errors.Join(err, session.Close())
				}
				if err != nil {
					results[i] = fmt.Errorf("in a session: %w", err)
					return
				}
			}
		})
	}
	together.Wait()
	return cmp.Or(results...)
}

// settles waits until the process has no more descriptors than before, but for a few.
func (a *askRun) settles(ctx context.Context, before usage) (usage, error) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Second) // connections without a call are closed after 90
	defer cancel()
	for {
		after, err := usageOf(a.pid)
		if err != nil || after.descriptors <= before.descriptors+spareDescriptors && after.memory <= before.memory+spareMemory {
			return after, err
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return after, fmt.Errorf("after 100 asks the process had %+v, after all it has %+v", before, after)
		}
	}
}

// end ends the process that is watched with a dump of its goroutines, and returns their number.
func (a *askRun) end() (int, error) {
	if a.session.cmd == nil {
		if err := a.session.Close(); err != nil {
			return 0, err
		}
		a.daemon.daemon.end(syscall.SIGQUIT)
	} else {
		a.session.cmd.Process.Signal(syscall.SIGQUIT)
		a.session.Wait() // fails, because the server is gone
		a.session.Close()
		a.daemon.daemon.stop()
	}
	dump := a.said()
	n := strings.Count(dump, "\ngoroutine ")
	if n == 0 {
		return 0, errors.New("no dump of goroutines: " + lastBytes(dump, 500))
	}
	return n, nil
}

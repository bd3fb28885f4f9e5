package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A database is a PostgreSQL server of our own.
type database struct {
	url     string
	tools   string
	dir     string
	port    int
	process *process
}

// postgresTools is the directory of a server's programs, where Debian puts them; empty: there is none that can be started.
func postgresTools() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 || os.Getuid() != 0 {
		return ""
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// startDatabase starts a server in a temporary directory.
func startDatabase(ctx context.Context, log string) (_ *database, err error) {
	d := &database{tools: postgresTools()}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	if err := d.makeDir(); err != nil {
		return nil, err
	}
	data := filepath.Join(d.dir, "data")
	if said, err := d.as(ctx, "initdb", "-D", data, "-U", "perigee", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, said)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	d.port = ports[0]
	d.url = fmt.Sprintf("postgres://perigee@127.0.0.1:%d/postgres", d.port)
	server := d.as(ctx, "postgres", "-D", data, "-p", strconv.Itoa(d.port), "-k", d.dir, "-c", "listen_addresses=127.0.0.1")
	if d.process, err = start(log, nil, server.Path, server.Args[1:]...); err != nil {
		return nil, err
	}
	for range 600 {
		if d.as(ctx, "pg_isready", "-q", "-h", d.dir, "-p", strconv.Itoa(d.port)).Run() == nil {
			return d, nil
		}
		wait(ctx, 100*time.Millisecond)
	}
	return nil, fmt.Errorf("PostgreSQL does not answer: %s", d.process.lastLines())
}

// makeDir makes a directory that belongs to the user postgres: as root the server refuses to run.
func (d *database) makeDir() error {
	var err error
	if d.dir, err = os.MkdirTemp("", "perigee-chaos-postgres-"); err != nil {
		return err
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	return os.Chown(d.dir, uid, gid)
}

func (d *database) as(ctx context.Context, tool string, args ...string) *exec.Cmd {
	full := append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups", "--", filepath.Join(d.tools, tool)}, args...)
	cmd := exec.CommandContext(ctx, "setpriv", full...)
	cmd.Dir = d.dir
	return cmd
}

// processes are the server and its children.
func (d *database) processes() []int {
	parent := d.process.cmd.Process.Pid
	pids := []int{parent}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, file := range children {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (d *database) stop() {
	if d.process != nil {
		_ = d.process.end(syscall.SIGINT, startLimit) // a fast shutdown
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}

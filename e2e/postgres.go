package main

import (
	"context"
	"errors"
	"fmt"
	"net"
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

const postgresInstall = "postgresql"

// installPostgres makes sure that there is a PostgreSQL server to start, with Debian's package where there is none.
func installPostgres(ctx context.Context) (fresh bool, err error) {
	if os.Getuid() != 0 {
		return false, errors.New("it is started as the user postgres, which takes root")
	}
	if postgresTools() != "" {
		return false, nil
	}
	if err := installDebian(ctx, "postgresql"); err != nil {
		return false, err
	}
	if postgresTools() == "" {
		return false, errors.New("apt-get installed it, but initdb is not where Debian puts it")
	}
	return true, nil
}

// postgresTools is the directory of the newest server's programs; empty: there is none.
func postgresTools() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return postgresMajor(b) - postgresMajor(a) })
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[0])
}

func postgresMajor(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// postgresVersion is what the report shows.
func postgresVersion() string {
	if tools := postgresTools(); tools != "" {
		return strconv.Itoa(postgresMajor(filepath.Join(tools, "initdb")))
	}
	return "?"
}

// A database is a PostgreSQL server of our own, on a private port and in a private directory.
type database struct {
	url   string
	tools string
	dir   string
	port  int
	cmd   *exec.Cmd
}

func startDatabase(ctx context.Context) (_ *database, err error) {
	d := &database{tools: postgresTools()}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	if d.dir, err = os.MkdirTemp("", "perigee-postgres-"); err != nil {
		return nil, err
	}
	if err := giveTo("postgres", d.dir); err != nil {
		return nil, err
	}
	if d.port, err = freePort(); err != nil {
		return nil, err
	}
	data := filepath.Join(d.dir, "data")
	if output, err := d.as(ctx, "initdb", "-D", data, "-U", "perigee", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, lastBytes(string(output), 500))
	}
	log, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = d.as(ctx, "postgres", "-D", data, "-p", strconv.Itoa(d.port), "-k", d.dir, "-c", "listen_addresses=127.0.0.1")
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(syscall.SIGINT) } // a fast shutdown
	d.cmd.WaitDelay = 10 * time.Second
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if err := d.ready(ctx); err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w: %s", err, lastBytes(string(said), 500))
	}
	for _, name := range []string{"perigee", "tests"} {
		if output, err := d.as(ctx, "createdb", "-h", d.dir, "-p", strconv.Itoa(d.port), "-U", "perigee", name).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("createdb: %w: %s", err, output)
		}
	}
	d.url = d.address("perigee")
	return d, nil
}

func (d *database) address(name string) string {
	return fmt.Sprintf("postgres://perigee@127.0.0.1:%d/%s", d.port, name)
}

// as is one of the server's programs, run as the user postgres: as root they refuse.
func (d *database) as(ctx context.Context, tool string, args ...string) *exec.Cmd {
	full := append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups", "--", filepath.Join(d.tools, tool)}, args...)
	cmd := exec.CommandContext(ctx, "setpriv", full...)
	cmd.Dir = d.dir
	return cmd
}

func (d *database) ready(ctx context.Context) error {
	for range 150 {
		if d.as(ctx, "pg_isready", "-q", "-h", d.dir, "-p", strconv.Itoa(d.port)).Run() == nil {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("PostgreSQL does not answer")
}

// number asks for one number.
func (d *database) number(ctx context.Context, query string) (int, error) {
	output, err := d.as(ctx, "psql", "-h", d.dir, "-p", strconv.Itoa(d.port), "-U", "perigee", "-d", "perigee", "-Atc", query).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("psql: %w: %s", err, output)
	}
	return strconv.Atoi(strings.TrimSpace(string(output)))
}

func (d *database) stop() {
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Signal(syscall.SIGINT)
		_ = d.cmd.Wait()
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}

func giveTo(name, path string) error {
	who, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	return os.Chown(path, uid, gid)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eventually tries until something holds.
func eventually(ctx context.Context, limit time.Duration, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !holds() {
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("waited %v in vain until %s", limit, what)
		}
	}
	return nil
}

// Package testenv sets up what tests and measuring programs need on this machine: a PostgreSQL
// server, certificates. It does not import the product, so programs that drive the built binary
// from outside use it, too.
package testenv

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
	"syscall"
	"time"
)

// PostgresTools returns the directory of the programs of the newest PostgreSQL server that Debian's
// packages installed, or an empty string.
func PostgresTools() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return postgresMajor(a) - postgresMajor(b) }))
}

// PostgresVersion returns the major version of the server in PostgresTools, or "?".
func PostgresVersion() string {
	if tools := PostgresTools(); tools != "" {
		return strconv.Itoa(postgresMajor(filepath.Join(tools, "initdb")))
	}
	return "?"
}

func postgresMajor(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// Postgres is a PostgreSQL server on a port of its own with an empty data directory. It runs as the
// user postgres, because the server refuses to run as root; starting it takes root.
type Postgres struct {
	dir  string
	port int
	cmd  *exec.Cmd
}

// StartPostgres starts a server and waits until it answers. The server ends with ctx or Stop.
func StartPostgres(ctx context.Context) (_ *Postgres, err error) {
	p := &Postgres{}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if err := p.reserve(); err != nil {
		return nil, err
	}
	data := filepath.Join(p.dir, "data")
	if output, err := p.program(ctx, "initdb", "-D", data, "-U", "perigee", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, output)
	}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := p.program(ctx, "postgres", "-D", data, "-p", strconv.Itoa(p.port), "-k", p.dir, "-c", "listen_addresses=127.0.0.1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // a fast shutdown
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.cmd = cmd
	if err := p.ready(ctx); err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return p, nil
}

// reserve makes a directory that belongs to the user postgres, and chooses a port.
func (p *Postgres) reserve() (err error) {
	if p.dir, err = os.MkdirTemp("", "perigee-postgres-"); err != nil {
		return err
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(p.dir, uid, gid); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.port = l.Addr().(*net.TCPAddr).Port
	return l.Close()
}

func (p *Postgres) ready(ctx context.Context) error {
	for range 600 {
		if p.Tool(ctx, "pg_isready", "-q").Run() == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("PostgreSQL does not answer")
}

// program is one of the server's programs, as the user postgres.
func (p *Postgres) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	full := append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups", "--", filepath.Join(PostgresTools(), name)}, args...)
	cmd := exec.CommandContext(ctx, "setpriv", full...)
	cmd.Dir = p.dir
	return cmd
}

// Tool is one of PostgreSQL's client programs, such as psql or createdb, that connects to the
// server.
func (p *Postgres) Tool(ctx context.Context, name string, args ...string) *exec.Cmd {
	return p.program(ctx, name, append([]string{"-h", p.dir, "-p", strconv.Itoa(p.port)}, args...)...)
}

// URL is the address of a database of the server.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://perigee@127.0.0.1:%d/%s", p.port, database)
}

// PID returns the process id of the server; its children serve the connections.
func (p *Postgres) PID() int { return p.cmd.Process.Pid }

// Stop ends the server and removes its data.
func (p *Postgres) Stop() {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGINT)
		_ = p.cmd.Wait()
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

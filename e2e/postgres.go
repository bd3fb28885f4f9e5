package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"perigee/internal/testing/testenv"
)

const postgresInstall = "postgresql"

// installPostgres makes sure that there is a PostgreSQL server to start, with Debian's package
// where there is none.
func installPostgres(ctx context.Context) (fresh bool, err error) {
	if os.Getuid() != 0 {
		return false, errors.New("it is started as the user postgres, which takes root")
	}
	if testenv.PostgresTools() != "" {
		return false, nil
	}
	if err := installDebian(ctx, "postgresql"); err != nil {
		return false, err
	}
	if testenv.PostgresTools() == "" {
		return false, errors.New("apt-get installed it, but initdb is not where Debian puts it")
	}
	return true, nil
}

// A database is a PostgreSQL server of our own with the databases perigee and tests.
type database struct{ *testenv.Postgres }

func startDatabase(ctx context.Context) (*database, error) {
	server, err := testenv.StartPostgres(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"perigee", "tests"} {
		if output, err := server.Tool(ctx, "createdb", "-U", "perigee", name).CombinedOutput(); err != nil {
			server.Stop()
			return nil, fmt.Errorf("createdb: %w: %s", err, output)
		}
	}
	return &database{server}, nil
}

// number asks for one number.
func (d *database) number(ctx context.Context, query string) (int, error) {
	output, err := d.Tool(ctx, "psql", "-U", "perigee", "-d", "perigee", "-Atc", query).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("psql: %w: %s", err, output)
	}
	return strconv.Atoi(strings.TrimSpace(string(output)))
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

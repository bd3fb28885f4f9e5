package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/ownfile"
)

// ErrNoSocket says that a daemon is running and cannot be reached. To act behind its back would be of no use to anybody.
var ErrNoSocket = errors.New("a daemon is running, but its socket cannot be reached; stop it, or see in its log why it has none")

// ErrNoAnswer says that a daemon was reached and did not answer, so that nobody knows what it has done.
var ErrNoAnswer = errors.New("the daemon does not answer; see its log, or restart it")

// ErrNotRunning says that there is no daemon, and so nothing to work around.
var ErrNotRunning = errors.New("no daemon is running")

// A Handle is the control of a perigee, and what has to be given back after its use.
type Handle struct {
	perigee.Control
	close func()
}

// Close gives back what the handle holds.
func (h *Handle) Close() { h.close() }

// Running says whether a daemon answers on the socket of a configuration.
func Running(ctx context.Context, cfg *config.Config) bool {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", SocketPath(cfg))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Connect returns the control of the running daemon, or where there is none, of the same accounts without one.
func Connect(ctx context.Context, opts Options) (*Handle, error) {
	switch err := reach(ctx, opts.Loaded.Config); {
	case err == nil:
		return &Handle{Control: newRemote(opts.Loaded.Config), close: func() {}}, nil
	case !errors.Is(err, ErrNotRunning):
		return nil, err
	}
	back, err := openBackDoor(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Handle{Control: auditedControl{control{back.house}, offlineLog(back.house.opts, offlineAudit{back.house.opts, back})}, close: back.close}, nil
}

// Status asks the running daemon what it works with. It returns ErrNotRunning where there is none.
func Status(ctx context.Context, cfg *config.Config) (status perigee.DaemonStatus, err error) {
	err = Ask(ctx, cfg, "/v1/status", &status)
	return status, err
}

// Ask gets a path from the running daemon through its socket, for what a Control does not have. It returns ErrNotRunning
// where there is none.
func Ask(ctx context.Context, cfg *config.Config, path string, into any) error {
	if err := reach(ctx, cfg); err != nil {
		return err
	}
	return newRemote(cfg).ask(ctx, http.MethodGet, path, nil, into)
}

// reach returns nil when the daemon of a configuration can be asked, ErrNotRunning when there is none, and ErrNoSocket when
// there is one that is out of reach.
func reach(ctx context.Context, cfg *config.Config) error {
	for range 3 { // one that is starting has its socket by then
		if Running(ctx, cfg) {
			return nil
		}
		held, err := locked(ctx, cfg.DataDir)
		switch {
		case err != nil:
			return err
		case !held:
			return ErrNotRunning
		}
	}
	return ErrNoSocket
}

// locked says whether a daemon uses a data directory, after having waited a moment for that to change. One that is about to
// start waits for the moment that this takes. The error is that of ctx.
func locked(ctx context.Context, dir string) (bool, error) {
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); err != nil {
		return false, ctx.Err() // nobody has ever run there, and asking leaves no trace
	}
	f, err := ownfile.Lock(ctx, path, lockPatience)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, ownfile.ErrHeld), ctx.Err()
}

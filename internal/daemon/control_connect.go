package daemon

import (
	"context"
	"errors"
	"net/http"

	"perigee"
	"perigee/internal/daemon/remote"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// ErrNoSocket means that a daemon is running and cannot be reached. It would not notice changes
// that are made without it.
var ErrNoSocket = errors.New("a daemon is running, but its socket cannot be reached; stop it, or see in its log why it has none")

// ErrNoAnswer means that a daemon was reached and did not answer, so the result is unknown.
var ErrNoAnswer = remote.ErrNoAnswer

// ErrNotRunning means that there is no daemon.
var ErrNotRunning = errors.New("no daemon is running")

// A Handle is the control of a daemon, or of its data without one. It must be closed after use.
type Handle struct {
	perigee.Control
	close func()
}

// Close releases the resources of the handle.
func (h *Handle) Close() { h.close() }

// Running reports whether a daemon answers on the socket of a configuration.
func Running(ctx context.Context, cfg *config.Config) bool {
	return remote.Running(ctx, SocketPath(cfg))
}

// Connect returns the control of the running daemon, or where there is none, of the same accounts
// without one.
func Connect(ctx context.Context, opts Options) (*Handle, error) {
	switch client, err := Reach(ctx, opts.Loaded.Config); {
	case err == nil:
		return &Handle{Control: client.Control(), close: func() {}}, nil
	case !errors.Is(err, ErrNotRunning):
		return nil, err
	}
	offline, err := openOffline(ctx, opts)
	if err != nil {
		return nil, err
	}
	log := offlineLog(offline.opts, offlineAudit{offline.opts, offline})
	return &Handle{Control: newControl(offline.gateway, offline.accounts, offline.opts.Now).audited(log), close: offline.close}, nil
}

// Status returns the configuration and state of the running daemon. It returns ErrNotRunning if
// there is none.
func Status(ctx context.Context, cfg *config.Config) (perigee.DaemonStatus, error) {
	return Ask[perigee.DaemonStatus](ctx, cfg, remote.StatusPath)
}

// Ask gets a path from the running daemon through its socket, for data that a Control does not
// have. It returns ErrNotRunning if there is none.
func Ask[T any](ctx context.Context, cfg *config.Config, path string) (answer T, err error) {
	client, err := Reach(ctx, cfg)
	if err != nil {
		return answer, err
	}
	return remote.Ask[T](ctx, client, http.MethodGet, path, nil)
}

// Reach returns the client of the running daemon. It returns ErrNotRunning if there is no daemon,
// and ErrNoSocket if there is one that cannot be reached.
func Reach(ctx context.Context, cfg *config.Config) (*remote.Client, error) {
	for range 3 { // a daemon that is starting has its socket by then
		if Running(ctx, cfg) {
			return remote.New(SocketPath(cfg)), nil
		}
		held, err := datadir.Locked(ctx, cfg.DataDir)
		switch {
		case err != nil:
			return nil, err
		case !held:
			return nil, ErrNotRunning
		}
	}
	return nil, ErrNoSocket
}

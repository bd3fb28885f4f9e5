package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"perigee"
	"perigee/internal/config"
)

// ErrNoSocket says that a daemon is running and cannot be reached. To act behind its back would be of no use to anybody.
var ErrNoSocket = errors.New("a daemon is running, but its socket cannot be reached; stop it, or see in its log why it has none")

// A Handle is the control of a perigee, and what has to be given back after its use.
type Handle struct {
	perigee.Control
	Running bool // it is a daemon's, which sees every change at once
	close   func()
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
	for tries := 1; ; tries++ {
		if Running(ctx, opts.Loaded.Config) {
			return &Handle{Control: newRemote(opts.Loaded.Config), Running: true, close: func() {}}, nil
		}
		if !locked(opts.Loaded.Config.DataDir) {
			break
		}
		if tries == 3 || ctx.Err() != nil { // one that is starting has its socket by now
			return nil, ErrNoSocket
		}
	}
	back, err := openBackDoor(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Handle{Control: control{back.house}, close: back.close}, nil
}

// locked says whether a daemon uses a data directory, after having waited a moment for that to change. One that is about to
// start waits for the moment that this takes.
func locked(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, "perigee.lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return lockSoon(f) != nil
}

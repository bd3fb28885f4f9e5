package extserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"perigee/internal/lib/peeruser"
)

// The CSRF token is an argument of the language server, and every user of a machine can read the
// arguments of every process. So a caller also has to be a process of the user that runs perigee
// or the language server, on systems that report the user of a connection.

// peerKey is the key of the peer in the context of a connection.
type peerKey struct{}

// A peer is the process at the other end of a connection.
type peer struct {
	conn net.Conn
	once sync.Once
	own  bool
}

// newPeerCheck returns a function that reports whether a request is from a process of this user,
// of root, or of one of the further users. It checks once per connection.
func newPeerCheck(ctx context.Context, further []int, logger *slog.Logger) func(*http.Request) bool {
	check := peeruser.NewCheck(ctx, further...)
	var warned sync.Once
	return func(r *http.Request) bool {
		p, ok := r.Context().Value(peerKey{}).(*peer)
		if !ok {
			return false
		}
		p.once.Do(func() { p.own = check.Own(p.conn) })
		if !p.own {
			warned.Do(func() {
				logger.Warn("Extension Server called by another user", "hint", "hide the arguments of processes: mount /proc with hidepid=2")
			})
		}
		return p.own
	}
}

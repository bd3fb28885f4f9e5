// Package supervisor runs a language server as a child process: it builds the command line from the flags that the binary
// accepts, waits until the process is ready, watches it, and restarts it when it ends, hangs, grows too large or is replaced on
// disk. The process has a HOME, a temporary directory and an environment of its own, and does not outlive perigee.
package supervisor

import (
	"cmp"

	"perigee"
)

// An Endpoint is where a language server answers. A port is 0 if it has no such listener or the port is not known.
type Endpoint struct {
	HTTP, HTTPS int
	CSRF        perigee.Secret
}

func (e Endpoint) known() bool { return e.HTTP != 0 || e.HTTPS != 0 }

// complete adds a port that is not known, if the other one shows that both endpoints are the same process.
func (e *Endpoint) complete(other Endpoint) {
	if e.known() && (e.HTTP == other.HTTP || e.HTTPS == other.HTTPS) {
		e.HTTP, e.HTTPS = cmp.Or(e.HTTP, other.HTTP), cmp.Or(e.HTTPS, other.HTTPS)
	}
}

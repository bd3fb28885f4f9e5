// Package supervisor runs a language server as a child process: it builds the command line from the
// flags that the binary accepts, waits until the process is ready, watches it, and restarts it when
// it ends, hangs, grows too large or is replaced on disk. The process has a HOME, a temporary
// directory and an environment of its own, and does not outlive perigee.
package supervisor

import "perigee/internal/langserver/lsclient"

// An Endpoint is the address of a language server.
type Endpoint = lsclient.Endpoint

package main

import (
	"errors"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
)

// The documented exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2 // wrong usage or configuration
	exitNotSignedIn = 3 // not signed in, or no usable account
	exitNoDaemon    = 4 // daemon not reachable
)

// exits are the exit codes of error classes; other classes exit with exitFailed. An error has the
// same class with and without a daemon, and therefore the same exit code.
var exits = map[perigee.Class]int{
	perigee.ClassUnauthenticated: exitNotSignedIn,
	perigee.ClassVerification:    exitNotSignedIn,
	perigee.ClassForbidden:       exitNotSignedIn, // the provider refuses this sign-in
	perigee.ClassIdentity:        exitUsage,       // the provider refuses the client that is configured
}

func exitCode(err error) int {
	_, usage := errors.AsType[*cli.UsageError](err)
	_, problems := errors.AsType[*config.Problems](err)
	_, configuration := errors.AsType[*daemon.ConfigError](err)
	switch {
	case usage || problems || configuration:
		return exitUsage
	case errors.Is(err, daemon.ErrNotRunning) || errors.Is(err, daemon.ErrNoSocket) || errors.Is(err, daemon.ErrNoAnswer):
		return exitNoDaemon
	}
	if e, ok := errors.AsType[*perigee.Error](err); ok && exits[e.Class] != 0 {
		return exits[e.Class]
	}
	return exitFailed
}

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

// exitTable describes the exit codes in the manual page, and in README.md.
var exitTable = []cli.Entry{
	{Term: "0", Text: "success"},
	{Term: "1", Text: "failure"},
	{Term: "2", Text: "wrong usage or invalid configuration"},
	{Term: "3", Text: "not signed in, or no usable account"},
	{Term: "4", Text: "the daemon is running but cannot be reached, or the command needs a daemon and none is running"},
}

// manFiles are the files in the manual page.
var manFiles = []cli.Entry{
	{Term: "~/.config/perigee/config.yaml", Text: "the configuration, unless PERIGEE_CONFIG or --config names another file"},
	{Term: "~/.config/perigee/environment", Text: "variables, such as API keys, for the service of your account"},
	{Term: "~/.local/share/perigee", Text: "the data directory, unless data_dir in the configuration names another one"},
	{Term: "/etc/perigee/config.yaml", Text: "the configuration of the service of the system"},
	{Term: "/var/lib/perigee", Text: "the data directory of the service of the system"},
}

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

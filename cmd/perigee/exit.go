package main

import (
	"errors"
	"fmt"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
)

// Exit codes, part of the contract.
const (
	exitFailed      = 1
	exitUsage       = 2 // wrong usage or configuration
	exitNotSignedIn = 3 // not signed in, or no account usable
	exitNoDaemon    = 4 // daemon not reachable
)

// exits is what a class of trouble means to a script; what is not here has simply failed. The same trouble has the same
// class with and without a daemon, so it ends with the same code.
var exits = map[perigee.Class]int{
	perigee.ClassUnauthenticated: exitNotSignedIn,
	perigee.ClassVerification:    exitNotSignedIn,
	perigee.ClassForbidden:       exitNotSignedIn, // the provider does not want this sign-in
	perigee.ClassIdentity:        exitUsage,       // nor this client, which the configuration says who it is
}

// errNoDaemon is what those find who ask a daemon that is not there. Most commands then do without.
var errNoDaemon = daemon.ErrNotRunning

// A usageError is a command line that makes no sense.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// misused makes an error about what makes no sense one about the command line or the configuration, for commands that are
// given nothing else.
func misused(err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok && e.Class == perigee.ClassInvalid {
		return &usageError{err.Error()}
	}
	return err
}

func exitCode(err error) int {
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*config.Problems](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*daemon.ConfigError](err); ok {
		return exitUsage
	}
	for _, unreachable := range []error{errNoDaemon, daemon.ErrNoSocket, daemon.ErrNoAnswer} {
		if errors.Is(err, unreachable) {
			return exitNoDaemon
		}
	}
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		if code, ok := exits[e.Class]; ok {
			return code
		}
	}
	return exitFailed
}

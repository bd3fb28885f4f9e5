package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/store/config"
)

// reach returns the running daemon, for a command that needs one.
func reach(ctx context.Context, env *cli.Env, what string) (*remote.Client, *config.Loaded, error) {
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return nil, nil, err
	}
	client, err := daemon.Reach(ctx, loaded.Config)
	if errors.Is(err, daemon.ErrNotRunning) {
		err = command.NotRunning(ctx, loaded.Config, ", and only a daemon can "+what+"; start it with perigee serve")
	}
	return client, loaded, err
}

// oneCall reads flags and the only argument, which names a call.
func oneCall(env *cli.Env, subcommand string, args []string) (string, error) {
	ids, err := env.Parse(args, 1)
	if err != nil {
		return "", err
	}
	if len(ids) == 0 || ids[0] == "" {
		return "", cli.Usagef("trace: %s needs the ID of a call, or last; perigee trace list shows IDs", subcommand)
	}
	return ids[0], nil
}

// refused returns the error that the daemon has answered with. A call that does not exist is
// explained as for other commands, and an invalid name is a usage error.
func refused(err error, id string) error {
	e, ok := errors.AsType[*perigee.Error](err)
	// A call without a trace directory is not found either, and has advice of its own.
	unknown := ok && (strings.HasPrefix(e.Message, "there is no call ") || strings.HasPrefix(e.Message, "no calls recorded"))
	if unknown && e.Class == perigee.ClassNotFound {
		return noCall(err, id)
	}
	return command.Misused(err)
}

// ended returns the error for a daemon with an answer that broke off with err.
func ended(err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &daemonEnded{err}
}

// A daemonEnded counts as a daemon that cannot be reached.
type daemonEnded struct{ cause error }

func (e *daemonEnded) Error() string {
	return fmt.Sprintf("the daemon has ended (%v); perigee serve starts it again", e.cause)
}

func (e *daemonEnded) Unwrap() []error { return []error{daemon.ErrNoAnswer, e.cause} }

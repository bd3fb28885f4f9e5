package bridge

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"perigee/internal/cli"
	"perigee/internal/terminal"
)

// A State says whether a window can be asked.
type State string

// The states.
const (
	Ready        State = "ready"
	Busy         State = "busy"
	Unreachable  State = "unreachable"  // nothing answers at its port
	Refused      State = "refused"      // it does not accept the token of its announcement
	Incompatible State = "incompatible" // it speaks another version of the protocol
)

// A Row describes a window for people and programs. It has no secrets.
type Row struct {
	PID       int      `json:"pid"`
	IDE       string   `json:"ide"`
	Version   string   `json:"version"`
	Workspace []string `json:"workspace"`
	Port      int      `json:"port"`
	State     State    `json:"state"`
}

// listTime bounds the look at each window.
const listTime = time.Second

// List describes the windows that are announced in a directory. It connects to all of them at once.
func List(ctx context.Context, dir, perigeeVersion string) ([]Row, []Problem, error) {
	windows, problems, err := Find(ctx, dir)
	if err != nil {
		return nil, problems, err
	}
	rows := make([]Row, len(windows))
	var wait sync.WaitGroup
	for i, w := range windows {
		rows[i] = Row{PID: w.PID, IDE: w.IDE.Name, Version: w.IDE.Version, Workspace: w.Workspace, Port: w.Port}
		if w.Workspace == nil {
			rows[i].Workspace = []string{}
		}
		wait.Go(func() { rows[i].State = w.State(ctx, perigeeVersion) })
	}
	wait.Wait()
	return rows, problems, ctx.Err()
}

// State connects to the window, for at most a second.
func (w Window) State(ctx context.Context, perigeeVersion string) State {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	conn, err := Dial(ctx, w, perigeeVersion)
	if err == nil {
		defer conn.Close()
	}
	switch {
	case err == nil && conn.Hello.Busy || errors.Is(err, errBusy):
		return Busy
	case err == nil:
		return Ready
	case errors.Is(err, errRefused):
		return Refused
	case errors.Is(err, errIncompatible):
		return Incompatible
	}
	return Unreachable
}

// Command is perigee bridge.
func Command(ctx context.Context, env *cli.Env, args []string, perigeeVersion string) error {
	if _, err := env.Subcommand(args); err != nil {
		return err
	}
	if _, err := env.Parse(args[1:], 0); err != nil {
		return err
	}
	dir, err := Dir()
	if err != nil {
		return err
	}
	rows, problems, err := List(ctx, dir, perigeeVersion)
	if err != nil {
		return err
	}
	for _, p := range problems {
		env.Say("%s", terminal.Printable(p.String())) // the directory can have any names
	}
	if len(rows) == 0 {
		env.Say("no editor window is announced in %s; install perigee's extension in the editor and open a window", dir)
		if !env.JSON {
			return nil
		}
	}
	return cli.List(env, rows, []string{"PID", "IDE", "VERSION", "PORT", "STATE", "WORKSPACE"}, func(r Row) []any {
		return []any{r.PID, r.IDE, r.Version, r.Port, string(r.State), strings.Join(r.Workspace, " ")}
	})
}

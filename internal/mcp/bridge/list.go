package bridge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// A State is the availability of a window.
type State string

// The states.
const (
	Ready        State = "ready"
	Busy         State = "busy"
	Unreachable  State = "unreachable"  // no program of this user answers at its port
	Refused      State = "refused"      // it does not accept the token of its announcement
	Incompatible State = "incompatible" // it uses another version of the protocol
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

// listTime bounds the check of each window.
const listTime = time.Second

// List describes the windows that are announced in a directory. It connects to all of them at
// once. A window with a port that belongs to another user is also a problem.
func List(ctx context.Context, dir, perigeeVersion string) ([]Row, []Problem, error) {
	windows, problems, err := Find(ctx, dir)
	if err != nil {
		return nil, problems, err
	}
	rows, foreign := make([]Row, len(windows)), make([]bool, len(windows))
	var wait sync.WaitGroup
	for i, w := range windows {
		rows[i] = Row{PID: w.PID, IDE: w.IDE.Name, Version: w.IDE.Version, Workspace: w.Workspace, Port: w.Port}
		if w.Workspace == nil {
			rows[i].Workspace = []string{}
		}
		wait.Go(func() { rows[i].State, foreign[i] = w.state(ctx, perigeeVersion) })
	}
	wait.Wait()
	for i, w := range windows {
		if foreign[i] {
			problems = append(problems, Problem{filepath.Join(dir, strconv.Itoa(w.PID)+".json"), fmt.Sprintf("its port %d belongs to another user; reload the window", w.Port)})
		}
	}
	return rows, problems, ctx.Err()
}

// state connects to the window, for at most a second, and returns its state, and whether its port
// belongs to another user.
func (w Window) state(ctx context.Context, perigeeVersion string) (state State, foreign bool) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	conn, err := Dial(ctx, w, perigeeVersion)
	if err == nil {
		defer conn.Close()
	}
	switch {
	case err == nil && conn.Hello.Busy || errors.Is(err, errBusy):
		return Busy, false
	case err == nil:
		return Ready, false
	case errors.Is(err, errRefused):
		return Refused, false
	case errors.Is(err, errIncompatible):
		return Incompatible, false
	}
	return Unreachable, errors.Is(err, errForeign)
}

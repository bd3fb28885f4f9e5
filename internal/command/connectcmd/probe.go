package connectcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/command"
	"perigee/internal/daemon"
	"perigee/internal/terminal"
)

// probeTime is how long a client may take to answer. Some retry for minutes when something is wrong.
const probeTime = 90 * time.Second

// prove reports what counts before the settings, and has the client ask perigee for one word.
func (s *setup) prove(ctx context.Context) error {
	overrides := s.client.Overrides(s.machine, s.target)
	for _, o := range overrides {
		s.env.Say("warning: %s overrides these settings", o)
	}
	if s.options.noProbe {
		return nil
	}
	program, err := exec.LookPath(s.client.Program)
	if err != nil && s.client.CanProbe() {
		s.env.Say("%s is not installed: %s", s.client.Title, s.client.Install)
	}
	if !s.running {
		s.env.Say("warning: perigee is not running, so nothing was tried; start it with perigee serve")
	}
	if err != nil || !s.running || !s.client.CanProbe() {
		return nil
	}
	s.env.Say("testing %s with a short prompt, which uses a few tokens; --no-probe skips this", s.client.Title)
	since, asWritten := time.Now(), s.store.AsWritten(s.client.Name)
	said, failed := s.ask(ctx, program)
	if asWritten { // or else undo would take what the client adds for a change of the user
		if err := s.store.Adopt(s.client.Name); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errors.New("connect: interrupted; the settings are written")
	}
	row, err := s.lastCall(ctx, since)
	switch {
	case err != nil:
		return err
	case row == nil:
		why := "perigee trace list shows no call of it"
		if len(overrides) > 0 {
			why = strings.Join(overrides, ", ") + " may have won"
		}
		if failed != nil {
			why += " (" + failed.Error() + ")"
		}
		return perigee.Errorf(perigee.ClassUnavailable, "%s did not call perigee: %s%s", s.client.Title, why, quoteLast(said)).
			WithHint("start %s once and answer its questions, or remove the settings with perigee connect %s --undo", s.client.Program, s.client.Name)
	case row.Class != "":
		return perigee.Errorf(perigee.ClassUnavailable, "%s reaches perigee, but its call failed: %s", s.client.Title, row.Class).
			WithHint("perigee trace show %s has the reason", row.ID)
	}
	s.env.Say("%s uses these settings: model %s of upstream %s answered (perigee trace show %s)", s.client.Title, row.Model, row.Upstream, row.ID)
	if failed != nil && !s.client.Cuts {
		s.env.Say("warning: %s was answered, but %v%s", s.client.Title, failed, quoteLast(said))
	}
	return nil
}

func quoteLast(said string) string {
	lines := strings.FieldsFunc(said, func(r rune) bool { return r == '\n' })
	if len(lines) == 0 {
		return ""
	}
	return "; it says: " + terminal.Printable(strings.TrimSpace(lines[len(lines)-1]))
}

// ask runs the client in an empty directory, with the environment of this shell.
func (s *setup) ask(ctx context.Context, program string) (said string, err error) {
	dir, err := os.MkdirTemp("", "perigee-probe-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	args, env := s.client.Probe(s.target)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	end := ownGroup(cmd)
	err = cmd.Run()
	end()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it was stopped after %s", probeTime)
	}
	return output.String(), err
}

// lastCall returns the best call since a time: one that was answered, if there is one.
func (s *setup) lastCall(ctx context.Context, since time.Time) (*perigee.TraceRow, error) {
	query := command.Parameters(map[string]string{"limit": "100", "since": command.Timestamp(since)})
	rows, err := daemon.Ask[[]perigee.TraceRow](ctx, s.config, "/v1/traces?"+query.Encode())
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	asked := func(r perigee.TraceRow) bool { return r.ModelAsked == s.modelName() }
	for _, suits := range []func(perigee.TraceRow) bool{
		func(r perigee.TraceRow) bool { return r.Class == "" && asked(r) },
		func(r perigee.TraceRow) bool { return r.Class == "" },
		asked,
	} {
		if at := slices.IndexFunc(rows, suits); at >= 0 {
			return &rows[at], nil
		}
	}
	return &rows[0], nil
}

func (s *setup) modelName() string {
	if s.target.Model != "" {
		return s.target.Model
	}
	return s.client.Model
}

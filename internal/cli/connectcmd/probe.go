package connectcmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/procgroup"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
	"perigee/internal/store/datadir"
)

// probeTime is how long a client may take to answer. Some retry for minutes when something is
// wrong.
const probeTime = 90 * time.Second

// recordTime is how long after the end of a client its call may be recorded.
const recordTime = 2 * time.Second

// prove reports overrides of the settings, and makes the client ask perigee for one word.
func (s *setup) prove(ctx context.Context) error {
	overrides := s.client.Overrides(s.machine, s.target)
	for _, o := range overrides {
		s.env.Remark("warning: %s overrides these settings", o)
	}
	if s.options.noProbe {
		return nil
	}
	program, err := exec.LookPath(s.client.Program)
	if !s.running {
		s.env.Remark("warning: perigee is not running, so nothing was tried; start it with perigee serve")
	}
	if err != nil || !s.running || !s.client.CanProbe() {
		return nil
	}
	s.env.Remark("testing %s with a short prompt, which uses a few tokens; --no-probe skips this", s.client.Title)
	since, mark := time.Now(), strings.ToLower(rand.Text()[:10])
	said, failed := s.ask(ctx, program, mark)
	if ctx.Err() != nil {
		return errors.New("connect: interrupted; the settings are written")
	}
	row, err := s.findCall(ctx, since, mark)
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
	if !row.Bodies && s.client.Agent == "" {
		s.env.Remark("warning: traces.bodies is off, so the call may have been that of another program")
	}
	s.env.Remark("%s uses these settings: model %s of upstream %s answered (perigee trace show %s)", s.client.Title, row.Model, row.Upstream, row.ID)
	if failed != nil && !s.client.Cuts {
		s.env.Remark("warning: %s was answered, but %v%s", s.client.Title, failed, quoteLast(said))
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
func (s *setup) ask(ctx context.Context, program, mark string) (said string, err error) {
	dir, err := os.MkdirTemp("", "perigee-probe-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	args, env := s.client.Probe(mark)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	procgroup.Own(cmd)
	err = cmd.Run()
	_ = procgroup.Kill(cmd.Process) // clients start servers, which must not outlive them
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it was stopped after %s", probeTime)
	}
	return output.String(), err
}

// findCall returns the call of the client. A call is recorded a moment after its client has the
// answer.
func (s *setup) findCall(ctx context.Context, since time.Time, mark string) (*perigee.TraceRow, error) {
	limit := time.NewTimer(recordTime)
	defer limit.Stop()
	for {
		row, err := s.lastCall(ctx, since, mark)
		if row != nil || err != nil {
			return row, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-limit.C:
			return nil, nil
		case <-time.After(pollTime):
		}
	}
}

// lastCall returns the best call of the client since a time: one that was answered, if there is
// one. mark is in its request.
func (s *setup) lastCall(ctx context.Context, since time.Time, mark string) (*perigee.TraceRow, error) {
	query := command.Parameters(map[string]string{"limit": "1000", "since": command.Timestamp(since)})
	rows, err := daemon.Ask[[]perigee.TraceRow](ctx, s.config, "/v1/traces?"+query.Encode())
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r perigee.TraceRow) bool { return !s.ofClient(&r, mark) })
	if len(rows) == 0 {
		return nil, nil
	}
	asked := func(r perigee.TraceRow) bool { return r.ModelAsked == cmp.Or(s.target.Model, s.client.Model) }
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

// ofClient reports whether a call is the client's probe: its request has the mark. If the request
// is not recorded, only the name of the client is compared.
func (s *setup) ofClient(r *perigee.TraceRow, mark string) bool {
	if !r.Bodies {
		return strings.HasPrefix(strings.ToLower(r.ClientName), s.client.Agent)
	}
	t, err := trace.Open(filepath.Join(s.config.DataDir, datadir.TracesName), r.ID)
	if err != nil {
		return false
	}
	request, err := t.Read(trace.ClientRequestName)
	return err == nil && bytes.Contains(request, []byte(mark))
}

//go:build unix

package procgroup

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/testing/perigeetest/await"
)

// start runs a shell that writes a line when its child, which has the same output, runs. The
// returned function waits for the end of both.
func start(t *testing.T, ctx context.Context, script string, set func(*exec.Cmd)) (*exec.Cmd, func()) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	set(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Kill(cmd.Process) })
	reader := bufio.NewReader(output)
	await.Return(t, func() { _, err = reader.ReadString('\n') }, "the child")
	if err != nil {
		t.Fatal(err)
	}
	return cmd, func() {
		t.Helper()
		await.Return(t, func() { _, _ = io.Copy(io.Discard, reader) }, "the end of the group")
		_ = await.Result(t, cmd.Wait, "the end of the shell")
	}
}

// TestGroupEnds ends groups in each way: what the command has started ends as well.
func TestGroupEnds(t *testing.T) {
	for _, test := range []struct {
		name, script string
		set          func(*exec.Cmd)
		end          func(*exec.Cmd)
	}{
		{"Kill", "sleep 600 & echo; wait", Own, func(cmd *exec.Cmd) { _ = Kill(cmd.Process) }},
		{"Kill after the end of the command", "sleep 600 & echo", Own, func(cmd *exec.Cmd) { _ = Kill(cmd.Process) }},
		{"Kill of a session", "sleep 600 & echo; wait", Detach, func(cmd *exec.Cmd) { _ = Kill(cmd.Process) }},
		{"Terminate", "sleep 600 & echo; wait", Own, func(cmd *exec.Cmd) { Terminate(cmd.Process) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, ended := start(t, t.Context(), test.script, test.set)
			test.end(cmd)
			ended()
		})
	}
	t.Run("end of the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, ended := start(t, ctx, "sleep 600 & echo; wait", Own)
		cancel()
		ended()
	})
}

// A terminal belongs to a session.
func TestDetachedCommandHasItsOwnSession(t *testing.T) {
	cmd, ended := start(t, t.Context(), "sleep 600 & echo; wait", func(cmd *exec.Cmd) {
		Own(cmd)
		Detach(cmd)
	})
	if session, err := unix.Getsid(cmd.Process.Pid); err != nil || session != cmd.Process.Pid {
		t.Errorf("process %d has the session %d, %v", cmd.Process.Pid, session, err)
	}
	_ = Kill(cmd.Process)
	ended()
}

func TestCommandThatWasNotStarted(t *testing.T) {
	if err := Kill(nil); err == nil {
		t.Error("there was a group to kill")
	}
}

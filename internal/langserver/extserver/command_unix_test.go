//go:build unix

package extserver_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	common "perigee/gen/exa/codeium_common_pb"
	pb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/langserver/extserver"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

type commandStream = connect.ServerStreamForClient[common.TerminalShellCommandStreamChunk]

// execute starts a command and returns its stream after the header.
func (r *editRig) execute(ctx context.Context, req *pb.ExecuteCommandRequest) (*commandStream, *common.TerminalShellCommandHeader) {
	r.Helper()
	stream, err := r.client.ExecuteCommand(ctx, connect.NewRequest(req))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = stream.Close() })
	if !stream.Receive() || stream.Msg().GetHeader() == nil {
		r.Fatalf("no header: %v", stream.Err())
	}
	return stream, stream.Msg().GetHeader()
}

// rest reads a stream to its end.
func (r *editRig) rest(stream *commandStream) (output string, trailer *common.TerminalShellCommandTrailer) {
	r.Helper()
	var b strings.Builder
	for stream.Receive() {
		if trailer != nil {
			r.Error("something follows the trailer")
		}
		b.Write(stream.Msg().GetData().GetRawData())
		trailer = stream.Msg().GetTrailer()
	}
	if err := stream.Err(); err != nil {
		r.Fatalf("after %q: %v", b.String(), err)
	}
	if trailer == nil {
		r.Fatalf("no trailer after %q", b.String())
	}
	return b.String(), trailer
}

// refused returns the code with which a command is refused.
func (r *editRig) refused(req *pb.ExecuteCommandRequest) connect.Code {
	r.Helper()
	stream, err := r.client.ExecuteCommand(r.Context(), connect.NewRequest(req))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if stream.Receive() {
		r.Fatalf("got %v", stream.Msg())
	}
	return connect.CodeOf(stream.Err())
}

func TestCommandStreamsHeaderOutputAndExitCode(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	if err := os.Mkdir(filepath.Join(r.workspace, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, cwd := range []string{"sub", "file"} {
		dir := filepath.Join(r.workspace, "sub")
		name := dir
		if cwd == "file" {
			name = uri(dir)
		}
		const line = "pwd; echo bad >&2; printf 'no newline'; exit 3"
		stream, header := r.execute(t.Context(), &pb.ExecuteCommandRequest{CommandLine: line, Cwd: name, TerminalId: "t1"})
		if header.GetTerminalId() != "t1" || header.GetCommandLine() != line || header.GetCwd() != dir || header.GetShellPid() == 0 ||
			header.GetStartTime() == nil {
			t.Errorf("got %v", header)
		}
		output, trailer := r.rest(stream)
		if output != dir+"\nbad\nno newline" || trailer.ExitCode == nil || trailer.GetExitCode() != 3 || trailer.GetEndTime() == nil {
			t.Errorf("got %q, %v", output, trailer)
		}
	}
	stream, header := r.execute(t.Context(), &pb.ExecuteCommandRequest{CommandLine: "head -c 8388608 /dev/zero"})
	if header.GetCwd() != r.workspace || header.GetTerminalId() == "" {
		t.Errorf("got %v", header)
	}
	if output, trailer := r.rest(stream); len(output) != 8<<20 || trailer.ExitCode == nil || trailer.GetExitCode() != 0 {
		t.Errorf("got %d bytes, %v", len(output), trailer)
	}
}

func TestCommandsGetAnEnvironmentOfTheirOwn(t *testing.T) {
	t.Setenv("PERIGEE_CANARY", "secret")
	t.Setenv("GEMINI_API_KEY", "secret")
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	stream, _ := r.execute(t.Context(), &pb.ExecuteCommandRequest{CommandLine: "env"})
	output, _ := r.rest(stream)
	known := []string{"HOME", "PWD", "SHELL", "TERM", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHLVL", "_", "OLDPWD"}
	for line := range strings.Lines(output) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !slices.Contains(known, name) || strings.Contains(value, "secret") {
			t.Errorf("a command has %s=%s", name, value)
		}
		if name == "HOME" && value != r.workspace {
			t.Errorf("HOME is %s", value)
		}
	}
	if !strings.Contains(output, "PATH=") {
		t.Errorf("got %q", output)
	}
}

func TestCommandsAreRefused(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	r.link(t, r.outside, "out")
	r.put(t, filepath.Join(r.workspace, "plain"), "", 0o644)
	for cwd, want := range map[string]connect.Code{
		r.outside:                           connect.CodePermissionDenied,
		filepath.Join(r.workspace, ".."):    connect.CodePermissionDenied,
		filepath.Join(r.workspace, "out"):   connect.CodePermissionDenied,
		uri(r.workspace) + "/%2e%2e":        connect.CodePermissionDenied,
		"relative":                          connect.CodePermissionDenied,
		filepath.Join(r.workspace, "no"):    connect.CodeNotFound,
		filepath.Join(r.workspace, "plain"): connect.CodeInvalidArgument,
	} {
		if got := r.refused(&pb.ExecuteCommandRequest{CommandLine: "touch ran", Cwd: cwd}); got != want {
			t.Errorf("%s: got %v, want %v", cwd, got, want)
		}
	}
	for _, line := range []string{"", "a\x00b", strings.Repeat("x", 1<<20)} {
		if got := r.refused(&pb.ExecuteCommandRequest{CommandLine: line}); got != connect.CodeInvalidArgument {
			t.Errorf("%.10q: got %v", line, got)
		}
	}
	forbidden := newEditRig(t, extserver.Options{AllowEdit: true})
	if got := forbidden.refused(&pb.ExecuteCommandRequest{CommandLine: "touch ran"}); got != connect.CodePermissionDenied {
		t.Errorf("got %v", got)
	}
	for _, dir := range []string{r.outside, r.workspace, forbidden.workspace} {
		if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
			t.Errorf("a command ran in %s", filepath.Base(dir))
		}
	}
}

// lifeline returns a named pipe in the workspace, and a function that waits until no process has it
// open for writing.
func (r *editRig) lifeline() (name string, gone func()) {
	r.Helper()
	path := filepath.Join(r.workspace, "lifeline")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		r.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		f, err := os.Open(path) // waits for the writer
		if err == nil {
			_, err = io.Copy(io.Discard, f)
			_ = f.Close()
		}
		ended <- err
	}()
	return path, func() {
		r.Helper()
		if err := await.Receive(r, ended, "no process has the lifeline open"); err != nil {
			r.Error(err)
		}
	}
}

// sleeper starts a command whose child holds the lifeline, and waits until both run.
func (r *editRig) sleeper(ctx context.Context, lifeline string) *commandStream {
	r.Helper()
	stream, _ := r.execute(ctx, &pb.ExecuteCommandRequest{
		CommandLine: "exec 3>'" + lifeline + "'; sleep 1000 & echo started; wait", TerminalId: "sleeper"})
	if !stream.Receive() || string(stream.Msg().GetData().GetRawData()) != "started\n" {
		r.Fatalf("got %v, %v", stream.Msg(), stream.Err())
	}
	return stream
}

func TestCommandDiesWithItsCall(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	lifeline, gone := r.lifeline()
	ctx, cancel := context.WithCancel(t.Context())
	r.sleeper(ctx, lifeline)
	cancel()
	gone()
	await.Until(t, "the call is counted", func() bool { return r.Requests()["ExecuteCommand"]["canceled"] == 1 })
}

func TestTerminatedCommandHasNoExitCode(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	lifeline, gone := r.lifeline()
	stream := r.sleeper(t.Context(), lifeline)
	for _, id := range []string{"another", "sleeper"} {
		if _, err := r.client.TerminateCommand(t.Context(), connect.NewRequest(&pb.TerminateCommandRequest{TerminalId: id})); err != nil {
			t.Fatal(err)
		}
	}
	if output, trailer := r.rest(stream); output != "" || trailer.ExitCode != nil {
		t.Errorf("got %q, %v", output, trailer)
	}
	gone()
}

func TestCommandsEndWithTheServer(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	lifeline, gone := r.lifeline()
	stream := r.sleeper(t.Context(), lifeline)
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, trailer := r.rest(stream); trailer.ExitCode != nil {
		t.Errorf("got %v", trailer)
	}
	gone()
}

// TestCloseDoesNotWaitForAStalledReaderOfOutput has a command write more than its reader takes.
func TestCloseDoesNotWaitForAStalledReaderOfOutput(t *testing.T) {
	perigeetest.Slow(t)
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	piped := newPipeRig(t, extserver.Options{AllowCommand: true, Workspace: r.workspace})
	r.serverRig = piped
	stream, _ := r.execute(t.Context(), &pb.ExecuteCommandRequest{
		CommandLine: "while head -c 4096 /dev/zero; do echo x >>progress; done"})
	await.Until(t, "the server has taken what it cannot send", func() bool {
		written, err := os.ReadFile(filepath.Join(r.workspace, "progress"))
		return err == nil && len(written)/2*4096 > 64<<10 // which is what a pipe keeps
	})
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
	for stream.Receive() { // what was on its way
	}
}

func TestBackgroundProcessesEndWithTheShell(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	lifeline, gone := r.lifeline()
	stream, _ := r.execute(t.Context(), &pb.ExecuteCommandRequest{CommandLine: "exec 3>'" + lifeline + "'; sleep 1000 & sleep 1000 & echo left"})
	if output, trailer := r.rest(stream); output != "left\n" || trailer.ExitCode == nil || trailer.GetExitCode() != 0 {
		t.Errorf("got %q, %v", output, trailer)
	}
	gone()
}

// TestAnEscapedProcessDoesNotHoldTheStream has a process in a session of its own, which is not
// killed, keep the output open.
func TestAnEscapedProcessDoesNotHoldTheStream(t *testing.T) {
	perigeetest.Slow(t)
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	stream, _ := r.execute(t.Context(), &pb.ExecuteCommandRequest{CommandLine: "command -v setsid >&2 || exec echo left; setsid sh -c 'touch escaped; exec sleep 20' & " +
		"until [ -e escaped ]; do sleep 0.01; done; echo left"})
	if output, _ := r.rest(stream); !strings.HasSuffix(output, "left\n") {
		t.Errorf("got %q", output)
	}
}

// TestCommandDiesWithPerigee has another process run the server and the command, and kills it.
func TestCommandDiesWithPerigee(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the children of a process that was killed")
	}
	if workspace := os.Getenv("PERIGEE_TEST_WORKSPACE"); workspace != "" {
		r := newRig(t, extserver.Options{AllowCommand: true, Workspace: workspace})
		stream, err := r.client.ExecuteCommand(t.Context(), connect.NewRequest(&pb.ExecuteCommandRequest{
			CommandLine: "exec 3>lifeline; echo begun >&3; exec sleep 1000"}))
		if err != nil {
			t.Fatal(err)
		}
		for stream.Receive() { // until it is killed
		}
		return
	}
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	path := filepath.Join(r.workspace, "lifeline")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	perigee := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	perigee.Env = append(os.Environ(), "PERIGEE_TEST_WORKSPACE="+r.workspace)
	if err := perigee.Start(); err != nil {
		t.Fatal(err)
	}
	lifeline, err := os.Open(path) // waits for the command
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lifeline.Close() }()
	if _, err := io.ReadFull(lifeline, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	if err := perigee.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = await.Result(t, perigee.Wait, "the end of perigee")
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, lifeline)
		ended <- err
	}()
	if err := await.Receive(t, ended, "the end of the command"); err != nil {
		t.Error(err)
	}
}

func TestTooManyCommands(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 16 {
		r.execute(ctx, &pb.ExecuteCommandRequest{CommandLine: "sleep 1000"})
	}
	if got := r.refused(&pb.ExecuteCommandRequest{CommandLine: "true"}); got != connect.CodeResourceExhausted {
		t.Errorf("got %v", got)
	}
	cancel()
	await.Until(t, "the commands end", func() bool { return r.Requests()["ExecuteCommand"]["canceled"] == 16 })
	stream, _ := r.execute(t.Context(), &pb.ExecuteCommandRequest{CommandLine: "true"})
	r.rest(stream)
}

func TestShellSupport(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		r := newEditRig(t, extserver.Options{AllowCommand: allowed, AllowEdit: true})
		res, err := r.client.CheckTerminalShellSupport(t.Context(), connect.NewRequest(&pb.CheckTerminalShellSupportRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if res.Msg.GetHasShellIntegration() != allowed || res.Msg.GetShellName() != filepath.Base(res.Msg.GetShellPath()) {
			t.Errorf("got %v", res.Msg)
		}
		if _, err := os.Stat(res.Msg.GetShellPath()); err != nil {
			t.Error(err)
		}
	}
}

func TestExecuteCommandHasNoUnaryForm(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	status, body := r.post("ExecuteCommand", asJSON, []byte(`{"commandLine":"touch ran"}`))
	if status != 501 || errorCode(t, body, "") != "unimplemented" {
		t.Errorf("got %d, %s", status, body)
	}
	if _, err := os.Lstat(filepath.Join(r.workspace, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
}

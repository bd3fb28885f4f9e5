package extserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	common "perigee/gen/exa/codeium_common_pb"
	pb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/lib/procgroup"
)

const (
	maxCommands = 16          // at the same time
	maxCommand  = 128 << 10   // bytes of a command line
	outputChunk = 32 << 10    // bytes of one data message; a command that writes faster than they are read waits
	leftover    = time.Second // for output of processes that outlive the shell
	pipeSize    = 64 << 10    // bytes that a pipe can hold
)

// commands are the running commands by terminal.
type commands struct {
	mu      sync.Mutex
	running map[*exec.Cmd]command
}

type command struct {
	terminal string
	cancel   context.CancelCauseFunc
}

var errTerminated = errors.New("the command was terminated")

// begin registers a command. It returns false if there are too many.
func (c *commands) begin(cmd *exec.Cmd, terminal string, cancel context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.running) >= maxCommands {
		return false
	}
	if c.running == nil {
		c.running = map[*exec.Cmd]command{}
	}
	c.running[cmd] = command{terminal, cancel}
	return true
}

func (c *commands) end(cmd *exec.Cmd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, cmd)
}

func (c *commands) terminate(terminal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, running := range c.running {
		if running.terminal == terminal {
			running.cancel(errTerminated)
		}
	}
}

// executeUnary refuses the unary form of ExecuteCommand.
func (s *service) executeUnary(context.Context, *pb.ExecuteCommandRequest) (*common.TerminalShellCommandStreamChunk, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("ExecuteCommand streams its answer: call it as a stream"))
}

// CheckTerminalShellSupport returns the shell of commands, and whether commands are supported.
func (s *service) CheckTerminalShellSupport(context.Context, *pb.CheckTerminalShellSupportRequest) (*pb.CheckTerminalShellSupportResponse, error) {
	path := shell()
	return &pb.CheckTerminalShellSupportResponse{
		HasShellIntegration: s.mayRun(),
		ShellName:           strings.TrimSuffix(filepath.Base(path), ".exe"),
		ShellPath:           path,
	}, nil
}

// TerminateCommand kills the commands of a terminal.
func (s *service) TerminateCommand(_ context.Context, req *pb.TerminateCommandRequest) (*pb.TerminateCommandResponse, error) {
	s.commands.terminate(req.GetTerminalId())
	return &pb.TerminateCommandResponse{}, nil
}

func (s *service) mayRun() bool { return s.opts.AllowCommand && s.files != nil }

// ExecuteCommand runs a command in the shell and streams a header, its output, and a trailer with
// its exit code. A command that was killed has no exit code. Its process group is killed when the
// shell ends, when the caller leaves, and when the server closes. On Linux the shell ends even if
// perigee is killed.
func (s *service) ExecuteCommand(ctx context.Context, req *connect.Request[pb.ExecuteCommandRequest],
	stream *connect.ServerStream[common.TerminalShellCommandStreamChunk]) error {
	if !s.mayRun() {
		return connect.NewError(connect.CodePermissionDenied, errors.New("commands are not allowed: add command to allow"))
	}
	line := req.Msg.GetCommandLine()
	if line == "" || len(line) > maxCommand || strings.ContainsRune(line, 0) {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("command_line has 1 to 131072 bytes, none of them zero"))
	}
	workspace, dir, err := s.commandDir(req.Msg.GetCwd())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(errTerminated) })()

	cmd := shellCommand(line)
	cmd.Dir, cmd.Env = dir, s.environment(workspace, dir)
	terminal := cmp.Or(req.Msg.GetTerminalId(), "perigee-"+rand.Text())
	if !s.commands.begin(cmd, terminal, cancel) {
		return connect.NewError(connect.CodeResourceExhausted, errors.New("16 commands are running: wait for one of them"))
	}
	defer s.commands.end(cmd)
	return s.run(ctx, cmd, &common.TerminalShellCommandHeader{TerminalId: terminal, CommandLine: line, Cwd: dir}, stream)
}

// run starts the command and streams its output and its exit code.
func (s *service) run(ctx context.Context, cmd *exec.Cmd, header *common.TerminalShellCommandHeader,
	stream *connect.ServerStream[common.TerminalShellCommandStreamChunk]) error {
	output, input, err := os.Pipe()
	if err != nil {
		return connect.NewError(connect.CodeInternal, errors.New("no pipe for the output"))
	}
	defer func() { _ = output.Close() }()
	cmd.Stdout, cmd.Stderr = input, input
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		procgroup.Own(cmd)
		procgroup.DieWithThread(cmd)
		err := cmd.Start()
		_ = input.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			_ = procgroup.Kill(cmd.Process) // processes that the shell has left in the background
			_ = output.SetReadDeadline(time.Now().Add(leftover))
		}
	}()
	if err := <-started; err != nil {
		<-done
		return connect.NewError(connect.CodeInternal, errors.New("the shell cannot be started"))
	}
	header.ShellPid, header.StartTime = uint32(cmd.Process.Pid), timestamppb.New(s.opts.Now())

	kill := func() {
		select {
		case <-done: // its number may belong to another group by now
		default:
			_ = procgroup.Kill(cmd.Process)
		}
	}
	defer context.AfterFunc(ctx, kill)()
	err = stream.Send(&common.TerminalShellCommandStreamChunk{Value: &common.TerminalShellCommandStreamChunk_Header{Header: header}})
	if err == nil {
		err = copyOutput(output, func(data []byte) error {
			return stream.Send(&common.TerminalShellCommandStreamChunk{
				Value: &common.TerminalShellCommandStreamChunk_Data{Data: &common.TerminalShellCommandData{RawData: data}}})
		})
	}
	if err != nil {
		kill()
	}
	<-done
	if err == nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTerminated) {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	trailer := &common.TerminalShellCommandTrailer{EndTime: timestamppb.New(s.opts.Now())}
	if code := cmd.ProcessState.ExitCode(); code >= 0 && ctx.Err() == nil {
		exit := int32(code)
		trailer.ExitCode = &exit
	}
	return stream.Send(&common.TerminalShellCommandStreamChunk{Value: &common.TerminalShellCommandStreamChunk_Trailer{Trailer: trailer}})
}

// copyOutput sends output until its end or its deadline, and then the bytes that were in the pipe
// at the deadline, because a receiver may be slower than the command was. It returns an error only
// if output cannot be sent.
func copyOutput(output *os.File, send func([]byte) error) error {
	buffer := make([]byte, outputChunk)
	for late, rest := false, pipeSize; rest > 0; {
		if late {
			_ = output.SetReadDeadline(time.Now().Add(leftover))
		}
		n, err := output.Read(buffer)
		if n > 0 {
			if err := send(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case late && err == nil:
			rest -= n
		case !late && errors.Is(err, os.ErrDeadlineExceeded):
			late = true
		case err != nil:
			return nil
		}
	}
	return nil
}

// commandDir returns the workspace and the directory of a command in it, given by a path or a URI.
// An empty cwd is the workspace.
func (s *service) commandDir(cwd string) (workspace, dir string, err error) {
	workspace = s.files.Roots()[0]
	switch {
	case cwd == "":
		cwd = workspace
	case strings.HasPrefix(cwd, "file:"):
		err = checkURI(cwd)
	case !filepath.IsAbs(cwd):
		err = errOutside
	}
	if err != nil {
		return "", "", err
	}
	dir, info, err := s.files.Find(cwd)
	if err != nil {
		return "", "", fileError(err)
	} else if !info.IsDir() {
		return "", "", connect.NewError(connect.CodeInvalidArgument, syscall.ENOTDIR)
	}
	return workspace, dir, nil
}

// environment returns the environment of a command. Other variables of perigee are not passed on,
// because they may contain secrets.
func (s *service) environment(workspace, dir string) []string {
	env := []string{"HOME=" + cmp.Or(s.opts.Home, workspace), "PWD=" + dir, "SHELL=" + shell(), "TERM=dumb"}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

package main

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows/svc"

	"perigee/dist"
	"perigee/internal/cli"
)

// supervised runs the program. If Windows has started it as a service, it reports to the service
// manager, which stops it, and its messages go to service.log in the data directory of the account
// of the service.
func supervised(ctx context.Context, env *cli.Env, run func(ctx context.Context, env *cli.Env) int) int {
	if isService, err := svc.IsWindowsService(); err != nil || !isService {
		return run(ctx, env)
	}
	if log, err := serviceLog(); err == nil {
		defer func() { _ = log.Close() }()
		env.Stderr = log
	}
	s := &windowsService{ctx: ctx, run: func(ctx context.Context) int { return run(ctx, env) }}
	if err := svc.Run(dist.WindowsService, s); err != nil {
		env.Remark("the service manager cannot be reached: %v", err)
		return exitFailed
	}
	return s.code
}

// serviceLog creates service.log. The previous one is service.log.1.
func serviceLog() (*os.File, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "perigee")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "service.log")
	_ = os.Rename(path, path+".1") // there may be none
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// A windowsService answers the service manager of Windows.
type windowsService struct {
	ctx  context.Context
	run  func(ctx context.Context) int
	code int
}

// Execute implements svc.Handler. A stop ends the program as SIGTERM does elsewhere: open calls
// finish first.
func (s *windowsService) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (specific bool, code uint32) {
	const drain = 60_000 // ms, after which Windows may show the service as hanging
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	done := make(chan int, 1)
	go func() { done <- s.run(ctx) }()
	now := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- now
	for {
		select {
		case s.code = <-done:
			return true, uint32(s.code)
		case request := <-requests:
			if request.Cmd == svc.Stop || request.Cmd == svc.Shutdown {
				now = svc.Status{State: svc.StopPending, WaitHint: drain}
				stop()
			}
			status <- now
		}
	}
}

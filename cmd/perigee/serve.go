package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
)

func serve(ctx context.Context, env *cli.Env, args []string) error {
	listen := env.Flags.String("listen", "", "")
	simulate := env.Flags.Bool("simulate", false, "")
	replace := env.Flags.Bool("replace", false, "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	src := config.Sources{Path: env.Config, Flags: map[string]string{}, Models: simulator.Models(), AnswersOllama: command.AnswersOllama}
	if *listen != "" {
		src.Flags["listen"] = *listen
	}
	if *simulate { // upstreams are not used, but clients still need their keys
		src.Spare = func(key string) bool { return strings.HasPrefix(key, "upstreams[") }
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	service, err := daemon.TakeSystemd()
	if err != nil {
		return err
	}
	ctx, reloads, stop := onHangup(ctx, service)
	defer stop()
	loaded, err = command.AwaitWhole(ctx, env, src, loaded)
	if ctx.Err() != nil {
		return nil // a signal
	}
	if err != nil {
		return err
	}
	if *replace {
		if err := canListen(ctx, loaded.Config, service.Listeners != nil); err != nil {
			return err
		}
		if err := daemon.CanReplace(ctx, loaded.Config, *simulate); err != nil {
			return err
		}
		if _, err := command.StopDaemon(ctx, env, loaded.Config, "restart"); err != nil && !errors.Is(err, daemon.ErrNotRunning) {
			return err
		}
	}
	out := newReporter(env, loaded.Config)
	out.reportWarnings(loaded)
	d, err := daemon.Start(ctx, daemon.Options{
		Loaded: loaded, Sources: src, Poll: time.Second, Simulate: *simulate, Version: programVersion(),
		Logger: out.logger, LogLevel: out.level, Listeners: service.Listeners, Reloading: func() (done func()) {
			_ = service.Reloading()
			return func() { _ = service.Ready("configuration reloaded at " + time.Now().Format(time.DateTime)) }
		},
	})
	if err != nil {
		return listenError(ctx, err, loaded.Config)
	}
	out.started(d, loaded, *simulate)
	env.Remark("listening on %s", d.URL()) // in every log format: scripts wait for this line
	if err := service.Ready("listening on " + d.URL()); err != nil {
		out.report(slog.LevelWarn, fmt.Sprintf("the service manager was not notified that perigee is ready: %v", err))
	}
	watched, end := context.WithCancel(context.Background())
	defer end()
	go service.Watch(watched)
	go answerReloads(ctx, reloads, service)
	select {
	case <-ctx.Done():
	case err := <-d.Failed():
		d.Stop(ctx)
		return fmt.Errorf("the listener failed: %w", err)
	}
	// Open responses may finish, until the configured time is over or a second signal arrives.
	draining, cancel := context.WithTimeout(context.Background(), d.StopTime())
	defer cancel()
	draining, restore := signal.NotifyContext(draining, os.Interrupt, syscall.SIGTERM)
	defer restore()
	out.stopping(context.Cause(ctx), d.Active())
	_ = service.Stopping(fmt.Sprintf("waiting for %s", terminal.Number(d.Active(), "open call", "open calls")))
	d.Stop(draining)
	out.report(slog.LevelInfo, "stopped")
	return nil
}

// onHangup handles SIGHUP. A closed terminal sends it: it stops the command as SIGTERM does, but a
// second one does not cut the drain short, because the shell and the system may both send it. Under
// nohup it is ignored. From a service manager it asks for a reload, and is delivered to reloads.
func onHangup(ctx context.Context, service *daemon.SystemdService) (_ context.Context, reloads chan os.Signal, stop func()) {
	switch {
	case service.Managed(): // which may have been started with SIGHUP ignored
		reloads = make(chan os.Signal, 1)
		signal.Notify(reloads, syscall.SIGHUP)
		return ctx, reloads, func() { signal.Stop(reloads) }
	case signal.Ignored(syscall.SIGHUP):
		return ctx, nil, func() {}
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGHUP)
	return ctx, nil, cancel
}

// answerReloads reports to the service manager that each requested reload is done: changes of the
// configuration are followed anyway.
func answerReloads(ctx context.Context, reloads <-chan os.Signal, service *daemon.SystemdService) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-reloads:
			_ = service.Reloading()
			_ = service.Ready("changes of the configuration are applied within seconds")
		}
	}
}

// answersFrom returns a sentence about the upstream that answers if the configuration has none, or
// "" if it has one.
func answersFrom(loaded *config.Loaded, simulate bool) string {
	switch {
	case simulate:
		return "using the built-in simulator (--simulate)"
	case len(loaded.Environment) > 0:
		return fmt.Sprintf("no configuration at %s: upstreams from the environment: %s", loaded.Searched, strings.Join(environmentUpstreams(loaded), ", "))
	case len(loaded.Config.Upstreams) > 0:
		return ""
	case loaded.Path == "":
		line := fmt.Sprintf("no configuration at %s and no API key in the environment, such as %s: answering from the built-in simulator",
			loaded.Searched, config.KeyVariables()[0])
		if advice := command.FindGoogleLogin().Advice(""); advice != "" {
			line += "; " + advice
		}
		return line
	}
	line := fmt.Sprintf("no upstream in %s: answering from the built-in simulator", loaded.Path)
	for _, name := range config.KeyVariables() {
		if len(os.Getenv(name)) >= config.MinAPIKey {
			return fmt.Sprintf("%s; %s is used only by an upstream with keys: [env:%[2]s]", line, name)
		}
	}
	return line
}

// environmentUpstreams lists the upstreams from the environment with their variables or addresses.
func environmentUpstreams(loaded *config.Loaded) (list []string) {
	for _, u := range loaded.Environment {
		list = append(list, fmt.Sprintf("%s (%s)", u.Name, u.Source()))
	}
	return list
}

// passedOver returns a sentence about variables with values too short for an API key, or "" if
// there is none.
func passedOver(loaded *config.Loaded) string {
	if len(loaded.Placeholders) == 0 {
		return ""
	}
	return fmt.Sprintf("passed over %s: a value of fewer than %d characters is a placeholder, not an API key",
		strings.Join(loaded.Placeholders, ", "), config.MinAPIKey)
}

// A reporter prints the messages of a command that keeps running: at a terminal as sentences,
// otherwise to the log, so that stderr has one format.
type reporter struct {
	env      *cli.Env
	level    *slog.LevelVar
	logger   *slog.Logger // of the daemon, at the configured level
	own      *slog.Logger // of the command, at every level
	terminal bool
}

func newReporter(env *cli.Env, cfg *config.Config) *reporter {
	level := &slog.LevelVar{}
	terminal.SetLevel(level, cfg.Log)
	terminal := cfg.LogFormat == "auto" && terminal.Is(env.Stderr)
	return &reporter{env, level, newLogger(env, cfg.LogFormat, level), newLogger(env, cfg.LogFormat, slog.LevelDebug), terminal}
}

// newLogger returns a logger to stderr in the configured format. Format auto is short lines at a
// terminal, and text otherwise.
func newLogger(env *cli.Env, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	switch {
	case format == "json":
		return slog.New(slog.NewJSONHandler(env.Stderr, options))
	case format == "auto" && terminal.Is(env.Stderr):
		return slog.New(terminal.NewLogHandler(env.Stderr, func() int { return terminal.Width(env.Stderr) }, terminal.WantsColour(), level))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, options))
}

func (r *reporter) report(level slog.Level, sentence string) {
	if r.terminal {
		r.env.Remark("%s", sentence)
		return
	}
	r.own.Log(context.Background(), level, r.env.Hint(sentence))
}

// reportWarnings reports the warnings about a configuration.
func (r *reporter) reportWarnings(loaded *config.Loaded) {
	for _, warning := range loaded.Warnings {
		r.report(slog.LevelWarn, warning.String())
	}
}

// started reports the configuration, before the line with the address.
func (r *reporter) started(d *daemon.Daemon, loaded *config.Loaded, simulate bool) {
	path := loaded.Path
	if whole, err := filepath.Abs(path); path != "" && err == nil {
		path = whole
	}
	if path != "" && r.terminal {
		r.env.Remark("configuration: %s", path)
	}
	for _, line := range []string{answersFrom(loaded, simulate), passedOver(loaded)} {
		if line != "" {
			r.report(slog.LevelInfo, line)
		}
	}
	upstreams := strings.Join(d.Upstreams(), ", ")
	if r.terminal {
		r.env.Remark("upstreams: %s", upstreams)
		r.env.Remark("data: %s", loaded.Config.DataDir)
	} else {
		facts := []any{"version", programVersion(), "upstreams", upstreams, "data_dir", loaded.Config.DataDir}
		if path != "" {
			facts = append([]any{"configuration", path}, facts...)
		}
		r.own.Info("starting", facts...)
	}
	for _, line := range d.Advice() {
		r.report(slog.LevelWarn, line)
	}
}

// stopping reports why the command ends, and the calls that it waits for.
func (r *reporter) stopping(cause error, open int) {
	switch {
	case !r.terminal:
		r.own.Info("stopping", "cause", cause, "open_calls", open)
	case open > 0:
		r.env.Remark("waiting for %s; press Ctrl-C again to stop now", terminal.Number(open, "open call", "open calls"))
	}
}

// canListen returns why a daemon could not listen at its address, before the one that is to be
// replaced is stopped. The address of that one will be free.
func canListen(ctx context.Context, cfg *config.Config, activated bool) error {
	status, err := daemon.Status(ctx, cfg)
	if err != nil || activated || status.ListensAt(cfg.Listen) {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return listenError(ctx, err, cfg)
	}
	return listener.Close()
}

// listenError explains why a daemon cannot listen. A daemon that was started before data_dir was
// changed is named.
func listenError(ctx context.Context, err error, cfg *config.Config) error {
	explained := cli.ListenError(err, cfg.Listen)
	// An error that was explained is about the address of the configuration.
	if errors.Is(err, syscall.EADDRINUSE) && explained != err {
		if other := command.FindElsewhere(ctx, cfg); other != nil {
			return fmt.Errorf("cannot listen on %s: %s; stop it with %s", cfg.Listen, other, other.Stop())
		}
	}
	return explained
}

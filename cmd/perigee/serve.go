package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/systemd"
)

var serveCommand = command{
	name:    "serve",
	summary: "run the gateway in the foreground",
	run:     serve,
	usage: `usage: perigee serve [--listen ADDR] [--simulate] [--config FILE]

  perigee serve --simulate
  perigee serve --config team.yaml --listen 127.0.0.1:9000

Runs the gateway until it is stopped. SIGTERM, Ctrl-C and closing the terminal
let open responses finish first.

  --config FILE    the configuration (default: $PERIGEE_CONFIG, else
                   perigee/config.yaml in your configuration directory)
  --listen ADDR    where to listen; port 0 takes a free one. Sockets that
                   systemd passes (LISTEN_FDS) are used in its place
  --simulate       answer from the built-in simulator, whatever is configured
`,
}

// reloadEvery is how often the configuration file is looked at.
const reloadEvery = time.Second

func serve(ctx context.Context, env *environment, args []string) error {
	src := config.Sources{Flags: map[string]string{}, Models: simulator.Models()}
	set := flags(env, &src.Path)
	listen := set.String("listen", "", "")
	simulate := set.Bool("simulate", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	if *listen != "" {
		src.Flags["listen"] = *listen
	}
	if *simulate {
		// Nobody is asked upstream; who may come in is still checked.
		src.Spare = func(key string) bool { return strings.HasPrefix(key, "upstreams[") }
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	ctx, unhang := hangup(ctx)
	defer unhang()
	level := &slog.LevelVar{}
	daemon.SetLevel(level, loaded.Config.Log)
	out := newNarrator(env, loaded.Config.LogFormat, level)
	for _, warning := range loaded.Warnings {
		out.tell(slog.LevelWarn, warning)
	}
	service, err := systemd.Take()
	if err != nil {
		return err
	}
	d, err := daemon.Start(ctx, daemon.Options{
		Loaded: loaded, Sources: src, Poll: reloadEvery, Simulate: *simulate, Version: programVersion(),
		Logger: out.logger, LogLevel: level, Listeners: service.Listeners, Reloading: reloading(service),
	})
	if err != nil {
		return cannotListen(err, loaded.Config.Listen)
	}
	out.introduce(d, loaded, *simulate)
	env.say("listening on %s", d.URL()) // in every format: scripts wait for this line
	defer supervise(service, d, out)()
	select {
	case <-ctx.Done():
	case err := <-d.Failed():
		d.Stop(ctx)
		return fmt.Errorf("listening broke off: %w", err)
	}
	out.stopping(context.Cause(ctx), d.Active())
	_ = service.Stopping(fmt.Sprintf("waiting for %s", number(d.Active(), "open call", "open calls")))
	drain(d)
	out.tell(slog.LevelInfo, "stopped")
	return nil
}

// supervise tells the service manager, if there is one, that calls are answered and, until the function that it returns is
// called, that the process is alive.
func supervise(service *systemd.Service, d *daemon.Daemon, out *narrator) (end func()) {
	if err := service.Ready("listening on " + d.URL()); err != nil {
		out.tell(slog.LevelWarn, fmt.Sprintf("the service manager cannot be told that perigee is ready: %v", err))
	}
	ctx, cancel := context.WithCancel(context.Background())
	go service.Watch(ctx)
	return cancel
}

// reloading tells the service manager when a reload begins and ends.
func reloading(service *systemd.Service) func() (done func()) {
	return func() func() {
		_ = service.Reloading()
		return func() { _ = service.Ready("configuration reloaded at " + time.Now().Format(time.DateTime)) }
	}
}

// sourceOfAnswers says which upstream answers where no file says it; empty: the file does.
func sourceOfAnswers(loaded *config.Loaded, simulate bool) string {
	switch {
	case simulate:
		return "using the built-in simulator (--simulate)"
	case loaded.KeyVariable != "":
		return fmt.Sprintf("no configuration at %s: upstream %s uses the API key in %s", loaded.Searched, loaded.Config.Upstreams[0].Name, loaded.KeyVariable)
	case len(loaded.Config.Upstreams) > 0:
		return ""
	case loaded.Path != "":
		line := fmt.Sprintf("no upstream in %s: answering from the built-in simulator", loaded.Path)
		for _, name := range config.KeyVariables {
			if os.Getenv(name) != "" {
				return fmt.Sprintf("%s; %s is used only by an upstream with keys: [env:%s]", line, name, name)
			}
		}
		return line
	}
	return fmt.Sprintf("no configuration at %s and no %s: answering from the built-in simulator", loaded.Searched, config.KeyVariables[0])
}

// A narrator says what goes on in a command that runs for long: at a terminal in sentences, otherwise in the log, so that the
// stream has one format.
type narrator struct {
	env      *environment
	logger   *slog.Logger // for everything else
	own      *slog.Logger // for what the command says itself, whatever the level
	terminal bool
}

func newNarrator(env *environment, format string, level slog.Leveler) *narrator {
	logger, terminal := newLogger(env, format, level)
	own, _ := newLogger(env, format, slog.LevelDebug)
	return &narrator{env, logger, own, terminal}
}

func (n *narrator) tell(level slog.Level, sentence string) {
	if n.terminal {
		n.env.say("%s", sentence)
		return
	}
	n.own.Log(context.Background(), level, n.env.hint(sentence))
}

// introduce says what is in force, before the line with the address.
func (n *narrator) introduce(d *daemon.Daemon, loaded *config.Loaded, simulate bool) {
	var file []any
	if loaded.Path != "" {
		path := loaded.Path
		if whole, err := filepath.Abs(path); err == nil {
			path = whole
		}
		if file = []any{"configuration", path}; n.terminal {
			n.env.say("configuration: %s", path)
		}
	}
	if line := sourceOfAnswers(loaded, simulate); line != "" {
		n.tell(slog.LevelInfo, line)
	}
	upstreams := strings.Join(d.Upstreams(), ", ")
	if n.terminal {
		n.env.say("upstreams: %s", upstreams)
		n.env.say("data: %s", loaded.Config.DataDir)
	} else {
		n.own.Info("starting", append(file, "version", programVersion(), "upstreams", upstreams, "data_dir", loaded.Config.DataDir)...)
	}
	for _, line := range d.Advice() {
		n.tell(slog.LevelWarn, line)
	}
}

// stopping says why the command ends, and what it waits for.
func (n *narrator) stopping(cause error, open int) {
	switch {
	case !n.terminal:
		n.own.Info("stopping", "cause", cause, "open_calls", open)
	case open > 0:
		n.env.say("waiting for %s; press Ctrl-C again to stop now", number(open, "open call", "open calls"))
	}
}

// hangup is ctx that ends when the terminal is closed, too. The signal for that may come several times, from the shell and from
// the system: unlike SIGTERM it never cuts short what is under way. Under nohup it means nothing.
func hangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// drain lets open answers finish, for as long as the configuration says, or until a second signal.
func drain(d *daemon.Daemon) {
	ctx, cancel := context.WithTimeout(context.Background(), d.StopTime())
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	d.Stop(ctx)
}

package connectcmd

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/procgroup"
	"perigee/internal/lib/terminal"
	"perigee/internal/server/connect"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// Run starts a client with an environment that points at perigee. It starts a daemon if none is
// running; that one ends with the last client that was started this way.
func Run(ctx context.Context, env *cli.Env, args []string) error {
	var clientArgs []string
	if at := slices.Index(args, "--"); at >= 0 {
		args, clientArgs = args[:at], args[at+1:]
	}
	model := env.Flags.String("model", "", "")
	key := env.Flags.String("key", "", "")
	isDaemon := env.Flags.Bool(backgroundFlag, false, "")
	names, err := env.Parse(args, 1)
	switch {
	case err != nil && !errors.Is(err, flag.ErrHelp) && clientArgs == nil:
		return withSeparator(env, args, err)
	case err != nil:
		return err
	case *isDaemon:
		return background(ctx, env)
	case len(names) == 0:
		return cli.Usagef("run: name a client: %s", strings.Join(runnable(), ", "))
	}
	c, err := connect.Find(names[0])
	if err != nil {
		return cli.Usagef("run: %v", err)
	}
	if c.Program == "" {
		return perigee.Errorf(perigee.ClassUnimplemented, "%s cannot be started by perigee", c.Title).WithHint("perigee connect %s says what it needs", c.Name)
	}
	loaded, err := loadForRun(ctx, env)
	if err != nil {
		return err
	}
	secret, _, err := chooseKey("run", loaded.Config, *key)
	if err != nil {
		return err
	}
	program, err := exec.LookPath(c.Program)
	if err != nil {
		return perigee.Errorf(perigee.ClassNotFound, "%s is not installed: there is no program %s on PATH", c.Title, c.Program).
			WithHint("install it: %s", c.Install)
	}
	if err := datadir.Secure(loaded.Config.DataDir, command.DaemonOptions(env, loaded).Logger); err != nil {
		return err
	}
	leases := leasesOf(loaded.Config)
	held, err := leases.Take(ctx)
	if err != nil {
		return err
	}
	defer held.Give()
	status, err := reachDaemon(ctx, env, loaded, leases)
	if err != nil {
		return err
	}
	target := connect.Target{Key: secret}
	catalog := readCatalog(ctx, env, loaded)
	catalog.apply(env, c, &target, *model)
	catalog.printProblems(env, c, &target)
	if target.URL, err = command.Address(loaded.Config, status.Listen); err != nil {
		return err
	}
	// The client can run without the comparison; doctor reports its failure.
	if stale, _ := command.StaleEnvironment(ctx, loaded, status); stale != "" {
		env.Remark("%s: %s", stale, status.ReplaceCommand(loaded.Config.Listen))
	} else if status.Simulated && len(loaded.Config.Upstreams) > 0 {
		env.Remark("the running daemon does not use the upstreams of %s, and the built-in simulator answers: %s",
			cmp.Or(loaded.Path, "the environment"), status.ReplaceCommand(loaded.Config.Listen))
	} else if status.Simulated {
		advice := "set an API key such as GEMINI_API_KEY, start Ollama, or see perigee config init"
		if loaded.Path == "" {
			advice = command.FindGoogleLogin().Advice(advice)
		}
		env.Remark("no upstream is configured: the built-in simulator answers; %s", advice)
	}
	return starter{env: env, client: c, program: program, lease: held}.run(ctx, target, clientArgs)
}

// loadForRun reads the configuration. Secrets that only the daemon uses may be missing if one runs
// with it.
func loadForRun(ctx context.Context, env *cli.Env) (*config.Loaded, error) {
	loaded, problems := config.Load(sources(env))
	if problems == nil {
		return loaded, nil
	}
	loaded, err := command.Load(env, exceptKeys)
	if err != nil {
		return nil, problems
	}
	if status, err := daemon.Status(ctx, loaded.Config); err != nil || status.Stopping || !command.RunsWith(loaded, status) {
		return nil, problems
	}
	return loaded, nil
}

// withSeparator returns the error of a command line, with a suggestion if arguments for a client
// are on it without --.
func withSeparator(env *cli.Env, args []string, err error) error {
	at := slices.IndexFunc(args, func(arg string) bool {
		_, unknown := connect.Find(arg)
		return unknown == nil
	})
	if at < 0 || strings.Contains(err.Error(), "did you mean") {
		return err
	}
	own, others := args[:at+1:at+1], []string{}
	for i := at + 1; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch f := env.Flags.Lookup(name); {
		case !strings.HasPrefix(args[i], "-") || f == nil:
			others = append(others, args[i])
		case hasValue || i+1 == len(args):
			own = append(own, args[i])
		default:
			own, i = append(own, args[i], args[i+1]), i+1
		}
	}
	if len(others) == 0 {
		return err
	}
	words := slices.Concat([]string{"perigee", "run"}, own, []string{"--"}, others)
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'`$&|;<>()*?[]#~!\\{}") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return cli.Usagef("run: unexpected argument %q; did you mean %s?", others[0], strings.Join(words, " "))
}

func leasesOf(cfg *config.Config) leaseDir {
	return leaseDir(filepath.Join(cfg.DataDir, datadir.RunName))
}

// sources returns the sources of perigee serve.
func sources(env *cli.Env) config.Sources {
	return config.Sources{Path: env.Config, Flags: map[string]string{}, Models: simulator.Models(), AnswersOllama: command.AnswersOllama}
}

func runnable() []string {
	var names []string
	for _, c := range connect.Clients() {
		if c.Program != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// A starter starts a client.
type starter struct {
	env     *cli.Env
	client  *connect.Client
	program string
	lease   *lease
}

// run runs the client on this terminal until it ends. Its exit code is the error, unless it is 0.
func (s starter) run(ctx context.Context, target connect.Target, args []string) error {
	env, c, program := s.env, s.client, s.program
	machine, err := connect.Host()
	if err != nil {
		return err
	}
	launch, err := c.Launch(machine, target)
	if err != nil {
		return err
	}
	if returnEarlier(ctx, env, c.Name, &launch) { // which may have changed the settings
		if launch, err = c.Launch(machine, target); err != nil {
			return err
		}
	}
	if launch.Warning != "" {
		env.Remark("%s", launch.Warning)
	}
	private, err := newPrivate(ctx, env, &launch)
	if err != nil {
		return err
	}
	defer private.end()
	inDir := func(text string) string { return strings.ReplaceAll(text, "{dir}", private.dir) }
	var cmdArgs, cmdEnv []string
	for _, arg := range launch.Args {
		cmdArgs = append(cmdArgs, inDir(arg))
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(launch.Unset, name) {
			cmdEnv = append(cmdEnv, variable)
		}
	}
	for _, variable := range launch.Env {
		if name, value, _ := strings.Cut(variable, "="); len(launch.Files) > 0 && strings.HasPrefix(value, "{dir}") {
			variable = name + "=" + inDir(value)
		}
		cmdEnv = append(cmdEnv, variable)
	}
	cmd := exec.Command(program, append(cmdArgs, args...)...)
	cmd.Env = cmdEnv
	cmd.Stdin, cmd.Stdout, cmd.Stderr = env.Stdin, env.Stdout, env.Stderr
	// The daemon, and with it the port, stays for as long as the client, even if this process is
	// killed.
	procgroup.Inherit(cmd, s.lease.File)
	procgroup.Inherit(cmd, private.lock) // and so does the private directory, if there is one
	if err = wait(cmd); errors.Is(err, syscall.ENOEXEC) {
		return fmt.Errorf("%s is not a program that this machine can run; install %s again: %s", program, c.Title, c.Install)
	}
	return err
}

// wait starts a command and passes signals on until it ends.
func wait(cmd *exec.Cmd) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	atTerminal := terminal.Is(cmd.Stdin)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if !atTerminal || !fromTerminal(s) {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		case err := <-ended:
			if cmd.ProcessState == nil {
				return err
			}
			if code := exitStatus(cmd.ProcessState); code != 0 {
				return &command.ExitStatus{Code: code}
			}
			return nil
		}
	}
}

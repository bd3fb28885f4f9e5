package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/dist"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// serviceHost is the system on which services are installed. Tests replace it.
var serviceHost = dist.ThisHost

// A serviceCommand is perigee service.
type serviceCommand struct {
	env                     *cli.Env
	host                    *dist.Host
	options                 dist.Options
	manager                 *dist.Manager
	loaded                  *config.Loaded
	print, writeEnvironment bool
}

func service(ctx context.Context, env *cli.Env, args []string) error {
	word, err := env.Subcommand(args)
	if err != nil {
		return err
	}
	s := &serviceCommand{env: env}
	env.Flags.BoolVar(&s.options.System, "system", false, "")
	if word == "install" {
		env.Flags.BoolVar(&s.print, "print", false, "")
		env.Flags.BoolVar(&s.writeEnvironment, "environment", false, "")
	}
	if _, err := env.Parse(args[1:], 0); err != nil {
		return err
	}
	if env.JSON && word != "status" {
		return cli.Usagef("service: --json is for status")
	}
	s.host = serviceHost(func(format string, values ...any) { fmt.Fprintf(env.Stdout, format+"\n", values...) })
	problems, err := s.prepare(ctx)
	switch {
	case err != nil:
		return err
	case word == "install" && problems != nil:
		return problems
	case word == "install":
		return s.install(ctx)
	}
	command.Warn(env, problems) // a service that is installed has read the file when it was valid
	if word == "remove" {
		return s.remove(ctx)
	}
	return s.status(ctx)
}

// selecting are the variables that select configuration and data. The service of a user gets them,
// so that it is the daemon that the commands of this shell find.
var selecting = []string{config.EnvFile, "PERIGEE_DATA_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}

// prepare reads the configuration of the service, and returns its problems.
func (s *serviceCommand) prepare(ctx context.Context) (problems, err error) {
	if s.options.Program, err = programPath(); err != nil {
		return nil, err
	}
	if s.env.Config != "" {
		if s.options.Config, err = filepath.Abs(s.env.Config); err != nil {
			return nil, err
		}
	}
	src := config.Sources{Path: s.options.Config, Spare: command.NoSecrets, AnswersOllama: command.AnswersOllama}
	if s.options.System {
		if src.Path == "" && s.host.OS == "linux" {
			src.Path = s.host.Root + dist.SystemConfig
		}
		src.Env = func(string) (string, bool) { return "", false } // a service has no shell
	} else {
		for _, name := range selecting {
			value := os.Getenv(name)
			if strings.HasPrefix(name, "PERIGEE_") && value != "" { // the service starts in another directory
				if value, err = filepath.Abs(value); err != nil {
					return nil, err
				}
			}
			if value != "" {
				s.options.Variables = append(s.options.Variables, dist.Variable{Name: name, Value: value})
			}
		}
	}
	if s.manager, err = dist.NewManager(s.host, s.options); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	s.loaded, _, problems = command.Salvage(ctx, s.env, src)
	if _, err := os.Stat(src.Path); s.options.System && s.options.Config == "" && err != nil {
		s.loaded.Config.DataDir, problems = dist.SystemData, nil // install creates the file
	}
	return problems, nil
}

func (s *serviceCommand) install(ctx context.Context) error {
	if !s.print {
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	if err := s.environment(); err != nil {
		return err
	}
	if s.print {
		return s.manager.Print()
	}
	changed, err := s.manager.Install(ctx)
	if err != nil {
		return fmt.Errorf("service install: %w", err)
	}
	if !changed {
		fmt.Fprintf(s.env.Stdout, "already installed and running: %s\n", s.file())
		return nil
	}
	fmt.Fprintf(s.env.Stdout, "installed: %s\n", s.file())
	if s.host.OS == "linux" && !s.options.System {
		if _, err := os.Stat("/var/lib/systemd/linger/" + s.host.User); err != nil {
			s.env.Remark("the service ends when you log out; to keep it running, run loginctl enable-linger")
		}
	}
	return nil
}

func (s *serviceCommand) file() string {
	if s.manager.Packaged != "" {
		return s.manager.Packaged
	}
	if len(s.manager.Files) > 0 && !s.manager.Files[0].Once {
		return s.manager.Files[0].Path
	}
	return s.manager.Unit()
}

// check returns why the service could not run.
func (s *serviceCommand) check(ctx context.Context) error {
	if err := s.manager.Reach(ctx); err != nil {
		return fmt.Errorf("service install: %w", err)
	}
	cfg := s.loaded.Config
	if s.manager.Packaged != "" && (s.options.Config != "" || len(s.options.Variables) > 0) {
		s.env.Remark("%s is used unchanged; set another configuration with systemctl edit", s.manager.Packaged)
	}
	if s.options.System && s.host.OS == "linux" && cfg.DataDir != dist.SystemData {
		return cli.Usagef("service install: the service of the system can write only to %s; set data_dir: %[1]s in %s", dist.SystemData, s.loaded.Path)
	}
	d, err := remote.Find(ctx, cfg.DataDir)
	if err != nil || d == nil {
		return nil // the data directory does not exist yet, or the daemon reports what is wrong with it
	}
	defer d.Close()
	if d.Unit.Name == "" && s.manager.State(ctx).PID != d.PID {
		return fmt.Errorf("service install: a daemon that is not the service uses %s (process %d); stop it with perigee stop, and run this again", cfg.DataDir, d.PID)
	}
	return nil
}

func (s *serviceCommand) remove(ctx context.Context) error {
	changed, err := s.manager.Remove(ctx)
	if err != nil {
		return fmt.Errorf("service remove: %w; run it again to remove the rest", err)
	}
	if !changed {
		fmt.Fprintln(s.env.Stdout, "no service is installed")
		return nil
	}
	kept := ""
	if _, err := os.Stat(s.loaded.Config.DataDir); err == nil {
		kept = "; the data is still there: " + s.loaded.Config.DataDir
	}
	fmt.Fprintf(s.env.Stdout, "removed: %s%s\n", s.manager.Unit(), terminal.Printable(kept))
	return nil
}

// A serviceStatus is the result of perigee service status.
type serviceStatus struct {
	Installed     bool     `json:"installed"`
	System        bool     `json:"system"`
	File          string   `json:"file"` // or the name of the service
	Enabled       bool     `json:"enabled"`
	Running       bool     `json:"running"`
	State         string   `json:"state"` // as the service manager names it
	PID           int      `json:"pid,omitempty"`
	Since         string   `json:"since,omitempty"` // RFC 3339, UTC
	Ready         bool     `json:"ready"`
	Reasons       []string `json:"reasons,omitempty"`
	Version       string   `json:"version,omitempty"` // of the daemon
	BinaryVersion string   `json:"binary_version"`
}

func (s *serviceCommand) status(ctx context.Context) error {
	state := s.manager.State(ctx)
	hidden := s.manager.Hidden(ctx, state)
	if hidden != nil && !s.env.JSON {
		return fmt.Errorf("service status: %w", hidden)
	}
	status := serviceStatus{
		Installed: state.Installed || hidden != nil, System: s.options.System, File: s.file(), Enabled: state.Enabled, Running: state.Running,
		State: state.Detail, PID: state.PID, BinaryVersion: programVersion(),
	}
	if hidden != nil {
		status.Reasons = []string{hidden.Error()}
	}
	if !state.Since.IsZero() {
		status.Since = state.Since.UTC().Format(time.RFC3339)
	}
	if state.Running {
		switch answer, err := daemon.Ready(ctx, s.loaded.Config); {
		case err != nil:
			status.Reasons = []string{err.Error()}
		default:
			status.Ready, status.Reasons = answer.Status == "ready", answer.Reasons
			if described, err := daemon.Status(ctx, s.loaded.Config); err == nil {
				status.Version = described.Version
			}
		}
	}
	if s.env.JSON {
		if err := cli.WriteJSON(s.env, status); err != nil {
			return err
		}
	} else {
		s.printStatus(status)
	}
	if !status.Ready {
		return &command.ExitStatus{Code: exitFailed}
	}
	return nil
}

func (s *serviceCommand) printStatus(status serviceStatus) {
	out, account := s.env.Stdout, "your account"
	if status.System {
		account = "the system"
	}
	if !status.Installed {
		fmt.Fprintf(out, "no service of %s is installed\n", account)
		s.env.Remark("install it with perigee service install%s", map[bool]string{true: " --system"}[status.System])
		return
	}
	yes := map[bool]string{true: "yes", false: "no"}
	running := status.State
	if status.PID != 0 {
		running += fmt.Sprintf(", process %d", status.PID)
	}
	if since, err := time.Parse(time.RFC3339, status.Since); err == nil {
		running += ", since " + since.Local().Format(time.DateTime)
	}
	fmt.Fprintf(out, "service of %s: %s\nenabled: %s\nstate: %s\nready: %s\n", account, status.File, yes[status.Enabled], running, yes[status.Ready])
	if status.Version != "" {
		fmt.Fprintf(out, "version: %s\n", status.Version)
	}
	for _, reason := range status.Reasons {
		s.env.Remark("%s", terminal.Printable(reason))
	}
	switch {
	case !status.Running:
		s.env.Remark("%s shows why; perigee service install starts it", s.manager.Logs())
	case status.Version != "" && status.Version != status.BinaryVersion:
		s.env.Remark("the service is perigee %s and this program %s; restart the service to use this one", status.Version, status.BinaryVersion)
	}
}

// environment reports the variables of this shell that the configuration uses, or that would be
// upstreams without one: the service does not see them. With --environment, it writes them to the
// file of variables.
func (s *serviceCommand) environment() error {
	names := slices.Clone(s.loaded.Variables)
	for _, u := range s.loaded.Environment {
		if u.Variable != "" {
			names = append(names, u.Variable)
		}
	}
	if s.options.System || s.host.OS == "windows" {
		if s.writeEnvironment {
			return cli.Usagef("service install: --environment is for a service of your account; docs/service.md shows how a service of the system gets its secrets")
		}
		if s.loaded.Path == "" || len(s.loaded.Config.Upstreams) == 0 {
			s.env.Remark("%s has no upstreams, so the built-in simulator answers; add them, with API keys in files", s.configPath())
		}
		return nil
	}
	file := s.host.EnvironmentFile()
	missing, err := dist.MissingVariables(file, names)
	if err != nil {
		return err
	}
	noKeys, err := dist.MissingVariables(file, config.KeyVariables())
	if err != nil {
		return err
	}
	unset := slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return os.Getenv(name) != "" })
	if s.writeEnvironment && len(unset) > 0 {
		s.env.Remark("not set in this shell: %s; add them to %s as NAME=value (mode 600)", strings.Join(unset, ", "), file)
		missing = slices.DeleteFunc(missing, func(name string) bool { return slices.Contains(unset, name) })
	}
	switch {
	case len(names) == 0 && len(s.loaded.Config.Upstreams) == 0 && len(noKeys) == len(config.KeyVariables()):
		s.env.Remark("there is no configuration and no API key, so the built-in simulator answers; put a line such as GEMINI_API_KEY=… into %s (mode 600)", file)
	case len(missing) == 0:
	case s.writeEnvironment && s.print:
		fmt.Fprintf(s.env.Stdout, "would write %s to %s\n", strings.Join(missing, ", "), file)
	case s.writeEnvironment:
		if err := dist.AddVariables(file, missing); err != nil {
			return fmt.Errorf("service install: %s cannot be written: %w", file, err)
		}
		s.manager.Renew()
		fmt.Fprintf(s.env.Stdout, "wrote %s to %s\n", strings.Join(missing, ", "), file)
	default:
		s.env.Remark("the service does not see variables of this shell: %s; run perigee service install --environment to copy them to %s, or add them there as NAME=value (mode 600)",
			strings.Join(missing, ", "), file)
	}
	return nil
}

func (s *serviceCommand) configPath() string {
	if s.options.Config == "" && s.host.OS == "linux" {
		return dist.SystemConfig
	}
	return s.options.Config
}

var cellar = lazyregexp.New(`^(.*)/Cellar/([^/]+)/[^/]+/(.*)$`)

// programPath returns the path of this program that stays the same when a package manager replaces
// it: the link by which it was called, and not the file of one version.
func programPath() (string, error) {
	resolved, err := os.Executable()
	if err != nil {
		return "", err
	}
	same := func(path string) bool {
		a, errA := os.Stat(path)
		b, errB := os.Stat(resolved)
		return errA == nil && errB == nil && os.SameFile(a, b)
	}
	called, err := exec.LookPath(os.Args[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err == nil {
		if called, err = filepath.Abs(called); err == nil && same(called) {
			resolved = called
		}
	}
	if parts := cellar().FindStringSubmatch(resolved); parts != nil {
		if stable := parts[1] + "/opt/" + parts[2] + "/" + parts[3]; same(stable) {
			return stable, nil
		}
	}
	return resolved, nil
}

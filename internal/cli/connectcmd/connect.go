// Package connectcmd is perigee connect and perigee run.
package connectcmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/server/connect"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// options are the flags of perigee connect.
type options struct {
	undo, print, yes, noProbe bool
	model, key                string
}

// Connect writes the settings of a client, removes them, or lists the clients.
func Connect(ctx context.Context, env *cli.Env, args []string) error {
	var o options
	env.Flags.BoolVar(&o.undo, "undo", false, "")
	env.Flags.BoolVar(&o.print, "print", false, "")
	env.Flags.BoolVar(&o.yes, "yes", false, "")
	env.Flags.BoolVar(&o.noProbe, "no-probe", false, "")
	env.Flags.StringVar(&o.model, "model", "", "")
	env.Flags.StringVar(&o.key, "key", "", "")
	names, err := env.Parse(args, 1)
	switch {
	case err != nil:
		return err
	case len(names) == 0 && (o.undo || o.print || o.yes || o.model != ""):
		return cli.Usagef("connect: name a client; perigee connect lists them")
	case len(names) > 0 && env.JSON:
		return cli.Usagef("connect: --json is for the list of clients, without a name")
	case o.undo && (o.print || o.model != ""):
		return cli.Usagef("connect: --undo accepts no other flag except --yes")
	}
	if len(names) == 0 {
		return list(ctx, env)
	}
	c, err := connect.Find(names[0])
	if err != nil {
		return cli.Usagef("connect: %v", err)
	}
	s, err := newSetup(ctx, env, c, o)
	if err != nil {
		return err
	}
	switch {
	case o.undo:
		return s.undo(ctx)
	case c.Refused:
		fmt.Fprintln(env.Stdout, c.Advice(s.target))
		return perigee.Errorf(perigee.ClassUnimplemented, "%s cannot be connected to an address of this machine", c.Title)
	case len(c.Files(s.machine, s.target)) == 0:
		fmt.Fprintln(env.Stdout, env.Hint(c.Advice(s.target)))
		return nil
	case o.print:
		text, err := c.Print(s.machine, s.target, "<secret of key "+s.keyName+">")
		if err == nil {
			fmt.Fprint(env.Stdout, text)
		}
		return err
	}
	return s.connect(ctx)
}

// A setup is one run of perigee connect.
type setup struct {
	env     *cli.Env
	options options
	config  *config.Config
	client  *connect.Client
	machine connect.Machine
	target  connect.Target
	store   connect.Store
	keyName string
	running bool // a daemon is
}

func storeOf(cfg *config.Config) connect.Store {
	return connect.Store{Dir: filepath.Join(cfg.DataDir, "connect")}
}

func newSetup(ctx context.Context, env *cli.Env, c *connect.Client, o options) (*setup, error) {
	machine, err := connect.Host()
	if err != nil {
		return nil, err
	}
	spare := exceptKeys
	if o.undo {
		spare = command.NoSecrets
	}
	loaded, err := command.Load(env, spare)
	if err != nil {
		return nil, err
	}
	s := &setup{env: env, options: o, config: loaded.Config, client: c, machine: machine, store: storeOf(loaded.Config)}
	if o.undo {
		return s, nil
	}
	status, err := daemon.Status(ctx, loaded.Config)
	switch {
	case err == nil:
		s.running = true
	case !errors.Is(err, daemon.ErrNotRunning):
		return nil, err
	}
	if s.target.URL, err = command.Address(loaded.Config, status.Listen); err != nil {
		return nil, err
	}
	if s.target.Key, s.keyName, err = chooseKey("connect", loaded.Config, o.key); err != nil {
		return nil, err
	}
	s.target.Variable = variableOf(loaded, s.target.Key)
	catalog := readCatalog(ctx, env, loaded)
	catalog.apply(env, c, &s.target, o.model)
	return s, nil
}

// connect shows the change, asks for confirmation, writes it, and tests the client.
func (s *setup) connect(ctx context.Context) error {
	if err := datadir.Secure(s.config.DataDir, command.DaemonOptions(s.env, &config.Loaded{Config: s.config}).Logger); err != nil {
		return err
	}
	if s.client.CanProbe() && !connect.OnPath(s.client.Program) {
		s.env.Remark("%s is not installed: %s", s.client.Title, s.client.Install)
	}
	release, err := s.store.Lock(ctx)
	if err != nil {
		return err
	}
	err = s.write(ctx)
	release()
	if err != nil {
		return err
	}
	return s.prove(ctx)
}

func (s *setup) write(ctx context.Context) error {
	plan, err := s.store.NewPlan(s.client, s.machine, s.target)
	if err != nil {
		return err
	}
	if plan.Empty() {
		s.env.Remark("%s has these settings already", s.client.Title)
		return nil
	}
	fmt.Fprint(s.env.Stdout, plan.Diff())
	if err := s.confirm(ctx); err != nil {
		return err
	}
	if err := plan.Run(); err != nil {
		return err
	}
	for _, f := range plan.Files {
		s.env.Remark("wrote %s", f.Path)
	}
	if plan.Secret() {
		s.env.Remark("the secret of key %s is in this file, which only you can read now; do not publish it", s.keyName)
	}
	s.env.Remark("perigee connect %s --undo restores the previous settings", s.client.Name)
	return nil
}

// confirm asks a person. Without one, --yes is needed.
func (s *setup) confirm(ctx context.Context) error {
	if s.options.yes {
		return nil
	}
	if s.env.Input() != cli.TerminalInput {
		return cli.Usagef("connect: nothing was written: stdin is not a terminal; pass --yes to write without asking")
	}
	return s.env.Confirm(ctx, "write these settings?", "add --yes")
}

// undo restores the settings from before connect.
func (s *setup) undo(ctx context.Context) error {
	if s.client.Refused || len(s.client.Files(s.machine, connect.Target{URL: "http://127.0.0.1"})) == 0 {
		s.env.Remark("perigee has written nothing for %s", s.client.Title)
		return nil
	}
	release, err := s.store.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	outcomes, err := s.store.Undo(s.client.Name)
	for _, o := range outcomes {
		switch o.Result {
		case connect.Restored, connect.Removed:
			s.env.Remark("%s %s", o.Result, o.Path)
		default:
			s.env.Remark("%s: %s", o.Path, o.Result)
		}
		for _, path := range o.Kept {
			s.env.Remark("%s: kept, you have changed it", path)
		}
		for _, path := range o.Gone {
			s.env.Remark("%s: not restored, you have removed it", path)
		}
		if o.Copy != "" {
			s.env.Remark("%s from before perigee connect is in %s", filepath.Base(o.Path), o.Copy)
		}
	}
	return err
}

// list shows every client and its state.
func list(ctx context.Context, env *cli.Env) error {
	machine, err := connect.Host()
	if err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	status, err := daemon.Status(ctx, loaded.Config)
	if err != nil && !errors.Is(err, daemon.ErrNotRunning) {
		return err
	}
	url, err := command.Address(loaded.Config, status.Listen)
	if err != nil {
		url = "http://127.0.0.1" // the port is not known before a daemon runs
	}
	rows, err := storeOf(loaded.Config).States(machine, connect.Target{URL: url}, connect.OnPath)
	if err != nil {
		return err
	}
	return cli.List(env, rows, []string{"CLIENT", "STATE", "FILE"}, func(r connect.Status) []any {
		file := r.File
		if under, ok := strings.CutPrefix(file, machine.Home+string(filepath.Separator)); ok {
			file = filepath.Join("~", under)
		}
		return []any{r.Client, string(r.State), command.OrDash(file)}
	})
}

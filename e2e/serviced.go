package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The scenarios of perigee service with systemd.
const (
	serviceOfSystem = "system"
	serviceOfUser   = "user"
)

// services is perigee service on a machine on which systemd runs.
func services() []client {
	return []client{{
		name: "perigee service", version: "systemd", install: debianInstall, beside: true, scenarios: []string{serviceOfSystem, serviceOfUser},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
			defer cancel()
			d, err := bootDebian(limited, s, "debian-service", s.dir)
			if err != nil {
				r.addAll(c, err)
				return
			}
			defer d.close()
			for _, scenario := range c.scenarios {
				r.add(c, scenario, d.playService(limited, s, scenario))
			}
		},
	}}
}

// playService installs the service twice, kills its process, and removes it. Only data stays.
func (d *debian) playService(ctx context.Context, s *stage, scenario string) error {
	binary, flag, data, run := "/usr/local/bin/perigee", " --system", []string{"var/lib/perigee"}, func(command string) (string, error) {
		return d.run(ctx, "sh", "-c", command)
	}
	if scenario == serviceOfUser {
		home := "/home/" + debianUser
		binary, flag, data = home+"/.local/bin/perigee", "", []string{home[1:] + "/.local/share", home[1:] + "/.cache"}
		run = func(command string) (string, error) { return d.runAs(ctx, "PATH=~/.local/bin:$PATH; "+command) }
		for _, command := range []string{"loginctl enable-linger " + debianUser, "install -d -o " + debianUser + " " + home + "/.local " + home + "/.local/bin"} {
			if _, err := d.run(ctx, "sh", "-c", command); err != nil {
				return err
			}
		}
	}
	if err := copyFile(s.binary, filepath.Join(d.root, binary)); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(d.root, binary), 0o755); err != nil {
		return err
	}
	before, err := d.files()
	if err != nil {
		return err
	}
	said, err := run("perigee service install" + flag)
	if err != nil {
		return err
	}
	if !strings.Contains(said, "perigee.service") {
		return fmt.Errorf("install does not name the unit: %s", said)
	}
	if err := d.ask(ctx); err != nil {
		return fmt.Errorf("after install: %w", err)
	}
	installed, err := d.files()
	if err != nil {
		return err
	}
	if said, err = run("perigee service install" + flag); err != nil {
		return fmt.Errorf("a second install: %w", err)
	}
	if added, err := d.added(installed); err != nil || strings.Contains(said, "wrote ") {
		return fmt.Errorf("a second install adds %v and prints %s: %w", added, said, err)
	}
	if _, err := run("perigee service status" + flag); err != nil {
		return err
	}
	if err := d.killService(ctx, run, flag); err != nil {
		return err
	}
	if said, err = run("perigee service remove" + flag); err != nil {
		return err
	}
	if err := d.ask(ctx); err == nil {
		return errors.New("perigee answers after its service was removed: " + said)
	}
	return d.onlyBelow(before, data...)
}

// killService kills the process of the service, which systemd starts again.
func (d *debian) killService(ctx context.Context, run func(string) (string, error), flag string) error {
	ctl := "systemctl"
	if flag == "" {
		ctl += " --user"
	}
	if _, err := run(ctl + " kill --signal=KILL perigee.service"); err != nil {
		return err
	}
	for {
		err := d.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			status, _ := run(ctl + " status perigee.service")
			return fmt.Errorf("after its process was killed: %w: %s", err, status)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	backAndForth  = "forward, back and forward"
	otherCommands = "commands of the other version"
	restoredCopy  = "the copy is restored"
)

// upgrades are older versions of perigee, whose data this version uses, and the other way round.
func upgrades() (list []client) {
	for _, commit := range olderVersions {
		list = append(list, client{
			name: "upgrade from " + commit, version: "schema 15", install: olderInstall + commit,
			scenarios: []string{backAndForth, restoredCopy, otherCommands}, together: true,
			run: func(ctx context.Context, s *stage, c client, r *report) {
				for i, scenario := range c.scenarios {
					limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
					in, err := newInstallation(s, fmt.Sprint("upgrade-", commit, i))
					if err == nil {
						err = in.scenario(limited, scenario, olderBinary(commit))
					}
					r.add(c, scenario, err)
					cancel()
				}
			},
		})
	}
	return list
}

func (in *installation) scenario(ctx context.Context, name, older string) error {
	if err := in.signIn(ctx, older); err != nil {
		return err
	}
	if name == otherCommands {
		return in.mix(ctx, older)
	}
	if name == restoredCopy {
		return in.restore(ctx, older)
	}
	for i, binary := range []string{older, in.stage.binary, older, in.stage.binary} {
		if err := in.turn(ctx, binary); err != nil {
			return fmt.Errorf("version %d of old, new, old, new: %w", i+1, err)
		}
	}
	return in.checkCopy()
}

// writeFixtures has the older versions write data directories, which internal/daemon/prooftests/upgrade_test.go
// opens with this version: DIR/COMMIT.tar.gz with what is kept as kept.json.
func writeFixtures(ctx context.Context, binary, dir string) error {
	s, err := newStage(ctx, binary, nil)
	if err != nil {
		return err
	}
	defer s.close()
	for _, commit := range olderVersions {
		older := olderBinary(commit)
		in, err := newInstallation(s, "fixture-"+commit)
		if err == nil {
			err = in.signIn(ctx, older)
		}
		if err == nil {
			err = in.turn(ctx, older)
		}
		if err == nil {
			err = in.pack(ctx, filepath.Join(dir, commit+".tar.gz"))
		}
		if err != nil {
			return fmt.Errorf("fixture of %s: %w", commit, err)
		}
	}
	return nil
}

// pack writes the data directory to an archive, without what a running daemon makes anew.
func (in *installation) pack(ctx context.Context, archive string) error {
	text, err := json.MarshalIndent(in.kept, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(in.data, "kept.json"), text, 0o600); err != nil {
		return err
	}
	_, err = output(ctx, in.data, nil, "tar", "--sort=name", "--owner=0", "--group=0", "--exclude=*.sock", "--exclude=*.lock",
		"--exclude=admin.token", "-czf", archive, ".")
	return err
}

// signIn imports the accounts with a version.
func (in *installation) signIn(ctx context.Context, binary string) error {
	var list []map[string]string
	for email, token := range in.kept.Accounts {
		list = append(list, map[string]string{"email": email, "refresh_token": token})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	file := filepath.Join(in.stage.dir, in.name()+"-accounts.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	_, err = in.command(ctx, binary, "account", "import", file)
	return err
}

// turn has a version serve what the versions before it have left, and add to it.
func (in *installation) turn(ctx context.Context, binary string) error {
	if err := in.serve(ctx, binary); err != nil {
		return err
	}
	defer in.stop(ctx, "")
	if in.rounds > 0 {
		if err := in.check(ctx, binary); err != nil {
			return fmt.Errorf("what the version before has left: %w", err)
		}
	}
	if err := in.toggle(ctx, binary); err != nil {
		return err
	}
	if err := in.use(ctx); err != nil {
		return err
	}
	return in.check(ctx, binary)
}

// toggle disables one account and enables it in the next round.
func (in *installation) toggle(ctx context.Context, binary string) error {
	const email = "bob@example.com"
	if in.kept.Disabled == "" {
		in.kept.Disabled = email
		_, err := in.command(ctx, binary, "account", "disable", email)
		return err
	}
	in.kept.Disabled = ""
	_, err := in.command(ctx, binary, "account", "enable", email)
	return err
}

// restore goes back with the copy of the database from before the upgrade, as docs/service.md
// describes it. What the new version has recorded is gone, and everything before that is there.
func (in *installation) restore(ctx context.Context, older string) error {
	if err := in.turn(ctx, older); err != nil {
		return err
	}
	before, err := json.Marshal(in.kept)
	if err != nil {
		return err
	}
	if err := in.turn(ctx, in.stage.binary); err != nil {
		return err
	}
	if err := in.checkCopy(); err != nil {
		return err
	}
	if _, err := output(ctx, in.data, nil, "sh", "-c", "rm -f perigee.db-wal perigee.db-shm && mv perigee.db.before-* perigee.db"); err != nil {
		return err
	}
	in.kept, in.rounds = kept{}, 1
	if err := json.Unmarshal(before, &in.kept); err != nil {
		return err
	}
	return in.turn(ctx, older)
}

// checkCopy reports an error unless the database was copied before the new version changed it.
func (in *installation) checkCopy() error {
	copies, err := filepath.Glob(filepath.Join(in.data, "perigee.db.before-*"))
	if err == nil && len(copies) != 1 {
		err = fmt.Errorf("copies of the database before its schema was changed: %q, want one", copies)
	}
	return err
}

// mix runs the commands of a version while a daemon of the other one is running: of the new one on
// the old daemon, then of the old one on the new.
func (in *installation) mix(ctx context.Context, older string) error {
	for _, pair := range [][2]string{{older, in.stage.binary}, {in.stage.binary, older}} {
		daemon, commands := pair[0], pair[1]
		if err := in.serve(ctx, daemon); err != nil {
			return err
		}
		defer in.stop(ctx, "")
		if err := in.use(ctx); err != nil {
			return err
		}
		if err := in.commands(ctx, commands); err != nil {
			return fmt.Errorf("commands of %s on a daemon of %s: %w", filepath.Base(commands), filepath.Base(daemon), err)
		}
		if err := in.stop(ctx, commands); err != nil {
			return err
		}
	}
	return nil
}

// commands runs one of each kind of commands that ask the daemon.
func (in *installation) commands(ctx context.Context, binary string) error {
	if err := in.examine(ctx, binary); err != nil {
		return err
	}
	if err := in.toggle(ctx, binary); err != nil {
		return err
	}
	if err := in.checkAccounts(ctx, binary); err != nil {
		return err
	}
	for _, c := range []struct{ command, want string }{
		{"usage --json", `"group"`},
		{"trace list --json", in.kept.Traced},
		{"trace show " + in.kept.Traced, in.kept.Traced},
		{"trace replay " + in.kept.Traced, "You said"},
		{"account list --json", "bob@example.com"},
		{"account explain claude-sonnet-4-6", "ada@example.com"},
		{"quota --json", "ada@example.com"},
		{"models", "gemini-3-flash"},
		{"explain gemini-3-flash", "studio"},
		{"store --json", `"rows"`},
		{"audit --json", "account.import"},
		{"dashboard --no-browser", "?ticket="},
	} {
		said, err := in.command(ctx, binary, strings.Fields(c.command)...)
		if err != nil {
			return err
		}
		if !strings.Contains(string(said), c.want) {
			return fmt.Errorf("%s does not say %q: %s", c.command, c.want, firstLines(string(said), 10))
		}
	}
	return nil
}

// examine runs doctor, which has nothing to fix but that the daemon is of another version, and that
// the schema of the database is an older one if the daemon is.
func (in *installation) examine(ctx context.Context, binary string) error {
	said, _ := in.command(ctx, binary, "doctor", "--json") // with exit code 1
	var results []struct{ Check, Status, Detail, Fix string }
	if err := json.Unmarshal(said, &results); err != nil {
		return fmt.Errorf("doctor --json: %w: %s", err, firstLines(string(said), 10))
	}
	compared := false
	for _, r := range results {
		replace := strings.Contains(r.Fix, " --replace")
		switch {
		case r.Check == "daemon" && r.Status == "warn" && replace && strings.Contains(r.Detail, "older"):
			compared = true
		case r.Status == "warn" && strings.HasPrefix(r.Check, "account:"): // it is disabled
		case r.Status != "ok" && !(r.Check == "store" && replace):
			return fmt.Errorf("doctor about %s: %s, %s; fix: %s", r.Check, r.Status, r.Detail, r.Fix)
		}
	}
	if !compared {
		return fmt.Errorf("doctor does not say that the daemon is of another version: %s", said)
	}
	return nil
}

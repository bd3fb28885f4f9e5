package doctor

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Service has the directories of systemd units, and the function that runs systemctl.
type Service struct {
	UserDirs, SystemDirs []string
	// Run returns the output of a command. It is nil if systemd is not called.
	Run func(ctx context.Context, command []string) (string, error)
}

// HostService returns the Service of this machine. With offline, systemd is not called.
func HostService(home string, offline bool) Service {
	s := Service{SystemDirs: []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}}
	s.UserDirs = []string{"/etc/systemd/user", "/usr/lib/systemd/user"}
	if home != "" {
		s.UserDirs = append([]string{filepath.Join(home, ".config/systemd/user")}, s.UserDirs...)
	}
	if !offline {
		s.Run = func(ctx context.Context, command []string) (string, error) {
			out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
			return strings.TrimSpace(string(out)), err
		}
	}
	return s
}

const unitName = "perigee.service"

// Check reports the state of the unit. Without a unit there is no result.
func (s Service) Check(ctx context.Context, running bool) []Result {
	for i, dirs := range [][]string{s.UserDirs, s.SystemDirs} {
		for _, dir := range dirs {
			path := filepath.Join(dir, unitName)
			if program, found := startedBy(path); found {
				return []Result{s.check(ctx, path, program, i == 0, running)}
			}
		}
	}
	return nil
}

func (s Service) check(ctx context.Context, path, program string, ofUser, running bool) Result {
	systemctl, asRoot := []string{"systemctl"}, "sudo "
	if ofUser {
		systemctl, asRoot = []string{"systemctl", "--user"}, ""
	}
	act := func(words ...string) string { return asRoot + commandLine(slices.Concat(systemctl, words)...) }
	if _, err := os.Stat(program); filepath.IsAbs(program) && err != nil {
		return fail(NameService, act("edit", "--full", unitName), "%s starts %s, which does not exist", path, program)
	}
	if s.Run == nil {
		return ok(NameService, "%s; systemd is not asked because of --offline", path)
	}
	// It exits with an error for every other state than active.
	switch state, _ := s.Run(ctx, slices.Concat(systemctl, []string{"is-active", unitName})); {
	case state == "failed":
		return fail(NameService, act("restart", unitName), "%s has failed; journalctl -u %s has its log", path, unitName)
	case state == "active" || state == "activating" || running:
		return ok(NameService, "%s is %s", path, state)
	case state == "":
		return ok(NameService, "%s; systemd cannot be asked", path)
	default:
		return warn(NameService, act("start", unitName), "%s is %s", path, state)
	}
}

// startedBy returns the program that a unit starts.
func startedBy(path string) (program string, found bool) {
	file, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if line, isStart := strings.CutPrefix(strings.TrimSpace(lines.Text()), "ExecStart="); isStart {
			words := strings.Fields(strings.TrimLeft(line, "@-:+!"))
			if len(words) > 0 {
				return strings.Replace(words[0], "%h", os.Getenv("HOME"), 1), true
			}
		}
	}
	return "", true
}

package procgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"
)

const patience = 10 * time.Second // for a script

// A User is a user of the system.
type User struct {
	Name     string
	UID, GID int
	Home     string

	// Sudo is true if programs are started through sudo; Check sets it. They are children of sudo
	// then, which belongs to root.
	Sudo bool
}

// Lookup returns the user of a name.
func Lookup(name string) (*User, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("there is no user %s on this system", name)
	}
	uid, err1 := strconv.Atoi(found.Uid)
	gid, err2 := strconv.Atoi(found.Gid)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("the user %s has no numbers on this system", name)
	}
	return &User{Name: found.Username, UID: uid, GID: gid, Home: found.HomeDir}, nil
}

// Check finds out how programs of the user can be started, by starting one. It must come before the
// other methods.
func (u *User) Check(ctx context.Context) error {
	if u.UID == os.Geteuid() {
		return fmt.Errorf("%s is the user that perigee runs as; its own connections would be redirected to itself: "+
			"install the redirect for another user", u.Name)
	}
	u.Sudo = false
	_, direct := u.Run(ctx, nil, "true")
	if direct == nil {
		return nil
	}
	if _, err := exec.LookPath("sudo"); err != nil {
		return fmt.Errorf("perigee cannot start programs as the user %s (%w); run perigee as root, or install sudo and allow it", u.Name, direct)
	}
	u.Sudo = true
	if _, err := u.Run(ctx, nil, "true"); err != nil {
		return fmt.Errorf("perigee cannot start programs as the user %s: sudo: %w; run perigee as root, or allow `sudo -n -u %s` without a password",
			u.Name, err, u.Name)
	}
	return nil
}

// MaySignal reports whether perigee itself can send signals to processes of the user.
func (u *User) MaySignal() bool { return os.Geteuid() == 0 && !u.Sudo }

// Command makes a command one of the user. Through sudo, the program does not get the environment
// of the command: have it run a script that sets its own.
func (u *User) Command(cmd *exec.Cmd) {
	if !u.Sudo {
		u.setCredential(cmd)
		return
	}
	args := append([]string{"sudo", "-n", "-u", u.Name, "--", cmd.Path}, cmd.Args[1:]...)
	if path, err := exec.LookPath("sudo"); err != nil {
		cmd.Err = err
	} else if cmd.Err == nil {
		cmd.Path, cmd.Args = path, args
	}
}

// Run runs a shell script as the user, with umask 077, in the root directory, and returns its
// output. The error of a script that fails is the last line that it writes to stderr.
func (u *User) Run(ctx context.Context, input []byte, script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", "umask 077\n" + script, "sh"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.Home, "LC_ALL=C"}, bytes.NewReader(input)
	cmd.WaitDelay = time.Second
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	Detach(cmd) // a process of another user could write to the terminal as if that were typed there
	u.Command(cmd)
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("no answer within %v", patience)
	}
	if lines := strings.Split(strings.TrimSpace(problem.String()), "\n"); err != nil && lines[len(lines)-1] != "" {
		err = errors.New(lines[len(lines)-1])
	}
	return out.String(), err
}

// Signal sends a signal (TERM, KILL) to the processes of a group that belong to the user.
func (u *User) Signal(ctx context.Context, group int, signal string) {
	_, _ = u.Run(ctx, nil, `kill -s "$1" -- "-$2"`, signal, strconv.Itoa(group))
}

// KillMarked kills the processes of the user that have an assignment in their environment. It
// reports how many there were.
func (u *User) KillMarked(ctx context.Context, assignment string) int {
	out, _ := u.Run(ctx, nil, `
for file in /proc/[0-9]*/environ; do
	pid=${file%/environ}
	if tr '\0' '\n' 2>/dev/null <"$file" | grep -qxF -e "$1"; then
		kill -KILL "${pid#/proc/}" && echo
	fi
done 2>/dev/null`, assignment)
	return strings.Count(out, "\n")
}

// Quote returns text quoted as one word of a shell script.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

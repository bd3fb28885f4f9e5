//go:build unix

package procgroup_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"perigee/internal/lib/procgroup"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// users returns a user whose programs are started directly, and one whose programs are started with
// sudo.
func users(t *testing.T) map[string]*procgroup.User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start programs of any user")
	}
	all := map[string]*procgroup.User{"direct": {Name: "unnamed", UID: 61234, GID: 61235, Home: "/"}}
	if nobody, err := procgroup.Lookup("nobody"); err != nil {
		t.Logf("without sudo: %v", err)
	} else if _, err := exec.LookPath("sudo"); err != nil {
		t.Logf("without sudo: %v", err)
	} else {
		nobody.Sudo = true
		all["sudo"] = nobody
	}
	return all
}

func TestScriptsOfAnotherUser(t *testing.T) {
	for how, u := range users(t) {
		t.Run(how, func(t *testing.T) {
			out, err := u.Run(t.Context(), []byte("input"), `id -u; id -g; id -G; umask; pwd; cat; echo " $1|$2"`, "two words", "$HOME'")
			id, group := strconv.Itoa(u.UID), strconv.Itoa(u.GID)
			if want := strings.Join([]string{id, group, group, "0077", "/", "input two words|$HOME'", ""}, "\n"); out != want || err != nil {
				t.Errorf("got %q, want %q, %v", out, want, err)
			}
			session, err := u.Run(t.Context(), nil, "ps -o sess= -p $$")
			own, _ := exec.CommandContext(t.Context(), "ps", "-o", "sess=", "-p", strconv.Itoa(os.Getpid())).Output()
			if session == "" || session == string(own) || err != nil {
				t.Errorf("session %q, that of the test is %q, %v", session, own, err)
			}
			if _, err := u.Run(t.Context(), nil, "echo first >&2; echo second >&2; exit 3"); err == nil || err.Error() != "second" {
				t.Errorf("got %v", err)
			}
			if _, err := u.Run(t.Context(), nil, "cat /etc/shadow >/dev/null"); err == nil || !strings.Contains(err.Error(), "ermission denied") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestSignals sends signals to a group, and to a process that has left it.
func TestSignals(t *testing.T) {
	for how, u := range users(t) {
		t.Run(how, func(t *testing.T) {
			mark := "RUNAS_TEST=" + filepath.Base(t.TempDir()) + how + strconv.Itoa(os.Getpid())
			begin := func(attr *syscall.SysProcAttr) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), "/usr/bin/env", mark, "sleep", "1000")
				cmd.SysProcAttr = attr
				u.Command(cmd)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				return cmd
			}
			ended := func(cmd *exec.Cmd) {
				t.Helper()
				if err := await.Result(t, cmd.Wait, "the end of the process"); err == nil {
					t.Error("it ended by itself")
				}
			}
			running := func(count int) {
				t.Helper()
				await.Until(t, fmt.Sprintf("%d processes", count), func() bool { return marked(mark) == count })
			}
			group := begin(&syscall.SysProcAttr{Setsid: true})
			running(1)
			u.Signal(t.Context(), group.Process.Pid, "TERM")
			ended(group)
			other := begin(&syscall.SysProcAttr{Setsid: true})
			running(1)
			if count := u.KillMarked(t.Context(), mark); count != 1 {
				t.Errorf("%d processes killed", count)
			}
			ended(other)
			if count := u.KillMarked(t.Context(), mark); count != 0 {
				t.Errorf("%d processes killed", count)
			}
		})
	}
}

// marked counts sleeping processes with an assignment in their environment.
func marked(mark string) (count int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		if string(name) == "sleep\n" && strings.Contains("\x00"+string(text), "\x00"+mark+"\x00") {
			count++
		}
	}
	return count
}

func TestCheck(t *testing.T) {
	self := &procgroup.User{Name: "me", UID: os.Geteuid()}
	if err := self.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "install the redirect for another user") {
		t.Errorf("got %v", err)
	}
	if _, err := procgroup.Lookup("no-such-user-here"); err == nil || err.Error() != "there is no user no-such-user-here on this system" {
		t.Errorf("got %v", err)
	}
	other := &procgroup.User{Name: "no-such-user-here", UID: 61234, GID: 61235, Home: "/"}
	err := other.Check(t.Context())
	if os.Geteuid() == 0 {
		if err != nil || other.Sudo {
			t.Errorf("got %v, %v", err, other.Sudo)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "; run perigee as root, or ") {
		t.Errorf("got %v", err)
	}
}

func TestQuote(t *testing.T) {
	const text = "it's $HOME `x` \"y\"\n\\"
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+procgroup.Quote(text)).Output()
	if string(out) != text || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

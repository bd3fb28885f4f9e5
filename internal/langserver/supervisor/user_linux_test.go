package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee"
	"perigee/internal/lib/procgroup"
	"perigee/internal/testing/perigeetest/await"
)

// otherUsers returns a user whose processes are started directly, and one whose processes are
// started with sudo.
func otherUsers(t *testing.T) map[string]*procgroup.User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	all := map[string]*procgroup.User{"direct": {Name: "unnamed", UID: 61234, GID: 61234}}
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

// publicDir is a directory that every user can enter, with a program, and a home.
func publicDir(t *testing.T, u *procgroup.User) (dir, program string) {
	t.Helper()
	dir = shortDir(t)
	t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perigee-%d-%d", os.Getuid(), u.UID)) }) // of sockets; not if a test beside this one has some
	program = filepath.Join(dir, "language_server")
	u.Home = filepath.Join(dir, "home")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(u.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(u.Home, u.UID, u.GID); err != nil {
		t.Fatal(err)
	}
	// Not written by this process: a test beside this one could start a program, which has the file
	// open for a moment.
	if out, err := exec.CommandContext(t.Context(), "cp", os.Args[0], program).CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// asUser are the options of a process of a user.
func asUser(u *procgroup.User, dir, program string) func(*Options) {
	return func(o *Options) {
		o.User, o.LockDir = u, filepath.Join(dir, "locks")
		o.Home = filepath.Join(u.Home, "perigee", "headless")
		o.Workspace = filepath.Join(o.Home, "workspace")
		o.Command[0], o.Command[3] = program, filepath.Join(u.Home, "notes")
		o.Variables = map[string]string{certificates: filepath.Join(dir, "bundle.pem")}
	}
}

func TestProcessOfAnotherUser(t *testing.T) {
	for how, u := range otherUsers(t) {
		t.Run(how, func(t *testing.T) {
			dir, program := publicDir(t, u)
			if err := os.WriteFile(filepath.Join(dir, "bundle.pem"), []byte("PEM"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, "children", asUser(u, dir, program))
			r.notes = filepath.Join(u.Home, "notes")
			r.ready(t) // it has reached the parent pipe, or it would have ended
			checkOwners(t, u.Home, u.UID)
			ran := runs(t, r.notes)[0]
			home := filepath.Join(u.Home, "perigee", "headless")
			for _, want := range []string{"HOME=" + home, certificates + "=" + home + "/ca-bundle.pem"} {
				if !slices.Contains(ran.Env, want) {
					t.Errorf("no %s in %q", want, ran.Env)
				}
			}
			if strings.Contains(strings.Join(ran.Env, " "), "SUDO") || ran.Dir != home+"/workspace" || ran.Input == "" || ran.Mode != "-rw-------" {
				t.Errorf("got %+v", ran)
			}
			if text, err := os.ReadFile(home + "/ca-bundle.pem"); string(text) != "PEM" || err != nil {
				t.Errorf("certificates %q, %v", text, err)
			}
			if got := owner(t, fmt.Sprintf("/proc/%d", ran.PID)); got != u.UID {
				t.Errorf("a process of user %d", got)
			}
			temp := tempOf(t, r.notes)
			if got := marked(temp); got != 3 {
				t.Errorf("%d processes", got)
			}
			_ = syscall.Kill(ran.PID, syscall.SIGKILL)
			await.Until(t, "a restart", func() bool { return r.Status().Restarts == 1 })
			if got := marked(temp); got != 0 {
				t.Errorf("%d processes after the crash", got)
			}
			r.ready(t)
			_ = r.Stop(t.Context())
			for _, place := range []string{filepath.Dir(temp), filepath.Join(dir, "locks")} {
				if left, err := os.ReadDir(place); len(left) != 0 || err != nil {
					t.Errorf("%s has %v, %v", place, left, err)
				}
			}
		})
	}
}

// TestStubbornProcessOfAnotherUser has a process that only SIGKILL ends.
func TestStubbornProcessOfAnotherUser(t *testing.T) {
	for how, u := range otherUsers(t) {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir, program := publicDir(t, u)
			r := newRig(t, "stubborn", func(o *Options) {
				asUser(u, dir, program)(o)
				o.Variables = nil
			})
			r.notes = filepath.Join(u.Home, "notes")
			r.ready(t)
			temp := tempOf(t, r.notes)
			_ = r.Stop(t.Context())
			if got := marked(temp); got != 0 {
				t.Errorf("%d processes are left", got)
			}
		})
	}
}

// TestUserWithoutAccess tells what the user lacks, and does not follow the links of the user.
func TestUserWithoutAccess(t *testing.T) {
	for how, u := range otherUsers(t) {
		t.Run(how, func(t *testing.T) {
			dir, program := publicDir(t, u)
			secret := filepath.Join(dir, "secret")
			if err := os.Mkdir(secret, 0o700); err != nil {
				t.Fatal(err)
			}
			reason := func(change func(*Options)) string {
				o := fakeOptions("ok", filepath.Join(dir, "notes"), dir)
				asUser(u, dir, program)(&o)
				o.Variables = nil
				change(&o)
				l, err := New(o).prepare(t.Context())
				if err == nil {
					l.remove()
					return "none"
				}
				return err.Error()
			}
			if got := reason(func(o *Options) { o.Workspace = secret }); !strings.Contains(got, "may not read the workspace "+secret) {
				t.Error(got)
			}
			if got := reason(func(o *Options) { o.Command[0] = filepath.Join(secret, "binary") }); !strings.Contains(got, "may not run "+secret) {
				t.Error(got)
			}
			if err := os.Symlink(secret, filepath.Join(u.Home, "link")); err != nil {
				t.Fatal(err)
			}
			if got := reason(func(o *Options) { o.Home = filepath.Join(u.Home, "link", "perigee") }); !strings.Contains(got, "ermission denied") {
				t.Error(got)
			}
			if got := owner(t, secret); got != 0 {
				t.Errorf("the directory belongs to %d", got)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "locks")); len(left) != 0 || err != nil {
				t.Errorf("locks %v, %v", left, err)
			}
		})
	}
}

// TestTokenForAnotherUser has a directory of the user be a link to one of root's: the token must
// neither get there nor be root's.
func TestTokenForAnotherUser(t *testing.T) {
	for how, u := range otherUsers(t) {
		t.Run(how, func(t *testing.T) {
			dir, program := publicDir(t, u)
			s := New(Options{User: u, LockDir: filepath.Join(dir, "locks"), Command: []string{program}, Home: filepath.Join(u.Home, "perigee", "headless")})
			path := filepath.Join(s.o.Home, filepath.FromSlash(tokenFile))
			for _, token := range []string{"ya29.one", "ya29.two"} {
				if err := s.SetToken(perigee.NewSecret(token), time.Now()); err != nil {
					t.Fatal(err)
				}
				if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), token) {
					t.Errorf("got %s, %v", text, err)
				}
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("got %v, %v", info, err)
				}
			}
			checkOwners(t, u.Home, u.UID)
			if err := s.SetToken(perigee.Secret{}, time.Time{}); err != nil {
				t.Error(err)
			}
			ofRoot := filepath.Join(dir, "root")
			if err := os.Mkdir(ofRoot, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := u.Run(t.Context(), nil, `rmdir -- "$1" && ln -s -- "$2" "$1"`, filepath.Dir(path), ofRoot); err != nil {
				t.Fatal(err)
			}
			if err := s.SetToken(perigee.NewSecret("ya29.three"), time.Now()); err == nil {
				t.Error("the token was written through a link")
			}
			if left, err := os.ReadDir(ofRoot); len(left) != 0 || err != nil {
				t.Errorf("the directory of root has %v, %v", left, err)
			}
		})
	}
}

func owner(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// checkOwners looks whether everything below a directory belongs to a user, and no other user may
// read it.
func checkOwners(t *testing.T, dir string, uid int) {
	t.Helper()
	_ = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if got := owner(t, path); got != uid || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: user %d, mode %v", path, got, info.Mode())
		}
		return nil
	})
}

// TestSupervisorWithoutRoot has a supervisor that is not root, and may change its user by a rule of
// sudo or by capabilities only.
func TestSupervisorWithoutRoot(t *testing.T) {
	const perigee = 1 // the user "daemon" of every system
	users := otherUsers(t)
	for how, caps := range map[string][]uintptr{"sudo": nil, "capabilities": {unix.CAP_SETUID, unix.CAP_SETGID}} {
		t.Run(how, func(t *testing.T) {
			u := users["sudo"]
			if u == nil {
				t.Skip("there is no sudo, or no user nobody")
			}
			dir, program := publicDir(t, u)
			t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perigee-%d-%d", perigee, u.UID)) })
			locks := filepath.Join(dir, "locks")
			if err := errors.Join(os.Mkdir(locks, 0o700), os.Chown(locks, perigee, perigee)); err != nil {
				t.Fatal(err)
			}
			start := func(behaviour string) (*exec.Cmd, io.Closer, string) {
				notes := filepath.Join(u.Home, behaviour)
				cmd := exec.CommandContext(t.Context(), program, supervisorArgument, behaviour, notes, dir)
				cmd.Env = append(os.Environ(), userVariable+"=nobody")
				cmd.Dir, cmd.Stderr = "/", os.Stderr
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: perigee, Gid: perigee}, AmbientCaps: caps}
				in, err1 := cmd.StdinPipe()
				out, err2 := cmd.StdoutPipe()
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				if err := withRule(t, cmd, caps == nil); err != nil {
					t.Skipf("no mounts of its own: %v", err)
				}
				t.Cleanup(func() {
					_ = cmd.Process.Kill()
					_ = await.Result(t, cmd.Wait, "the end of the supervisor")
				})
				if line, _ := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "ready ") {
					t.Fatalf("it says %q", line)
				}
				return cmd, in, notes
			}
			cmd, in, notes := start("children")
			temp := tempOf(t, notes)
			if got := marked(temp); got != 3 {
				t.Errorf("%d processes", got)
			}
			if got := owner(t, fmt.Sprintf("/proc/%d", runs(t, notes)[0].PID)); got != u.UID {
				t.Errorf("a process of user %d", got)
			}
			_ = in.Close()
			if err := await.Result(t, cmd.Wait, "the end of the supervisor"); err != nil || marked(temp) != 0 {
				t.Errorf("%v, %d processes after the stop", err, marked(temp))
			}
			cmd, _, notes = start("stubborn children")
			temp = tempOf(t, notes)
			_ = cmd.Process.Kill()
			_ = await.Result(t, cmd.Wait, "the end of the supervisor")
			cmd, in, _ = start("ok")
			if got := marked(temp); got != 0 {
				t.Errorf("%d processes of a killed supervisor", got)
			}
			_ = in.Close()
			if err := await.Result(t, cmd.Wait, "the end of the supervisor"); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(filepath.Join(u.Home, "perigee", "tmp")); len(left) != 0 || err != nil {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

// withRule starts a command in a system where sudo has one rule, or none.
func withRule(t *testing.T, cmd *exec.Cmd, allowed bool) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread has other mounts, and ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", "/etc/sudoers.d", "tmpfs", 0, "mode=0755")
		}
		if err == nil && allowed {
			err = os.WriteFile("/etc/sudoers.d/perigee", []byte("daemon ALL=(nobody) NOPASSWD: ALL\n"), 0o440)
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return await.Receive(t, started, "the start of the command")
}

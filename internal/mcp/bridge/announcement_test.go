package bridge

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/testing/bridgetest"
)

// The extension has the same rule.
func TestDirectoryOfAnnouncements(t *testing.T) {
	for _, test := range []struct {
		system, home string
		environment  map[string]string
		want         string
	}{
		{"linux", "/home/ada", nil, "/home/ada/.config/perigee/bridges"},
		{"linux", "/home/ada", map[string]string{"XDG_CONFIG_HOME": "/etc/ada"}, "/etc/ada/perigee/bridges"},
		{"linux", "/home/ada", map[string]string{"XDG_CONFIG_HOME": "relative"}, "/home/ada/.config/perigee/bridges"},
		{"linux", "", map[string]string{"XDG_CONFIG_HOME": "/etc/ada"}, "/etc/ada/perigee/bridges"},
		{"linux", "", nil, ""},
		{"darwin", "/Users/ada", map[string]string{"XDG_CONFIG_HOME": "/etc/ada"}, "/Users/ada/Library/Application Support/perigee/bridges"},
		{"windows", "/users/ada", map[string]string{"APPDATA": "/users/ada/roaming"}, "/users/ada/roaming/perigee/bridges"},
		{"windows", "/users/ada", nil, "/users/ada/AppData/Roaming/perigee/bridges"},
		{"darwin", "", map[string]string{Variable: "/bridges"}, "/bridges"},
	} {
		got := dirOn(test.system, func(name string) string { return test.environment[name] }, test.home)
		if filepath.ToSlash(got) != test.want {
			t.Errorf("%s, home %q, %v: %q, want %q", test.system, test.home, test.environment, got, test.want)
		}
	}
}

func TestFindWindows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bridges")
	if windows, problems, err := Find(t.Context(), dir); err != nil || len(windows)+len(problems) != 0 {
		t.Errorf("without a directory: %v, %v, %v", windows, problems, err)
	}
	second := bridgetest.Start(t, bridgetest.Options{Dir: dir, PID: os.Getpid(), Workspace: []string{"/code/b", "/code/c"}})
	first := bridgetest.Start(t, bridgetest.Options{Dir: dir, PID: 1})
	if err := os.WriteFile(filepath.Join(dir, "4711.json.tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	windows, problems, err := Find(t.Context(), dir)
	if err != nil || len(problems) != 0 || len(windows) != 2 {
		t.Fatalf("%v, %v, %v", windows, problems, err)
	}
	if w := windows[0]; w.PID != 1 || w.Port != first.Port || w.IDE != (IDE{"Antigravity", "1.20.5"}) || !w.Token.Equal(first.Token) {
		t.Errorf("first: %+v", w)
	}
	if w := windows[1]; w.PID != os.Getpid() || w.Port != second.Port || fmt.Sprint(w.Workspace) != "[/code/b /code/c]" {
		t.Errorf("second: %+v", w)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, windows); strings.Contains(text, first.Token) {
			t.Errorf("%s shows the token: %s", verb, text)
		}
	}
	if secrets := Secrets(dir); len(secrets) != 2 || !secrets[0].Equal(first.Token) && !secrets[1].Equal(first.Token) {
		t.Errorf("secrets: %d", len(secrets))
	}
}

// deadPID returns the ID of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

// closedPort returns a port at which nothing listens.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func announcement(pid, port int) string {
	return fmt.Sprintf(`{"version":1,"port":%d,"token":"secret-token","workspace":["/w"],"ide":{"name":"Antigravity","version":"1"},"pid":%d}`, port, pid)
}

// Only an announcement whose process has ended and whose port refuses connections is removed.
func TestStaleAnnouncements(t *testing.T) {
	dir := t.TempDir()
	open := bridgetest.Start(t, bridgetest.Options{}).Port
	dead := deadPID(t)
	for _, test := range []struct {
		pid, port int
		stays     bool
	}{
		{dead, closedPort(t), false},
		{dead, open, true}, // of a container
		{os.Getpid(), closedPort(t), true},
	} {
		path := filepath.Join(dir, fmt.Sprint(test.pid)+".json")
		if err := os.WriteFile(path, []byte(announcement(test.pid, test.port)), 0o600); err != nil {
			t.Fatal(err)
		}
		windows, problems, err := Find(t.Context(), dir)
		if err != nil || len(problems) != 0 || (len(windows) == 1) != test.stays {
			t.Errorf("%+v: %v, %v, %v", test, windows, problems, err)
		}
		if _, err := os.Stat(path); (err == nil) != test.stays {
			t.Errorf("%+v: afterwards %v", test, err)
		}
		_ = os.Remove(path)
	}
}

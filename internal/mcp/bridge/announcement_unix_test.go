//go:build unix

package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/testing/bridgetest"
)

// What is no announcement of this user is reported and left alone.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	pid, port := os.Getpid(), bridgetest.Start(t, bridgetest.Options{}).Port
	good := announcement(pid, port)
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(content string, mode os.FileMode) func(string) error {
		return func(path string) error {
			if err := os.WriteFile(path, []byte(content), mode); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		}
	}
	name := fmt.Sprint(pid) + ".json"
	for _, test := range []struct {
		name, file, want string
		make             func(path string) error
	}{
		{"readable for the group", name, "its mode is 0640 and not 0600", write(good, 0o640)},
		{"read-only", name, "its mode is 0400 and not 0600", write(good, 0o400)},
		{"link", name, "it is not a regular file", func(path string) error { return os.Symlink(outside, path) }},
		{"broken link", name, "it is not a regular file", func(path string) error { return os.Symlink("nowhere", path) }},
		{"FIFO", name, "it is not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"directory", name, "it is not a regular file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"huge", name, "it has more than 256 KiB", write(good+strings.Repeat(" ", maxAnnouncement), 0o600)},
		{"empty", name, "it is no JSON object", write("", 0o600)},
		{"half written", name, "it is no JSON object", write(good[:len(good)/2], 0o600)},
		{"list", name, "it is no JSON object", write("[]", 0o600)},
		{"null", name, "it has version 0", write("null", 0o600)},
		{"binary", name, "it is no JSON object", write("\x00\xff", 0o600)},
		{"deep", name, "it is no JSON object", write(strings.Repeat("[", 100_000), 0o600)},
		{"later version", name, "it has version 2; this perigee reads version 1", write(strings.Replace(good, `"version":1`, `"version":2`, 1), 0o600)},
		{"version as text", name, "its member version is of another type", write(strings.Replace(good, `"version":1`, `"version":"1"`, 1), 0o600)},
		{"port 0", name, "it has no valid port", write(announcement(pid, 0), 0o600)},
		{"port 70000", name, "it has no valid port", write(announcement(pid, 70000), 0o600)},
		{"port 1e99", name, "its member port is of another type", write(strings.Replace(good, fmt.Sprint(port), "1e99", 1), 0o600)},
		{"no process", name, "it has no valid process ID", write(announcement(0, port), 0o600)},
		{"another process", name, "it is of process 1", write(announcement(1, port), 0o600)},
		{"no token", name, "it has no valid token", write(strings.Replace(good, "secret-token", "", 1), 0o600)},
		{"token with a line end", name, "it has no valid token", write(strings.Replace(good, "secret-token", `a\r\nOrigin: b`, 1), 0o600)},
		{"long token", name, "it has no valid token", write(strings.Replace(good, "secret-token", strings.Repeat("a", 5000), 1), 0o600)},
		{"another name", "window.json", "its name is not that of an announcement", write(good, 0o600)},
		{"no ID", "0.json", "its name is not that of an announcement", write(good, 0o600)},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, test.file)
			if err := test.make(path); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(path) }()
			windows, problems, err := Find(t.Context(), dir)
			if err != nil || len(windows) != 0 || len(problems) != 1 || problems[0].Path != path || !strings.Contains(problems[0].Reason, test.want) {
				t.Errorf("%v, %v, %v; want %q", windows, problems, err, test.want)
			}
			if len(problems) == 1 && strings.Contains(problems[0].String(), "secret-token") {
				t.Errorf("the problem quotes the token: %s", problems[0])
			}
			if len(Secrets(dir)) != 0 {
				t.Error("a token was read")
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("the file is gone: %v", err)
			}
		})
	}
	t.Run("of another user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give files away")
		}
		path := filepath.Join(dir, name)
		if err := write(good, 0o600)(path); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Remove(path) }()
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if windows, problems, err := Find(t.Context(), dir); err != nil || len(windows) != 0 || len(problems) != 1 || problems[0].Reason != "it belongs to another user" {
			t.Errorf("%v, %v, %v", windows, problems, err)
		}
	})
}

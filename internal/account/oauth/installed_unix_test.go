//go:build unix

package oauth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An installation in a usual place is used only if no other user can have put it there.
func TestInstallationThatEverybodyCanWriteTo(t *testing.T) {
	dir := t.TempDir()
	for mode, accepted := range map[os.FileMode]bool{0o755: true, 0o777: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkOwner(info); (err == nil) != accepted {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	i := newInstall(t)
	i.write(scriptPath, fakeScript("a"))
	if err := os.Chmod(i.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	i.finds("", "a") // named by the user
}

// TestOnlyScriptsOfTheExtensionAreRead puts clients everywhere else, and what is no file where
// scripts are.
func TestOnlyScriptsOfTheExtensionAreRead(t *testing.T) {
	i := newInstall(t)
	for _, name := range []string{"main.js", "resources/app/out/main.js", "resources/app/extensions/other/dist/extension.js",
		"resources/app/extensions/antigravity/dist/deep/extension.js", "resources/app/extensions/antigravity/dist/extension.txt",
		"resources/app/extensions/antigravity/bin/language_server_linux_x64"} {
		i.write(name, fakeScript("a"))
	}
	i.findsNone("")
	i.at = time.Time{}
	outside := writeFile(t, filepath.Join(t.TempDir(), "main.js"), fakeScript("x"))
	dist := filepath.Join(i.dir, filepath.Dir(scriptPath))
	if err := errors.Join(os.Symlink(outside, filepath.Join(dist, "link.js")), os.Mkdir(filepath.Join(dist, "dir.js"), 0o700),
		syscall.Mkfifo(filepath.Join(dist, "pipe.js"), 0o600)); err != nil {
		t.Skip(err)
	}
	large := i.write("resources/app/extensions/antigravity/dist/large.js", fakeScript("x"))
	if err := os.Truncate(large, maxRead+1); err != nil {
		t.Fatal(err)
	}
	i.write(scriptPath, fakeScript("a"))
	i.finds("", "a")
	for _, name := range []string{"link.js", "dir.js", "pipe.js", "large.js"} {
		if !strings.Contains(i.searched, name) {
			t.Errorf("%s is not named in %q", name, i.searched)
		}
	}
}

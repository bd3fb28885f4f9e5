package probe

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// install makes a file that can be executed.
func install(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlacesOfEachSystem(t *testing.T) {
	variables := map[string]string{"LOCALAPPDATA": "/local", "ProgramFiles": "/programs"}
	for _, c := range []struct{ os, arch, want string }{
		{"linux", "amd64", "/usr/share/antigravity/resources/app/extensions/antigravity/bin/language_server_linux_x64"},
		{"linux", "arm64", "/opt/antigravity/resources/app/extensions/antigravity/bin/language_server_linux_arm"},
		{"linux", "amd64", "/opt/antigravity/resources/app/extensions/antigravity/bin/language_server"},
		{"linux", "amd64", "/usr/share/antigravity/resources/bin/language_server"},
		{"linux", "amd64", "/h/.local/share/Antigravity/resources/app/extensions/antigravity/bin/language_server_linux_x64"},
		{"darwin", "arm64", "/Applications/Antigravity.app/Contents/Resources/app/extensions/antigravity/bin/language_server_macos_arm"},
		{"darwin", "amd64", "/Applications/Antigravity IDE.app/Contents/Resources/app/extensions/antigravity/bin/language_server_macos_x64"},
		{"darwin", "arm64", "/Applications/Antigravity.app/Contents/Resources/bin/language_server"},
		{"windows", "amd64", "/local/Programs/Antigravity/resources/app/extensions/antigravity/bin/language_server_windows_x64.exe"},
		{"windows", "arm64", "/programs/Antigravity/resources/app/extensions/antigravity/bin/language_server_windows_arm.exe"},
		{"windows", "amd64", "/local/Programs/Antigravity/resources/bin/language_server.exe"},
	} {
		p := places{os: c.os, arch: c.arch, home: "/h", getenv: func(name string) string { return variables[name] }}
		if got := p.candidates(p.roots()); !slices.Contains(got, filepath.FromSlash(c.want)) {
			t.Errorf("%s: %s is not among %s", c.os, c.want, strings.Join(got, "\n"))
		}
	}
}

func TestConfiguredPathMayBeAnInstallation(t *testing.T) {
	p := places{os: "linux", arch: "amd64"}
	root := t.TempDir()
	if _, err := p.configured(root); err == nil || !strings.Contains(err.Error(), "there is no language server in") {
		t.Errorf("got %v", err)
	}
	hub := install(t, filepath.Join(root, "resources", "bin", "language_server"))
	if got, err := p.configured(root); got != hub || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	ide := install(t, filepath.Join(root, "resources", "app", "extensions", "antigravity", "bin", "language_server_linux_x64"))
	for _, path := range []string{root, filepath.Dir(ide), ide} {
		if got, err := p.configured(path); got != ide || err != nil {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	if _, err := p.configured(filepath.Join(root, "absent")); err == nil || !strings.Contains(err.Error(), "there is no language server at") {
		t.Errorf("got %v", err)
	}
}

func TestRemoteInstallationsNewestFirst(t *testing.T) {
	p := places{os: "linux", arch: "amd64", home: t.TempDir()}
	older := install(t, filepath.Join(p.home, ".antigravity-server/bin/1.20.5-aa/extensions/antigravity/bin/language_server_linux_x64"))
	newer := install(t, filepath.Join(p.home, ".antigravity-ide-server/bin/2.1.0-bb/extensions/antigravity/bin/language_server_linux_x64"))
	now := time.Now()
	for path, age := range map[string]time.Duration{older: time.Hour, newer: 0} {
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.remote(); !slices.Equal(got, []string{newer, older}) {
		t.Errorf("got %v", got)
	}
}

func TestFindUsesTheHomeOfTheUser(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the path below is that of Linux")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	if found, err := Find(""); err == nil {
		t.Skipf("there is an installation: %s", found)
	} else if !strings.Contains(err.Error(), "set binary") {
		t.Errorf("got %v", err)
	}
	want := install(t, filepath.Join(home, ".local/share/Antigravity/resources/app/extensions/antigravity/bin", system().names()[0]))
	if got, err := Find(""); got != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

//go:build unix

package adc

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// Nothing waits for the writer of a pipe, or reads a device without an end.
func TestFilesWithoutAnEnd(t *testing.T) {
	server := newTokenServer(t)
	t.Setenv(variableRun, "1")
	dir := t.TempDir()
	pipe, device, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "device"), filepath.Join(dir, "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", device); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, maxFile+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "a pipe or a device", device: "a pipe or a device", huge: "larger than 1 MB"} {
		t.Setenv(variableFile, path)
		await.Return(t, func() {
			s := sourceOf(path)
			_, err := s.Token(t.Context())
			for _, got := range []string{err.Error(), s.Unusable()} {
				if !strings.Contains(got, path) || !strings.Contains(got, want) || !strings.Contains(got, logIn) {
					t.Errorf("%s: %s", path, got)
				}
			}
			if perigee.AsError(err).Class != perigee.ClassUnauthenticated {
				t.Errorf("%s: class %s", path, perigee.AsError(err).Class)
			}
			if _, found, err := Find(); found || err == nil {
				t.Errorf("%s: found %v, %v", path, found, err)
			}
			if _, why := readFile(path); !strings.Contains(why, want) { // as if it had taken the place of a file only now
				t.Errorf("%s is read: %s", path, why)
			}
			for _, source := range []map[string]any{{"file": path}, {"executable": map[string]any{"command": "/bin/false", "output_file": path}}} {
				_, err = sourceOf(writeFile(t, server.external(source))).Token(t.Context())
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s as the subject token: %v", path, err)
				}
			}
		}, "the errors for "+path)
	}
}

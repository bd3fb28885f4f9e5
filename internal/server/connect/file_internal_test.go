package connect

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// An edit that is saved after a file was read is not overwritten, whether the editor writes the
// file or replaces it.
func TestAnEditAfterAFileWasReadIsNotLost(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"written": func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+"~", []byte("mine"), 0o600), os.Rename(path+"~", path))
		},
		"made": func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "settings.json")
			if name != "made" {
				if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, err := look(path, dir)
			if err == nil {
				err = change(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := f.replace([]byte("perigee"), 0o600); !errors.Is(err, errChanged) {
				t.Errorf("replace: got %v", err)
			}
			if err := f.remove(); !errors.Is(err, errChanged) {
				t.Errorf("remove: got %v", err)
			}
			if data, err := os.ReadFile(path); string(data) != "mine" || err != nil {
				t.Errorf("the file is %q, %v", data, err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("there is %v, %v", entries, err)
			}
		})
	}
}

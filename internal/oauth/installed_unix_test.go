//go:build unix

package oauth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What stands where the IDE is usually installed is believed only if nobody else can have put it there; what the user names is.
func TestInstallationThatEverybodyCanWriteTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "Antigravity")
	writeFile(t, filepath.Join(dir, bundlePath), fakeBundle("a"))
	look := func(named bool) *finding {
		f := &finding{left: maxRead}
		if err := f.read(t.Context(), []string{dir}, named, stages[0]); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := look(false); f.offers("") != 1 {
		t.Errorf("not found: %s", f)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if f := look(false); f.offers("") != 0 || !strings.Contains(f.String(), "everybody can write to it") {
		t.Errorf("found %d; %s", f.offers(""), f)
	}
	if f := look(true); f.offers("") != 1 {
		t.Errorf("named, and not found: %s", f)
	}
}

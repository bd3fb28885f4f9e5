package redirect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd understands the path of the program as it is.
func TestUnitRunsTheProgram(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"plain", "two words", "50%", "a$x", "$HOME", "${HOME}", "ä"} {
		program := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		unit := filepath.Join(t.TempDir(), "perigee-redirect.service")
		text := fmt.Sprintf(unitText, "ada", firstWord(program), "ada", 8742, "nftables")
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", unit).CombinedOutput()
		if said := string(out); strings.Contains(said, unit) || strings.Contains(said, "is not executable") || strings.Contains(said, "perigee-redirect") {
			t.Errorf("%s: %v %s", name, err, said)
		}
	}
}

package measure

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// buildLimit is how long downloading and building a module may take.
const buildLimit = 15 * time.Minute

// A Module is a program to build from a Go module at one version, so that the same comparison can
// be made again.
type Module struct {
	Path, Version string
	Package       string // of the program
	Source        []byte // of a program that uses the module; then Package is unused
	CGO           bool
}

// Build builds a program in a new module at dir that requires nothing but the program's module, so
// that neither our go.mod nor the tree knows of it. The go command verifies what it downloads as
// always.
func (m Module) Build(ctx context.Context, dir string) (binary string, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	module := fmt.Sprintf("module peer\n\ngo 1.26.0\n\nrequire %s %s\n", m.Path, m.Version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		return "", err
	}
	program := m.Package
	if m.Source != nil {
		program = "."
		if err := os.WriteFile(filepath.Join(dir, "main.go"), m.Source, 0o600); err != nil {
			return "", err
		}
	}
	binary = filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", binary, program)
	cgo := "CGO_ENABLED=0"
	if m.CGO {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %s", cmp.Or(buildReason(string(out)), err.Error()))
	}
	return binary, nil
}

// buildReason finds what matters in the words of a go command that has failed: the first line that
// is not about its progress, and what a server said, if one did.
func buildReason(out string) string {
	var reason []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "go: downloading ") || strings.HasPrefix(line, "go: finding ") || strings.HasPrefix(line, "# "):
		case len(reason) == 0, strings.HasPrefix(line, "server response:"):
			reason = append(reason, withoutURL(strings.TrimPrefix(line, "go: ")))
		}
	}
	return strings.Join(reason, " ")
}

// withoutURL drops the address that the go command has read from; which version of which module it
// was stands before it.
func withoutURL(line string) string {
	before, rest, ok := strings.Cut(line, "reading https://")
	if !ok {
		return line
	}
	_, after, ok := strings.Cut(rest, ": ")
	if !ok {
		return line
	}
	return before + after
}

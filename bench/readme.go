package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// What stands between these lines of the README is written by this program.
const (
	beginMark = "<!-- measured: begin -->\n"
	endMark   = "<!-- measured: end -->\n"
)

// writeReadme puts a report into the README beside this program's source.
func writeReadme(ctx context.Context, text string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "perigee/bench").Output()
	if err != nil {
		return fmt.Errorf("find the source: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(dir)), "README.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	renewed, err := replaceMeasured(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(renewed), 0o644)
}

// replaceMeasured returns readme with another report between the marks.
func replaceMeasured(readme, text string) (string, error) {
	before, rest, ok := strings.Cut(readme, beginMark)
	if !ok {
		return "", fmt.Errorf("no line %q", strings.TrimSpace(beginMark))
	}
	_, after, ok := strings.Cut(rest, endMark)
	if !ok {
		return "", fmt.Errorf("no line %q after the first mark", strings.TrimSpace(endMark))
	}
	return before + beginMark + "\n" + strings.TrimSpace(text) + "\n\n" + endMark + after, nil
}
